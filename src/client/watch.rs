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

/// The client's watcher; stays resolved. Dropping one that has not fired sends a request.
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

    /// Where the client panics, its task has ended with its runtime, and a caller on another runtime may still wait.
    fn poll_fired(&mut self, context: &mut Context<'_>) -> Poll<NodeEvent> {
        if self.happened.is_none() {
            let poll = AssertUnwindSafe(|| self.happens.as_mut().poll(context));
            let poll = catch_unwind(poll).unwrap_or(Poll::Ready(NodeEvent::SessionOver));
            self.happened = Some(ready!(poll));
        }
        self.happened.map_or(Poll::Pending, Poll::Ready)
    }

    /// What has happened, if something has. No task is woken for this.
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

/// A one-shot watch on a node's data and existence; resolves when it fires, and stays resolved.
#[derive(Debug)]
pub(crate) struct NodeWatch {
    watcher: Watcher,
    czxid: i64,
}

impl NodeWatch {
    pub(super) fn new(watcher: Watcher, czxid: i64) -> Self {
        Self { watcher, czxid }
    }

    /// The transaction that created the node.
    pub(crate) fn czxid(&self) -> i64 {
        self.czxid
    }

    /// What has happened to it, if something has. An event is delivered before the answers that the server
    /// sent after it.
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

/// A one-shot watch on the set of a node's children: fires when that changes, the node is deleted, or the session is over.
#[derive(Debug)]
pub(crate) struct ChildrenWatch {
    watcher: Watcher,
    /// What it takes of the session, until it is dropped.
    room: Option<OwnedSemaphorePermit>,
}

impl ChildrenWatch {
    pub(super) fn new(watcher: Watcher) -> Self {
        Self { watcher, room: None }
    }

    pub(crate) fn with(mut self, room: OwnedSemaphorePermit) -> Self {
        self.room = Some(room);
        self
    }

    pub(crate) async fn fired(mut self) {
        std::future::poll_fn(|context| self.poll_fired(context)).await;
    }

    pub(crate) fn poll_fired(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.watcher.poll_fired(context).map(drop)
    }

    /// Whether it has. A task that waits for it is not woken any more.
    pub(crate) fn has_fired(&mut self) -> bool {
        self.watcher.fired().is_some()
    }
}
