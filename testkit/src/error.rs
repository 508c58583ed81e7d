//! The errors of a test server, each with advice.

use std::time::Duration;

use super::Backend;

/// The error of a test server's operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestkitError {
    /// No backend works.
    #[error("no ZooKeeper to test against; make one of these work:{reasons}")]
    NoBackend {
        /// The reason for each backend, one on a line.
        reasons: String,
    },
    /// A backend cannot be used on this machine.
    #[error("the backend `{backend}` cannot be used: {reason}")]
    Unavailable {
        /// The backend.
        backend: Backend,
        /// The missing requirement.
        reason: String,
    },
    /// The backend does not support the operation.
    #[error(
        "a server of the backend `{backend}` cannot {operation}; use one that the testkit owns (docker, process)"
    )]
    Unsupported {
        /// The operation.
        operation: &'static str,
        /// The server's backend.
        backend: Backend,
    },
    /// An option of the builder has an impossible value.
    #[error("the option `{option}` is `{value}`: {reason}")]
    InvalidOption {
        /// The option's name.
        option: &'static str,
        /// The given value.
        value: String,
        /// The reason why the value is impossible.
        reason: &'static str,
    },
    /// The server did not begin to serve in time, or ended instead. The message carries the end of its log.
    #[error("the {backend} server at {address} {fate}; the end of its log:\n{log}")]
    NotServing {
        /// The server's backend.
        backend: Backend,
        /// The server's address.
        address: String,
        /// `did not serve within ...` or `ended while it was starting`.
        fate: String,
        /// The last lines of the server's log.
        log: String,
    },
    /// Another process took the port between our check and the server's start, on several ports in turn.
    #[error("another process took every port tried on 127.0.0.1, the last was {port}")]
    PortTaken {
        /// The last port tried.
        port: u16,
    },
    /// An operation did not finish in time.
    #[error("cannot {operation}: not done after {waited:?}")]
    Timeout {
        /// The failed operation.
        operation: String,
        /// The time that the operation had.
        waited: Duration,
    },
    /// A file, a process, a connection or a request to the Docker daemon failed.
    #[error("cannot {operation}")]
    Failed {
        /// The failed operation.
        operation: String,
        /// The error of the system, the daemon or the client.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The session to be killed has expired or is closed.
    #[error("cannot kill the session {session}: the servers do not know it")]
    KillSession {
        /// The session's number.
        session: String,
    },
}

impl TestkitError {
    pub(super) fn cannot<E>(operation: impl Into<String>) -> impl FnOnce(E) -> Self
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let operation = operation.into();
        move |source| Self::Failed { operation, source: source.into() }
    }

    /// The message with those of all its causes, for a place that can hold text only.
    pub(super) fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}
