//! [`InterProcessMutex`]: one holder among all processes.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use super::shared::contender::Contender;
use super::shared::hold::{Guard, Hold};
use super::shared::lock::impl_lock;
use super::shared::participants::Participant;
use super::shared::recipe::{Patience, Recipe};
use crate::curator::Curator;
use crate::error::Error;
use crate::lock_path::escape_segment;
use crate::metrics;
use crate::queue::rules::admission::Family;
use crate::queue::rules::filter::ContenderFilter;

/// A fair mutual-exclusion lock across processes and tasks.
///
/// The znodes are those of Apache Curator's `InterProcessMutex`, so JVM and Rust processes can share one path.
///
/// * **Fair**: first come, first served, among processes and among the tasks of each. A process is one contender: its tasks
///   take turns under one node. A contender of another process is served before the tasks that asked after it was seen.
/// * **Not reentrant** by task or thread. [`Guard::reenter`] gives a nested guard, and so does acquiring again inside an
///   [`Owner::scope`](crate::interop::Owner::scope).
/// * **Recovery**: during a disconnection within the session lease, a waiter keeps its place and a holder its lock. When the
///   session expires, [`Hold::lost`] resolves, and a waiter queues again at the tail, as the retry policy allows.
/// * **Not guaranteed**: that the process runs. A process that was paused sees the loss at its first check, not before.
///   Pass the [`fencing_token`](Hold::fencing_token) to a resource that compares it.
///
/// A mutex is a cheap handle. Clones and other handles on the same path contend with each other.
///
/// ```no_run
/// # use zookeeper_recipes::{Curator, Error};
/// # async fn bill(token: i64) -> Result<u64, Error> { Ok(0) }
/// # async fn example() -> Result<(), Error> {
/// let curator = Curator::connect("zk1:2181,zk2:2181,zk3:2181/app").await?;
/// let mutex = curator.mutex("/locks/orders")?;
/// let billed = mutex.run(async |hold| bill(hold.fencing_token().value()).await).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is locked until `acquire` or `run`"]
pub struct InterProcessMutex {
    contender: Contender,
}

impl_lock!(InterProcessMutex);

impl Curator {
    /// Returns a mutex at `path`, under the namespace, with the options of this handle.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) for a path that ZooKeeper does not accept, and for an
    /// option of this handle.
    pub fn mutex(&self, path: impl AsRef<str>) -> Result<InterProcessMutex, Error> {
        let recipe = Recipe::new(self, path.as_ref(), metrics::Recipe::MUTEX)?;
        let filter = ContenderFilter::default();
        let kind = filter.kind();
        Ok(InterProcessMutex { contender: Contender::new(recipe, Family::Exclusive(filter), kind) })
    }

    /// Returns a mutex for one of many things, at the child of `path` that `id` names. The id is one segment of the path.
    /// Characters that a segment cannot contain are escaped as in a URL, so `a/b` is not two levels.
    ///
    /// ```no_run
    /// # use zookeeper_recipes::{Curator, Error};
    /// # fn example(curator: Curator) -> Result<(), Error> {
    /// let mutex = curator.mutex_for("/locks/orders", 4711)?;
    /// assert_eq!(mutex.path(), "/locks/orders/4711");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`mutex`](Self::mutex); an empty id.
    pub fn mutex_for(
        &self,
        path: impl AsRef<str>,
        id: impl fmt::Display,
    ) -> Result<InterProcessMutex, Error> {
        let path = path.as_ref();
        let id = id.to_string();
        if id.is_empty() {
            return Err(Error::invalid("id", "\"\"", "it is empty"));
        }
        self.mutex(format!("{}/{}", path.trim_end_matches('/'), escape_segment(&id)))
    }
}

