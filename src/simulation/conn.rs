//! Connections between clients and servers: what is under way. Pure.

use std::collections::VecDeque;

use super::op::{Happened, Ids, Op, Operation, Reply};
use super::server::Session;

/// A message from a client.
#[derive(Debug, Clone)]
pub(super) enum Up {
    Connect { session: i64, seen: i64, timeout: u64, ids: Ids },
    Request { xid: i32, op: Op },
    End,
}

/// A message from a server.
#[derive(Debug, Clone)]
pub(super) enum Down {
    Connected { session: i64, timeout: u64 },
    Reply { xid: i32, zxid: i64, operation: Operation, reply: Reply },
    Event { path: String, happened: Happened },
    End,
}

#[derive(Debug)]
pub(super) struct Queued<M> {
    pub(super) due: u64,
    pub(super) message: M,
    /// The fault that holds it.
    pub(super) held: Option<u64>,
}

/// One way of a connection: first in, first out.
#[derive(Debug)]
pub(super) struct Lane<M> {
    pub(super) queue: VecDeque<Queued<M>>,
    pub(super) last: u64,
    /// Nothing more is sent.
    pub(super) ended: bool,
}

impl<M> Default for Lane<M> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), last: 0, ended: false }
    }
}

impl<M> Lane<M> {
    /// Loses what is under way, but for the first `keep`.
    pub(super) fn lose(&mut self, keep: usize) {
        self.queue.truncate(keep);
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) peer: usize,
    pub(super) server: usize,
    pub(super) link: usize,
    pub(super) up: Lane<Up>,
    pub(super) down: Lane<Down>,
    /// Whether the client has it still.
    pub(super) with_client: bool,
    /// What the server has of it, if it has it still.
    pub(super) session: Option<Session>,
}
