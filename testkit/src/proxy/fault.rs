//! Faults, the board that lists the active ones, and the guard that ends one.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;

use super::Operation;

/// The direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums)] // a link has two ends
pub enum Direction {
    /// Bytes from the client to the server.
    ToServer,
    /// Bytes from the server to the client.
    ToClient,
    /// Either way.
    Both,
}

impl Direction {
    pub(super) fn covers(self, one: Self) -> bool {
        self == Self::Both || self == one
    }
}

/// The way in which a connection ends. Both of its ends see the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cut {
    /// An `RST`: reads and writes fail.
    Reset,
    /// A `FIN`: the stream ends as if the other side had closed it. Bytes sent before the end arrive, but a server
    /// does not necessarily process them ([`cut_at`](super::FaultProxy::cut_at)).
    Finish,
}

/// One message of a connection: the first or the [`nth`](Self::nth) of its kind since the fault was installed. The
/// count is kept for each connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a message is what a fault is about, it does nothing itself"]
pub struct Message {
    pub(super) direction: Direction,
    operation: Operation,
    nth: usize,
}

impl Message {
    /// Selects the first request for this operation.
    pub fn request(operation: Operation) -> Self {
        Self { direction: Direction::ToServer, operation, nth: 1 }
    }

    /// Selects the first reply to a request for this operation.
    pub fn reply(operation: Operation) -> Self {
        Self { direction: Direction::ToClient, operation, nth: 1 }
    }

    /// Selects the `nth` message instead, counted from 1.
    ///
    /// # Panics
    ///
    /// If `nth` is 0.
    pub fn nth(mut self, nth: usize) -> Self {
        assert!(nth > 0, "messages are counted from 1");
        self.nth = nth;
        self
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Delay(Direction, Duration),
    Stall(Direction),
    Refuse,
    Hold(Message),
    Break(Message, Break),
}

/// The part of a message that is forwarded before the connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Break {
    Before,
    Within,
    After(Cut),
}

/// A fault that has not been healed.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) kind: Kind,
    strikes: watch::Sender<usize>,
    tally: Mutex<Tally>,
}

/// The counts of a fault about one message.
#[derive(Debug, Default)]
struct Tally {
    seen: HashMap<u64, usize>,
    is_spent: bool,
}

impl Active {
    /// Counts a message of a connection. Returns true, at most once, if it is the message that this fault is about.
    pub(super) fn claims(&self, connection: u64, direction: Direction, seen: Operation) -> bool {
        let (Kind::Hold(message) | Kind::Break(message, _)) = self.kind else { return false };
        if message.direction != direction || !message.operation.means(seen) {
            return false;
        }
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        let count = tally.seen.entry(connection).or_default();
        *count += 1;
        let is_it = *count == message.nth && !tally.is_spent;
        tally.is_spent |= is_it;
        is_it
    }

    pub(super) fn strike(&self) {
        self.strikes.send_modify(|strikes| *strikes += 1);
    }
}

pub(super) type Faults = Vec<Arc<Active>>;

/// All faults of a proxy.
#[derive(Debug, Clone, Default)]
pub(super) struct Board(Arc<watch::Sender<Faults>>);

impl Board {
    pub(super) fn install(&self, kind: Kind) -> Fault {
        let active =
            Arc::new(Active { kind, strikes: watch::Sender::default(), tally: Mutex::default() });
        self.0.send_modify(|faults| faults.push(active.clone()));
        Fault(vec![Installed { board: self.clone(), active }])
    }

    pub(super) fn watch(&self) -> watch::Receiver<Faults> {
        self.0.subscribe()
    }

    pub(super) fn refusal(&self) -> Option<Arc<Active>> {
        self.0.borrow().iter().find(|fault| fault.kind == Kind::Refuse).cloned()
    }
}

/// A fault of a [`FaultProxy`](super::FaultProxy), or a group of several faults, until it is healed or dropped.
///
/// Dropping heals at once, also while unwinding and outside a runtime. A connection that was cut stays cut.
#[derive(Debug)]
#[must_use = "dropping the fault heals it"]
pub struct Fault(Vec<Installed>);

#[derive(Debug)]
struct Installed {
    board: Board,
    active: Arc<Active>,
}

impl Fault {
    pub(crate) fn all(faults: impl IntoIterator<Item = Self>) -> Self {
        Self(faults.into_iter().flat_map(|fault| fault.0).collect())
    }

    /// Returns how often the fault has struck.
    ///
    /// A fault about a [`Message`] strikes once, and a cut counts when it is done. A stall or a delay strikes each time
    /// a connection finds that it has to wait, a refusal with each connection refused.
    #[must_use]
    pub fn strikes(&self) -> usize {
        self.0.iter().map(|installed| *installed.active.strikes.borrow()).sum()
    }

    /// Waits until the fault has struck, and returns at once if it already has.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn struck(&self) {
        let mut strikes =
            self.0.iter().map(|one| one.active.strikes.subscribe()).collect::<Vec<_>>();
        // The senders are alive, so this ends only when one has struck.
        let mut each = strikes
            .iter_mut()
            .map(|one| Box::pin(one.wait_for(|count| *count > 0)))
            .collect::<Vec<_>>();
        poll_fn(|context| {
            let has_struck = each.iter_mut().any(|one| one.as_mut().poll(context).is_ready());
            if has_struck { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Ends the fault, as dropping it does.
    pub fn heal(self) {}
}

impl Drop for Installed {
    fn drop(&mut self) {
        self.board.0.send_modify(|faults| faults.retain(|fault| !Arc::ptr_eq(fault, &self.active)));
    }
}
