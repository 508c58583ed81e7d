//! [`Owner`]: re-enters a lock.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Weak};

use super::hold::Held;
use crate::lock_path::LockPath;
use crate::queue::QueuedFlag;
use crate::queue::rules::admission::Family;
use crate::sync::Mutex;

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
    slots: Arc<Mutex<Slots>>,
}

/// A slot for each lock that an owner has used lately.
#[derive(Debug, Default)]
struct Slots {
    of: HashMap<SlotKey, Arc<Slot>>,
    /// With this many, the unused ones are removed. Twice what is left then, so that holders of many locks do not sweep
    /// at each new one.
    sweep_at: usize,
}

/// The fewest slots that are swept.
const SLOTS_KEPT: usize = 64;

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
    pub(crate) queued: QueuedFlag,
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
        if slots.of.len() >= slots.sweep_at {
            // A task that acquires through a slot has a reference to it.
            slots.of.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.is_held());
            slots.sweep_at = SLOTS_KEPT.max(2 * slots.of.len());
        }
        slots.of.entry((curator, path.clone(), family.clone())).or_default().clone()
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
        let used: Vec<_> = (0..10 * SLOTS_KEPT).map(slot).collect();
        assert_eq!(owner.slots.lock().of.len(), used.len());
        assert!(owner.slots.lock().sweep_at > used.len(), "the next one sweeps again");
        drop(used);
        let more = 10 * owner.slots.lock().sweep_at;
        (0..more).for_each(|number| drop(slot(number)));
        assert!(owner.slots.lock().of.len() <= SLOTS_KEPT);
    }
}
