//! [`Failure`]: a failed request, sorted by what may have happened.

use std::fmt::Display;
use std::sync::Arc;

use zookeeper_client as zk;

use crate::error::{Error, ErrorKind, Source};

/// The ZooKeeper client's error. Opaque: it is for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ClientError(pub(super) zk::Error);

impl From<ClientError> for Source {
    fn from(error: ClientError) -> Self {
        Arc::new(error.0)
    }
}

/// A failed request, sorted by what may have happened.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The server says that the node does not exist. Nothing was changed.
    NoNode,
    /// The server says that the node exists already. Nothing was changed.
    NodeExists,
    /// The server refused, and will refuse again. Nothing was changed.
    Refused(ClientError),
    /// The server did not serve the request now, and may later. Nothing was changed.
    NotNow(ClientError),
    /// No server answered: the request may have taken effect, or may yet.
    Unknown(ClientError),
    /// The session is over: the request may have taken effect before.
    SessionOver(ClientError),
}

impl Failure {
    pub(super) fn of(error: zk::Error) -> Self {
        use zk::Error as E;
        match error {
            E::NoNode => Failure::NoNode,
            E::NodeExists => Failure::NodeExists,
            E::NoAuth
            | E::BadVersion
            | E::NoChildrenForEphemerals
            | E::NotEmpty
            | E::InvalidAcl
            | E::NoWatcher
            | E::QuotaExceeded
            | E::MarshallingError
            | E::Unimplemented
            | E::BadArguments(_)
            | E::ReconfigDisabled => Failure::Refused(ClientError(error)),
            E::Throttled | E::NotReadOnly | E::SessionMoved => Failure::NotNow(ClientError(error)),
            E::SessionExpired | E::AuthFailed | E::ClientClosed => {
                Failure::SessionOver(ClientError(error))
            }
            // Among these are codes that the client does not know: an unknown answer is not a refusal.
            _ => Failure::Unknown(ClientError(error)),
        }
    }

    /// The failure of a request after the end of its session.
    pub(crate) fn session_over() -> Self {
        Failure::SessionOver(ClientError(zk::Error::ClientClosed))
    }

    /// Converts the failure of a request that changes nothing, or that was answered.
    pub(crate) fn into_error(self, path: &str, operation: &str) -> Error {
        let of = |kind, text: String| Error::new(kind, text).at(path);
        match self {
            Self::NoNode => of(ErrorKind::NotFound, format!("{path} or its parent does not exist")),
            Self::NodeExists => of(ErrorKind::AlreadyExists, format!("{path} exists already")),
            Self::Refused(source) if source.is_no_auth() => {
                // A lock path may exist without the permission to create a contender's node under it.
                let or_under = if operation == "create" { " or a node under it" } else { "" };
                let text = format!(
                    "no permission to {operation} {path}{or_under}; check its ACL and the credentials of this session"
                );
                of(ErrorKind::PermissionDenied, text).because(Some(source))
            }
            Self::Refused(source) if source.0 == zk::Error::InvalidAcl => {
                let reason = "the server rejects them";
                let error = Error::invalid("acls", format_args!("for {path}"), reason);
                error.at(path).because(Some(source))
            }
            Self::Refused(source) if source.0 == zk::Error::NoChildrenForEphemerals => {
                let text = format!(
                    "{path} is or lies below an ephemeral node, which cannot have children"
                );
                of(ErrorKind::UnusablePath, text).because(Some(source))
            }
            Self::Refused(source) if source.0 == zk::Error::QuotaExceeded => {
                let text = format!(
                    "the quota of {path} or of a node above it is used up: the server refuses to {operation} it"
                );
                of(ErrorKind::Refused, text).because(Some(source))
            }
            // The handshake does not tell the version, so the first request shows it.
            Self::Refused(source) if source.0 == zk::Error::Unimplemented => {
                let text = format!(
                    "the server does not know the request to {operation} {path}; ZooKeeper 3.5 or newer is needed"
                );
                of(ErrorKind::Refused, text).because(Some(source))
            }
            Self::Refused(source) => {
                let text = format!("the server refuses to {operation} {path}");
                of(ErrorKind::Refused, text).because(Some(source))
            }
            failure => Error::unavailable(path, None).because(failure.into_source()),
        }
    }

