//! What a server is: its log and tree, its watches, and what it knows of its leader or its followers. Pure.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::op::{Happened, Ids, Kind, Op, Reply};
use super::tree::{Entry, Tree};

/// The watchers of a path, by connection.
type Watches = BTreeMap<String, BTreeSet<u64>>;

#[derive(Debug)]
pub(super) struct Server {
    pub(super) role: Role,
    /// It neither reads nor sends.
    pub(super) paused: bool,
    pub(super) tree: Tree,
    pub(super) log: Vec<Arc<Entry>>,
    pub(super) committed: usize,
    pub(super) applied: usize,
    /// The epoch that it follows or leads.
    pub(super) epoch: i64,
    /// When the leader was last heard of.
    pub(super) heard: u64,
    /// Sessions heard of since the last report to the leader.
    pub(super) touched: BTreeSet<i64>,
    pub(super) leading: Leading,
    pub(super) conns: BTreeSet<u64>,
    pub(super) data: Watches,
    pub(super) child: Watches,
}

/// What a server has of a connection.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// Zero until the handshake is done.
    pub(super) id: i64,
    pub(super) ids: Ids,
    /// Requests in their order, with the answers there are.
    pub(super) pending: VecDeque<Pending>,
    /// What follows is not read until that is done.
    pub(super) shakes_hands: bool,
}

#[derive(Debug)]
pub(super) struct Pending {
    pub(super) xid: i32,
    pub(super) op: Op,
    pub(super) answered: Option<Reply>,
}

impl Server {
    pub(super) fn new(exists_asks: bool) -> Self {
        Self {
            role: Role::Looking,
            paused: false,
            tree: Tree::new(exists_asks),
            log: Vec::new(),
            committed: 0,
            applied: 0,
            epoch: 0,
            heard: 0,
            touched: BTreeSet::new(),
            leading: Leading::default(),
            conns: BTreeSet::new(),
            data: Watches::new(),
            child: Watches::new(),
        }
    }

    pub(super) fn watches(&self) -> usize {
        self.data.values().chain(self.child.values()).map(BTreeSet::len).sum()
    }

    fn table(&mut self, kind: Kind) -> &mut Watches {
        if kind == Kind::Child { &mut self.child } else { &mut self.data }
    }

    pub(super) fn watch(&mut self, path: &str, kind: Kind, conn: u64) {
        self.table(kind).entry(path.to_owned()).or_default().insert(conn);
    }

    pub(super) fn unwatch(&mut self, path: &str, kind: Kind, conn: u64) -> bool {
        let table = self.table(kind);
        let Some(conns) = table.get_mut(path) else { return false };
        let removed = conns.remove(&conn);
        if conns.is_empty() {
            table.remove(path);
        }
        removed
    }

    /// The connections that get the event. Each once, though it may watch in both ways.
    pub(super) fn fire(&mut self, path: &str, happened: Happened) -> BTreeSet<u64> {
        let mut told = match happened {
            Happened::Children => self.child.remove(path).unwrap_or_default(),
            _ => self.data.remove(path).unwrap_or_default(),
        };
        if happened == Happened::Deleted {
            told.extend(self.child.remove(path).unwrap_or_default());
        }
        told
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Down,
    Looking,
    Following(usize),
    Leading,
}

impl Role {
    pub(super) fn serves(self) -> bool {
        matches!(self, Self::Following(_) | Self::Leading)
    }
}

/// What a leader knows.
#[derive(Debug, Default)]
pub(super) struct Leading {
    pub(super) last_zxid: i64,
    pub(super) followers: BTreeMap<usize, Follower>,
    pub(super) tracker: BTreeMap<i64, Tracked>,
    /// Each is answered once so much of the log is committed.
    pub(super) syncs: Vec<(usize, usize, u64, i32)>,
}

#[derive(Debug)]
pub(super) struct Follower {
    pub(super) heard: u64,
    /// How much of the log it has.
    pub(super) acked: usize,
}

#[derive(Debug)]
pub(super) struct Tracked {
    pub(super) timeout: u64,
    pub(super) expires: u64,
    /// Whose clients' requests count. Unknown after an election.
    pub(super) owner: Option<usize>,
    pub(super) closing: bool,
}

/// What a server asks its leader for a client.
#[derive(Debug, Clone)]
pub(super) enum Asked {
    Write { session: i64, ids: Ids, op: Op, conn: u64, xid: i32 },
    Sync { conn: u64, xid: i32 },
    Revalidate { session: i64, conn: u64 },
}

/// What servers tell each other.
#[derive(Debug)]
pub(super) enum Message {
    Asked(Asked),
    Acked(usize),
    // With the sessions that were heard of.
    Pong(Vec<i64>),
    Propose(Arc<Entry>),
    Commit(usize),
    Synced { conn: u64, xid: i32 },
    Valid { session: i64, conn: u64, timeout: Option<u64> },
    Ping,
}

/// One way between two servers: first in, first out.
#[derive(Debug, Default)]
pub(super) struct Wire {
    pub(super) queue: VecDeque<(u64, i64, Message)>,
    pub(super) last: u64,
    pub(super) parted: bool,
    /// What it takes longer.
    pub(super) delay: u64,
}
