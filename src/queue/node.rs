//! A node of ours at the servers, and the duty to delete it: the one way in which nodes go (invariant 3).

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::Instrument;

use super::epoch_nodes::EpochNodes;
use super::hold::QueueNode;
use super::siblings::Siblings;
use crate::client::{ChildrenWatch, ClientError, Failure};
use crate::session::duty::{Cleaned, Duty, clean_up, delete};
use crate::session::epoch::Reservation;
use crate::sync::Mutex;

/// What a node takes of its epoch, until it is gone.
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
    pub(super) node: Arc<QueueNode>,
    pub(super) siblings: Arc<Siblings>,
    pub(super) nodes: Arc<EpochNodes>,
    /// Taken by the task that deletes it.
    room: Option<Room>,
}

/// The same, without the duty.
#[derive(Clone, Debug)]
pub(super) struct SharedNode {
    pub(super) node: Arc<QueueNode>,
    pub(super) siblings: Arc<Siblings>,
    pub(super) nodes: Arc<EpochNodes>,
}

/// What became of a delete, as far as that is known by now.
#[derive(Debug)]
pub(super) enum Left {
    Confirmed(Cleaned),
    /// The server refuses it, and it is tried again.
    NoAuth,
    /// There was no answer for so long.
    Late(Duration),
}

impl OwnedNode {
    /// Registers the node.
    pub(super) fn new(
        node: Arc<QueueNode>,
        siblings: Arc<Siblings>,
        nodes: Arc<EpochNodes>,
        room: Room,
    ) -> Self {
        siblings.enter(&node);
        Self { node, siblings, nodes, room: Some(room) }
    }

    pub(super) fn share(&self) -> SharedNode {
        let (node, siblings) = (self.node.clone(), self.siblings.clone());
        SharedNode { node, siblings, nodes: self.nodes.clone() }
    }

    /// Hands the delete to the client: the request is sent when this returns. `None` if the node is gone.
    pub(super) fn leave(mut self) -> Option<Leaving> {
        self.hand_over_delete()
    }

    fn hand_over_delete(&mut self) -> Option<Leaving> {
        let room = self.room.take()?;
        self.siblings.is_left(&self.node).then(|| Leaving {
            sent: Box::pin(delete(&self.nodes.epoch, &self.node.node)),
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
        drop(self.hand_over_delete().map(Leaving::see_to));
    }
}

/// A node whose delete was handed to the client.
#[must_use]
pub(super) struct Leaving {
    sent: BoxFuture<'static, Result<Cleaned, Failure>>,
    node: Arc<QueueNode>,
    nodes: Arc<EpochNodes>,
    room: Room,
    /// On the children, which fires by the delete: to drop it before would send a request.
    children: Option<Arc<Mutex<ChildrenWatch>>>,
}

impl Leaving {
    pub(super) fn with(self, children: Option<Arc<Mutex<ChildrenWatch>>>) -> Self {
        Self { children, ..self }
    }

    /// Has a task of the session's see the delete confirmed, and repeated if need be; then the room is free. The receiver
    /// gets the report for the waiter, and an error if the runtime is gone.
    pub(super) fn see_to(self) -> oneshot::Receiver<Left> {
        let (tell, told) = oneshot::channel();
        let session = self.nodes.session.clone();
        session.spawn(self.confirmed(tell).in_current_span());
        told
    }

    async fn confirmed(self, tell: oneshot::Sender<Left>) {
        let Self { sent, node, nodes, room, children } = self;
        let tell = Mutex::new(Some(tell));
        let say = |left| {
            if let Some(tell) = tell.lock().take() {
                let _ = tell.send(left); // whoever asked may not wait any more
            }
        };
        let (session, duty) = (&nodes.session, Duty::Delete(node.node.clone()));
        let refused = |error: &ClientError| {
            if error.is_no_auth() {
                say(Left::NoAuth);
            }
        };
        let mut deleting =
            std::pin::pin!(clean_up(session, nodes.epoch.clone(), duty, sent, refused));
        let patience = session.settings.connection_timeout;
        let cleaned = match timeout(patience, &mut deleting).await {
            Ok(cleaned) => cleaned,
            Err(_) => {
                say(Left::Late(patience));
                deleting.await
            }
        };
        drop((room, children));
        say(Left::Confirmed(cleaned));
    }
}
