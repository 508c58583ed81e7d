//! One server's connections to clients: their sessions, their pending requests and their watches.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::op::{Happened, Ids, Op, Reply, WatchKind};

/// The server's end of a connection.
#[derive(Default)]
pub(super) struct ServerConnection {
    /// Zero until the handshake is done.
    session: i64,
    ids: Ids,
    /// In the order in which they arrived.
    pending: VecDeque<Pending>,
    /// The server reads no further message until the handshake is done.
    shakes_hands: bool,
}

/// A request that is not answered yet.
pub(super) struct Pending {
    pub(super) xid: i32,
    pub(super) op: Op,
    /// The leader's reply, to a request that needs the leader.
    pub(super) reply: Option<Reply>,
}

impl ServerConnection {
    pub(super) fn session(&self) -> i64 {
        self.session
    }

    pub(super) fn ids(&self) -> &Ids {
        &self.ids
    }

    pub(super) fn add_id(&mut self, scheme: &str, id: &str) {
        Arc::make_mut(&mut self.ids).insert((scheme.to_owned(), id.to_owned()));
    }

    pub(super) fn shakes_hands(&self) -> bool {
        self.shakes_hands
    }

    pub(super) fn begin_handshake(&mut self, ids: Ids) {
        self.shakes_hands = true;
        self.ids = ids;
    }

    pub(super) fn end_handshake(&mut self, session: i64) {
        self.shakes_hands = false;
        self.session = session;
    }

    pub(super) fn add_request(&mut self, xid: i32, op: Op) {
        self.pending.push_back(Pending { xid, op, reply: None });
    }

    pub(super) fn set_reply(&mut self, xid: i32, reply: Reply) {
        if let Some(pending) = self.pending.iter_mut().find(|pending| pending.xid == xid) {
            pending.reply = Some(reply);
        }
    }

    /// Takes the first request, unless it waits for the leader.
    pub(super) fn take_answerable(&mut self) -> Option<Pending> {
        let first = self.pending.front()?;
        if first.op.needs_leader() && first.reply.is_none() {
            return None;
        }
        self.pending.pop_front()
    }
}

/// The watch of a connection on a node, or on its children: path, whether on the children, connection.
type Watched = (String, bool, u64);

#[derive(Default)]
pub(super) struct Connections {
    open: BTreeMap<u64, ServerConnection>,
    watches: BTreeSet<Watched>,
}

impl Connections {
    pub(super) fn open(&mut self, connection: u64) {
        self.open.insert(connection, ServerConnection::default());
    }

    pub(super) fn close(&mut self, connection: u64) {
        self.open.remove(&connection);
        self.watches.retain(|(.., watcher)| *watcher != connection);
    }

    pub(super) fn get(&self, connection: u64) -> Option<&ServerConnection> {
        self.open.get(&connection)
    }

    pub(super) fn get_mut(&mut self, connection: u64) -> Option<&mut ServerConnection> {
        self.open.get_mut(&connection)
    }

    pub(super) fn all(&self) -> Vec<u64> {
        self.open.keys().copied().collect()
    }

    pub(super) fn of_session(&self, session: i64) -> Vec<u64> {
        let own = self.open.iter().filter(|(_, connection)| connection.session == session);
        own.map(|(number, _)| *number).collect()
    }

    pub(super) fn watch(&mut self, connection: u64, path: &str, kind: WatchKind) {
        self.watches.insert((path.to_owned(), kind == WatchKind::Child, connection));
    }

    /// Removes a watch. Returns false if there is no such watch.
    pub(super) fn unwatch(&mut self, connection: u64, path: &str, kind: WatchKind) -> bool {
        self.watches.remove(&(path.to_owned(), kind == WatchKind::Child, connection))
    }

    /// Removes the watches that this event fires. Returns their connections, each once even if it watches the node and
    /// its children.
    pub(super) fn take_fired(&mut self, path: &str, happened: Happened) -> BTreeSet<u64> {
        let (first, last) = match happened {
            Happened::Children => (true, true),
            Happened::Deleted => (false, true),
            Happened::Created | Happened::Changed => (false, false),
        };
        let range = (path.to_owned(), first, 0)..=(path.to_owned(), last, u64::MAX);
        let fired: Vec<_> = self.watches.range(range).cloned().collect();
        for watched in &fired {
            self.watches.remove(watched);
        }
        fired.into_iter().map(|(.., connection)| connection).collect()
    }

    /// Number of watches.
    pub(super) fn watches(&self) -> usize {
        self.watches.len()
    }
}