    /// Converts the failure of a write, which may have taken effect if there was no answer.
    pub(crate) fn into_write_error(self, path: &str) -> Error {
        match self {
            Self::Unknown(source) | Self::SessionOver(source) => {
                Error::unknown(path).because(Some(source))
            }
            failure => failure.into_error(path, "write"),
        }
    }

    /// Returns the client's error.
    pub(crate) fn into_source(self) -> Option<ClientError> {
        match self {
            Failure::NoNode => Some(ClientError(zk::Error::NoNode)),
            Failure::NodeExists => Some(ClientError(zk::Error::NodeExists)),
            Failure::Refused(e)
            | Failure::NotNow(e)
            | Failure::Unknown(e)
            | Failure::SessionOver(e) => Some(e),
        }
    }
}

impl ClientError {
    pub(crate) fn is_no_auth(&self) -> bool {
        self.0 == zk::Error::NoAuth
    }

    pub(crate) fn is_bad_version(&self) -> bool {
        self.0 == zk::Error::BadVersion
    }
}

/// A request that failed.
#[derive(Debug)]
pub(crate) struct Failed {
    /// The path of the request, or one above it.
    pub(crate) path: String,
    pub(crate) operation: &'static str,
    pub(crate) failure: Failure,
}

impl Failed {
    pub(crate) fn at(path: impl Display, operation: &'static str, failure: Failure) -> Self {
        Self { path: path.to_string(), operation, failure }
    }

    pub(crate) fn into_error(self) -> Error {
        self.failure.into_error(&self.path, self.operation)
    }
}

/// The failure of [`Client::write_while_there`](super::Client::write_while_there).
#[derive(Debug)]
pub(crate) enum WriteFailure {
    /// The other node does not exist: nothing was written.
    NotThere,
    /// The other node could not be checked.
    Check(Failure),
    /// The write itself failed.
    Write(Failure),
}

impl WriteFailure {
    pub(super) fn of(error: zk::CheckWriteError) -> Self {
        match error {
            zk::CheckWriteError::CheckFailed { source } => Self::at(Some(0), source),
            zk::CheckWriteError::OperationFailed { source, .. } => Self::at(Some(1), source),
            zk::CheckWriteError::RequestFailed { source } => Self::at(None, source),
        }
    }

    /// Sorts the error of one step of the transaction, where the check is step 0, or of the whole request.
    pub(super) fn at(step: Option<usize>, error: zk::Error) -> Self {
        // An answer about one step means that no step took effect, whatever its code.
        let definite = |error| match Failure::of(error) {
            Failure::Unknown(error) => Failure::Refused(error),
            failure => failure,
        };
        match (step, error) {
            (Some(0), zk::Error::NoNode) => Self::NotThere,
            (Some(0), error) => Self::Check(definite(error)),
            (Some(_), error) => Self::Write(definite(error)),
            (None, error) => Self::Write(Failure::of(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_too_old_is_named() {
        let error = Failure::of(zk::Error::Unimplemented).into_error("/a", "create");
        assert!(error.to_string().contains("ZooKeeper 3.5 or newer"), "{error}");
    }

    #[test]
    fn only_answers_of_the_server_are_definite() {
        use zk::Error as E;
        let unknown = [
            E::ConnectionLoss,
            E::Timeout,
            E::NoHosts,
            E::RuntimeInconsistent,
            E::UnexpectedError("x".into()),
            E::UnexpectedErrorCode(-1),
            E::UnexpectedErrorCode(-7),
        ];
        for error in unknown {
            assert!(matches!(Failure::of(error.clone()), Failure::Unknown(_)), "{error:?}");
        }
        for error in [E::SessionExpired, E::ClientClosed, E::AuthFailed] {
            assert!(matches!(Failure::of(error.clone()), Failure::SessionOver(_)), "{error:?}");
        }
        for error in [E::Throttled, E::NotReadOnly, E::SessionMoved] {
            assert!(matches!(Failure::of(error.clone()), Failure::NotNow(_)), "{error:?}");
        }
        for error in [E::NoAuth, E::InvalidAcl, E::NoChildrenForEphemerals, E::QuotaExceeded] {
            assert!(matches!(Failure::of(error.clone()), Failure::Refused(_)), "{error:?}");
        }
    }
}
