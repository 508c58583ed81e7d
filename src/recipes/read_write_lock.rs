//! [`InterProcessReadWriteLock`]: one writer, or any number of readers.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::shared::contender::Contender;
use super::shared::hold::{Guard, Hold};
use super::shared::lock::Lock;
use super::shared::owner::OwnerEntry;
use super::shared::participants::Participant;
use super::shared::recipe::{Patience, Recipe};
use super::shared::runs::impl_guard_runs;
use crate::curator::Curator;
use crate::error::{Error, Released};
use crate::metrics;
use crate::queue::rules::admission::Family;
use crate::queue::rules::node_name::Kind;

/// A fair lock across processes for any number of readers together, or one writer alone.
///
/// The znodes are those of Apache Curator's `InterProcessReadWriteLock`.
///
/// * **Fair**: first come, first served. Readers that follow each other hold together. A reader waits for the nearest
///   writer before it, so readers that come later do not starve a waiting writer.
/// * **Downgrade**: a writer can also read ([`WriteGuard::read`]) and stop writing ([`WriteGuard::downgrade`]) with no other
///   writer in between. **No upgrade**: two readers that upgrade would deadlock. Inside an
///   [`Owner::scope`](crate::interop::Owner::scope) the attempt is an error of kind
///   [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock). Outside of a scope the task waits, and a warning is logged.
/// * **Not reentrant** by task or thread: see [`Guard::reenter`], [`WriteGuard::reenter`] and
///   [`Owner`](crate::interop::Owner).
/// * **A process is one contender**: its writers take turns under one node, and its readers hold together under one, without a
///   request while no writer is known.
///
/// Tokens of readers compare with those of writers: a write hold before a read has a smaller token, a later one a greater. Readers
/// that share a node have one token.
///
/// ```no_run
/// # use zookeeper_recipes::{Curator, Error};
/// # async fn example(curator: Curator) -> Result<(), Error> {
/// let lock = curator.read_write_lock("/locks/catalogue")?;
/// let write = lock.write().await?;
/// // … alone …
/// let read = write.downgrade().await?;
/// // … with other readers, of what was just written …
/// read.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is locked until `read` or `write`"]
pub struct InterProcessReadWriteLock {
    read: Arc<Contender>,
    write: Arc<Contender>,
}

impl Curator {
    /// Returns a read-write lock at `path`, under the namespace, with the options of this handle.
    ///
    /// # Errors
    ///
    /// As for [`mutex`](Self::mutex).
    pub fn read_write_lock(
        &self,
        path: impl AsRef<str>,
    ) -> Result<InterProcessReadWriteLock, Error> {
        let recipe = Recipe::new(self, path.as_ref(), metrics::Recipe::WRITE_LOCK)?;
        let mut read = Contender::new(recipe.clone(), Family::ReadWrite, Kind::Read);
        let request = read.request_mut();
        request.counted = request.counted.as_of(metrics::Recipe::READ_LOCK);
        let write = Contender::new(recipe, Family::ReadWrite, Kind::Write);
        Ok(InterProcessReadWriteLock { read: Arc::new(read), write: Arc::new(write) })
    }
}

impl InterProcessReadWriteLock {
    /// Waits until the read lock is held.
    ///
    /// # Cancel safety
    ///
    /// As for [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    ///
    /// # Errors
    ///
    /// As for [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    #[doc(alias = "readLock")]
    pub async fn read(&self) -> Result<Guard, Error> {
        self.read.acquire_with(Patience::Forever).await
    }

    /// Waits until the write lock is held.
    ///
    /// # Cancel safety
    ///
    /// As for [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    #[doc(alias = "writeLock")]
    pub async fn write(&self) -> Result<WriteGuard, Error> {
        self.write_with(Patience::Forever).await
    }

