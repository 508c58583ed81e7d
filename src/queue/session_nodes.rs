//! The znodes of one session, by [lock path](super::path_nodes), and the paths whose parent is watched.
//!
//! A path is *remembered* while it may keep a watch on its parent for the [gap rule](super::rules::gap). Each such watch takes
//! room from the session, so few paths are remembered. The path that was unused for the longest time is forgotten when another
//! needs the room, but not before it was idle for a session timeout: a caller that cycles through many more paths than fit must
//! not set and remove a watch each time.

use std::sync::Arc;

use tokio::sync::mpsc::{self, UnboundedSender};

use super::node::Znode;
use super::node_monitor::{Monitored, Watched, monitor};
use super::path_nodes::PathNodes;
use super::path_registry::PathRegistry;
use super::request::{EntryAborted, Request};
use crate::client::{NodeWatch, WatchPermit};
use crate::clock::BootInstant;
use crate::lock_path::LockPath;
use crate::queue::rules::admission::Family;
use crate::session::{Connection, NoSession, Session};
use crate::sync::Mutex;

/// The greatest number of remembered paths.
const REMEMBERED: usize = 256;

/// The greatest sum of their lengths in bytes: a quarter of the room for watches.
const REMEMBERED_BYTES: usize = 24 * 1024;

/// The znodes of the current session of a connection.
#[derive(Debug)]
pub(super) struct CurrentNodes {
    pub(super) connection: Arc<Connection>,
    current: Mutex<Option<Arc<SessionNodes>>>,
}

impl CurrentNodes {
    pub(super) fn new(connection: Arc<Connection>) -> Arc<Self> {
        Arc::new(Self { connection, current: Mutex::default() })
    }

    /// Returns the znodes of the current session, or of the next one if it opens within the connection timeout.
    pub(super) async fn wait(&self, request: &Request) -> Result<Arc<SessionNodes>, EntryAborted> {
        match self.connection.session(self.connection.settings.connection_timeout).await {
            Ok(session) => Ok(self.of(&session)),
            Err(NoSession::NotConnected) => Err(EntryAborted::Retry(None)),
            Err(NoSession::Closed(error)) => {
                Err(EntryAborted::Failed(request.session_error(error)))
            }
        }
    }

    /// Returns the znodes of `session`. The first call for a session starts its node monitor.
    pub(super) fn of(&self, session: &Arc<Session>) -> Arc<SessionNodes> {
        let mut current = self.current.lock();
        if let Some(nodes) = current.as_ref().filter(|nodes| Arc::ptr_eq(&nodes.session, session)) {
            return nodes.clone();
        }
        let (watched, handed_over) = mpsc::unbounded_channel();
        let nodes = Arc::new(SessionNodes::new(&self.connection, session, watched));
        self.connection.spawn(monitor(nodes.clone(), handed_over));
        // A caller that comes late, with a session that has ended, must not displace the next session.
        if !session.ended().is_cancelled() {
            current.replace(nodes.clone());
        }
        nodes
    }
}

/// The znodes of one session.
#[derive(Debug)]
pub(super) struct SessionNodes {
    pub(super) connection: Arc<Connection>,
    pub(super) session: Arc<Session>,
    paths: PathRegistry<PathNodes>,
    remembered: Mutex<Remembered>,
    /// The channel to the node monitor.
    watched: UnboundedSender<Watched>,
}

impl SessionNodes {
    fn new(
        connection: &Arc<Connection>,
        session: &Arc<Session>,
        watched: UnboundedSender<Watched>,
    ) -> Self {
        Self {
            connection: connection.clone(),
            session: session.clone(),
            paths: PathRegistry::new(),
            remembered: Mutex::default(),
            watched,
        }
    }

    /// Hands a watch on a znode to the node monitor. Dropping a watch that has not fired would send a request, which must not be
    /// sent ahead of the delete.
    pub(super) fn monitor(
        &self,
        znode: &Arc<Znode>,
        path_nodes: &Arc<PathNodes>,
        watch: NodeWatch,
        room: WatchPermit,
    ) {
        znode.set_watched(true);
        let node = Monitored { znode: znode.clone(), path_nodes: path_nodes.clone() };
        // At the end of the session there is no monitor, and no hold.
        let _ = self.watched.send(Watched { node, watch, room });
    }

    /// Returns the znodes under `path`, and remembers the path if there is room.
    pub(super) fn at(&self, path: &LockPath, family: &Family) -> Arc<PathNodes> {
        let new = || Arc::new(PathNodes::new(path.clone(), family.clone()));
        let path_nodes = self.paths.at(path, |nodes| nodes.family == *family, new);
        if path_nodes.remembered().is_none() {
            self.remember(&path_nodes);
        }
        path_nodes
    }

    /// Returns the znodes of all paths in use.
    pub(super) fn all(&self) -> Vec<Arc<PathNodes>> {
        self.paths.all()
    }

    /// Drops the watches on all parents.
    pub(super) fn forget(&self) {
        let mut remembered = self.remembered.lock();
        let paths = std::mem::take(&mut remembered.paths);
        remembered.bytes = 0;
        drop(remembered);
        for path_nodes in &paths {
            path_nodes.forget();
        }
    }

    fn remember(&self, path_nodes: &Arc<PathNodes>) {
        let bytes = |nodes: &PathNodes| self.session.watched_bytes(nodes.path.as_str());
        let now = BootInstant::now();
        let mut remembered = self.remembered.lock();
        if now < remembered.full_until.unwrap_or(now)
            || remembered.paths.iter().any(|other| Arc::ptr_eq(other, path_nodes))
        {
            return;
        }
        while remembered.is_full(bytes(path_nodes)) {
            let Some((place, used)) = remembered.least_recently_used() else {
                return; // this path alone is too long
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
    /// No path can have been idle for long enough before this time.
    full_until: Option<BootInstant>,
}

impl Remembered {
    fn is_full(&self, more: usize) -> bool {
        self.paths.len() >= REMEMBERED || self.bytes + more > REMEMBERED_BYTES
    }

    /// Returns the place of the path that was unused for the longest time, and when it was used last.
    fn least_recently_used(&self) -> Option<(usize, Option<BootInstant>)> {
        let paths = self.paths.iter().enumerate();
        let used = paths.map(|(place, path_nodes)| (place, path_nodes.remembered()));
        used.min_by_key(|(_, used)| *used)
    }
}
