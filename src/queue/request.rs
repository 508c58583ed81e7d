//! The request of a caller, and the errors that its failures become.

use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use super::hold::{End, HoldState};
use super::local_queue::Waiter;
use crate::client::{ClientError, Failure, Listing};
use crate::error::{Error, ErrorKind};
use crate::lock_path::LockPath;
use crate::metrics::LockLabels;
use crate::queue::rules::admission::Family;
use crate::queue::rules::node_name::Kind;
use crate::session::retry::RetryPolicy;
use crate::session::{Connection, NoSession};

/// The task or thread that asks for a lock. Good enough for a warning, never for ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requester {
    Task(tokio::task::Id),
    Thread(ThreadId),
}

impl Requester {
    pub(crate) fn current() -> Self {
        match tokio::task::try_id() {
            Some(task) => Self::Task(task),
            None => Self::Thread(std::thread::current().id()),
        }
    }
}

/// A request for a hold.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) path: LockPath,
    pub(crate) family: Family,
    pub(crate) kind: Kind,
    /// The part that the local queue decides by.
    pub(crate) waiter: Arc<Waiter>,
    /// The write hold of which a read is a companion. The read needs no place in the queue while the write hold lasts.
    pub(crate) companion: Option<Arc<HoldState>>,
    pub(crate) retry: RetryPolicy,
    /// List the path before a node is created, and create none that would be refused.
    pub(crate) check_first: bool,
    /// The labels of the request's metrics.
    pub(crate) counted: LockLabels,
}

impl Request {
    pub(crate) fn waiter_mut(&mut self) -> &mut Waiter {
        Arc::make_mut(&mut self.waiter)
    }

    /// Returns true if the hold is shared with others of its kind.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.kind, Kind::Read | Kind::Lease)
    }

    /// Fails if a listing shows a contender of another recipe. Only a contender that enters asks: one on the wrong path must not
    /// fail existing waiters.
    pub(super) fn check_unmixed(&self, listing: &Listing) -> Result<(), EntryAborted> {
        let Some(child) = self.family.other_recipe(&listing.children) else { return Ok(()) };
        let path = &self.path;
        let text = format!(
            "{child} under {path} is of another recipe, which this lock does not keep out; \
             use a path for one recipe, or remove the child if it is not used"
        );
        Err(EntryAborted::Failed(Error::new(ErrorKind::UnusablePath, text).at(path)))
    }

    pub(super) fn session_error(&self, error: Error) -> Error {
        error.while_doing(format_args!("cannot acquire {}", self.path)).at(&self.path)
    }

    pub(super) fn exhausted(&self, source: Option<ClientError>) -> Error {
        Error::gave_up(&self.path, &self.retry).because(source)
    }

    /// The error for a caller whose retry policy is exhausted. `closed` is the error of a connection that opens no further
    /// session.
    pub(super) fn gave_up(&self, closed: Option<Error>, cause: Option<ClientError>) -> Error {
        match closed {
            Some(error) => self.session_error(error),
            None => self.exhausted(cause),
        }
    }

    /// Fails if the write hold of a companion read has ended.
    pub(super) fn check_companion(&self) -> Result<(), EntryAborted> {
        match self.companion.as_ref().and_then(|write| write.end()) {
            None => Ok(()),
            Some(End::Lost(loss)) => Err(EntryAborted::Failed(Error::lost(&self.path, loss))),
            Some(End::Released) => {
                let text =
                    format!("the write hold of {} beside which to read was released", self.path);
                Err(EntryAborted::Failed(Error::new(ErrorKind::Closed, text).at(&self.path)))
            }
        }
    }

    /// Converts a failure that is not retried.
    pub(super) fn aborted(
        &self,
        path: &str,
        operation: &'static str,
        failure: Failure,
    ) -> EntryAborted {
        match failure {
            failure @ Failure::Refused(_) => {
                EntryAborted::Failed(failure.into_error(path, operation))
            }
            Failure::SessionOver(cause) => EntryAborted::Retry(Some(cause)),
            failure => EntryAborted::Failed(self.exhausted(failure.into_source())),
        }
    }
}

/// Why an attempt to enter the queue was aborted.
#[derive(Debug)]
pub(super) enum EntryAborted {
    /// No caller waits any longer that may hold by the node.
    Abandoned,
    /// The znode was deleted, the session ended, or a request was not answered: the entry can be retried.
    Retry(Option<ClientError>),
    Failed(Error),
}

/// Returns the error if no further session will be opened. The supervisor may be about to report it, so this waits a moment.
pub(super) async fn closed_error(connection: &Connection) -> Option<Error> {
    match connection.session(Duration::from_millis(100)).await {
        Err(NoSession::Closed(error)) => Some(error),
        Ok(_) | Err(NoSession::NotConnected) => None,
    }
}