impl InterProcessMutex {
    /// Acquires the lock, runs `body`, and releases. The body is dropped at its next `await` when the lock is lost.
    ///
    /// One `?` is enough, because the body's error type converts from [`Error`]. If `?` stands both inside the body and after
    /// the call, write the closure's type:
    ///
    /// ```no_run
    /// # use zookeeper_recipes::{Error, FencingToken, InterProcessMutex};
    /// # async fn bill(token: FencingToken) -> Result<u64, std::io::Error> { Ok(0) }
    /// # async fn example(mutex: InterProcessMutex) -> Result<(), Box<dyn std::error::Error>> {
    /// let billed = mutex
    ///     .run(async |hold| -> Result<u64, Box<dyn std::error::Error>> {
    ///         Ok(bill(hold.fencing_token()).await?)
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The lock is released before `?` can return from the caller. To keep a partial result of a body that is dropped, let the
    /// body write it into a captured local.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and releases.
    ///
    /// # Errors
    ///
    /// The body's own; those of [`acquire`](Self::acquire); [`ErrorKind::Lost`](crate::ErrorKind::Lost) if the lock was lost
    /// while the body ran. A release that no server confirms in time is not an error.
    #[allow(clippy::future_not_send)] // it is, if the body is
    pub async fn run<T, E, Fut>(&self, body: impl FnOnce(Hold) -> Fut) -> Result<T, E>
    where
        E: From<Error>,
        Fut: Future<Output = Result<T, E>>,
    {
        self.acquire().await?.run(body).await
    }

    /// Acquires the lock, runs a `body` of any value, and releases: see [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and releases.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run), without the body's.
    #[allow(clippy::future_not_send)] // it is, if the body is
    pub async fn with<T, Fut>(&self, body: impl FnOnce(Hold) -> Fut) -> Result<T, Error>
    where
        Fut: Future<Output = T>,
    {
        self.acquire().await?.with(body).await
    }

    /// Runs `body` under the lock if the lock is free: see [`run`](Self::run). Otherwise the body is not called, and the error is
    /// [`ErrorKind::Busy`](crate::ErrorKind::Busy). The future waits for the servers' answers, never for another holder.
    ///
    /// ```no_run
    /// # use zookeeper_recipes::{Error, InterProcessMutex};
    /// # async fn bill(token: i64) -> Result<u64, Error> { Ok(1) }
    /// # async fn example(mutex: InterProcessMutex) -> Result<(), Error> {
    /// match mutex.try_run(async |hold| bill(hold.fencing_token().value()).await).await {
    ///     Ok(billed) => println!("{billed} orders"),
    ///     Err(error) if error.is_busy() => println!("another process bills"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// If the body itself tries a lock and returns its error, a busy error can be of that lock. Compare [`Error::path`] with
    /// [`path`](Self::path).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and releases.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run) and [`try_acquire`](Self::try_acquire).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    #[allow(clippy::future_not_send)] // it is, if the body is
    pub async fn try_run<T, E, Fut>(&self, body: impl FnOnce(Hold) -> Fut) -> Result<T, E>
    where
        E: From<Error>,
        Fut: Future<Output = Result<T, E>>,
    {
        self.try_acquire().await?.run(body).await
    }

    /// Runs `body` under the lock: see [`run`](Self::run). Waits for the lock at most for `limit`, which does not bound the body.
    /// A limit of zero is [`try_run`](Self::try_run).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and releases.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run) and [`acquire_timeout`](Self::acquire_timeout).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    #[allow(clippy::future_not_send)] // it is, if the body is
    pub async fn run_timeout<T, E, Fut>(
        &self,
        limit: Duration,
        body: impl FnOnce(Hold) -> Fut,
    ) -> Result<T, E>
    where
        E: From<Error>,
        Fut: Future<Output = Result<T, E>>,
    {
        self.acquire_timeout(limit).await?.run(body).await
    }

    /// Waits until the lock is held.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future, at any point, gives up the place in the queue. The session deletes the node, and the next waiter
    /// is served.
    ///
    /// # Errors
    ///
    /// Errors that waiting cannot resolve: [`InvalidInput`](crate::ErrorKind::InvalidInput) (an ACL),
    /// [`PermissionDenied`](crate::ErrorKind::PermissionDenied), [`Refused`](crate::ErrorKind::Refused),
    /// [`UnusablePath`](crate::ErrorKind::UnusablePath), [`Closed`](crate::ErrorKind::Closed),
    /// [`AuthenticationFailed`](crate::ErrorKind::AuthenticationFailed),
    /// [`LimitReached`](crate::ErrorKind::LimitReached); [`Unavailable`](crate::ErrorKind::Unavailable) when the retry
    /// policy is used up; inside an [`Owner::scope`](crate::interop::Owner::scope) also
    /// [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock) and [`Lost`](crate::ErrorKind::Lost).
    #[doc(alias = "lock")]
    pub async fn acquire(&self) -> Result<Guard, Error> {
        self.acquire_with(Patience::Forever).await
    }

