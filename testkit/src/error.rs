//! What can go wrong with a test server, and what to do about it.

use std::time::Duration;

use super::Backend;

/// Why a test server cannot do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestkitError {
    /// None of the ways to a server works.
    #[error("no ZooKeeper to test against; make one of these work:{reasons}")]
    NoBackend {
        /// Why each of them does not work, a line each.
        reasons: String,
    },
    /// A backend misses something on this machine.
    #[error("the backend `{backend}` cannot be used: {reason}")]
    Unavailable {
        /// The backend.
        backend: Backend,
        /// What it misses.
        reason: String,
    },
    /// The backend has no such operation.
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
        /// Its value.
        value: String,
        /// Why it is impossible.
        reason: &'static str,
    },
    /// The server did not begin to serve in time, or ended instead. The message carries the end of its log.
    #[error("the {backend} server at {address} {fate}; the end of its log:\n{log}")]
    NotServing {
        /// The server's backend.
        backend: Backend,
        /// Its address.
        address: String,
        /// `did not serve within ...` or `ended while it was starting`.
        fate: String,
        /// The last lines of its log.
        log: String,
    },
    /// Another process took the port between our check and the server's start. The testkit tries others first.
    #[error("another process took every port tried on 127.0.0.1, the last was {port}")]
    PortTaken {
        /// The last port tried.
        port: u16,
    },
    /// Something did not happen in time.
    #[error("cannot {operation}: not done after {waited:?}")]
    Timeout {
        /// What was tried.
        operation: String,
        /// How long.
        waited: Duration,
    },
    /// A file, a process, a connection or a request to the Docker daemon failed.
    #[error("cannot {operation}")]
    Failed {
        /// What was tried.
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
