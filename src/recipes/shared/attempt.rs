//! [`Attempt`]: the outcome of an acquisition that may find the lock busy.

use super::hold::Guard;

/// The outcome of an acquisition with limited patience.
///
/// This type has no methods on purpose: `is_acquired()` would silently drop the guard and release the lock. Match it:
///
/// ```no_run
/// # use zookeeper_recipes::{Attempt, Error, InterProcessMutex};
/// # async fn example(mutex: InterProcessMutex) -> Result<(), Error> {
/// let Attempt::Acquired(guard) = mutex.try_acquire().await? else {
///     return Ok(()); // another process has it
/// };
/// // … alone, while `guard` lives …
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// `Attempt::Acquired(_)` in a `let … else` drops the guard at once, as `let _ = …` does everywhere in Rust.
#[derive(Debug)]
#[must_use = "a lock that was acquired is released when this is dropped: `match` it, or `let Attempt::Acquired(guard) = … else`"]
#[allow(clippy::exhaustive_enums)] // there is no third
pub enum Attempt<G = Guard> {
    /// The lock is held by this guard.
    Acquired(G),
    /// Another contender has it.
    Busy,
}

impl<G> Attempt<G> {
    pub(crate) fn of(acquired: Option<G>) -> Self {
        acquired.map_or(Self::Busy, Self::Acquired)
    }
}
