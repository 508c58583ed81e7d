//! [`InterProcessSemaphore`]: so many holders among all processes.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::curator::Curator;
use crate::error::{AcquireError, ConfigError, ReleaseError};
use crate::guard::Held;
use crate::leasing::Leasing;
use crate::metrics;
use crate::participants::Participant;
use crate::queue::Limit;
use crate::recipe::{Patience, Recipe};
use crate::shared_count::SharedCount;
use crate::surface::{guard_surface, lock_surface, option_surface};

/// Lets at most N holders in at a time, among all processes. All processes that use a path must agree on N.
///
/// It has the znodes of Apache Curator's `InterProcessSemaphoreV2`, not those of its older `InterProcessSemaphore`.
///
/// * **Fair**: first come, first served, however many leases each asks for.
/// * **All or nothing**: a caller that asks for several leases gets all of them together, so two such callers never wait
///   for each other. Curator takes one lease after the other, which can deadlock, also with a Rust caller. In a mixed
///   fleet let only Rust processes ask for several.
/// * **A lease is a guard** like any other: it can be lost, and has a token.
///
/// ```no_run
/// # use zookeeper_recipes::{Curator, InterProcessSemaphore};
/// # async fn example(curator: Curator) -> Result<(), Box<dyn std::error::Error>> {
/// let semaphore = InterProcessSemaphore::new(&curator, "/limits/imports", 3)?;
/// let lease = semaphore.acquire().await?;
/// // … with two others at most …
/// lease.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct InterProcessSemaphore {
    leasing: Leasing,
}

/// Holds one lease of an [`InterProcessSemaphore`] until it is released or dropped. See [`MutexGuard`](crate::MutexGuard) for what a guard is and is not.
///
/// Tokens of leases tell a younger from an older one; several are good at a time.
#[must_use = "dropping a lease gives it back"]
pub struct Lease {
    pub(crate) held: Arc<Held>,
    data: Arc<[u8]>,
}

/// Leases that were acquired together: a slice of them. Each can be taken out, and goes on its own.
#[derive(Debug)]
#[must_use = "dropping leases gives them back"]
pub struct Leases(Vec<Lease>);

option_surface!(InterProcessSemaphore);
lock_surface!(InterProcessSemaphore, Lease);
guard_surface!(Lease);

impl InterProcessSemaphore {
    /// The semaphore with `limit` leases at `path`, under the curator's namespace. Options are the curator's.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidPath`] for a path that ZooKeeper does not accept; [`ConfigError::InvalidOption`] for a
    /// limit of zero, or beyond [`i32::MAX`], which is Curator's.
    pub fn new(curator: &Curator, path: &str, limit: usize) -> Result<Self, ConfigError> {
        let recipe = Recipe::new(curator, path, metrics::Recipe::Semaphore)?;
        match i32::try_from(limit) {
            Ok(limit @ 1..) => Ok(Self { leasing: Leasing::new(recipe, Limit::Fixed(limit)) }),
            _ => Err(ConfigError::InvalidOption {
                option: "limit",
                value: format!("{limit} for {path}"),
                reason: "it must be at least 1 and at most 2147483647",
            }),
        }
    }

    /// The semaphore at `path` with as many leases as `limit` says, now and whenever it changes: a smaller limit takes
    /// nothing from who has leases, a greater one wakes who waits. While it is zero or less nobody gets one: who asks for one
    /// waits. Who asks for several gets [`AcquireError::LeaseCount`] when there are fewer, also while it waits.
    ///
    /// What is known of the count here counts: see [`SharedCount`] for how late that may be. When it cannot be read any
    /// more, the last value stays.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidPath`] for a path that ZooKeeper does not accept.
    pub fn with_shared_count(
        curator: &Curator,
        path: &str,
        limit: &SharedCount,
    ) -> Result<Self, ConfigError> {
        let recipe = Recipe::new(curator, path, metrics::Recipe::Semaphore)?;
        Ok(Self { leasing: Leasing::new(recipe, Limit::Live(limit.subscribe())) })
    }

    /// The path, under the namespace.
    pub fn path(&self) -> &str {
        self.leasing.recipe.path.as_str()
    }

    /// How many leases there are, as far as is known here.
    pub fn limit(&self) -> usize {
        self.leasing.limit.now()
    }

    /// Waits until `count` leases are held, all of them.
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// [`AcquireError::LeaseCount`] at once for none, or for more than there are; and all of
    /// [`acquire`](Self::acquire).
    pub async fn acquire_many(&self, count: usize) -> Result<Leases, AcquireError> {
        loop {
            if let Some(leases) = self.acquire_many_with(count, Patience::Forever).await? {
                return Ok(leases);
            }
        }
    }

    /// Waits until `count` leases are held, at most for `limit`; `None` when the time is up and others have them.
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
    ) -> Result<Option<Leases>, AcquireError> {
        self.acquire_many_with(count, Patience::within(limit)).await
    }

    /// Takes `count` leases if that many are free; `None` if they are not, or while another caller is about to take some.
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As for [`acquire_many`](Self::acquire_many).
    pub async fn try_acquire_many(&self, count: usize) -> Result<Option<Leases>, AcquireError> {
        self.acquire_many_with(count, Patience::OnlyIfFree).await
    }

    /// All who have leases, then all who wait for some, as the server that we are connected to tells it.
    ///
    /// Whoever is the first to wait is told by the nodes of its leases. As many of these as there is room for count as
    /// held, though it waits until there is room for all.
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire), where they apply to reading.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn participants(&self) -> Result<Vec<Participant>, AcquireError> {
        self.leasing.participants().await
    }

    fn recipe_mut(&mut self) -> &mut Recipe {
        &mut self.leasing.recipe
    }

    async fn acquire_with(&self, patience: Patience) -> Result<Option<Lease>, AcquireError> {
        let leases = self.acquire_many_with(1, patience).await?;
        Ok(leases.and_then(|leases| leases.into_iter().next()))
    }

    async fn acquire_many_with(
        &self,
        count: usize,
        patience: Patience,
    ) -> Result<Option<Leases>, AcquireError> {
        let held = self.leasing.acquire(count, patience).await?;
        let lease = |held| Lease { held, data: self.leasing.recipe.data.clone() };
        Ok(held.map(|held| Leases(held.into_iter().map(lease).collect())))
    }
}

impl Lease {
    /// What its node says of who has it.
    pub fn data(&self) -> &[u8] {
        &self.data
    }
}

impl Leases {
    /// Gives all of them back, and waits until the servers confirm each.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future, also before it is polled, gives all of them back; only the report is lost.
    ///
    /// # Errors
    ///
    /// That of the first that could not be given back as it should, as for [`Lease::release`]; all are.
    pub async fn release(self) -> Result<(), ReleaseError> {
        let releases = self.0.into_iter().map(Lease::release);
        let released = futures_util::future::join_all(releases).await;
        released.into_iter().try_for_each(|released| released.map(drop))
    }
}

impl Deref for Leases {
    type Target = [Lease];

    fn deref(&self) -> &[Lease] {
        &self.0
    }
}

impl IntoIterator for Leases {
    type Item = Lease;
    type IntoIter = std::vec::IntoIter<Lease>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
