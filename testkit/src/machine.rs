//! A server of any backend: what a single one and a member of an ensemble have in common.

use super::container::Container;
use super::options::ServerOptions;
use super::process::Process;
use super::seat::Seat;
use super::{Backend, TestkitError};

#[derive(Debug)]
pub(super) enum Machine {
    External,
    Docker(Box<Container>),
    Process(Box<Process>),
}

impl Machine {
    /// Starts a server of our own and does not wait until it serves.
    pub(super) async fn launch(
        backend: Backend,
        options: &ServerOptions,
        seat: Seat,
    ) -> Result<Self, TestkitError> {
        Ok(match backend {
            Backend::External => Self::External,
            Backend::Docker => Self::Docker(Box::new(Container::launch(options, seat).await?)),
            Backend::Process => Self::Process(Box::new(Process::launch(options, seat).await?)),
        })
    }

    pub(super) fn backend(&self) -> Backend {
        match self {
            Self::External => Backend::External,
            Self::Docker(_) => Backend::Docker,
            Self::Process(_) => Backend::Process,
        }
    }

    /// Without waiting until it serves.
    pub(super) async fn launch_again(&self) -> Result<(), TestkitError> {
        match self {
            Self::External => self.unsupported("be started"),
            Self::Docker(container) => container.launch_again().await,
            Self::Process(process) => process.launch_again().await,
        }
    }

    /// Starts it if it does not run, and waits until it serves.
    pub(super) async fn start_again(&self) -> Result<(), TestkitError> {
        match self {
            Self::External => self.unsupported("be started"),
            Self::Docker(container) => container.start_again().await,
            Self::Process(process) => process.start_again().await,
        }
    }

    pub(super) async fn stop(&self) -> Result<(), TestkitError> {
        match self {
            Self::External => self.unsupported("be stopped"),
            Self::Docker(container) => container.stop().await,
            Self::Process(process) => process.stop().await,
        }
    }

    pub(super) async fn kill(&self) -> Result<(), TestkitError> {
        match self {
            Self::External => self.unsupported("be killed"),
            Self::Docker(container) => container.kill().await,
            Self::Process(process) => process.kill().await,
        }
    }

    pub(super) async fn pause(&self) -> Result<(), TestkitError> {
        match self {
            Self::External => self.unsupported("be paused"),
            Self::Docker(container) => container.pause().await,
            Self::Process(process) => process.pause().await,
        }
    }

    pub(super) async fn resume(&self) -> Result<(), TestkitError> {
        match self {
            Self::External => self.unsupported("be resumed"),
            Self::Docker(container) => container.resume().await,
            Self::Process(process) => process.resume().await,
        }
    }

    pub(super) async fn close(self) -> Result<(), TestkitError> {
        match self {
            Self::External => Ok(()),
            Self::Docker(container) => container.close().await,
            Self::Process(process) => process.close().await,
        }
    }

    fn unsupported(&self, operation: &'static str) -> Result<(), TestkitError> {
        Err(TestkitError::Unsupported { operation, backend: self.backend() })
    }
}
