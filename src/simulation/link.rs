//! Links: what tests do to the connections between clients and servers, and see of them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::admin::Admin;
use super::fault::{Active, Cut, Direction, LinkState, Message, What};
use super::op::Operation;
use super::state::{Conn, millis};
use super::world::World;

/// A link to the servers with faults on demand, and counts of what goes over it.
///
/// Clients that connect by its [connect string](Self::connect_string) use it. It stays as long as the ensemble.
#[derive(Clone, Debug)]
pub struct Link {
    world: Arc<World>,
    number: usize,
    connect_string: String,
}

impl Link {
    pub(super) fn new(world: &Arc<World>, server: Option<usize>) -> Self {
        let number = world.change(|state| {
            state.links.push(LinkState { server, ..LinkState::default() });
            state.links.len() - 1
        });
        let connect_string = format!("sim:{}.{number}", world.number);
        Self { world: world.clone(), number, connect_string }
    }

    /// Where clients connect.
    #[must_use]
    pub fn connect_string(&self) -> &str {
        &self.connect_string
    }

    /// A client over this link, to look at nodes and to change them.
    ///
    /// # Cancel safety
    ///
    /// Nothing stays.
    ///
    /// # Panics
    ///
    /// If no server is in reach.
    pub async fn admin(&self) -> Admin {
        Admin::connect(&self.world, self.number).await
    }

    fn install(&self, what: What) -> Fault {
        let strikes = Arc::new(watch::Sender::new(0));
        let id = self.world.change(|state| {
            let id = state.number();
            state.links[self.number].faults.push(Active::new(id, what, strikes.clone()));
            id
        });
        Fault { world: self.world.clone(), link: self.number, id, strikes }
    }

    /// What goes that way arrives later by `latency`, in order. Delays add up.
    pub fn delay(&self, direction: Direction, latency: Duration) -> Fault {
        self.install(What::Delay(direction, millis(latency)))
    }

    /// What goes that way is held back, the ends of connections too, and delivered when the fault is healed.
    pub fn stall(&self, direction: Direction) -> Fault {
        self.install(What::Stall(direction))
    }

    /// New connections are reset at once; those there are stay.
    pub fn refuse(&self) -> Fault {
        self.install(What::Refuse)
    }

    /// Cuts all connections there are, now. Says how many they were.
    #[allow(clippy::must_use_candidate)] // it is called for what it does
    pub fn cut(&self, cut: Cut) -> usize {
        self.world.change(|state| {
            let is_ours = |conn: &Conn| conn.link == self.number && conn.with_client;
            let ours = state.conns.iter().filter(|(_, conn)| is_ours(conn));
            let ours: Vec<_> = ours.map(|(number, _)| *number).collect();
            ours.iter().for_each(|number| state.cut_conn(*number, cut));
            ours.len()
        })
    }

    /// Exactly that message is lost, and its connection is reset there. If it is a reply, the server has done what the
    /// request asked for.
    pub fn lose(&self, message: Message) -> Fault {
        self.install(What::Before(message))
    }

    /// That message, and what comes behind it in its direction, is held until the fault is healed.
    pub fn hold(&self, message: Message) -> Fault {
        self.install(What::Hold(message))
    }

    /// Forwards that message, then cuts its connection.
    pub fn cut_at(&self, message: Message, cut: Cut) -> Fault {
        self.install(What::After(message, cut))
    }

    fn messages(&self, up: bool, operation: Operation) -> usize {
        self.world.change(|state| {
            let counts = state.links[self.number].messages.iter();
            let meant = counts.filter(|((way, seen), _)| *way == up && operation.means(*seen));
            meant.map(|(_, count)| count).sum()
        })
    }

    /// How many such requests were sent, also those that a fault held back or lost.
    #[must_use]
    pub fn requests(&self, operation: Operation) -> usize {
        self.messages(true, operation)
    }

    /// How many replies to such requests were sent, also those that a fault held back or lost.
    #[must_use]
    pub fn replies(&self, operation: Operation) -> usize {
        self.messages(false, operation)
    }

    /// How many connections there are now.
    #[must_use]
    pub fn connections(&self) -> usize {
        let is_ours = |conn: &&Conn| conn.link == self.number && conn.with_client;
        self.world.change(|state| state.conns.values().filter(is_ours).count())
    }

    /// How many connections there ever were, without those refused.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.world.change(|state| state.links[self.number].accepted)
    }

    /// The requests in their order, without handshakes and pings.
    #[must_use]
    pub fn log(&self) -> Vec<Operation> {
        self.world.change(|state| state.links[self.number].log.clone())
    }

    /// Begins the [`log`](Self::log) anew.
    pub fn clear_log(&self) {
        self.world.change(|state| state.links[self.number].log.clear());
    }
}

/// A fault of a [`Link`], until it is healed or dropped. A connection that was cut stays cut.
#[derive(Debug)]
#[must_use = "dropping the fault heals it"]
pub struct Fault {
    world: Arc<World>,
    link: usize,
    id: u64,
    strikes: Arc<watch::Sender<usize>>,
}

impl Fault {
    /// How often it has struck: once for a fault about one [`Message`]; a stall or a delay with each message that it
    /// holds up, a refusal with each connection refused.
    #[must_use]
    pub fn strikes(&self) -> usize {
        *self.strikes.borrow()
    }

    /// Waits until it has struck, at once if it has already.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
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
            state.links[self.link].faults.retain(|fault| fault.id != self.id);
            state.unblocked();
        });
    }
}
