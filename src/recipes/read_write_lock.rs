//! [`InterProcessReadWriteLock`]: one writer, or any number of readers.

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::shared::attempt::Attempt;
use super::shared::contender::Contender;
use super::shared::hold::{Guard, Hold};
use super::shared::lock::{Lock, impl_lock};
use super::shared::owner::OwnerEntry;
use super::shared::participants::Participant;
use super::shared::recipe::{Patience, Recipe};
use crate::curator::Curator;
use crate::error::{Error, Released};
use crate::metrics;
use crate::queue::rules::admission::Family;
use crate::queue::rules::node_name::Kind;

/// Lets any number of readers in together, or one writer alone, among all processes.
///
/// It has the znodes of Apache Curator's `InterProcessReadWriteLock`.
///
/// * **Fair**: first come, first served. Readers that follow each other hold together; a reader waits for the nearest
///   writer before it, so a waiting writer is not starved by readers that come later.
/// * **Downgrade**: a writer can also read ([`WriteGuard::read`]) and stop writing ([`WriteGuard::downgrade`]) with no other
///   writer in between. **No upgrade**: two readers that upgrade would deadlock. Inside an
///   [`Owner::scope`](crate::interop::Owner::scope) the attempt is an error of kind
///   [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock). Elsewhere a task is no owner, so it waits, and a warning is logged.
/// * **Not reentrant** by task or thread: see [`Guard::reenter`], [`WriteGuard::reenter`] and
///   [`Owner`](crate::interop::Owner).
///
/// Tokens of readers are compared with those of writers: a write hold before a read has a smaller one, a later one a greater.
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
    read: Contender,
    write: Contender,
}

impl Curator {
    /// A read-write lock at `path`, under the namespace, with the options of this handle.
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
        Ok(InterProcessReadWriteLock { read, write })
    }
}

impl InterProcessReadWriteLock {
    /// Waits until it reads.
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
        self.read.acquire().await
    }

    /// Waits until it writes.
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
        let owner_entry = self.write.owner_entry();
        let guard = self.write.acquire().await?;
        Ok(WriteGuard { guard, reader: self.read.clone(), owner_entry })
    }

    /// Reads if no writer holds or waits. It waits for the servers' answers, never for a holder.
    ///
    /// # Cancel safety
    ///
    /// As for [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn try_read(&self) -> Result<Attempt, Error> {
        self.attempt_read(Patience::NoWait).await
    }

    /// Writes if no other contender holds. It waits for the servers' answers, never for a holder.
    ///
    /// # Cancel safety
    ///
    /// As for [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn try_write(&self) -> Result<Attempt<WriteGuard>, Error> {
        self.attempt_write(Patience::NoWait).await
    }

    /// Waits until it reads, at most for `limit`: see
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
    pub async fn read_timeout(&self, limit: Duration) -> Result<Attempt, Error> {
        self.attempt_read(Patience::within(limit)).await
    }

    /// Waits until it writes, at most for `limit`: see
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
    pub async fn write_timeout(&self, limit: Duration) -> Result<Attempt<WriteGuard>, Error> {
        self.attempt_write(Patience::within(limit)).await
    }

    async fn attempt_read(&self, patience: Patience) -> Result<Attempt, Error> {
        self.read.attempt(patience).await.map(Attempt::of)
    }

    async fn attempt_write(&self, patience: Patience) -> Result<Attempt<WriteGuard>, Error> {
        let owner_entry = self.write.owner_entry();
        let Some(guard) = self.write.attempt(patience).await? else { return Ok(Attempt::Busy) };
        Ok(Attempt::Acquired(WriteGuard { guard, reader: self.read.clone(), owner_entry }))
    }

    /// The reading half, as any lock: for a multi-lock, for [`run`](#method.run).
    ///
    /// ```no_run
    /// # use zookeeper_recipes::{Error, InterProcessReadWriteLock};
    /// # async fn example(catalogue: InterProcessReadWriteLock) -> Result<(), Error> {
    /// catalogue.read_half().with(async |_hold| { /* … with other readers … */ }).await
    /// # }
    /// ```
    pub fn read_half(&self) -> Arc<dyn Lock> {
        Half { contender: self.read.clone() }.into()
    }

    /// The writing half, as any lock.
    pub fn write_half(&self) -> Arc<dyn Lock> {
        Half { contender: self.write.clone() }.into()
    }

    /// All readers, writers and waiters, in the order in which they came, as the connected server knows them.
    ///
    /// # Cancel safety
    ///
    /// It only reads.
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

    /// The path, under the namespace.
    pub fn path(&self) -> &str {
        self.write.recipe.path.as_str()
    }
}

