//! The links between clients and servers: their faults and counts. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use super::op::Operation;

/// The direction of messages on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums)] // a link has two ends
pub enum Direction {
    /// Messages from the client to the server.
    ToServer,
    /// Messages from the server to the client.
    ToClient,
    /// Messages in both directions.
    Both,
}

impl Direction {
    pub(super) fn covers(self, is_to_server: bool) -> bool {
        match self {
            Self::ToServer => is_to_server,
            Self::ToClient => !is_to_server,
            Self::Both => true,
        }
    }
}

/// The end of a connection that a fault cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cut {
    /// Messages on the way may be lost.
    Reset,
    /// Messages that were sent before still arrive.
    Finish,
}

/// One message of a connection: the first one or the [`nth`](Self::nth) of its kind since the fault was installed. Each
/// connection counts its own messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a message is what a fault is about, it does nothing itself"]
pub struct Message {
    is_to_server: bool,
    operation: Operation,
    nth: usize,
}

impl Message {
    /// The first such request.
    pub fn request(operation: Operation) -> Self {
        Self { is_to_server: true, operation, nth: 1 }
    }

    /// The first reply to such a request.
    pub fn reply(operation: Operation) -> Self {
        Self { is_to_server: false, operation, nth: 1 }
    }

    /// The `nth` such message instead of the first, counted from 1.
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
pub(super) enum FaultKind {
    Delay(Direction, u64),
    Stall(Direction),
    /// New connections are refused.
    Refuse,
    /// The message is held back, and with it all messages behind it.
    Hold(Message),
    /// The connection ends before the message.
    CutBefore(Message),
    /// The connection ends behind the message.
    CutAfter(Message, Cut),
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delay(_, time) => write!(f, "messages take {time} ms more"),
            Self::Stall(Direction::ToServer) => f.write_str("no message reaches the servers"),
            Self::Stall(Direction::ToClient) => f.write_str("no message reaches the client"),
            Self::Stall(Direction::Both) => f.write_str("no message arrives"),
            Self::Refuse => f.write_str("no new connection"),
            Self::Hold(message) => write!(f, "held back: {message}"),
            Self::CutBefore(message) => write!(f, "lost: {message}"),
            Self::CutAfter(message, _) => write!(f, "cut after {message}"),
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_to_server { "request" } else { "reply" };
        write!(f, "{what} {} ({:?})", self.nth, self.operation)
    }
}

/// A fault that is installed on a link.
#[derive(Debug)]
struct ActiveFault {
    id: u64,
    kind: FaultKind,
    strikes: Arc<watch::Sender<usize>>,
    /// Number of messages of its kind that each connection had.
    seen: BTreeMap<u64, usize>,
    is_spent: bool,
}

impl ActiveFault {
    /// Returns true if the fault acts on a message. A fault about one message counts the messages of its kind, and acts
    /// once.
    fn concerns(
        &mut self,
        connection: u64,
        is_to_server: bool,
        operation: Option<Operation>,
    ) -> bool {
        let message = match self.kind {
            FaultKind::Delay(direction, _) | FaultKind::Stall(direction) => {
                return direction.covers(is_to_server);
            }
            FaultKind::Refuse => return false,
            FaultKind::Hold(message)
            | FaultKind::CutBefore(message)
            | FaultKind::CutAfter(message, _) => message,
        };
        let is_its_kind = operation.is_some_and(|operation| message.operation.means(operation));
        if message.is_to_server != is_to_server || !is_its_kind {
            return false;
        }
        let count = self.seen.entry(connection).or_default();
        *count += 1;
        let concerns = *count == message.nth && !self.is_spent;
        self.is_spent |= concerns;
        concerns
    }

    fn strike(&self) {
        self.strikes.send_modify(|strikes| *strikes += 1);
    }
}

