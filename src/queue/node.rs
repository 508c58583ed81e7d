//! Our znodes in the queue, and the one way in which they are deleted (invariant 3).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::Instrument;

use super::leaving::Leaving;
use super::path_nodes::PathNodes;
use super::session_nodes::SessionNodes;
use crate::client::{ChildrenWatch, ClientError, Failure, LinkWatch};
use crate::session::Session;
use crate::session::cleanup::{CleanupOutcome, CleanupTask, clean_up, delete};
use crate::session::session::Reservation;
use crate::sync::{AtomicBool, Mutex};

/// A znode of ours in the queue.
#[derive(Debug)]
pub(super) struct Znode {
    /// The path below the namespace.
    pub(super) path: String,
    /// The transaction that created the znode.
    pub(super) czxid: i64,
    pub(super) sequence: i64,
    /// True if the znode holds together with others of its kind.
    pub(super) shared: bool,
    /// The session that owns the znode.
    pub(super) session: Arc<Session>,
    /// The connection as it was before the create was sent; `None` once a change of it was seen, and outside the queue.
    link: Mutex<Option<LinkWatch>>,
    /// True once another process asked us to give the znode up.
    revoked: AtomicBool,
    /// True once a read was created alongside a write hold of the znode.
    accompanied: AtomicBool,
    /// Locked while a fenced write is handed to the client.
    fence: Mutex<()>,
    /// True while the node monitor has the watch that the waiter set.
    watched: AtomicBool,
}

impl Znode {
    pub(super) fn new(
        path: String,
        czxid: i64,
        sequence: i64,
        shared: bool,
        session: Arc<Session>,
        link: impl Into<Option<LinkWatch>>,
    ) -> Self {
        Self {
            path,
            czxid,
            sequence,
            shared,
            session,
            link: Mutex::new(link.into()),
            revoked: AtomicBool::new(false),
            accompanied: AtomicBool::new(false),
            fence: Mutex::new(()),
            watched: AtomicBool::new(false),
        }
    }

    /// The last segment of the path.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The sequence number as it ends the name: ten digits, since other names are refused.
    pub(super) fn digits(&self) -> &str {
        let name = self.name();
        name.get(name.len().saturating_sub(10)..).unwrap_or_default()
    }

    /// Returns true while the client is on the connection on which the znode was created. [`LinkWatch`] reports a change
    /// once, so the first report is kept for good.
    pub(super) fn is_on_its_link(&self) -> bool {
        let mut link = self.link.lock();
        link.take_if(|link| link.has_changed());
        link.is_some()
    }

    pub(super) fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Relaxed)
    }

    /// Has the znode deleted after the present hold, whichever tasks wait under it.
    pub(super) fn set_revoked(&self) {
        self.revoked.store(true, Ordering::Relaxed);
    }

    /// Returns true if a read was created alongside a write hold of the znode. The read may outlive that hold, so no other writer
    /// may hold by the znode.
    pub(super) fn is_accompanied(&self) -> bool {
        self.accompanied.load(Ordering::Relaxed)
    }

    pub(super) fn set_accompanied(&self) {
        self.accompanied.store(true, Ordering::Relaxed);
    }

    /// Runs `send` while no hold of this znode can end.
    pub(super) fn fenced<T>(&self, send: impl FnOnce() -> T) -> T {
        let _sending = self.fence.lock();
        send()
    }

    /// Waits for a fenced write that another thread hands to the client at this moment.
    pub(super) fn close_fence(&self) {
        drop(self.fence.lock());
    }

    pub(super) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    pub(super) fn set_watched(&self, watched: bool) {
        self.watched.store(watched, Ordering::Relaxed);
    }
}

/// Room in the session that a znode takes until it is deleted.
#[derive(Debug)]
pub(super) struct Room {
    _reservation: Reservation,
    /// Counts the znode for the task that waits until none is left.
    _counted: TaskTrackerToken,
}

impl Room {
    pub(super) fn new(reservation: Reservation, counted: TaskTrackerToken) -> Self {
        Self { _reservation: reservation, _counted: counted }
    }
}

/// A znode that stands in the queue. Dropping it deletes the znode.
#[derive(Debug)]
pub(super) struct OwnedNode {
    pub(super) znode: Arc<Znode>,
    pub(super) path_nodes: Arc<PathNodes>,
    pub(super) nodes: Arc<SessionNodes>,
    /// Taken by the task that deletes the znode.
    room: Option<Room>,
}