    /// Acquires the lock if it is free. The future waits for the servers' answers, never for another holder.
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Busy`](crate::ErrorKind::Busy) if another contender has the lock; as for [`acquire`](Self::acquire).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    #[doc(alias = "try_lock")]
    pub async fn try_acquire(&self) -> Result<Guard, Error> {
        self.acquire_with(Patience::TRY).await
    }

    /// Waits until the lock is held, at most for `limit`. The limit covers everything: a server that does not answer, retries, a
    /// lost session. A limit of zero is [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Busy`](crate::ErrorKind::Busy) if another contender has the lock when the time is up;
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if the time is up before any server said whether the lock is
    /// held; as for [`acquire`](Self::acquire).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<Guard, Error> {
        self.acquire_with(Patience::within(limit)).await
    }

    async fn acquire_with(&self, patience: Patience) -> Result<Guard, Error> {
        self.contender.acquire(patience).await
    }

    /// Lists the processes in which a task holds or waits, the holder first, and after this session's node its tasks that wait
    /// under it. The answer is that of the connected server, which may lag behind the others. Nodes that are deleted meanwhile are
    /// left out.
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
    #[doc(alias = "getParticipantNodes")]
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        self.contender.participants().await
    }

    /// Returns the path, under the namespace.
    pub fn path(&self) -> &str {
        self.contender.recipe.path.as_str()
    }

    /// Retains the lock's node for `retention` after a release, if no task of this session wants the lock. A task that comes
    /// back within that time acquires the lock without a request. Zero, the default, retains nothing.
    ///
    /// A node is retained only while no other process contends. The first contender of another process, and any change of the
    /// connection or of the node, has it deleted at once, so others wait for one round trip at most. A retained node counts as
    /// a contender: [`participants`](Self::participants) lists it. It does not keep the session open.
    ///
    /// A [`try_acquire`](Self::try_acquire) of another process that finds only such a node creates one of its own, and waits for
    /// two of its round trips, at most for a second. It is busy if the other process holds, or does not give way by then. A node
    /// shows in its name that it may be retained, so a node that was created by a handle without retention is never retained.
    ///
    /// A retention of more than a day, or together with [`with_node_per_hold`](Self::with_node_per_hold), is an
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) error of each acquisition.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use zookeeper_recipes::{Curator, Error};
    /// # fn example(curator: &Curator) -> Result<(), Error> {
    /// let mutex = curator.mutex("/locks/orders")?.with_retention(Duration::from_secs(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_retention(mut self, retention: Duration) -> Self {
        self.contender.request_mut().waiter_mut().retention = retention;
        self
    }

    /// Makes each caller a contender of its own at the servers, with a node and so a [fencing token](Hold::fencing_token) of its own.
    /// Without this option, tasks of one session take turns under one node and share its token, which saves two writes for each hold.
    ///
    /// Use it if callers have deadlines of their own and other processes hold for long: each caller keeps the place that it had when it
    /// asked. Use it also for a resource that must tell a late write of one hold from the writes of the next hold in the same process.
    pub fn with_node_per_hold(mut self) -> Self {
        self.contender.request_mut().waiter_mut().shares_queue = false;
        self
    }

    /// Sets which children count as contenders, for a path that clients other than Curator use. Defaults to
    /// [`ContenderFilter::Curator`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the identity is not text, which kazoo decodes.
    pub fn with_filter(mut self, filter: ContenderFilter) -> Result<Self, Error> {
        if filter.needs_text() {
            self.contender.recipe.check_text()?;
        }
        let request = self.contender.request_mut();
        request.kind = filter.kind();
        request.family = Family::Exclusive(filter);
        Ok(self)
    }
}
