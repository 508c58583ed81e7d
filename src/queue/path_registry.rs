//! Values by lock path, for as long as they are in use.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use crate::lock_path::LockPath;
use crate::sync::Mutex;

/// Holds the values weakly, in the order of their paths.
#[derive(Debug)]
pub(super) struct PathRegistry<T>(Mutex<Entries<T>>);

#[derive(Debug)]
struct Entries<T> {
    by_path: BTreeMap<LockPath, Vec<Weak<T>>>,
    /// The number of paths at which unused entries are removed.
    sweep_at: usize,
}

impl<T> PathRegistry<T> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Entries { by_path: BTreeMap::new(), sweep_at: 0 }))
    }

    /// Returns the value at `path` that `matches`, or a new one.
    pub(super) fn at(
        &self,
        path: &LockPath,
        matches: impl Fn(&T) -> bool,
        new: impl FnOnce() -> Arc<T>,
    ) -> Arc<T> {
        let mut entries = self.0.lock();
        entries.sweep();
        let here = entries.by_path.entry(path.clone()).or_default();
        let found = here.iter().filter_map(Weak::upgrade).find(|value| matches(value));
        found.unwrap_or_else(|| {
            let new = new();
            here.push(Arc::downgrade(&new));
            new
        })
    }

    /// Returns the value at `path` that `matches`, if it is in use.
    pub(super) fn find(&self, path: &LockPath, matches: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let entries = self.0.lock();
        entries.by_path.get(path)?.iter().filter_map(Weak::upgrade).find(|value| matches(value))
    }

    /// Returns all values that are in use.
    pub(super) fn all(&self) -> Vec<Arc<T>> {
        let entries = self.0.lock();
        entries.by_path.values().flatten().filter_map(Weak::upgrade).collect()
    }
}

impl<T> Entries<T> {
    /// Removes unused entries whenever there may be twice as many as after the last time.
    fn sweep(&mut self) {
        if self.by_path.len() < self.sweep_at {
            return;
        }
        self.by_path.retain(|_, here| {
            here.retain(|value| value.strong_count() > 0);
            !here.is_empty()
        });
        self.sweep_at = 2 * (self.by_path.len() + 1);
    }
}
