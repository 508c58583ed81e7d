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
    /// The number of paths at which those without a value in use are removed.
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
        here.retain(|value| value.strong_count() > 0);
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
    /// Removes the paths without a value in use whenever there may be twice as many as after the last time.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> LockPath {
        LockPath::parse("path", name).expect("a path")
    }

    /// As for a service that takes one lock again and again.
    #[test]
    fn a_value_that_is_not_in_use_leaves_nothing() {
        let registry = PathRegistry::new();
        let entries = || registry.0.lock().by_path.values().map(Vec::len).sum::<usize>();
        for number in 0..1_000 {
            let value = registry.at(&path("/lock"), |_| true, || Arc::new(number));
            assert_eq!((*value, entries()), (number, 1));
        }
        let kept = registry.at(&path("/lock"), |_| false, || Arc::new(0));
        registry.at(&path("/lock"), |_| false, || Arc::new(1));
        assert_eq!(registry.at(&path("/lock"), |_| true, || Arc::new(2)), kept);
        assert_eq!(entries(), 1);
        for number in 0..1_000 {
            registry.at(&path(&format!("/{number}")), |_| true, || Arc::new(number));
            assert!(entries() <= 4, "{}", entries());
        }
    }
}
