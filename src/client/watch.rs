//! One-shot watches.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use tokio::sync::OwnedSemaphorePermit;
use zookeeper_client as zk;

/// A part of the session's watch budget, in bytes of watched paths. Returned to the session when it is dropped.
pub(crate) type WatchPermit = OwnedSemaphorePermit;

/// The event that fired a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeEvent {
    Deleted,
    Changed,
    SessionOver,
}

/// The client's watcher, which stays resolved. Dropping a watcher that has not fired sends a request.
pub(super) struct Watcher {
    happens: Pin<Box<dyn Future<Output = NodeEvent> + Send>>,
    happened: Option<NodeEvent>,
}

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

    pub(super) fn new(happens: impl Future<Output = NodeEvent> + Send + 'static) -> Self {
        Self { happens: Box::pin(happens), happened: None }
    }

    /// If the client panics, its task has ended with its runtime, and the caller waits on another runtime.
    fn poll_fired(&mut self, context: &mut Context<'_>) -> Poll<NodeEvent> {
        if self.happened.is_none() {
            let poll = AssertUnwindSafe(|| self.happens.as_mut().poll(context));
            let poll = catch_unwind(poll).unwrap_or(Poll::Ready(NodeEvent::SessionOver));
            self.happened = Some(ready!(poll));
        }
        self.happened.map_or(Poll::Pending, Poll::Ready)
    }

    /// Returns the event, if the watch has fired. No task is woken by this call.
    fn fired(&mut self) -> Option<NodeEvent> {
        let _ = self.poll_fired(&mut Context::from_waker(Waker::noop()));
        self.happened
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("happened", &self.happened).finish_non_exhaustive()
    }
}

/// A one-shot watch on a node's data and existence. Resolves when it fires, and stays resolved.
#[derive(Debug)]
pub(crate) struct NodeWatch {
    watcher: Watcher,
    czxid: i64,
}

impl NodeWatch {
    pub(super) fn new(watcher: Watcher, czxid: i64) -> Self {
        Self { watcher, czxid }
    }

    /// Returns the transaction that created the node.
    pub(crate) fn czxid(&self) -> i64 {
        self.czxid
    }

    /// Returns the event, if the watch has fired. An event is delivered before the answers that the server sent after it.
    pub(crate) fn fired(&mut self) -> Option<NodeEvent> {
        self.watcher.fired()
    }
}

impl Future for NodeWatch {
    type Output = NodeEvent;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<NodeEvent> {
        self.watcher.poll_fired(context)
    }
}

/// A one-shot watch on the set of a node's children. Fires when the set changes, the node is deleted, or the session is over.
#[derive(Debug)]
pub(crate) struct ChildrenWatch {
    watcher: Watcher,
    permit: Option<WatchPermit>,
}

impl ChildrenWatch {
    pub(super) fn new(watcher: Watcher) -> Self {
        Self { watcher, permit: None }
    }

    /// Keeps the permit until the watch is dropped.
    pub(crate) fn with(mut self, permit: WatchPermit) -> Self {
        self.permit = Some(permit);
        self
    }

    pub(crate) async fn fired(mut self) {
        std::future::poll_fn(|context| self.poll_fired(context)).await;
    }

    pub(crate) fn poll_fired(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.watcher.poll_fired(context).map(drop)
    }

    /// Returns true if the watch has fired. A task that waits for the watch is no longer woken.
    pub(crate) fn has_fired(&mut self) -> bool {
        self.watcher.fired().is_some()
    }
}
