//! The three backends that provide a server.

use std::fmt;

/// The kind of server behind a [`TestServer`](super::TestServer).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// An existing server, named by `ZOOKEEPER_CONNECT`. It cannot be stopped, killed or paused.
    External,
    /// A Docker container that the testkit starts. This needs the feature `testcontainers`.
    Docker,
    /// A Java process that the testkit starts.
    Process,
}

impl Backend {
    /// All backends, in the order in which they are tried.
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

/// Reads a variable. A set but empty one counts as unset, as shells and CI files cannot always unset a variable.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var_os(name)
        .map(|value| value.to_string_lossy().trim().to_owned())
        .filter(|value| !value.is_empty())
}
