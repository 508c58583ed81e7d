//! What is asked for, and what is said of it when it fails.

use std::sync::Arc;
use std::time::Duration;

use super::hold::{End, HoldState};
use super::local_queue::Waiter;
use crate::client::{Acl, ClientError, Failure};
use crate::error::{Error, ErrorKind};
use crate::lock_path::LockPath;
use crate::metrics::Lock;
use crate::queue::rules::admission::Family;
use crate::queue::rules::node_name::Kind;
use crate::session::lease::LossPolicy;
use crate::session::retry::RetryPolicy;
use crate::session::{Connection, NoSession};

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) path: LockPath,
    pub(crate) family: Family,
    pub(crate) kind: Kind,
    /// Whether it takes turns with others of its session under one node.
    pub(crate) shares_queue: bool,
    /// Whether its hold has a node, and so a fencing token, of its own.
    pub(crate) node_per_hold: bool,
    /// For how long the node is kept when no task of this session wants it.
    pub(crate) retention: Duration,
    /// A read beside this write hold, which must be there: it needs no turn of its own.
    pub(crate) companion: Option<Arc<HoldState>>,
    /// The node's data.
    pub(crate) data: Arc<[u8]>,
    pub(crate) acls: Arc<[Acl]>,
    pub(crate) retry: RetryPolicy,
    pub(crate) loss_policy: LossPolicy,
    /// Leave rather than wait.
    pub(crate) no_wait: bool,
    /// Lists before it makes a node.
    pub(crate) check_first: bool,
    /// What it is counted as.
    pub(crate) counted: Lock,
}

/// What makes one node as another: data and ACLs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NodeSpec {
    pub(super) data: Arc<[u8]>,
    pub(super) acls: Arc<[Acl]>,
}

impl Request {
    /// Whether it holds together with others like it.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.kind, Kind::Read | Kind::Lease)
    }

    pub(super) fn node_spec(&self) -> NodeSpec {
        NodeSpec { data: self.data.clone(), acls: self.acls.clone() }
    }

    /// What counts of it in the queue.
    pub(super) fn waiter(&self) -> Waiter {
        Waiter {
            node: self.node_spec(),
            shares_queue: self.shares_queue,
            node_per_hold: self.node_per_hold,
            no_wait: self.no_wait,
            retention: self.retention,
            loss_policy: self.loss_policy,
        }
    }

    pub(super) fn mixed(&self, child: &str) -> Error {
        let path = &self.path;
        let text = format!(
            "{child} under {path} is of another recipe, which this lock does not keep out; \
             use a path for one recipe, or remove the child if it is not used"
        );
        Error::new(ErrorKind::UnusablePath, text).at(path)
    }

    pub(super) fn session_error(&self, error: Error) -> Error {
        error.while_doing(format_args!("cannot acquire {}", self.path)).at(&self.path)
    }

    pub(super) fn exhausted(&self, source: Option<ClientError>) -> Error {
        Error::unavailable(&self.path, None).because(source)
    }

    /// What a caller gets whose policy allows no further try; `over`: there will be no session again.
    pub(super) fn gave_up(&self, over: Option<Error>, cause: Option<ClientError>) -> Error {
        match over {
            Some(error) => self.session_error(error),
            None => self.exhausted(cause),
        }
    }

    /// Fails when the write hold that a read was to be beside is over.
    pub(super) fn companion_lasts(&self) -> Result<(), EntryAborted> {
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

    /// What a request means that the policy does not repeat any more.
    pub(super) fn stop(
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

/// Why an entering did not come to its end.
#[derive(Debug)]
pub(super) enum EntryAborted {
    /// No task waits any more.
    Abandoned,
    /// Another contender is first, and the caller asked not to wait.
    Busy,
    /// The node is gone, or the session, or a request was not answered: it can be tried anew.
    Retry(Option<ClientError>),
    Failed(Error),
}

/// Why there will never be a session again, if so. The supervisor may be about to say it.
pub(super) async fn is_session_over(connection: &Connection) -> Option<Error> {
    match connection.session(Duration::from_millis(100)).await {
        Err(NoSession::Closed(error)) => Some(error),
        Ok(_) | Err(NoSession::NotConnected) => None,
    }
}
