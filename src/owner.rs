//! [`Owner`]: who re-enters a lock.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::admission::Family;
use crate::guard::Held;
use crate::lock_path::LockPath;
use crate::queue::Queued;

/// An owner of locks, for re-entering them.
///
/// A task is not an owner: two branches of one `join!` would walk into each other's critical section.
/// Inside [`scope`](Self::scope) everything that is polled as part of the future belongs to this owner:
/// there, acquiring a lock that the owner holds gives a nested guard at once, as Curator's thread gets
/// one. The last guard to go releases. Outside of any scope nothing ever re-enters.
///
/// A clone is the same owner: give it to a spawned task to let that re-enter too. Several tasks of one
/// owner that acquire the same lock at once share one place in the queue.
///
/// ```no_run
/// # use zookeeper_recipes::{Curator, InterProcessMutex, Owner};
/// # async fn example(curator: Curator) -> Result<(), Box<dyn std::error::Error>> {
/// let mutex = InterProcessMutex::new(&curator, "/locks/orders")?;
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

tokio::task_local! {
    static CURRENT: Owner;
}

/// A lock path of one `Curator`, told by the address of what its handles share. (An address that is
/// used again finds a slot without a hold, which is as good as a new one.)
type SlotKey = (usize, LockPath, Family);

/// What an owner has of one lock.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// Locked while a task acquires, so that the owner's tasks share one place in the queue.
    pub(crate) kept: tokio::sync::Mutex<Kept>,
    /// Whether the task that acquires has to wait for somebody.
    pub(crate) queued: Queued,
}

/// What an owner holds. Weak: the slot keeps no lock.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) exclusive: Weak<Held>,
    /// Of a read-write lock.
    pub(crate) shared: Weak<Held>,
}

/// What an owner has of each of its locks.
#[derive(Debug)]
struct Slots {
    of: HashMap<SlotKey, Arc<Slot>>,
    /// With this many the unused ones are removed. Doubled from what is left, so that holders of many locks do not sweep
    /// at each new one.
    sweep_at: usize,
}

impl Default for Slots {
    fn default() -> Self {
        Self { of: HashMap::new(), sweep_at: SLOTS_KEPT }
    }
}

/// The fewest slots that are swept.
const SLOTS_KEPT: usize = 64;

impl Owner {
    /// An owner of nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `future` as this owner. Scopes can be nested; the innermost counts.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops `future`; guards that are not part of it stay.
    pub async fn scope<F: Future>(&self, future: F) -> F::Output {
        CURRENT.scope(self.clone(), future).await
    }

    pub(crate) fn current() -> Option<Owner> {
        CURRENT.try_with(Owner::clone).ok()
    }

    pub(crate) fn slot(&self, curator: usize, path: &LockPath, family: &Family) -> Arc<Slot> {
        let mut slots = self.slots();
        if slots.of.len() >= slots.sweep_at {
            // A task that acquires through a slot has a reference to it.
            slots.of.retain(|_, slot| {
                Arc::strong_count(slot) > 1
                    || slot.kept.try_lock().is_ok_and(|kept| {
                        kept.exclusive.strong_count() + kept.shared.strong_count() > 0
                    })
            });
            slots.sweep_at = SLOTS_KEPT.max(2 * slots.of.len());
        }
        slots.of.entry((curator, path.clone(), family.clone())).or_default().clone()
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender_filter::ContenderFilter;

    #[test]
    fn unused_slots_are_removed_and_used_ones_are_not_swept_at_each_new_one() {
        let owner = Owner::new();
        let slot = |number: usize| {
            let path = LockPath::parse("path", &format!("/{number}")).unwrap();
            owner.slot(0, &path, &Family::Exclusive(ContenderFilter::Curator))
        };
        let used: Vec<_> = (0..10 * SLOTS_KEPT).map(slot).collect();
        assert_eq!(owner.slots().of.len(), used.len());
        assert!(owner.slots().sweep_at > used.len(), "the next one sweeps again");
        drop(used);
        let more = 10 * owner.slots().sweep_at;
        (0..more).for_each(|number| drop(slot(number)));
        assert!(owner.slots().of.len() <= SLOTS_KEPT);
    }
}
