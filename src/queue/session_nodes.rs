//! The own nodes of one session, by their [lock paths](super::path_nodes), and which of these are remembered.
//!
//! A path is remembered while a watch on it is kept for the [gap rule](super::rules::gap), and each takes some of the
//! session's room for watches. So they are few, and the one that was not used for longest makes room for another,
//! but not before it was idle for a session timeout: a caller that goes round many more paths than fit shall not set and
//! remove a watch for each.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedSender;

use super::path_nodes::PathNodes;
use super::path_registry::PathRegistry;
use super::poller::Monitored;
use super::shortcuts::Shortcuts;
use crate::client::{NodeWatch, WatchPermit};
use crate::clock::Moment;
use crate::lock::Mutex;
use crate::lock_path::LockPath;
use crate::queue::rules::admission::Family;
use crate::session::Connection;
use crate::session::Session;

/// How many lock paths are remembered.
const REMEMBERED: usize = 256;

/// How many bytes their paths may have in all: a quarter of the room for watches.
const REMEMBERED_BYTES: usize = 24 * 1024;

#[derive(Debug)]
pub(super) struct SessionNodes {
    pub(super) connection: Arc<Connection>,
    pub(super) session: Arc<Session>,
    rules: Shortcuts,
    paths: PathRegistry<PathNodes>,
    remembered: Mutex<Remembered>,
    /// To the node monitor.
    watched: UnboundedSender<Watched>,
}

/// A node, and a watch on it.
pub(super) type Watched = (Monitored, NodeWatch, WatchPermit);

impl SessionNodes {
    pub(super) fn new(
        connection: &Arc<Connection>,
        session: &Arc<Session>,
        rules: Shortcuts,
        watched: UnboundedSender<Watched>,
    ) -> Self {
        let (connection, session) = (connection.clone(), session.clone());
        Self {
            connection,
            session,
            rules,
            paths: PathRegistry::new(),
            remembered: Mutex::default(),
            watched,
        }
    }

    /// The node monitor looks after a node by this watch. Dropping a watch that has not fired sends a request, which must
    /// not go ahead of the delete.
    pub(super) fn monitor(&self, own: Monitored, watch: NodeWatch, room: WatchPermit) {
        own.node.set_watched(true);
        // At the end of the session there is no monitor, and no hold.
        let _ = self.watched.send((own, watch, room));
    }

    /// The children of `path`; remembers the path if there is room.
    pub(super) fn at(&self, path: &LockPath, family: &Family) -> Arc<PathNodes> {
        let new = || Arc::new(PathNodes::new(path.clone(), family.clone(), self.rules));
        let path_nodes = self.paths.at(path, |it| it.family == *family, new);
        if self.rules.gap && path_nodes.remembered().is_none() {
            self.remember(&path_nodes);
        }
        path_nodes
    }

    /// All there are.
    pub(super) fn all(&self) -> Vec<Arc<PathNodes>> {
        self.paths.all()
    }

    /// Lets go of the watches on lock paths.
    pub(super) fn forget(&self) {
        let mut remembered = self.remembered.lock();
        let paths = std::mem::take(&mut remembered.paths);
        remembered.bytes = 0;
        drop(remembered);
        paths.iter().for_each(|path_nodes| path_nodes.forget());
    }

    fn remember(&self, path_nodes: &Arc<PathNodes>) {
        let bytes = |it: &PathNodes| self.session.watched_bytes(it.path.as_str());
        let now = Moment::now();
        let mut remembered = self.remembered.lock();
        if now < remembered.full_until.unwrap_or(now)
            || remembered.paths.iter().any(|other| Arc::ptr_eq(other, path_nodes))
        {
            return;
        }
        let is_full = |remembered: &Remembered| {
            remembered.paths.len() >= REMEMBERED
                || remembered.bytes + bytes(path_nodes) > REMEMBERED_BYTES
        };
        while is_full(&remembered) {
            let paths = remembered.paths.iter().enumerate();
            let oldest = paths.min_by_key(|(_, path_nodes)| path_nodes.remembered());
            let Some((place, used)) = oldest.map(|(place, oldest)| (place, oldest.remembered()))
            else {
                return; // its path alone is too long
            };
            let idle_at = used.unwrap_or(now).after(self.session.timeout());
            if now < idle_at {
                remembered.full_until = Some(idle_at);
                return;
            }
            let forgotten = remembered.paths.swap_remove(place);
            remembered.bytes -= bytes(&forgotten);
            forgotten.forget();
        }
        if let Some(room) = self.session.try_reserve_watch(path_nodes.path.as_str()) {
            path_nodes.remember(room);
            remembered.bytes += bytes(path_nodes);
            remembered.paths.push(path_nodes.clone());
        }
    }
}

#[derive(Debug, Default)]
struct Remembered {
    paths: Vec<Arc<PathNodes>>,
    bytes: usize,
    /// Before that none of them can have been idle for long enough.
    full_until: Option<Moment>,
}
