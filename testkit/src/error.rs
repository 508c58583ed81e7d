//! What can go wrong with a test server, and what to do about it.

use std::io;
use std::time::Duration;

use super::Backend;

/// A cause of any kind; the Docker client's types stay out of our API.
pub(super) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a test server cannot do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestkitError {
    /// A variable names a backend that does not exist.
    #[error("{variable} is `{value}`: set it to `external`, `docker` or `process`, or unset it")]
    UnknownBackend {
        /// The variable's name.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// None of the ways to a server works.
    #[error(
        "no ZooKeeper to test against; make one of these work:\n\
         - external (set ZOOKEEPER_CONNECT): {external}\n\
         - docker (run a Docker daemon, ZOOKEEPER_IMAGE names the image): {docker}\n\
         - process (install Java and ZooKeeper, or set ZOOKEEPER_HOME): {process}"
    )]
    NoBackend {
        /// Why there is no external server.
        external: String,
        /// Why there is no container.
        docker: String,
        /// Why there is no process.
        process: String,
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
    /// The port was taken by somebody else between our check and the server's start. The testkit tries others first.
    #[error("every port tried on 127.0.0.1 was taken by somebody else, {port} was the last")]
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
    /// The Docker daemon refused a request or does not answer.
    #[error("Docker cannot {operation}")]
    Docker {
        /// What was asked of it.
        operation: String,
        /// The daemon's or the client's error.
        #[source]
        source: Cause,
    },
    /// A file, a process or a connection failed.
    #[error("cannot {operation}")]
    Io {
        /// What was tried.
        operation: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The session to be killed could not be joined or closed. One that is already gone ends here too.
    #[error("cannot kill the session {session}")]
    KillSession {
        /// The session's number.
        session: String,
        /// The client's error.
        #[source]
        source: zookeeper_client::Error,
    },
}

impl TestkitError {
    pub(super) fn io(operation: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let operation = operation.into();
        move |source| Self::Io { operation, source }
    }

    pub(super) fn docker<E: Into<Cause>>(operation: impl Into<String>) -> impl FnOnce(E) -> Self {
        let operation = operation.into();
        move |source| Self::Docker { operation, source: source.into() }
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
