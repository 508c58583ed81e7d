//! The faults of a link, and what it counts. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use super::op::Operation;

/// Which way messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums)] // a link has two ends
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
    /// Either way.
    Both,
}

impl Direction {
    pub(super) fn covers(self, up: bool) -> bool {
        match self {
            Self::ToServer => up,
            Self::ToClient => !up,
            Self::Both => true,
        }
    }
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cut {
    /// What is under way may be lost.
    Reset,
    /// What was sent before arrives.
    Finish,
}

/// One message of a connection: the first one or the [`nth`](Self::nth) of its kind since the fault was installed. Each
/// connection counts its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a message is what a fault is about, it does nothing itself"]
pub struct Message {
    up: bool,
    operation: Operation,
    nth: usize,
}

impl Message {
    /// The first such request.
    pub fn request(operation: Operation) -> Self {
        Self { up: true, operation, nth: 1 }
    }

    /// The first reply to such a request.
    pub fn reply(operation: Operation) -> Self {
        Self { up: false, operation, nth: 1 }
    }

    /// The `nth` instead, counted from 1.
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
pub(super) enum What {
    Delay(Direction, u64),
    Stall(Direction),
    Refuse,
    Hold(Message),
    /// The connection ends before that message or behind it.
    Before(Message),
    After(Message, Cut),
}

#[derive(Debug)]
pub(super) struct Active {
    pub(super) id: u64,
    pub(super) what: What,
    strikes: Arc<watch::Sender<usize>>,
    /// How many such messages each connection had.
    seen: BTreeMap<u64, usize>,
    is_spent: bool,
}

impl Active {
    pub(super) fn new(id: u64, what: What, strikes: Arc<watch::Sender<usize>>) -> Self {
        Self { id, what, strikes, seen: BTreeMap::new(), is_spent: false }
    }

    /// Whether it acts on a message. A fault about one message counts those of its kind, and acts once.
    pub(super) fn concerns(&mut self, conn: u64, up: bool, seen: Option<Operation>) -> bool {
        let message = match self.what {
            What::Delay(direction, _) | What::Stall(direction) => return direction.covers(up),
            What::Refuse => return false,
            What::Hold(message) | What::Before(message) | What::After(message, _) => message,
        };
        if message.up != up || !seen.is_some_and(|seen| message.operation.means(seen)) {
            return false;
        }
        let count = self.seen.entry(conn).or_default();
        *count += 1;
        let is_it = *count == message.nth && !self.is_spent;
        self.is_spent |= is_it;
        is_it
    }

    pub(super) fn strike(&self) {
        self.strikes.send_modify(|strikes| *strikes += 1);
    }
}

/// What a link knows. The first link has no faults: it is for clients that ask for none.
#[derive(Debug, Default)]
pub(super) struct LinkState {
    /// The one server behind it; else all.
    pub(super) server: Option<usize>,
    pub(super) faults: Vec<Active>,
    pub(super) log: Vec<Operation>,
    pub(super) messages: BTreeMap<(bool, Operation), usize>,
    pub(super) accepted: usize,
}
