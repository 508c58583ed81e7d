//! The three ways to a server.

use std::fmt;

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
    pub(super) const ALL: [Self; 3] = [Self::External, Self::Docker, Self::Process];
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
