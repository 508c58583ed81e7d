//! What is in use, by its lock path.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use crate::lock_path::LockPath;
use crate::sync::Mutex;

/// In the order of their paths.
#[derive(Debug)]
pub(super) struct ByPath<T>(Mutex<Entries<T>>);

#[derive(Debug)]
struct Entries<T> {
    of: BTreeMap<LockPath, Vec<Weak<T>>>,
    sweep_at: usize,
}

impl<T> ByPath<T> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Entries { of: BTreeMap::new(), sweep_at: 0 }))
    }

    /// The one at `path` that `is_it`, or a new one.
    pub(super) fn at(
        &self,
        path: &LockPath,
        is_it: impl Fn(&T) -> bool,
        new: impl FnOnce() -> Arc<T>,
    ) -> Arc<T> {
        let mut entries = self.0.lock();
        entries.sweep();
        let here = entries.of.entry(path.clone()).or_default();
        let found = here.iter().filter_map(Weak::upgrade).find(|it| is_it(it));
        found.unwrap_or_else(|| {
            let new = new();
            here.push(Arc::downgrade(&new));
            new
        })
    }

    /// The one at `path` that `is_it`, if it is in use.
    pub(super) fn find(&self, path: &LockPath, is_it: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let entries = self.0.lock();
        entries.of.get(path)?.iter().filter_map(Weak::upgrade).find(|it| is_it(it))
    }

    /// All that are in use.
    pub(super) fn all(&self) -> Vec<Arc<T>> {
        let entries = self.0.lock();
        entries.of.values().flatten().filter_map(Weak::upgrade).collect()
    }
}

impl<T> Entries<T> {
    /// Drops what is not in use any more, whenever there may be twice as much as the last time.
    fn sweep(&mut self) {
        if self.of.len() < self.sweep_at {
            return;
        }
        self.of.retain(|_, here| {
            here.retain(|it| it.strong_count() > 0);
            !here.is_empty()
        });
        self.sweep_at = 2 * (self.of.len() + 1);
    }
}
