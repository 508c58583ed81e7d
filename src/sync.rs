//! [`Mutex`]: the standard one, which no panic poisons.

use std::sync::{self, MutexGuard, PoisonError};

/// A mutex that stays usable after a panic of a thread that had locked it.
///
/// The library does not panic while it has one locked, and the data are consistent after each statement. Foreign code, such
/// as the drop of a watch, may panic there. To fail in all other tasks for that would lose their holds.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        self.0.try_lock().is_err()
    }
}
