//! [`InterProcessMutex`]: one holder among all processes.

use std::time::Duration;

use crate::acquire::Queue;
use crate::admission::Family;
use crate::contender_filter::ContenderFilter;
use crate::curator::Curator;
use crate::error::{AcquireError, ConfigError};
use crate::guard::MutexGuard;
use crate::metrics;
use crate::participants::Participant;
use crate::recipe::{Patience, Recipe};
use crate::surface::{lock_surface, option_surface};

/// Lets one task of all processes in at a time, in the order in which they asked.
///
/// It has the znodes of Apache Curator's `InterProcessMutex`, so JVM and Rust processes can share one path.
///
/// * **Fair**: first come, first served, among processes and among the tasks of each. A process is one contender: its tasks
///   take turns under one node, and a contender of another process is served before those that asked after the news of it.
/// * **Not reentrant** by task or thread. [`MutexGuard::reenter`] gives a nested guard, and inside an
///   [`Owner::scope`](crate::Owner::scope) acquiring again does.
/// * **Recovery**: in a disconnection within the session lease a waiter keeps its place and a holder its lock. When the
///   session expires, [`MutexGuard::lost`] resolves, and a waiter queues again at the tail, as the retry policy allows.
/// * **Not guaranteed**: that the process runs. A process that was paused sees the loss at its first check, not before.
///   Pass the [`fencing_token`](MutexGuard::fencing_token) to a resource that compares it.
///
/// A mutex is a cheap handle; clones and other handles on the same path contend with each other.
///
/// ```no_run
/// # use zookeeper_recipes::{Curator, InterProcessMutex};
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let curator = Curator::connect("zk1:2181,zk2:2181,zk3:2181/app").await?;
/// let mutex = InterProcessMutex::new(&curator, "/locks/orders")?;
/// let guard = mutex.acquire().await?;
/// // … alone among all processes, while `guard.is_held()` …
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct InterProcessMutex {
    queue: Queue,
    filter: ContenderFilter,
}

option_surface!(InterProcessMutex);
lock_surface!(InterProcessMutex, MutexGuard);

impl InterProcessMutex {
    /// The lock at `path`, under the curator's namespace. Options are the curator's.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidPath`] for a path that ZooKeeper does not accept.
    pub fn new(curator: &Curator, path: &str) -> Result<Self, ConfigError> {
        let recipe = Recipe::new(curator, path, metrics::Recipe::Mutex)?;
        let filter = ContenderFilter::default();
        let family = Family::Exclusive(filter.clone());
        Ok(Self { queue: Queue::new(recipe, family), filter })
    }

    /// Who counts as a contender, for a path that other clients than Curator use. Defaults to
    /// [`ContenderFilter::Curator`].
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidOption`] if the identity is not text, which kazoo decodes.
    pub fn with_filter(mut self, filter: ContenderFilter) -> Result<Self, ConfigError> {
        self.queue.family = Family::Exclusive(filter.clone());
        let text = filter.needs_text();
        self.filter = filter;
        self.map_recipe(|recipe| recipe.with_text(text))
    }

    /// Keeps the lock's node for so long after a release when no task of this session wants the lock. Who comes back
    /// within that time has the lock again without a request. Zero, the default, keeps nothing.
    ///
    /// Only while nobody else contends: the first contender of another process, and any change of the connection or of the
    /// node, has it deleted at once. So others wait for a round trip at most. A kept node counts as a contender:
    /// [`participants`](Self::participants) lists it. It does not keep the session open.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use zookeeper_recipes::{Curator, InterProcessMutex};
    /// # fn example(curator: &Curator) -> Result<(), zookeeper_recipes::ConfigError> {
    /// let mutex = InterProcessMutex::new(curator, "/locks/orders")?
    ///     .with_retention(Duration::from_secs(1));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_retention(mut self, retention: Duration) -> Self {
        self.queue.retention = retention;
        self
    }

    /// Gives each hold a node, and so a [fencing token](MutexGuard::fencing_token), of its own. Without it tasks of one
    /// session take turns under one node while they may, and share its token: faster by two writes for each hold.
    ///
    /// For a resource that has to tell a late write of one hold from those of the next one in the same process.
    ///
    /// ```no_run
    /// # use zookeeper_recipes::{Curator, InterProcessMutex};
    /// # fn example(curator: &Curator) -> Result<(), zookeeper_recipes::ConfigError> {
    /// let mutex = InterProcessMutex::new(curator, "/locks/orders")?.with_node_per_hold();
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_node_per_hold(mut self) -> Self {
        self.queue.node_per_hold = true;
        self
    }

    /// The path, under the namespace.
    pub fn path(&self) -> &str {
        self.queue.recipe.path.as_str()
    }

    /// All processes of which a task holds or waits, the holder's first, as the server that we are connected to tells it: of an ensemble it may
    /// be one that has not yet heard of the latest. Nodes that vanish meanwhile are left out.
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
        self.queue.recipe.participants(&self.queue.family, None).await
    }

    fn recipe_mut(&mut self) -> &mut Recipe {
        &mut self.queue.recipe
    }

    async fn acquire_with(&self, patience: Patience) -> Result<Option<MutexGuard>, AcquireError> {
        let held = self.queue.acquire(self.filter.kind(), patience).await?;
        Ok(held.map(MutexGuard::new))
    }
}
