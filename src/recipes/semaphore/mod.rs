//! [`InterProcessSemaphoreV2`]: up to N holders among all processes.

mod permits;

use std::sync::Arc;
use std::time::Duration;

use self::permits::Permits;
use super::shared::guards::Guards;
use super::shared::hold::{Guard, Hold};
use super::shared::lock::impl_lock;
use super::shared::participants::Participant;
use super::shared::recipe::{Patience, Recipe};
use super::shared::runs::impl_runs;
use super::shared_count::SharedCount;
use crate::curator::Curator;
use crate::error::Error;
use crate::metrics::{self, LockLabels};
use crate::queue::Limit;

/// A fair lock across processes for at most N holders at a time. All processes that use a path must agree on N.
///
/// The znodes are those of Apache Curator's class of this name, not those of Curator's older `InterProcessSemaphore`. With a
/// limit of one, a semaphore is Curator's `InterProcessSemaphoreMutex`.
///
/// * **Fair**: first come, first served, however many leases each caller asks for.
/// * **All or nothing**: a caller that asks for several leases gets all of them together, so two such callers never wait
///   for each other. Curator takes one lease after the other, which can deadlock, even with a Rust caller. In a mixed
///   fleet let only Rust processes ask for several.
/// * **A lease is a [`Guard`]** like that of any other lock: it can be lost, and has a token. A younger lease has a larger token,
///   but several tokens are valid at a time.
///
/// ```no_run
/// # use zookeeper_recipes::{Curator, Error};
/// # async fn import() {}
/// # async fn example(curator: Curator) -> Result<(), Error> {
/// let semaphore = curator.semaphore("/limits/imports", 3)?;
/// semaphore.with(async |_hold| import().await).await // with two others at most
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is held until `acquire` or `run`"]
pub struct InterProcessSemaphoreV2 {
    permits: Arc<Permits>,
}

impl_lock!(InterProcessSemaphoreV2);
impl_runs!(InterProcessSemaphoreV2, Hold);

impl Curator {
    /// Returns a semaphore with `limit` leases at `path`, under the namespace, with the options of this handle.
    ///
    /// # Errors
    ///
    /// As for [`mutex`](Self::mutex); a limit of zero, or beyond [`i32::MAX`], which is Curator's.
    pub fn semaphore(
        &self,
        path: impl AsRef<str>,
        limit: usize,
    ) -> Result<InterProcessSemaphoreV2, Error> {
        let path = path.as_ref();
        let recipe = Recipe::new(self, path, metrics::Recipe::SEMAPHORE)?;
        match i32::try_from(limit) {
            Ok(limit @ 1..) => {
                Ok(InterProcessSemaphoreV2 { permits: Permits::new(recipe, Limit::fixed(limit)) })
            }
            _ => {
                let value = format!("{limit} for {path}");
                let reason = "it must be at least 1 and at most 2147483647";
                Err(Error::invalid("limit", value, reason).at(path))
            }
        }
    }
}

impl InterProcessSemaphoreV2 {
    /// The semaphore inside another recipe, which counts the acquisitions itself. The holds are counted as those of `recipe`.
    pub(crate) fn inside(recipe: Recipe, limit: i32) -> Self {
        let mut permits = Permits::new(recipe, Limit::fixed(limit));
        Arc::make_mut(&mut permits).recipe.counted = LockLabels::default();
        Self { permits }
    }

    /// Returns a semaphore at `path` whose number of leases follows a shared count. A smaller limit takes no lease away, a greater
    /// one wakes waiters. While the limit is zero or negative, callers for one lease wait. A caller that asks for more leases than
    /// the limit, or than a new limit while it waits, gets [`InvalidInput`](crate::ErrorKind::InvalidInput).
    ///
    /// The limit is the value that this process knows: see [`SharedCount`] for how late that may be. If the count can no longer
    /// be read, the last value stays.
    ///
    /// # Errors
    ///
    /// As for [`Curator::mutex`].
    pub fn with_shared_count(
        curator: &Curator,
        path: impl AsRef<str>,
        limit: &SharedCount,
    ) -> Result<Self, Error> {
        let recipe = Recipe::new(curator, path.as_ref(), metrics::Recipe::SEMAPHORE)?;
        Ok(Self { permits: Permits::new(recipe, Limit::live(limit.subscribe())) })
    }

