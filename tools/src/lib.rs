//! What the tools have in common.

use std::error::Error;

/// Whatever ends a tool.
pub type Failure = Box<dyn Error + Send + Sync>;

/// What a tool does, or what ends it.
pub type Result<T, E = Failure> = std::result::Result<T, E>;