#[derive(Debug)]
struct Half {
    contender: Contender,
}

impl_lock!(Half);

impl Half {
    fn path(&self) -> &str {
        self.contender.recipe.path.as_str()
    }

    async fn acquire(&self) -> Result<Guard, Error> {
        self.contender.acquire().await
    }

    async fn attempt(&self, patience: Patience) -> Result<Option<Guard>, Error> {
        self.contender.attempt(patience).await
    }
}

impl From<Attempt<WriteGuard>> for Attempt {
    fn from(attempt: Attempt<WriteGuard>) -> Self {
        match attempt {
            Attempt::Acquired(guard) => Self::Acquired(guard.into()),
            Attempt::Busy => Self::Busy,
        }
    }
}

/// A write lock that is held, alone. It is a [`Guard`] that can read as well.
///
/// ```no_run
/// # use zookeeper_recipes::{Error, InterProcessReadWriteLock};
/// # async fn example(catalogue: InterProcessReadWriteLock) -> Result<(), Error> {
/// let write = catalogue.write().await?;
/// // … changes it …
/// let read = write.downgrade().await?; // reads on, and no writer was in between
/// # Ok(())
/// # }
/// ```
#[must_use = "the lock is released when its guard is dropped"]
#[derive(Debug)]
pub struct WriteGuard {
    guard: Guard,
    /// Contends for a read alongside the write.
    reader: Contender,
    /// The entry of the owner that acquired the lock, if an owner did.
    owner_entry: Option<Arc<OwnerEntry>>,
}

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

    /// Runs `body` while the lock is held, and releases: see [`Guard::run`].
    ///
    /// # Cancel safety
    ///
    /// As for [`Guard::run`].
    ///
    /// # Errors
    ///
    /// As for [`Guard::run`].
    #[allow(clippy::future_not_send)] // it is, if the body is
    pub async fn run<T, E, Fut>(self, body: impl FnOnce(Hold) -> Fut) -> Result<T, E>
    where
        E: From<Error>,
        Fut: Future<Output = Result<T, E>>,
    {
        self.guard.run(body).await
    }

    /// The same for a body of any value.
    ///
    /// # Cancel safety
    ///
    /// As for [`Guard::run`].
    ///
    /// # Errors
    ///
    /// As for [`Guard::with`].
    #[allow(clippy::future_not_send)] // it is, if the body is
    pub async fn with<T, Fut>(self, body: impl FnOnce(Hold) -> Fut) -> Result<T, Error>
    where
        Fut: Future<Output = T>,
    {
        self.guard.with(body).await
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
    pub async fn downgrade(self) -> Result<Guard, Error> {
        let read = self.read().await?;
        // That the write hold is over does not end what was begun beside it; and of a delete that is not confirmed
        // the session takes care.
        let _ = self.release().await;
        Ok(read)
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
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) if the write hold is over; and all of
    /// [`InterProcessReadWriteLock::read`].
    pub async fn read(&self) -> Result<Guard, Error> {
        self.reader.read_alongside(&self.guard, self.owner_entry.as_deref()).await
    }

    /// A nested guard of the same hold; no traffic. The lock is released with the last guard, in whatever order they go.
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
