//! A server of any backend, and the code that a single server and a member of an ensemble share.

use std::path::Path;

use super::backend::variable;
#[cfg(feature = "testcontainers")]
use super::container::Container;
use super::options::ServerOptions;
use super::process::Process;
use super::seat::Seat;
use super::{Backend, TestkitError};

/// The variable that forces a backend.
const VARIABLE: &str = "ZOOKEEPER_BACKEND";

impl Backend {
    /// Calls `start` with the forced backend, or else with each backend until one succeeds.
    pub(super) async fn choose<T, F>(
        forced: Option<Self>,
        start: impl Fn(Self) -> F,
    ) -> Result<T, TestkitError>
    where
        F: Future<Output = Result<T, TestkitError>>,
    {
        if let Some(backend) = forced.map_or_else(Self::from_environment, |one| Ok(Some(one)))? {
            return start(backend).await;
        }
        let mut reasons = String::new();
        for backend in Self::ALL {
            match start(backend).await {
                Ok(started) => return Ok(started),
                Err(error) => reasons += &format!("\n- {}", error.chain()),
            }
        }
        Err(TestkitError::NoBackend { reasons })
    }

    fn from_environment() -> Result<Option<Self>, TestkitError> {
        let Some(value) = variable(VARIABLE) else {
            return Ok(None);
        };
        let named = Self::ALL.into_iter().find(|backend| backend.to_string() == value);
        let reason = "set it to `external`, `docker` or `process`, or unset it";
        named.map(Some).ok_or(TestkitError::InvalidOption { option: VARIABLE, value, reason })
    }
}

#[derive(Debug)]
pub(super) enum Machine {
    External,
    #[cfg(feature = "testcontainers")]
    Docker(Box<Container>),
    Process(Box<Process>),
}

/// Defines the calls that both of our own backends have.
macro_rules! calls {
    ($($(#[$doc:meta])* $call:ident: $operation:literal;)*) => {
        $($(#[$doc])*
        pub(super) async fn $call(&self) -> Result<(), TestkitError> {
            match self {
                Self::External => {
                    Err(TestkitError::Unsupported {
                        operation: $operation,
                        backend: Backend::External,
                    })
                }
                #[cfg(feature = "testcontainers")]
                Self::Docker(container) => container.$call().await,
                Self::Process(process) => process.$call().await,
            }
        })*
    };
}

impl Machine {
    /// Starts a server of our own, and does not wait until it serves.
    pub(super) async fn launch(
        backend: Backend,
        options: &ServerOptions,
        seat: Seat,
    ) -> Result<Self, TestkitError> {
        match backend {
            Backend::External => Ok(Self::External),
            #[cfg(feature = "testcontainers")]
            Backend::Docker => Ok(Self::Docker(Box::new(Container::launch(options, seat).await?))),
            #[cfg(not(feature = "testcontainers"))]
            Backend::Docker => {
                let reason = "build zookeeper-testkit with the feature `testcontainers`".to_owned();
                Err(TestkitError::Unavailable { backend, reason })
            }
            Backend::Process => Ok(Self::Process(Box::new(Process::launch(options, seat).await?))),
        }
    }

    calls! {
        /// Starts the server if it does not run, and does not wait until it serves.
        launch_again: "be started";
        /// Starts the server if it does not run, and waits until it serves.
        start_again: "be started";
        stop: "be stopped";
        kill: "be killed";
        pause: "be paused";
        resume: "be resumed";
    }

    /// Sets the distribution of which the server is started from now on.
    pub(super) fn set_distribution(&self, home: &Path) -> Result<(), TestkitError> {
        let backend = match self {
            Self::Process(process) => return process.set_distribution(home),
            Self::External => Backend::External,
            #[cfg(feature = "testcontainers")]
            Self::Docker(_) => Backend::Docker,
        };
        let reason = "only a server of the backend `process` can change its distribution";
        Err(TestkitError::Unavailable { backend, reason: reason.to_owned() })
    }

    pub(super) async fn close(self) -> Result<(), TestkitError> {
        match self {
            Self::External => Ok(()),
            #[cfg(feature = "testcontainers")]
            Self::Docker(container) => container.close().await,
            Self::Process(process) => process.close().await,
        }
    }
}
