//! What each way to lock implements.

use std::time::Duration;

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// One process's end of a way to lock.
pub(crate) trait Lock: Sized {
    type Hold;

    async fn connect(servers: &[String], name: &str, lease: Duration) -> Result<Self, Failure>;

    /// Waits until it holds, as its documentation waits.
    async fn acquire(&self) -> Result<Self::Hold, Failure>;

    async fn release(&self, hold: Self::Hold) -> Result<(), Failure>;
}
