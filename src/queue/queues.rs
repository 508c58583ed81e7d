//! The local queues of a session, by their paths.

use std::fmt;
use std::sync::Arc;

use super::contending::Contending;
use super::current_nodes::CurrentNodes;
use super::driver::QueueDriver;
use super::hold::OwnedHold;
use super::leases::{self, LeaseContending, LeaseRequest};
use super::path_registry::PathRegistry;
use super::queued_flag::QueuedFlag;
use super::request::Request;
use super::rules::admission::Family;
use super::shortcuts::Shortcuts;
use crate::lock_path::LockPath;
use crate::session::Connection;

/// All local queues of a session.
pub(crate) struct Queues {
    current_nodes: Arc<CurrentNodes>,
    /// Those in which tasks take turns.
    shared: PathRegistry<QueueDriver>,
}

impl Queues {
    pub(crate) fn new(connection: Arc<Connection>, rules: Shortcuts) -> Arc<Self> {
        Arc::new(Self {
            current_nodes: CurrentNodes::new(connection, rules),
            shared: PathRegistry::new(),
        })
    }

    fn queue(&self, request: &Request) -> Arc<QueueDriver> {
        let new = || QueueDriver::new(&self.current_nodes, request.family.clone());
        if request.shares_queue {
            self.shared.at(&request.path, |queue| queue.family == request.family, new)
        } else {
            new()
        }
    }

    /// Queues up.
    pub(crate) fn contend(&self, request: Arc<Request>, queued: QueuedFlag) -> Contending {
        let queue = self.queue(&request);
        Contending::new(queue, request, queued)
    }

    /// How many tasks wait under a node that another one holds or waits with.
    pub(crate) fn waiting(&self, path: &LockPath, family: &Family) -> usize {
        let queue = self.shared.find(path, |queue| queue.family == *family);
        queue.map_or(0, |queue| queue.queued())
    }

    /// Queues up with the node of a hold that was lost, if that is still there: no other contender can have held meanwhile, unless the
    /// node was gone.
    pub(crate) fn contend_again(
        &self,
        request: Arc<Request>,
        queued: QueuedFlag,
        lost: OwnedHold,
    ) -> Contending {
        let queue = lost.driver().unwrap_or_else(|| self.queue(&request));
        Contending::again(queue, request, queued, lost)
    }

    /// Asks for leases.
    pub(crate) fn contend_for_leases(&self, request: LeaseRequest) -> LeaseContending {
        leases::contend(&self.current_nodes, self.queue(&request.lock), request)
    }
}

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queues")
            .field("session", &self.current_nodes.connection)
            .finish_non_exhaustive()
    }
}
