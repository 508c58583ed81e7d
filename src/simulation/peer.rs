//! The client of a simulation: what `zookeeper-client` does, without sockets.
//!
//! * A request is sent when it is made. Without a connection it waits, and after a reconnect until the watches are set
//!   again.
//! * When a connection breaks, the state changes first; then what was sent fails.
//! * A watch fires before any later answer. Dropping one that has not fired takes it back at the server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::sync::{oneshot, watch};

use super::op::{Answer, Happened, Ids, Kind, Op, Refused};
use super::tasks::Life;
use crate::client::{LinkState, ServerError};

/// What a request comes to: the answer, and the watch that was asked for.
pub(crate) type Outcome = Result<(Answer, Option<Watch>), Refused>;

/// A one-shot watch. Resolves with nothing when the session is over.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The number of its world.
    pub(super) world: u64,
    pub(super) peer: usize,
    pub(super) path: String,
    pub(super) id: u64,
    pub(super) happened: oneshot::Receiver<Happened>,
    pub(super) has_fired: bool,
}

/// One client, with its session.
#[derive(Debug)]
pub(super) struct Peer {
    /// Links and the servers behind them, in the order in which they are tried.
    pub(super) ways: Vec<(usize, usize)>,
    /// How many were tried since the last connection.
    pub(super) tried: u64,
    pub(super) asked: u64,
    /// After how long silence ends a connection; zero leaves it to the session's timeout.
    pub(super) patience: u64,
    pub(super) ids: Ids,
    pub(super) session: i64,
    pub(super) timeout: u64,
    pub(super) seen: i64,
    pub(super) received: u64,
    pub(super) sent_at: u64,
    pub(super) is_pinging: bool,
    pub(super) conn: Option<u64>,
    pub(super) phase: Phase,
    /// Events of an earlier turn count no more.
    pub(super) turn: u64,
    pub(super) state: watch::Sender<LinkState>,
    pub(super) xid: i32,
    pub(super) unsent: VecDeque<Unsent>,
    pub(super) sent: VecDeque<Request>,
    pub(super) watches: BTreeMap<String, Vec<Watcher>>,
    pub(super) handles: usize,
    pub(super) process: Option<Arc<Life>>,
    pub(super) dialed: Option<oneshot::Sender<Result<(), ServerError>>>,
    /// Nothing passes between it and any server.
    pub(super) parted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Dialing,
    ShakingHands,
    /// Connected, until the watches are set again.
    Restoring,
    Serving,
    Over,
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) xid: i32,
    pub(super) op: Op,
    pub(super) reply: Option<oneshot::Sender<Outcome>>,
}

type Watcher = (u64, Kind, oneshot::Sender<Happened>);

pub(super) const SET_WATCHES: i32 = -8;
pub(super) const PING: i32 = -2;

/// What waits for a connection.
#[derive(Debug)]
pub(super) enum Unsent {
    Request(Request),
    Unwatch(String, u64),
}

impl Peer {
    pub(super) fn tick(&self) -> u64 {
        let (timeout, patience) = (self.timeout, self.patience);
        let tick =
            if patience == 0 || patience > timeout * 3 / 5 { timeout / 20 } else { patience / 8 };
        tick.max(1)
    }

    pub(super) fn silence(&self) -> u64 {
        8 * self.tick()
    }

    pub(super) fn ping_after(&self) -> u64 {
        (3 * self.tick()).min(10_000)
    }

    pub(super) fn expires(&self) -> u64 {
        let bound = if self.session == 0 { self.timeout } else { self.timeout * 7 / 5 };
        self.received + bound
    }

    pub(super) fn is_dead(&self) -> bool {
        self.process.as_ref().is_some_and(|life| life.is_dead())
    }

    pub(super) fn is_paused(&self) -> bool {
        self.process.as_ref().is_some_and(|life| life.is_paused())
    }

    pub(super) fn watches_of(&self, kind: Kind) -> Vec<String> {
        let has = |watches: &[Watcher]| watches.iter().any(|(_, one, _)| *one == kind);
        let ours = self.watches.iter().filter(|(_, watches)| has(watches));
        ours.map(|(path, _)| path.clone()).collect()
    }
}
