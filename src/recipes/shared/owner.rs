//! [`Owner`]: re-enters a lock.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Weak};

use crate::lock_path::LockPath;
use crate::queue::rules::admission::Family;
use crate::queue::{OwnedHold, QueuedFlag};
use crate::sync::Mutex;

/// An owner of locks, for re-entering them.
///
/// A task is not an owner: two branches of one `join!` would walk into each other's critical section. Inside
/// [`scope`](Self::scope) everything that is polled as part of the future belongs to this owner: there, acquiring a lock
/// that the owner holds gives a nested guard at once, as Curator's thread gets one. The lock is released with the last guard.
/// Outside of any scope nothing ever re-enters.
///
/// A clone is the same owner: give it to a spawned task to let that task re-enter too. Several tasks of one owner that
/// acquire the same lock at once share one place in the queue. A scope inside another one inherits the locks of the outer one.
///
/// ```no_run
/// # use zookeeper_recipes::interop::Owner;
/// # use zookeeper_recipes::{Error, InterProcessMutex};
/// # async fn example(mutex: InterProcessMutex) -> Result<(), Error> {
/// Owner::new()
///     .scope(async {
///         let outer = mutex.acquire().await?;
///         let inner = mutex.acquire().await?; // nested: no waiting, no traffic
///         assert_eq!(outer.fencing_token(), inner.fencing_token());
///         Ok(())
///     })
///     .await
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Owner {
    entries: Arc<Mutex<OwnerEntries>>,
}

/// An entry for each lock that an owner has used lately.
#[derive(Debug, Default)]
struct OwnerEntries {
    by_lock: HashMap<LockKey, Arc<OwnerEntry>>,
    /// When there are this many entries, the unused ones are removed. The number is then set to twice what is left, so that
    /// an owner of many locks does not sweep for each new one.
    sweep_at: usize,
}

/// The fewest entries that are swept.
const ENTRIES_KEPT: usize = 64;

tokio::task_local! {
    /// The owners in whose scopes the task runs, the innermost last.
    static CURRENT: Vec<Owner>;
}

/// A lock path of one connection, which the id stands for.
type LockKey = (u64, LockPath, Family);

/// An owner's holds of one lock.
#[derive(Debug, Default)]
pub(crate) struct OwnerEntry {
    /// Locked while a task acquires, so that the owner's tasks share one place in the queue.
    pub(crate) acquiring: tokio::sync::Mutex<()>,
    /// Changed only by the task that acquires.
    pub(crate) holds: Mutex<OwnerHolds>,
    /// Set while the task that acquires waits for another contender.
    pub(crate) queued: QueuedFlag,
}

impl OwnerEntry {
    /// Returns true if there is a hold.
    fn is_held(&self) -> bool {
        let holds = self.holds.lock();
        holds.exclusive.strong_count() + holds.shared.strong_count() > 0
    }
}

/// The holds of an owner. The references are weak, because an owner keeps no lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnerHolds {
    pub(crate) exclusive: Weak<OwnedHold>,
    /// The read hold of a read-write lock.
    pub(crate) shared: Weak<OwnedHold>,
}

impl Owner {
    /// Creates an owner that holds nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `future` as this owner.
    ///
    /// # Cancel safety
    ///
    /// Dropping the returned future drops `future`. Guards that were moved out of it stay.
    pub async fn scope<F: Future>(&self, future: F) -> F::Output {
        let mut owners = CURRENT.try_with(Vec::clone).unwrap_or_default();
        owners.push(self.clone());
        CURRENT.scope(owners, future).await
    }

    /// The entry for a lock, of the owner in whose scope the caller runs. In nested scopes that is the entry of an outer owner
    /// that holds the lock, or else of the innermost owner.
    pub(crate) fn current_entry(
        connection_id: u64,
        path: &LockPath,
        family: &Family,
    ) -> Option<Arc<OwnerEntry>> {
        let find = |owners: &Vec<Owner>| {
            let entry = |owner: &Owner| owner.entry((connection_id, path.clone(), family.clone()));
            let mut entries = owners.iter().rev().map(entry);
            let innermost = entries.next();
            entries.find(|entry| entry.is_held()).or(innermost)
        };
        CURRENT.try_with(find).ok().flatten()
    }

    fn entry(&self, lock: LockKey) -> Arc<OwnerEntry> {
        let mut entries = self.entries.lock();
        if entries.by_lock.len() >= entries.sweep_at {
            // A task that acquires has a reference to its entry.
            entries.by_lock.retain(|_, entry| Arc::strong_count(entry) > 1 || entry.is_held());
            entries.sweep_at = ENTRIES_KEPT.max(2 * entries.by_lock.len());
        }
        entries.by_lock.entry(lock).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::rules::filter::ContenderFilter;

    #[test]
    fn unused_entries_are_removed_and_used_ones_are_not_swept_at_each_new_one() {
        let owner = Owner::new();
        let entry = |number: usize| {
            let path = LockPath::parse("path", &format!("/{number}")).unwrap();
            owner.entry((0, path, Family::Exclusive(ContenderFilter::Curator)))
        };
        let used: Vec<_> = (0..10 * ENTRIES_KEPT).map(entry).collect();
        assert_eq!(owner.entries.lock().by_lock.len(), used.len());
        assert!(owner.entries.lock().sweep_at > used.len(), "the next one sweeps again");
        drop(used);
        let more = 10 * owner.entries.lock().sweep_at;
        (0..more).for_each(|number| drop(entry(number)));
        assert!(owner.entries.lock().by_lock.len() <= ENTRIES_KEPT);
    }
}
