//! What can go wrong with a count.

use std::time::Duration;

use thiserror::Error;

use crate::client::ClientError;
use crate::error::{ConfigError, SessionError};

/// A [`SharedCount`](crate::SharedCount) could not be started, written or followed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum SharedCountError {
    /// The path cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is no session to do it with.
    #[error("no session for the count {path}")]
    #[non_exhaustive]
    Session {
        /// The count's path.
        path: String,
        /// Why.
        #[source]
        source: SessionError,
    },
    /// The server says that these credentials may not do it.
    #[error("no permission to {operation} {path}")]
    #[non_exhaustive]
    NoAuth {
        /// The path.
        path: String,
        /// What was refused: `read`, `create` or `set`.
        operation: &'static str,
    },
    /// What the node has is no count.
    #[error("{path} has {} bytes where a count has 4: \"{}\"", found.len(), beginning(found))]
    #[non_exhaustive]
    ForeignData {
        /// The count's path.
        path: String,
        /// What the node has.
        found: Vec<u8>,
    },
    /// Somebody deleted the node. Nothing was written.
    #[error("the count {path} was deleted")]
    #[non_exhaustive]
    NoNode {
        /// The count's path.
        path: String,
    },
    /// The count has been written so often that its version is -1, which the server takes for any
    /// version. Nothing was written; [`SharedCount::set`](crate::SharedCount::set) moves it on.
    #[error("the version of {path} is -1, which cannot be compared")]
    #[non_exhaustive]
    VersionExhausted {
        /// The count's path.
        path: String,
    },
    /// The server refused for another reason, which will not change by trying again. Nothing was written.
    #[error("the server refuses to {operation} {path}")]
    #[non_exhaustive]
    Refused {
        /// The path.
        path: String,
        /// What was refused.
        operation: &'static str,
        /// The server's answer.
        #[source]
        source: ClientError,
    },
    /// The retry policy is used up. Nothing was written, but by `start`, which may have made the node.
    #[error("gave up on {path}: the retry policy is used up")]
    #[non_exhaustive]
    RetriesExhausted {
        /// The count's path.
        path: String,
        /// How the last try failed.
        #[source]
        source: Option<ClientError>,
    },
    /// No session came up in time. Nothing was written, but by `start`, which may have made the node.
    #[error("no session for {path} within {waited:?}")]
    #[non_exhaustive]
    TimedOut {
        /// The count's path.
        path: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// Nobody answered, and it could not be found out afterwards: it may have been written, or may yet be.
    #[error("whether {path} was written is not known")]
    #[non_exhaustive]
    Unknown {
        /// The count's path.
        path: String,
        /// How the request failed.
        #[source]
        source: ClientError,
    },
}

/// Enough of what was found to recognise it.
fn beginning(found: &[u8]) -> String {
    const ENOUGH: usize = 32;
    let end = if found.len() > ENOUGH { "…" } else { "" };
    format!("{}{end}", found[..found.len().min(ENOUGH)].escape_ascii())
}
