//! The three ways to a server, and which of them the environment forces.

use std::fmt;

use super::TestkitError;

/// Forces a backend.
const VARIABLE: &str = "ZOOKEEPER_BACKEND";

/// Where a [`TestServer`](super::TestServer) comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// A server that is there already, named by `ZOOKEEPER_CONNECT`. It cannot be stopped, killed or paused.
    External,
    /// A Docker container of our own. It takes the feature `testcontainers`.
    Docker,
    /// A Java process of our own.
    Process,
}

impl Backend {
    /// In the order in which they are tried.
    const ALL: [Self; 3] = [Self::External, Self::Docker, Self::Process];

    /// What `start` gives on the backend that is forced, or else on the first backend on which it succeeds.
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

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::External => "external",
            Self::Docker => "docker",
            Self::Process => "process",
        })
    }
}

/// A set but empty variable counts as unset, as shells and CI files cannot always unset one.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var_os(name)
        .map(|value| value.to_string_lossy().trim().to_owned())
        .filter(|value| !value.is_empty())
}
