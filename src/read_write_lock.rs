//! [`InterProcessReadWriteLock`]: one writer, or any number of readers.

use std::sync::Arc;

use crate::acquire::Queue;
use crate::admission::Family;
use crate::contender_name::Kind;
use crate::curator::Curator;
use crate::error::{AcquireError, ConfigError};
use crate::guard::Held;
use crate::metrics;
use crate::owner::{Owner, Slot};
use crate::participants::Participant;
use crate::recipe::{Patience, Recipe};
use crate::surface::{guard_surface, lock_surface, option_surface};

/// Lets any number of readers in together, or one writer alone, among all processes.
///
/// It has the znodes of Apache Curator's `InterProcessReadWriteLock`.
///
/// * **Fair**: first come, first served. Readers that follow each other hold together; a reader waits for the nearest
///   writer before it, so a waiting writer is not starved by readers that come later.
/// * **Downgrade**: a writer can also read ([`WriteGuard::read`]) and stop writing ([`WriteGuard::downgrade`]) with no other
///   writer in between. **No upgrade**: two readers that upgrade would deadlock. Inside an
///   [`Owner::scope`](crate::Owner::scope) the attempt returns [`AcquireError::Upgrade`]. Elsewhere a task is no owner, so it
///   waits, and a warning is logged.
/// * **Not reentrant** by task or thread: see [`ReadGuard::reenter`], [`WriteGuard::reenter`] and
///   [`Owner`].
///
/// ```no_run
/// # use zookeeper_recipes::{Curator, InterProcessReadWriteLock};
/// # async fn example(curator: Curator) -> Result<(), Box<dyn std::error::Error>> {
/// let lock = InterProcessReadWriteLock::new(&curator, "/locks/catalogue")?;
/// let write = lock.write().acquire().await?;
/// // … alone …
/// let read = write.downgrade().await?;
/// // … with other readers, of what was just written …
/// read.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct InterProcessReadWriteLock {
    queue: Queue,
}

/// The reading half of an [`InterProcessReadWriteLock`].
#[derive(Clone, Debug)]
pub struct ReadLock {
    queue: Queue,
}

/// The writing half of an [`InterProcessReadWriteLock`].
#[derive(Clone, Debug)]
pub struct WriteLock {
    queue: Queue,
}

/// A read lock that is held, together with other readers. See [`MutexGuard`](crate::MutexGuard) for what a guard is and
/// is not.
///
/// Tokens of readers are compared with those of writers: a write hold before it has a smaller one, a later one a
/// greater.
#[must_use = "dropping a guard releases its lock"]
pub struct ReadGuard {
    pub(crate) held: Arc<Held>,
}

/// A write lock that is held, alone. See [`MutexGuard`](crate::MutexGuard) for what a guard is and is not.
#[must_use = "dropping a guard releases its lock"]
pub struct WriteGuard {
    pub(crate) held: Arc<Held>,
    queue: Queue,
    /// Of the owner that acquired it.
    slot: Option<Arc<Slot>>,
}

option_surface!(InterProcessReadWriteLock);
lock_surface!(ReadLock, ReadGuard);
lock_surface!(WriteLock, WriteGuard);
guard_surface!(ReadGuard);
guard_surface!(WriteGuard);

impl InterProcessReadWriteLock {
    /// The lock at `path`, under the curator's namespace. Options are the curator's.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidPath`] for a path that ZooKeeper does not accept.
    pub fn new(curator: &Curator, path: &str) -> Result<Self, ConfigError> {
        let recipe = Recipe::new(curator, path, metrics::Recipe::WriteLock)?;
        Ok(Self { queue: Queue::new(recipe, Family::ReadWrite) })
    }

    /// The lock that readers take.
    pub fn read(&self) -> ReadLock {
        ReadLock { queue: self.queue.clone() }
    }

    /// The lock that writers take.
    pub fn write(&self) -> WriteLock {
        WriteLock { queue: self.queue.clone() }
    }

    /// The path, under the namespace.
    pub fn path(&self) -> &str {
        self.queue.recipe.path.as_str()
    }

    /// All who read, write or wait, first come first, as the server that we are connected to tells it.
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    ///
    /// # Errors
    ///
    /// As for [`ReadLock::acquire`], where they apply to reading.
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
}

impl ReadLock {
    /// The path, under the namespace.
    pub fn path(&self) -> &str {
        self.queue.recipe.path.as_str()
    }

    /// All who read or wait to, first come first. As [`InterProcessReadWriteLock::participants`].
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
        self.queue.recipe.participants(&self.queue.family, Some(Kind::Read)).await
    }

    async fn acquire_with(&self, patience: Patience) -> Result<Option<ReadGuard>, AcquireError> {
        let held = self.queue.acquire(Kind::Read, patience).await?;
        Ok(held.map(|held| ReadGuard { held }))
    }
}

impl WriteLock {
    /// The path, under the namespace.
    pub fn path(&self) -> &str {
        self.queue.recipe.path.as_str()
    }

    /// Who writes and those who wait to, first come first. As [`InterProcessReadWriteLock::participants`].
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
        self.queue.recipe.participants(&self.queue.family, Some(Kind::Write)).await
    }

    async fn acquire_with(&self, patience: Patience) -> Result<Option<WriteGuard>, AcquireError> {
        let slot = Owner::current().map(|owner| self.queue.slot(&owner));
        let held = self.queue.acquire(Kind::Write, patience).await?;
        Ok(held.map(|held| WriteGuard { held, queue: self.queue.clone(), slot }))
    }
}

impl ReadGuard {
    /// A nested guard of the same hold; no traffic. The lock goes with the last guard, in whatever
    /// order they go.
    pub fn reenter(&self) -> Self {
        Self { held: self.held.clone() }
    }
}

impl WriteGuard {
    /// A nested guard of the same hold; no traffic. The lock goes with the last guard, in whatever
    /// order they go.
    pub fn reenter(&self) -> Self {
        Self { held: self.held.clone(), queue: self.queue.clone(), slot: self.slot.clone() }
    }

    /// Reads as well, under a node of its own with the number of this one: when this guard is released, no writer
    /// that waits gets in before the reader is done. Both have the same token.
    ///
    /// The node is created in one transaction with a look whether the write hold's is there, and then read: two trips.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future, at any point, leaves no node.
    ///
    /// # Errors
    ///
    /// [`AcquireError::HoldLost`] if the write hold is over; and all of [`WriteLock::acquire`] but contention.
    pub async fn read(&self) -> Result<ReadGuard, AcquireError> {
        Ok(ReadGuard { held: self.queue.read_beside(&self.held, self.slot.as_deref()).await? })
    }

    /// Reads on and stops writing: [`read`](Self::read), then a release, which is not waited for beyond the servers'
    /// answer. A nested write guard keeps the write lock.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future, at any point, releases both.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read); the write lock is released then.
    pub async fn downgrade(self) -> Result<ReadGuard, AcquireError> {
        let read = self.read().await?;
        // That the write hold is over does not end what was begun beside it; and of a delete that is not confirmed
        // the session takes care.
        let _ = self.release().await;
        Ok(read)
    }
}
