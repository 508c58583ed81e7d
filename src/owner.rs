//! [`Owner`]: who re-enters a lock.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::admission::Family;
use crate::contender::Queued;
use crate::guard::Held;
use crate::lock_path::LockPath;

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
    slots: Arc<Mutex<HashMap<SlotKey, Arc<Slot>>>>,
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

/// So many slots are kept before those that nobody needs are cleared away.
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
        if slots.len() >= SLOTS_KEPT {
            // Whoever acquires through a slot has a reference to it.
            slots.retain(|_, slot| {
                Arc::strong_count(slot) > 1
                    || slot.kept.try_lock().is_ok_and(|kept| {
                        kept.exclusive.strong_count() + kept.shared.strong_count() > 0
                    })
            });
        }
        slots.entry((curator, path.clone(), family.clone())).or_default().clone()
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<SlotKey, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
