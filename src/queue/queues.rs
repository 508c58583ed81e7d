//! The local queues of a session, by their paths.

use std::fmt;
use std::sync::Arc;

use super::by_path::ByPath;
use super::contending::Contending;
use super::driver::QueueDriver;
use super::epochs::Epochs;
use super::hold::{Hold, Queued};
use super::leases::{self, LeaseContending, LeaseRequest};
use super::request::Request;
use super::rules::admission::Family;
use super::shortcuts::Shortcuts;
use crate::lock_path::LockPath;
use crate::session::Session;

/// All local queues of a session.
pub(crate) struct Queues {
    epochs: Arc<Epochs>,
    /// Those in which tasks take turns.
    shared: ByPath<QueueDriver>,
}

impl Queues {
    pub(crate) fn new(session: Arc<Session>, rules: Shortcuts) -> Arc<Self> {
        Arc::new(Self { epochs: Epochs::new(session, rules), shared: ByPath::new() })
    }

    fn queue(&self, request: &Request) -> Arc<QueueDriver> {
        let new = || QueueDriver::new(&self.epochs, request.family.clone());
        if request.takes_turns {
            self.shared.at(&request.path, |queue| queue.family == request.family, new)
        } else {
            new()
        }
    }

    /// Queues up.
    pub(crate) fn contend(&self, request: Request, queued: Queued) -> Contending {
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
    pub(crate) fn contend_again(&self, request: Request, queued: Queued, lost: Hold) -> Contending {
        let queue = lost.driver().unwrap_or_else(|| self.queue(&request));
        Contending::again(queue, request, queued, lost)
    }

    /// Asks for leases.
    pub(crate) fn contend_for_leases(&self, request: LeaseRequest) -> LeaseContending {
        leases::contend(&self.epochs, self.queue(&request.lock), request)
    }
}

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queues").field("session", &self.epochs.session).finish_non_exhaustive()
    }
}