    /// Waits until a lease is held.
    ///
    /// # Cancel safety
    ///
    /// As for [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    ///
    /// # Errors
    ///
    /// As for [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    pub async fn acquire(&self) -> Result<Guard, Error> {
        self.acquire_with(Patience::Forever).await
    }

    /// Acquires a lease if one is free. The future waits for the servers' answers and for callers that are entering, never for a
    /// holder.
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Busy`](crate::ErrorKind::Busy) if at some instant of the call too few leases were free; those of callers that came
    /// before it are not free. Also if a caller before it was still entering after the connection timeout, or when the connection of
    /// a call with a limit of zero broke. As for [`acquire`](Self::acquire).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn try_acquire(&self) -> Result<Guard, Error> {
        self.acquire_with(Patience::TRY).await
    }

    /// Waits until a lease is held, at most for `limit`: see
    /// [`InterProcessMutex::acquire_timeout`](crate::InterProcessMutex::acquire_timeout).
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As for [`InterProcessMutex::acquire_timeout`](crate::InterProcessMutex::acquire_timeout).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<Guard, Error> {
        self.acquire_with(Patience::within(limit)).await
    }

    /// Waits until all of `count` leases are held.
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire); [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) at once for a count of zero,
    /// or above the limit.
    pub async fn acquire_many(&self, count: usize) -> Result<Guards, Error> {
        self.permits.acquire(count, Patience::Forever).await
    }

    /// Acquires `count` leases if that many are free: see [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As for [`acquire_many`](Self::acquire_many) and [`try_acquire`](Self::try_acquire).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn try_acquire_many(&self, count: usize) -> Result<Guards, Error> {
        self.permits.acquire(count, Patience::TRY).await
    }

    /// Waits until `count` leases are held, at most for `limit`: see [`acquire_timeout`](Self::acquire_timeout).
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As for [`acquire_many`](Self::acquire_many) and [`acquire_timeout`](Self::acquire_timeout).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn acquire_many_timeout(
        &self,
        count: usize,
        limit: Duration,
    ) -> Result<Guards, Error> {
        self.permits.acquire(count, Patience::within(limit)).await
    }

    pub(crate) async fn acquire_with(&self, patience: Patience) -> Result<Guard, Error> {
        let lease = self.permits.acquire(1, patience).await?.into_iter().next();
        // The conversion is for the type alone: there are as many guards as leases that were asked for.
        lease.ok_or_else(|| Error::unavailable(self.path(), None))
    }

    /// Lists the leases that are held, then the waiters, as the connected server knows them.
    ///
    /// The first waiter is listed by the nodes of its leases. The ones below the limit count as held, although the waiter waits
    /// until there is room for all of them.
    ///
    /// # Cancel safety
    ///
    /// The future only reads.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire), where they apply to reading.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        self.permits.participants().await
    }

    /// Retains a lease's node for `retention` after a release, if no task of this session waits for a lease: see
    /// [`InterProcessMutex::with_retention`](crate::InterProcessMutex::with_retention). A task that asks for one lease within
    /// that time gets it without a request.
    ///
    /// A lease is retained only while no caller is in the queue. The first one that enters has all retained leases deleted: a caller
    /// of another process, or a task of this one that finds no retained lease or asks for several. So does a change of the limit.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use zookeeper_recipes::{Curator, Error};
    /// # fn example(curator: &Curator) -> Result<(), Error> {
    /// let semaphore = curator.semaphore("/limits/imports", 3)?.with_retention(Duration::from_secs(5));
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_retention(mut self, retention: Duration) -> Self {
        Arc::make_mut(&mut self.permits).set_retention(retention);
        self
    }

    /// Returns the number of leases that this process knows of.
    pub fn limit(&self) -> usize {
        self.permits.limit.now()
    }

    /// Returns the path, under the namespace.
    pub fn path(&self) -> &str {
        self.permits.recipe.path.as_str()
    }
}
