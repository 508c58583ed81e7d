//! One-shot watches.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use tokio::sync::OwnedSemaphorePermit;
use zookeeper_client as zk;

/// What happened to a watched node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeEvent {
    Deleted,
    Changed,
    SessionOver,
}

/// The client's watcher. Dropping one that has not fired sends a request.
pub(super) struct Watcher(Pin<Box<dyn Future<Output = NodeEvent> + Send>>);

impl Watcher {
    pub(super) fn of(watcher: zk::OneshotWatcher) -> Self {
        let changed = watcher.changed();
        Self::new(async move {
            match changed.await.event_type {
                zk::EventType::Session => NodeEvent::SessionOver,
                zk::EventType::NodeDeleted => NodeEvent::Deleted,
                _ => NodeEvent::Changed,
            }
        })
    }

    pub(super) fn new(happened: impl Future<Output = NodeEvent> + Send + 'static) -> Self {
        Self(Box::pin(happened))
    }
}

impl Future for Watcher {
    type Output = NodeEvent;

    /// Where the client panics, its task has ended with its runtime, and a caller on another runtime may still wait.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let changed = AssertUnwindSafe(|| self.0.as_mut().poll(context));
        catch_unwind(changed).unwrap_or(Poll::Ready(NodeEvent::SessionOver))
    }
}

/// A one-shot watch on a node's data and existence; resolves when it fires, and stays resolved.
pub(crate) struct NodeWatch {
    watcher: Watcher,
    fired: Option<NodeEvent>,
    czxid: i64,
}

impl NodeWatch {
    pub(super) fn new(watcher: Watcher, czxid: i64) -> Self {
        Self { watcher, fired: None, czxid }
    }

    /// The transaction that created the node.
    pub(crate) fn czxid(&self) -> i64 {
        self.czxid
    }

    /// What has happened to it, if something has. An event is delivered before the answers that the server
    /// sent after it.
    pub(crate) fn fired(&mut self) -> Option<NodeEvent> {
        match Pin::new(self).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(event) => Some(event),
            Poll::Pending => None,
        }
    }
}

impl Future for NodeWatch {
    type Output = NodeEvent;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<NodeEvent> {
        if let Some(event) = self.fired {
            return Poll::Ready(event);
        }
        let event = ready!(Pin::new(&mut self.watcher).poll(context));
        self.fired = Some(event);
        Poll::Ready(event)
    }
}

impl fmt::Debug for NodeWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeWatch").field("fired", &self.fired).finish_non_exhaustive()
    }
}

/// A one-shot watch on the set of a node's children: fires when that changes, the node is deleted, or the session is over.
pub(crate) struct ChildrenWatch {
    watcher: Watcher,
    fired: bool,
    /// What it takes of the session, until it is dropped.
    room: Option<OwnedSemaphorePermit>,
}

impl ChildrenWatch {
    pub(super) fn new(watcher: Watcher) -> Self {
        Self { watcher, fired: false, room: None }
    }

    pub(crate) fn with(mut self, room: OwnedSemaphorePermit) -> Self {
        self.room = Some(room);
        self
    }

    pub(crate) async fn fired(mut self) {
        std::future::poll_fn(|context| self.poll_fired(context)).await;
    }

    pub(crate) fn poll_fired(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.fired {
            ready!(Pin::new(&mut self.watcher).poll(context));
            self.fired = true;
        }
        Poll::Ready(())
    }

    /// Whether it has. A task that waits for it is not woken any more.
    pub(crate) fn has_fired(&mut self) -> bool {
        self.poll_fired(&mut Context::from_waker(Waker::noop())).is_ready()
    }
}

impl fmt::Debug for ChildrenWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildrenWatch").field("fired", &self.fired).finish_non_exhaustive()
    }
}
