//! The three ways to a server, and which of them the environment forces.

use std::fmt;

use super::TestkitError;

/// Forces a backend.
const VARIABLE: &str = "ZOOKEEPER_BACKEND";

/// Where a [`TestServer`](super::TestServer) comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// A server that somebody else runs, named by `ZOOKEEPER_CONNECT`. It cannot be stopped, killed or paused.
    External,
    /// A Docker container of our own.
    Docker,
    /// A Java process of our own.
    Process,
}

impl Backend {
    /// In the order in which they are tried.
    const ALL: [Self; 3] = [Self::External, Self::Docker, Self::Process];

    pub(super) fn from_environment() -> Result<Option<Self>, TestkitError> {
        let Some(value) = variable(VARIABLE) else {
            return Ok(None);
        };
        let named = Self::ALL.into_iter().find(|backend| backend.name() == value);
        named.map(Some).ok_or(TestkitError::UnknownBackend { variable: VARIABLE, value })
    }

    /// What `start` gives on the first backend on which it succeeds.
    pub(super) async fn first_that_works<T, F>(start: impl Fn(Self) -> F) -> Result<T, TestkitError>
    where
        F: Future<Output = Result<T, TestkitError>>,
    {
        let mut reasons = Vec::new();
        for backend in Self::ALL {
            match start(backend).await {
                Ok(started) => return Ok(started),
                Err(error) => {
                    let reason = error.chain();
                    tracing::info!("no test server on the backend {backend}: {reason}");
                    reasons.push(reason);
                }
            }
        }
        let mut reasons = reasons.into_iter();
        let mut next = || reasons.next().unwrap_or_default();
        Err(TestkitError::NoBackend { external: next(), docker: next(), process: next() })
    }

    fn name(self) -> &'static str {
        match self {
            Self::External => "external",
            Self::Docker => "docker",
            Self::Process => "process",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set but empty variable counts as unset, as shells and CI files cannot always unset one.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var_os(name)
        .map(|value| value.to_string_lossy().trim().to_owned())
        .filter(|value| !value.is_empty())
}