/// The faults' verdict on a message.
#[derive(Default)]
pub(super) struct Fate {
    /// Additional time until the message arrives.
    pub(super) delay: u64,
    /// The fault that holds the message back.
    pub(super) held_by: Option<u64>,
    pub(super) is_lost: bool,
    /// The cut of the connection behind the message.
    pub(super) cut: Option<Cut>,
}

/// The state of a link. The first link of a world serves clients that need no faults.
#[derive(Debug, Default)]
pub(super) struct SimLink {
    /// The only server behind the link; `None` if all are.
    server: Option<usize>,
    faults: Vec<ActiveFault>,
    installed: u64,
    log: Vec<Operation>,
    /// Number of messages, by whether they go to the server, and by operation.
    messages: BTreeMap<(bool, Operation), usize>,
    accepted: usize,
}

impl SimLink {
    pub(super) fn new(server: Option<usize>) -> Self {
        Self { server, ..Self::default() }
    }

    pub(super) fn server(&self) -> Option<usize> {
        self.server
    }

    pub(super) fn install(&mut self, kind: FaultKind, strikes: Arc<watch::Sender<usize>>) -> u64 {
        self.installed += 1;
        let id = self.installed;
        self.faults.push(ActiveFault { id, kind, strikes, seen: BTreeMap::new(), is_spent: false });
        id
    }

    pub(super) fn heal(&mut self, id: u64) {
        self.faults.retain(|fault| fault.id != id);
    }

    /// Returns true if a new connection is accepted, and false if a fault refuses it.
    pub(super) fn accept(&mut self) -> bool {
        if let Some(refusal) = self.faults.iter().find(|fault| fault.kind == FaultKind::Refuse) {
            refusal.strike();
            return false;
        }
        self.accepted += 1;
        true
    }

    /// Counts a message, and lets the faults act on it. Without an operation the message is the end of the connection.
    pub(super) fn pass(
        &mut self,
        connection: u64,
        is_to_server: bool,
        operation: Option<Operation>,
    ) -> Fate {
        if let Some(operation) = operation {
            *self.messages.entry((is_to_server, operation)).or_default() += 1;
            if is_to_server && Operation::Any.means(operation) && self.log.len() < 100_000 {
                self.log.push(operation);
            }
        }
        let mut fate = Fate::default();
        for fault in &mut self.faults {
            if !fault.concerns(connection, is_to_server, operation) {
                continue;
            }
            match fault.kind {
                FaultKind::Delay(_, time) => fate.delay += time,
                FaultKind::Hold(_) => fate.held_by = fate.held_by.or(Some(fault.id)),
                FaultKind::CutBefore(_) => {
                    fate.is_lost = true;
                    fate.cut = Some(Cut::Finish);
                }
                FaultKind::CutAfter(_, cut) => fate.cut = Some(cut),
                FaultKind::Stall(_) | FaultKind::Refuse => {}
            }
            fault.strike();
        }
        fate
    }

    /// Returns true if a fault keeps a message from arriving now.
    pub(super) fn blocks(&self, is_to_server: bool, held_by: Option<u64>) -> bool {
        self.faults.iter().any(|fault| match fault.kind {
            FaultKind::Stall(direction) => direction.covers(is_to_server),
            FaultKind::Hold(_) => held_by == Some(fault.id),
            _ => false,
        })
    }

    /// Number of messages of this kind that were sent.
    pub(super) fn messages(&self, is_to_server: bool, operation: Operation) -> usize {
        let is_counted =
            |direction: bool, seen: Operation| direction == is_to_server && operation.means(seen);
        let counts = self.messages.iter();
        counts
            .filter(|((direction, seen), _)| is_counted(*direction, *seen))
            .map(|(_, count)| count)
            .sum()
    }

    /// Number of connections that were ever accepted.
    pub(super) fn accepted(&self) -> usize {
        self.accepted
    }

    pub(super) fn log(&self) -> Vec<Operation> {
        self.log.clone()
    }

    pub(super) fn clear_log(&mut self) {
        self.log.clear();
    }
}
