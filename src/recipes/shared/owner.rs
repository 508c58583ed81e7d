//! [`Owner`]: re-enters a lock.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Weak};

use super::hold::Held;
use crate::lock::Mutex;
use crate::lock_path::LockPath;
use crate::queue::Queued;
use crate::queue::rules::admission::Family;

/// An owner of locks, for re-entering them.
///
/// A task is not an owner: two branches of one `join!` would walk into each other's critical section. Inside
/// [`scope`](Self::scope) everything that is polled as part of the future belongs to this owner: there, acquiring a lock
/// that the owner holds gives a nested guard at once, as Curator's thread gets one. The last guard to go releases. Outside
/// of any scope nothing ever re-enters.
///
/// A clone is the same owner: give it to a spawned task to let that re-enter too. Several tasks of one owner that acquire
/// the same lock at once share one place in the queue. A scope inside another inherits what that holds.
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
    /// One for each lock that the owner has used lately.
    slots: Arc<Mutex<HashMap<SlotKey, Arc<Slot>>>>,
}

tokio::task_local! {
    /// The innermost last.
    static CURRENT: Vec<Owner>;
}

/// A lock path of one `Curator`, identified by the address of its session. (If the address is used again, it finds a slot
/// without a hold, which is as good as a new one.)
type SlotKey = (usize, LockPath, Family);

/// An owner's holds of one lock.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// Locked while a task acquires, so that the owner's tasks share one place in the queue.
    pub(crate) kept: tokio::sync::Mutex<Kept>,
    /// Whether the task that acquires has to wait for another contender.
    pub(crate) queued: Queued,
}

impl Slot {
    /// Whether there is a hold, and no task acquires at this moment.
    fn is_held(&self) -> bool {
        let held = |kept: &Kept| kept.exclusive.strong_count() + kept.shared.strong_count() > 0;
        self.kept.try_lock().is_ok_and(|kept| held(&kept))
    }
}

/// The holds of an owner. Weak: the slot keeps no lock.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) exclusive: Weak<Held>,
    /// Of a read-write lock.
    pub(crate) shared: Weak<Held>,
}

impl Owner {
    /// An owner of nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `future` as this owner.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops `future`; guards that are not part of it stay.
    pub async fn scope<F: Future>(&self, future: F) -> F::Output {
        let mut owners = CURRENT.try_with(Vec::clone).unwrap_or_default();
        owners.push(self.clone());
        CURRENT.scope(owners, future).await
    }

    /// The slot for a lock, of the owner in whose scope the caller runs: of the owner that holds the lock, else of the innermost.
    pub(crate) fn present(curator: usize, path: &LockPath, family: &Family) -> Option<Arc<Slot>> {
        let find = |owners: &Vec<Owner>| {
            let mut slots = owners.iter().rev().map(|owner| owner.slot(curator, path, family));
            let innermost = slots.next();
            slots.find(|slot| slot.is_held()).or(innermost)
        };
        CURRENT.try_with(find).ok().flatten()
    }

    fn slot(&self, curator: usize, path: &LockPath, family: &Family) -> Arc<Slot> {
        let mut slots = self.slots.lock();
        // Before the map grows, the unused slots are removed. It then has room for as many as are left, so that holders
        // of many locks do not sweep at each new one.
        if slots.len() == slots.capacity() {
            // A task that acquires through a slot has a reference to it.
            slots.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.is_held());
            let used = slots.len();
            slots.reserve(used);
        }
        slots.entry((curator, path.clone(), family.clone())).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::rules::filter::ContenderFilter;

    #[test]
    fn unused_slots_are_removed_and_used_ones_are_not_swept_at_each_new_one() {
        let owner = Owner::new();
        let slot = |number: usize| {
            let path = LockPath::parse("path", &format!("/{number}")).unwrap();
            owner.slot(0, &path, &Family::Exclusive(ContenderFilter::Curator))
        };
        let used: Vec<_> = (0..1000).map(slot).collect();
        assert_eq!(owner.slots.lock().len(), used.len());
        drop(used);
        let room = owner.slots.lock().capacity();
        assert!(room > 1000, "the next one sweeps again");
        (0..10 * room).for_each(|number| drop(slot(number)));
        assert!(owner.slots.lock().len() <= room);
    }
}
