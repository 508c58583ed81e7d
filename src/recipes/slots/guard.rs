//! [`SlotGuard`]: keeps a slot held. [`SlotHold`]: a view of it.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

use futures_util::future::join;

use crate::error::{Error, Loss, Released};
use crate::fencing_token::FencingToken;
use crate::recipes::shared::fenced::Fenced;
use crate::recipes::shared::hold::{Guard, Hold};
use crate::recipes::shared::runs::impl_guard_runs;

/// A view of a held slot, as [`Hold`] is of a lock. A view keeps nothing held, and may outlive the hold.
///
/// **A view is no proof**: check [`is_held`](Self::is_held) before each step that needs the index, stop when
/// [`lost`](Self::lost) resolves, and pass the [`fencing_token`](Self::fencing_token) to a resource that compares it.
pub struct SlotHold {
    index: usize,
    /// Keeps other processes from the index.
    mutex: Hold,
    /// Keeps the number of holders within the count.
    permit: Hold,
}

impl SlotHold {
    /// Returns the number of the slot: from 0 to [`count`](super::Slots::count) - 1, and no other live holder has it.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns true while the slot is held: see [`Hold::is_held`]. Once the answer is `false`, it stays `false`.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.mutex.is_held() && self.permit.is_held()
    }

    /// Returns how the slot was lost; `None` while it is held and after a release.
    pub fn loss(&self) -> Option<Loss> {
        self.mutex.loss().or_else(|| self.permit.loss())
    }

    /// Resolves with the cause when the slot is lost. A loss is permanent. After a release the future never resolves.
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time, and the method called again.
    pub async fn lost(&self) -> Loss {
        tokio::select! {
            biased;
            loss = self.mutex.lost() => loss,
            loss = self.permit.lost() => loss,
        }
    }

    async fn lost_as_error(&self) -> Error {
        Error::lost(self.path(), self.lost().await)
    }

    /// Returns a number that never decreases for this index, and grows whenever the index passes between processes. Tokens of
    /// different indexes have no order.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.mutex.fencing_token()
    }

    /// Returns a handle for writes that ZooKeeper refuses once the hold of the index has ended.
    #[must_use]
    pub fn fenced(&self) -> Fenced {
        self.mutex.fenced()
    }

    /// Returns how long the index cannot pass to another process: see [`Hold::session_lease_left`].
    #[must_use]
    pub fn session_lease_left(&self) -> Duration {
        self.mutex.session_lease_left().min(self.permit.session_lease_left())
    }

    /// The path of the slots, under the namespace.
    pub fn path(&self) -> &str {
        self.mutex.path()
    }

    /// The path of the index, under the namespace: that of a mutex whose holder has the index.
    pub fn index_path(&self) -> &str {
        self.mutex.state().path()
    }

    /// The path of the contender's node at the index, under the namespace.
    pub fn node(&self) -> &str {
        self.mutex.node()
    }

    /// Returns views of the mutex of the index and of the permit. For tools that watch the nodes.
    #[doc(hidden)]
    #[must_use]
    pub fn holds(&self) -> [Hold; 2] {
        [self.mutex.view(), self.permit.view()]
    }

    /// Returns another view, for another task. It keeps nothing held.
    #[must_use]
    pub fn view(&self) -> SlotHold {
        Self { index: self.index, mutex: self.mutex.view(), permit: self.permit.view() }
    }

    fn fmt_as(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("path", &self.path())
            .field("index", &self.index)
            .field("fencing_token", &self.fencing_token())
            .field("is_held", &self.is_held())
            .field("loss", &self.loss())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for SlotHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as("SlotHold", f)
    }
}

/// Holds a slot until it is released or dropped. Its state is in [`SlotHold`], to which it derefs.
///
/// A guard is owned and `'static`, and keeps its [`Curator`](crate::Curator)'s session open, as a [`Guard`].
///
/// ```no_run
/// # use zookeeper_recipes::{Error, Slots};
/// # async fn example(slots: Slots) -> Result<(), Error> {
/// let slot = slots.acquire().await?;
/// println!("worker {} with token {}", slot.index(), slot.fencing_token());
/// slot.release().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "the slot is released when its guard is dropped"]
pub struct SlotGuard {
    /// Dropped ahead of the permit.
    mutex: Guard,
    permit: Guard,
    view: SlotHold,
}

impl_guard_runs!(SlotGuard, SlotHold, |slot| slot.view());

impl SlotGuard {
    pub(super) fn new(index: usize, mutex: Guard, permit: Guard) -> Self {
        let view = SlotHold { index, mutex: mutex.view(), permit: permit.view() };
        Self { mutex, permit, view }
    }

    /// Releases the slot and waits until the servers confirm it: see [`Guard::release`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases all the same, even before the future is polled. Only the report is lost.
    ///
    /// # Errors
    ///
    /// As for [`Guard::release`].
    pub async fn release(self) -> Result<Released, Error> {
        self.release_now().await
    }

    /// Releases as it is called. The future waits for the reports.
    fn release_now(self) -> impl Future<Output = Result<Released, Error>> + Send + use<> {
        let Self { mutex, permit, view: _ } = self;
        // The next holder of the permit must find the index free.
        let mutex = mutex.release_now();
        let permit = permit.release_now();
        async move {
            let (mutex, permit) = join(mutex, permit).await;
            match (mutex?, permit?) {
                (Released::Confirmed, other) => Ok(other),
                (other, _) => Ok(other),
            }
        }
    }
}

impl fmt::Debug for SlotGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view.fmt_as("SlotGuard", f)
    }
}

impl Deref for SlotGuard {
    type Target = SlotHold;

    fn deref(&self) -> &SlotHold {
        &self.view
    }
}
