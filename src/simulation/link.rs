//! Links as tests see them: faults on the connections between clients and servers, and counts of their messages.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::admin::Admin;
use super::fault::{Cut, Direction, FaultKind, Message};
use super::op::Operation;
use super::recording::Place;
use super::state::millis;
use super::world::World;

/// A link to the servers that can have faults, and that counts its messages.
///
/// Clients that connect by its [connect string](Self::connect_string) use the link. The link lives as long as the
/// ensemble.
#[derive(Clone, Debug)]
pub struct Link {
    world: Arc<World>,
    number: usize,
    connect_string: String,
}

impl Link {
    pub(super) fn new(world: &Arc<World>, server: Option<usize>) -> Self {
        let number = world.change(|state| state.network.add_link(server));
        let connect_string = format!("sim:{}.{number}", world.number);
        Self { world: world.clone(), number, connect_string }
    }

    /// The connect string of clients that use this link.
    #[must_use]
    pub fn connect_string(&self) -> &str {
        &self.connect_string
    }

    /// Connects a client over this link, to read nodes and to change them. Waits for a server.
    ///
    /// # Cancel safety
    ///
    /// No session is left.
    pub async fn admin(&self) -> Admin {
        Admin::connect(&self.world, self.number).await
    }

    fn install(&self, kind: FaultKind) -> Fault {
        let strikes = Arc::new(watch::Sender::new(0));
        let (id, recorded) = self.world.change(|state| {
            let recorded = state.recorded_fault(Place::Link(self.number), kind.to_string());
            (state.network.link_mut(self.number).install(kind, strikes.clone()), recorded)
        });
        Fault { world: self.world.clone(), link: self.number, id, recorded, strikes }
    }

    /// Delays messages in that direction by `latency`, and keeps their order. Delays add up. In contrast to the test kit's proxy, a
    /// message that was sent before the fault is healed keeps its delay.
    pub fn delay(&self, direction: Direction, latency: Duration) -> Fault {
        self.install(FaultKind::Delay(direction, millis(latency)))
    }

    /// Holds back messages in that direction, also the ends of connections, until the fault is healed.
    pub fn stall(&self, direction: Direction) -> Fault {
        self.install(FaultKind::Stall(direction))
    }

    /// Resets new connections at once. Existing connections stay.
    pub fn refuse(&self) -> Fault {
        self.install(FaultKind::Refuse)
    }

    /// Cuts all present connections, and returns their number. A side whose direction is stalled learns of it when the stall is healed,
    /// in contrast to the test kit's proxy.
    #[allow(clippy::must_use_candidate)] // the caller wants the cut
    pub fn cut(&self, cut: Cut) -> usize {
        self.world.change(|state| {
            let recorded = state.recorded_fault(Place::Link(self.number), "cut".to_owned());
            state.recorded_end(recorded);
            let connections = state.network.connections_over(self.number);
            for connection in &connections {
                state.cut_connection(*connection, cut);
            }
            connections.len()
        })
    }

    /// Loses exactly that message, and ends its connection there. If the message is a reply, the server has carried out
    /// the request.
    pub fn lose(&self, message: Message) -> Fault {
        self.install(FaultKind::CutBefore(message))
    }

    /// Holds back that message, and all messages behind it in its direction, until the fault is healed.
    pub fn hold(&self, message: Message) -> Fault {
        self.install(FaultKind::Hold(message))
    }

    /// Forwards that message, then cuts its connection.
    pub fn cut_at(&self, message: Message, cut: Cut) -> Fault {
        self.install(FaultKind::CutAfter(message, cut))
    }

    /// Number of such requests that were sent, including those that a fault held back or lost.
    #[must_use]
    pub fn requests(&self, operation: Operation) -> usize {
        self.world.change(|state| state.network.link(self.number).messages(true, operation))
    }

    /// Number of replies to such requests that were sent, including those that a fault held back or lost.
    #[must_use]
    pub fn replies(&self, operation: Operation) -> usize {
        self.world.change(|state| state.network.link(self.number).messages(false, operation))
    }

    /// Number of connections that clients have open now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.world.change(|state| state.network.connections_over(self.number).len())
    }

    /// Number of connections that were ever accepted.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.world.change(|state| state.network.link(self.number).accepted())
    }

    /// The requests in the order in which they were sent, without handshakes and pings.
    #[must_use]
    pub fn log(&self) -> Vec<Operation> {
        self.world.change(|state| state.network.link(self.number).log())
    }

    /// Empties the [`log`](Self::log).
    pub fn clear_log(&self) {
        self.world.change(|state| state.network.link_mut(self.number).clear_log());
    }
}

/// A fault of a [`Link`], until it is healed or dropped. A connection that was cut stays cut.
#[derive(Debug)]
#[must_use = "dropping the fault heals it"]
pub struct Fault {
    world: Arc<World>,
    link: usize,
    id: u64,
    /// The number of the fault in the recording.
    recorded: Option<usize>,
    strikes: Arc<watch::Sender<usize>>,
}

impl Fault {
    /// Number of times that the fault has struck. A fault about one [`Message`] strikes once, a stall or a delay with
    /// each message in its direction, and a refusal with each connection that it refuses.
    #[must_use]
    pub fn strikes(&self) -> usize {
        *self.strikes.borrow()
    }

    /// Waits until the fault has struck. Returns at once if it has struck before.
    ///
    /// # Cancel safety
    ///
    /// Cancelling changes nothing.
    pub async fn struck(&self) {
        // The sender is in `self`.
        let _ = self.strikes.subscribe().wait_for(|count| *count > 0).await;
    }

    /// Ends the fault, as dropping it does.
    pub fn heal(self) {}
}

impl Drop for Fault {
    fn drop(&mut self) {
        self.world.change(|state| {
            state.recorded_end(self.recorded);
            state.network.link_mut(self.link).heal(self.id);
            state.deliver_waiting();
        });
    }
}
