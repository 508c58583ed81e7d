//! The local queues of a connection.

use std::fmt;
use std::sync::Arc;

use tokio::sync::Mutex;

use super::contending::Contending;
use super::driver::QueueDriver;
use super::hold::OwnedHold;
use super::path_registry::PathRegistry;
use super::permits::{self, PermitRequest};
use super::queued_flag::QueuedFlag;
use super::request::Request;
use super::rules::admission::Family;
use super::rules::node_name::Kind;
use super::session_nodes::CurrentNodes;
use crate::lock_path::LockPath;
use crate::session::Connection;

/// All local queues of a connection.
pub(crate) struct Queues {
    current_nodes: Arc<CurrentNodes>,
    /// The queues that all tasks of this connection share.
    shared: PathRegistry<QueueDriver>,
    /// The turns of the persistent nodes of this connection, which have no queue.
    kept: PathRegistry<Mutex<()>>,
}

impl Queues {
    pub(crate) fn new(connection: Arc<Connection>) -> Arc<Self> {
        let current_nodes = CurrentNodes::new(connection);
        Arc::new(Self { current_nodes, shared: PathRegistry::new(), kept: PathRegistry::new() })
    }

    fn queue(&self, request: &Request) -> Arc<QueueDriver> {
        let shared = request.waiter.shared;
        let new = || QueueDriver::new(&self.current_nodes, request.family.clone(), shared);
        if request.waiter.shares_queue {
            let matches = |queue: &QueueDriver| queue.takes(&request.family, shared);
            self.shared.at(&request.path, matches, new)
        } else {
            new()
        }
    }

    /// Queues up.
    pub(crate) fn contend(&self, request: Arc<Request>, queued: QueuedFlag) -> Contending {
        let queue = self.queue(&request);
        if request.family == Family::ReadWrite || !request.waiter.shares_queue {
            let is_other = |other: &QueueDriver| {
                other.family == request.family && !std::ptr::eq(other, &*queue)
            };
            if let Some(other) = self.shared.find(&request.path, is_other) {
                other.end_retention();
            }
        }
        Contending::new(queue, request, queued)
    }

    /// The number of tasks that wait under a node of this kind of another task.
    pub(crate) fn waiting(&self, path: &LockPath, family: &Family, kind: Kind) -> usize {
        let shared = kind == Kind::Read;
        let queue = self.shared.find(path, |queue| queue.takes(family, shared));
        queue.map_or(0, |queue| queue.queued())
    }

    /// Queues up with the node of a hold that was lost, if the node still exists: no other contender can have held meanwhile,
    /// unless the node was deleted.
    pub(crate) fn contend_again(
        &self,
        request: Arc<Request>,
        queued: QueuedFlag,
        lost: OwnedHold,
    ) -> Contending {
        let queue = lost.driver().unwrap_or_else(|| self.queue(&request));
        Contending::again(queue, request, queued, lost)
    }

    /// Returns the mutex of the persistent nodes at a path: one of them at a time has a znode there.
    pub(crate) fn turn_to_keep(&self, path: &LockPath) -> Arc<Mutex<()>> {
        self.kept.at(path, |_| true, Arc::default)
    }

    /// Acquires permits of a semaphore. Dropping the future withdraws.
    pub(crate) async fn acquire_permits(&self, request: PermitRequest) -> permits::Answer {
        permits::contend(&self.current_nodes, self.queue(&request.mutex), request).await
    }
}

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connection = &self.current_nodes.connection;
        f.debug_struct("Queues").field("connection", connection).finish_non_exhaustive()
    }
}