    /// Acquires the read lock if no writer holds or waits. The future waits for the servers' answers, never for a holder.
    ///
    /// # Cancel safety
    ///
    /// As for [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As for [`InterProcessMutex::try_acquire`](crate::InterProcessMutex::try_acquire).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn try_read(&self) -> Result<Guard, Error> {
        self.read.acquire_with(Patience::TRY).await
    }

    /// Acquires the write lock if no other contender holds. The future waits for the servers' answers, never for a holder.
    ///
    /// # Cancel safety
    ///
    /// As for [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As for [`InterProcessMutex::try_acquire`](crate::InterProcessMutex::try_acquire).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn try_write(&self) -> Result<WriteGuard, Error> {
        self.write_with(Patience::TRY).await
    }

    /// Waits until the read lock is held, at most for `limit`: see
    /// [`InterProcessMutex::acquire_timeout`](crate::InterProcessMutex::acquire_timeout).
    ///
    /// # Cancel safety
    ///
    /// As for [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As for [`InterProcessMutex::acquire_timeout`](crate::InterProcessMutex::acquire_timeout).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn read_timeout(&self, limit: Duration) -> Result<Guard, Error> {
        self.read.acquire_with(Patience::within(limit)).await
    }

    /// Waits until the write lock is held, at most for `limit`: see
    /// [`InterProcessMutex::acquire_timeout`](crate::InterProcessMutex::acquire_timeout).
    ///
    /// # Cancel safety
    ///
    /// As for [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As for [`InterProcessMutex::acquire_timeout`](crate::InterProcessMutex::acquire_timeout).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn write_timeout(&self, limit: Duration) -> Result<WriteGuard, Error> {
        self.write_with(Patience::within(limit)).await
    }

    async fn write_with(&self, patience: Patience) -> Result<WriteGuard, Error> {
        let owner_entry = self.write.owner_entry();
        let guard = self.write.acquire_with(patience).await?;
        Ok(WriteGuard { guard, reader: self.read.clone(), owner_entry })
    }

    /// Returns the read lock as a trait object: for a multi-lock, or for [`run`](trait.Lock.html#method.run) and the like.
    ///
    /// ```no_run
    /// # use zookeeper_recipes::{Error, InterProcessReadWriteLock};
    /// # async fn example(catalogue: InterProcessReadWriteLock) -> Result<(), Error> {
    /// catalogue.read_half().with(async |_hold| { /* … with other readers … */ }).await
    /// # }
    /// ```
    pub fn read_half(&self) -> Arc<dyn Lock> {
        self.read.clone()
    }

    /// Returns the write lock as a trait object: see [`read_half`](Self::read_half).
    pub fn write_half(&self) -> Arc<dyn Lock> {
        self.write.clone()
    }

    /// Lists the readers, writers and waiters in the order in which they came, as the connected server knows them.
    ///
    /// # Cancel safety
    ///
    /// The future only reads.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read), where they apply to reading.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        self.write.participants().await
    }

    /// Returns the path, under the namespace.
    pub fn path(&self) -> &str {
        self.write.path()
    }

    /// Retains the lock's node for `retention` after a release, if no task of this session wants the lock: see
    /// [`InterProcessMutex::with_retention`](crate::InterProcessMutex::with_retention).
    ///
    /// While the node of readers is retained, reads of this process need no request until a writer comes, of any process. Readers of
    /// other processes can hold and retain nodes as well. The node of a writer is retained only while no other process contends.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use zookeeper_recipes::{Curator, Error};
    /// # fn example(curator: &Curator) -> Result<(), Error> {
    /// let lock = curator.read_write_lock("/config")?.with_retention(Duration::from_secs(10));
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_retention(mut self, retention: Duration) -> Self {
        for contender in [&mut self.read, &mut self.write] {
            let request = Arc::make_mut(contender).request_mut();
            request.waiter_mut().retention = retention;
        }
        self
    }
}

/// Holds a write lock until it is released or dropped: a [`Guard`] that can also read.
///
/// ```no_run
/// # use zookeeper_recipes::{Error, InterProcessReadWriteLock};
/// # async fn example(catalogue: InterProcessReadWriteLock) -> Result<(), Error> {
/// let write = catalogue.write().await?;
/// // … changes it …
/// let read = write.downgrade().await?; // keeps reading; no writer was in between
/// # Ok(())
/// # }
/// ```
#[must_use = "the lock is released when its guard is dropped"]
pub struct WriteGuard {
    guard: Guard,
    /// Contends for a read alongside the write.
    reader: Arc<Contender>,
    /// The entry of the owner that acquired the lock, if an owner did.
    owner_entry: Option<Arc<OwnerEntry>>,
}

impl fmt::Debug for WriteGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt_as("WriteGuard", f)
    }
}

impl_guard_runs!(WriteGuard, Hold, |write| write.view());

impl WriteGuard {
    /// Releases the lock: see [`Guard::release`].
    ///
    /// # Cancel safety
    ///
    /// As for [`Guard::release`].
    ///
    /// # Errors
    ///
    /// As for [`Guard::release`].
    pub async fn release(self) -> Result<Released, Error> {
        self.guard.release().await
    }

    fn release_now(self) -> impl Future<Output = Result<Released, Error>> + Send + use<> {
        self.guard.release_now()
    }

    /// Downgrades to a read lock: [`read`](Self::read), then a release of the write lock, whose outcome is not an error. A
    /// nested write guard keeps the write lock.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future, at any point, releases both.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read). The write lock is then released.
    pub async fn downgrade(self) -> Result<Guard, Error> {
        let read = self.read().await?;
        // The read hold lasts even if the write hold was lost, and the session repeats a delete that is not confirmed.
        let _ = self.release().await;
        Ok(read)
    }

    /// Acquires a read lock alongside the write lock. When this guard is released, no waiting writer gets in before the reader is
    /// done. Both holds have the same token.
    ///
    /// The read lock has a node of its own, with the number of the write lock's node. One transaction checks that the write lock's
    /// node exists and creates the new node, which is then read: two trips.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future, at any point, leaves no node.
    ///
    /// # Errors
    ///
    /// As for [`InterProcessReadWriteLock::read`]; [`ErrorKind::Lost`](crate::ErrorKind::Lost) if the write lock was lost.
    pub async fn read(&self) -> Result<Guard, Error> {
        self.reader.read_alongside(&self.guard, self.owner_entry.as_deref()).await
    }

    /// Returns a nested guard of the same hold; no traffic. The lock is released with the last guard, in whatever order they
    /// are dropped.
    pub fn reenter(&self) -> Self {
        Self {
            guard: self.guard.reenter(),
            reader: self.reader.clone(),
            owner_entry: self.owner_entry.clone(),
        }
    }
}

impl Deref for WriteGuard {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.guard
    }
}

impl From<WriteGuard> for Guard {
    fn from(write: WriteGuard) -> Self {
        write.guard
    }
}
