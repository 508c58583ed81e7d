//! [`InterProcessSemaphoreMutex`]: one holder among all processes, on the nodes of a semaphore with one lease.

use crate::curator::Curator;
use crate::error::{AcquireError, ConfigError};
use crate::guard::MutexGuard;
use crate::leasing::Leasing;
use crate::metrics;
use crate::participants::Participant;
use crate::queue::Limit;
use crate::recipe::{Patience, Recipe};
use crate::surface::{lock_surface, option_surface};

/// A mutual exclusion lock that is a semaphore with one lease, on the znodes of Apache Curator's
/// `InterProcessSemaphoreMutex`. Never reentrant, not even inside an [`Owner::scope`](crate::Owner::scope).
///
/// It excludes Curator's class of that name and semaphores on the same path, not an
/// [`InterProcessMutex`](crate::InterProcessMutex). Who need not share a path with those is better served by that:
/// it takes half as many requests.
///
/// ```no_run
/// # use zookeeper_recipes::{Curator, InterProcessSemaphoreMutex};
/// # async fn example(curator: Curator) -> Result<(), Box<dyn std::error::Error>> {
/// let mutex = InterProcessSemaphoreMutex::new(&curator, "/locks/orders")?;
/// let guard = mutex.acquire().await?;
/// // … alone among all processes, while `guard.is_held()` …
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct InterProcessSemaphoreMutex {
    leasing: Leasing,
}

option_surface!(InterProcessSemaphoreMutex);
lock_surface!(InterProcessSemaphoreMutex, MutexGuard);

impl InterProcessSemaphoreMutex {
    /// The lock at `path`, under the curator's namespace. Options are the curator's.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidPath`] for a path that ZooKeeper does not accept.
    pub fn new(curator: &Curator, path: &str) -> Result<Self, ConfigError> {
        let recipe = Recipe::new(curator, path, metrics::Recipe::SemaphoreMutex)?;
        Ok(Self { leasing: Leasing::new(recipe, Limit::Fixed(1)) })
    }

    /// The path, under the namespace.
    pub fn path(&self) -> &str {
        self.leasing.recipe.path.as_str()
    }

    /// All who hold or wait, the holder first, as the server that we are connected to tells it.
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

    async fn acquire_with(&self, patience: Patience) -> Result<Option<MutexGuard>, AcquireError> {
        let leases = self.leasing.acquire(1, patience).await?;
        Ok(leases.and_then(|leases| leases.into_iter().next()).map(MutexGuard::new))
    }
}