impl OwnedNode {
    /// Registers the znode.
    pub(super) fn new(
        znode: Arc<Znode>,
        path_nodes: Arc<PathNodes>,
        nodes: Arc<SessionNodes>,
        room: Room,
    ) -> Self {
        path_nodes.enter(&znode);
        Self { znode, path_nodes, nodes, room: Some(room) }
    }

    /// Returns true if the znode exists in `session`, on the connection on which it was created.
    pub(super) fn fits(&self, session: &Session) -> bool {
        std::ptr::eq(&*self.znode.session, session)
            && self.znode.is_on_its_link()
            && self.path_nodes.has(&self.znode)
    }

    /// Hands the delete to the client, which has sent the request when this returns. `None` if the znode is deleted already.
    pub(super) fn delete(mut self) -> Option<PendingDelete> {
        self.hand_over_delete()
    }

    fn hand_over_delete(&mut self) -> Option<PendingDelete> {
        let room = self.room.take()?;
        if !self.path_nodes.unregister(&self.znode) {
            return None;
        }
        #[cfg(all(test, feature = "simulation"))]
        super::tests::delete_sent();
        Some(PendingDelete {
            leaving: self.path_nodes.count_leaving(),
            sent: Box::pin(delete(&self.nodes.session, &self.znode.path)),
            znode: self.znode.clone(),
            nodes: self.nodes.clone(),
            room,
            children: None,
        })
    }

    /// Drops the node without a delete, because the znode is deleted already.
    pub(super) fn forget(mut self) {
        self.room = None;
    }
}

impl Drop for OwnedNode {
    fn drop(&mut self) {
        drop(self.hand_over_delete().map(PendingDelete::confirm));
    }
}

/// The outcome of a delete, as far as it is known so far.
#[derive(Debug)]
pub(super) enum DeleteOutcome {
    Confirmed(CleanupOutcome),
    /// The server refuses the delete, and a task repeats it.
    NoAuth,
    /// No server answered within this time.
    Late(Duration),
}

/// A delete that was handed to the client.
#[must_use]
pub(super) struct PendingDelete {
    sent: BoxFuture<'static, Result<CleanupOutcome, Failure>>,
    znode: Arc<Znode>,
    nodes: Arc<SessionNodes>,
    room: Room,
    leaving: Leaving,
    /// A watch on the children, which the delete fires. Dropping the watch earlier would send a request.
    children: Option<Arc<Mutex<ChildrenWatch>>>,
}

impl PendingDelete {
    pub(super) fn with(self, children: Option<Arc<Mutex<ChildrenWatch>>>) -> Self {
        Self { children, ..self }
    }

    /// Starts a session task that repeats the delete until a server confirms it, and then frees the room. The receiver gets
    /// the outcome for the caller, or an error if the runtime has shut down.
    pub(super) fn confirm(self) -> oneshot::Receiver<DeleteOutcome> {
        let (tx, rx) = oneshot::channel();
        let connection = self.nodes.connection.clone();
        connection.spawn(self.confirmed(tx).in_current_span());
        rx
    }

    async fn confirmed(self, tx: oneshot::Sender<DeleteOutcome>) {
        let Self { sent, znode, nodes, room, leaving, children } = self;
        let tx = Mutex::new(Some(tx));
        let report = |outcome| {
            if let Some(tx) = tx.lock().take() {
                let _ = tx.send(outcome); // the caller may have stopped waiting
            }
        };
        let refused = |error: &ClientError| {
            if error.is_no_auth() {
                report(DeleteOutcome::NoAuth);
            }
        };
        let connection = &nodes.connection;
        let task = CleanupTask::Delete(znode.path.clone());
        let mut deleting =
            std::pin::pin!(clean_up(connection, nodes.session.clone(), task, sent, refused));
        let patience = connection.settings.connection_timeout;
        let outcome = match timeout(patience, &mut deleting).await {
            Ok(outcome) => outcome,
            Err(_) => {
                report(DeleteOutcome::Late(patience));
                deleting.await
            }
        };
        drop(room);
        drop(leaving);
        drop(children);
        report(DeleteOutcome::Confirmed(outcome));
    }
}
