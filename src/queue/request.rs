//! What is asked for, and what is said of it when it fails.

use std::sync::Arc;
use std::time::Duration;

use super::hold::HoldState;
use crate::admission::Family;
use crate::client::{Acl, ClientError, Failure};
use crate::contender_name::Kind;
use crate::error::{AcquireError, SessionError};
use crate::lock_path::LockPath;
use crate::metrics::Lock;
use crate::retry::RetryPolicy;
use crate::session::lease::LossPolicy;
use crate::session::{NoEpoch, Session};

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) path: LockPath,
    pub(crate) family: Family,
    pub(crate) kind: Kind,
    /// Whether it takes turns with others of its session under one node.
    pub(crate) takes_turns: bool,
    /// Whether its hold has a node, and so a fencing token, of its own.
    pub(crate) node_per_hold: bool,
    /// For how long the node is kept when nobody of this session wants it.
    pub(crate) retention: Duration,
    /// A read beside this write hold, which must be there: it needs no turn of its own.
    pub(crate) beside: Option<Arc<HoldState>>,
    /// The node's data.
    pub(crate) data: Arc<[u8]>,
    pub(crate) acls: Arc<[Acl]>,
    pub(crate) retry: RetryPolicy,
    pub(crate) loss_policy: LossPolicy,
    /// Leave rather than wait.
    pub(crate) only_if_free: bool,
    /// Lists before it makes a node.
    pub(crate) looks_first: bool,
    /// What it is counted as.
    pub(crate) counted: Lock,
}

impl Request {
    /// Whether it holds together with others like it.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.kind, Kind::Read | Kind::Lease)
    }

    /// Whether its node would be as the other's.
    pub(super) fn has_node_of(&self, other: &Self) -> bool {
        self.data == other.data && self.acls == other.acls
    }

    /// Whether a node that was made for it may pass to `next`.
    pub(super) fn passes_to(&self, next: &Self) -> bool {
        self.takes_turns && self.has_node_of(next) && !self.node_per_hold && !next.node_per_hold
    }

    pub(super) fn mixed(&self, child: String) -> AcquireError {
        AcquireError::OtherRecipe { path: self.path.to_string(), child }
    }

    pub(super) fn session_error(&self, source: SessionError) -> AcquireError {
        AcquireError::Session { path: self.path.to_string(), source }
    }

    pub(super) fn exhausted(&self, source: Option<ClientError>) -> AcquireError {
        AcquireError::RetriesExhausted { path: self.path.to_string(), source }
    }

    /// Fails when the write hold that a read was to be beside is over.
    pub(super) fn beside_lasts(&self) -> Result<(), Stop> {
        match self.beside.as_ref().and_then(|write| write.end()) {
            None => Ok(()),
            Some(loss) => {
                Err(Stop::Failed(AcquireError::HoldLost { path: self.path.to_string(), loss }))
            }
        }
    }

    /// What a request means that the policy does not repeat any more.
    pub(super) fn stop(&self, path: &str, operation: &'static str, failure: Failure) -> Stop {
        match failure {
            Failure::Refused(error) => Stop::Failed(refusal(path, operation, error)),
            Failure::SessionOver(cause) => Stop::Again(Some(cause)),
            failure => Stop::Failed(self.exhausted(failure.into_source())),
        }
    }
}

/// Why an entering did not come to its end.
#[derive(Debug)]
pub(super) enum Stop {
    /// Nobody waits any more.
    Abandoned,
    /// Somebody else is first, and the caller asked not to wait.
    Busy,
    /// The node is gone, or the epoch, or a request was not answered: it can be tried anew.
    Again(Option<ClientError>),
    Failed(AcquireError),
}

/// Why there will never be a session again, if so. The supervisor may be about to say it.
pub(super) async fn is_session_over(session: &Session) -> Option<SessionError> {
    match session.epoch(Duration::from_millis(100)).await {
        Err(NoEpoch::Over(error)) => Some(error),
        Ok(_) | Err(NoEpoch::NotNow) => None,
    }
}

/// What a definite refusal means to whoever asked.
pub(crate) fn refusal(path: &str, operation: &'static str, source: ClientError) -> AcquireError {
    let path = path.to_owned();
    if source.is_no_auth() {
        AcquireError::NoAuth { path, operation }
    } else if source.is_invalid_acl() {
        AcquireError::InvalidAcl { path }
    } else if source.is_ephemeral_parent() {
        AcquireError::EphemeralParent { path }
    } else {
        AcquireError::Refused { path, operation, source }
    }
}
