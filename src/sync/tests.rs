//! Under `shuttle`, each use of these types is a point at which another thread may continue. Elsewhere they are the standard
//! types, so unit tests that do not use `shuttle` run as before.

use std::ops::{Deref, DerefMut};
use std::sync;
use std::sync::atomic::Ordering;

use shuttle::current::try_get_current_task;

/// The turn of a thread at a mutex.
#[derive(Debug, Default)]
pub(super) struct Turn(shuttle::sync::Mutex<()>);

impl Turn {
    pub(super) const fn new() -> Self {
        Self(shuttle::sync::Mutex::new(()))
    }

    /// Waits for the turn. `None` outside of `shuttle`.
    pub(super) fn take(&self) -> Option<shuttle::sync::MutexGuard<'_, ()>> {
        try_get_current_task()?;
        Some(self.0.lock().unwrap_or_else(sync::PoisonError::into_inner))
    }
}

#[derive(Debug)]
pub(crate) struct MutexGuard<'a, T> {
    // The data are unlocked before the next thread gets its turn.
    data: sync::MutexGuard<'a, T>,
    _turn: Option<shuttle::sync::MutexGuard<'a, ()>>,
}

impl<'a, T> MutexGuard<'a, T> {
    pub(super) fn new(
        data: sync::MutexGuard<'a, T>,
        turn: Option<shuttle::sync::MutexGuard<'a, ()>>,
    ) -> Self {
        Self { data, _turn: turn }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.data
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.data
    }
}

#[derive(Debug)]
pub(crate) struct AtomicBool(sync::atomic::AtomicBool);

impl AtomicBool {
    pub(crate) const fn new(value: bool) -> Self {
        Self(sync::atomic::AtomicBool::new(value))
    }

    pub(crate) fn load(&self, order: Ordering) -> bool {
        switch();
        self.0.load(order)
    }

    pub(crate) fn store(&self, value: bool, order: Ordering) {
        switch();
        self.0.store(value, order);
    }
}

#[derive(Debug)]
pub(crate) struct OnceLock<T>(sync::OnceLock<T>);

impl<T> OnceLock<T> {
    pub(crate) const fn new() -> Self {
        Self(sync::OnceLock::new())
    }

    pub(crate) fn get(&self) -> Option<&T> {
        switch();
        self.0.get()
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        switch();
        self.0.set(value)
    }

    /// Under `shuttle`, `init` must not use the types of this file: another thread would wait in the standard `OnceLock`.
    pub(crate) fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
        switch();
        self.0.get_or_init(init)
    }
}

/// Lets another thread continue. Each access to an atomic of `shuttle` does so.
fn switch() {
    if try_get_current_task().is_some() {
        shuttle::sync::atomic::AtomicBool::new(false).load(Ordering::SeqCst);
    }
}
