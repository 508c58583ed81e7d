//! [`Mutex`]: the standard mutex, without poisoning.

use std::sync::{self, MutexGuard, PoisonError};

/// A mutex that stays usable after a thread panicked while holding it.
///
/// The library does not panic while it holds one, and the data are consistent after each statement. Foreign code,
/// such as the drop of a watch, may panic there. If all other tasks failed because of that, they would lose their
/// holds.
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
