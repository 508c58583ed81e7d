//! A node of ours at the servers, and the duty to delete it: the one way in which nodes go (invariant 3).

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::Instrument;

use super::hold::Znode;
use super::path_nodes::PathNodes;
use super::session_nodes::SessionNodes;
use crate::client::{ChildrenWatch, ClientError, Failure};
use crate::lock::Mutex;
use crate::session::cleanup::{CleanupOutcome, CleanupTask, clean_up, delete};
use crate::session::session::Reservation;

/// What a node takes of its session, until it is gone.
#[derive(Debug)]
pub(super) struct Room {
    _reservation: Reservation,
    /// For the task that waits until nothing is left.
    _counted: TaskTrackerToken,
}

impl Room {
    pub(super) fn new(reservation: Reservation, counted: TaskTrackerToken) -> Self {
        Self { _reservation: reservation, _counted: counted }
    }
}

/// A node that stands in the queue. Dropping it deletes it.
#[derive(Debug)]
pub(super) struct OwnedNode {
    pub(super) node: Arc<Znode>,
    pub(super) path_nodes: Arc<PathNodes>,
    pub(super) nodes: Arc<SessionNodes>,
    /// Taken by the task that deletes it.
    room: Option<Room>,
}

/// The same, without the duty.
#[derive(Clone, Debug)]
pub(super) struct SharedNode {
    pub(super) node: Arc<Znode>,
    pub(super) path_nodes: Arc<PathNodes>,
    pub(super) nodes: Arc<SessionNodes>,
}

/// What became of a delete, as far as that is known by now.
#[derive(Debug)]
pub(super) enum DeleteOutcome {
    Confirmed(CleanupOutcome),
    /// The server refuses it, and it is tried again.
    NoAuth,
    /// There was no answer for so long.
    Late(Duration),
}

impl OwnedNode {
    /// Registers the node.
    pub(super) fn new(
        node: Arc<Znode>,
        path_nodes: Arc<PathNodes>,
        nodes: Arc<SessionNodes>,
        room: Room,
    ) -> Self {
        path_nodes.enter(&node);
        Self { node, path_nodes, nodes, room: Some(room) }
    }

    pub(super) fn share(&self) -> SharedNode {
        let (node, path_nodes) = (self.node.clone(), self.path_nodes.clone());
        SharedNode { node, path_nodes, nodes: self.nodes.clone() }
    }

    /// Hands the delete to the client: the request is sent when this returns. `None` if the node is gone.
    pub(super) fn leave(mut self) -> Option<PendingDelete> {
        self.hand_over_delete()
    }

    fn hand_over_delete(&mut self) -> Option<PendingDelete> {
        let room = self.room.take()?;
        self.path_nodes.is_left(&self.node).then(|| PendingDelete {
            sent: Box::pin(delete(&self.nodes.session, &self.node.path)),
            node: self.node.clone(),
            nodes: self.nodes.clone(),
            room,
            children: None,
        })
    }

    /// It is gone already.
    pub(super) fn forget(mut self) {
        self.room = None;
    }
}

impl Drop for OwnedNode {
    fn drop(&mut self) {
        drop(self.hand_over_delete().map(PendingDelete::see_to));
    }
}

/// A node whose delete was handed to the client.
#[must_use]
pub(super) struct PendingDelete {
    sent: BoxFuture<'static, Result<CleanupOutcome, Failure>>,
    node: Arc<Znode>,
    nodes: Arc<SessionNodes>,
    room: Room,
    /// On the children, which fires by the delete: to drop it before would send a request.
    children: Option<Arc<Mutex<ChildrenWatch>>>,
}

impl PendingDelete {
    pub(super) fn with(self, children: Option<Arc<Mutex<ChildrenWatch>>>) -> Self {
        Self { children, ..self }
    }

    /// Has a task of the session's see the delete confirmed, and repeated if need be; then the room is free. The receiver
    /// gets the report for the waiter, and an error if the runtime is gone.
    pub(super) fn see_to(self) -> oneshot::Receiver<DeleteOutcome> {
        let (tell, told) = oneshot::channel();
        let connection = self.nodes.connection.clone();
        connection.spawn(self.confirmed(tell).in_current_span());
        told
    }

    async fn confirmed(self, tell: oneshot::Sender<DeleteOutcome>) {
        let Self { sent, node, nodes, room, children } = self;
        let tell = Mutex::new(Some(tell));
        let say = |left| {
            if let Some(tell) = tell.lock().take() {
                let _ = tell.send(left); // whoever asked may not wait any more
            }
        };
        let (connection, task) = (&nodes.connection, CleanupTask::Delete(node.path.clone()));
        let refused = |error: &ClientError| {
            if error.is_no_auth() {
                say(DeleteOutcome::NoAuth);
            }
        };
        let mut deleting =
            std::pin::pin!(clean_up(connection, nodes.session.clone(), task, sent, refused));
        let patience = connection.settings.connection_timeout;
        let cleaned = match timeout(patience, &mut deleting).await {
            Ok(cleaned) => cleaned,
            Err(_) => {
                say(DeleteOutcome::Late(patience));
                deleting.await
            }
        };
        drop((room, children));
        say(DeleteOutcome::Confirmed(cleaned));
    }
}
