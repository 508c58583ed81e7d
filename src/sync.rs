//! [`Mutex`]: the standard mutex, without poisoning. [`OnceLock`] and [`AtomicBool`] are the standard ones as well.
//!
//! In a unit test, all three are points at which `shuttle` chooses the thread that runs next.

#[cfg(test)]
mod tests;

#[cfg(not(test))]
pub(crate) use std::sync::MutexGuard;
#[cfg(not(test))]
pub(crate) use std::sync::OnceLock;
#[cfg(not(test))]
pub(crate) use std::sync::atomic::AtomicBool;
use std::sync::{self, PoisonError};

#[cfg(test)]
pub(crate) use self::tests::MutexGuard;
#[cfg(test)]
use self::tests::Turn;
#[cfg(test)]
pub(crate) use self::tests::{AtomicBool, OnceLock};

/// A mutex that stays usable after a thread panicked while holding it.
///
/// The library does not panic while it holds one, and the data are consistent after each statement. Foreign code,
/// such as the drop of a watch, may panic there. If all other tasks failed because of that, they would lose their
/// holds.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>, #[cfg(test)] Turn);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(
            sync::Mutex::new(value),
            #[cfg(test)]
            Turn::new(),
        )
    }

    #[cfg(not(test))]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let turn = self.1.take();
        MutexGuard::new(self.0.lock().unwrap_or_else(PoisonError::into_inner), turn)
    }

    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        self.0.try_lock().is_err()
    }
}
