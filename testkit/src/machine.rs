//! A server of any backend: what a single one and a member of an ensemble have in common.

#[cfg(feature = "testcontainers")]
use super::container::Container;
use super::options::ServerOptions;
use super::process::Process;
use super::seat::Seat;
use super::{Backend, TestkitError};

#[derive(Debug)]
pub(super) enum Machine {
    External,
    #[cfg(feature = "testcontainers")]
    Docker(Box<Container>),
    Process(Box<Process>),
}

/// Calls that both backends of our own have.
macro_rules! calls {
    ($($(#[$doc:meta])* $call:ident: $operation:literal;)*) => {
        $($(#[$doc])*
        pub(super) async fn $call(&self) -> Result<(), TestkitError> {
            match self {
                Self::External => {
                    let (operation, backend) = ($operation, Backend::External);
                    Err(TestkitError::Unsupported { operation, backend })
                }
                #[cfg(feature = "testcontainers")]
                Self::Docker(container) => container.$call().await,
                Self::Process(process) => process.$call().await,
            }
        })*
    };
}

impl Machine {
    /// Starts a server of our own and does not wait until it serves.
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
        /// Without waiting until it serves.
        launch_again: "be started";
        /// Starts it if it does not run, and waits until it serves.
        start_again: "be started";
        stop: "be stopped";
        kill: "be killed";
        pause: "be paused";
        resume: "be resumed";
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
