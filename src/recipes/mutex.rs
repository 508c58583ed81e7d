//! [`InterProcessMutex`]: one holder among all processes.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use super::shared::attempt::Attempt;
use super::shared::contender::Contender;
use super::shared::hold::{Guard, Hold};
use super::shared::lock::impl_lock;
use super::shared::participants::Participant;
use super::shared::recipe::{Patience, Recipe};
use crate::curator::Curator;
use crate::error::Error;
use crate::lock_path::segment_of;
use crate::metrics;
use crate::queue::rules::admission::Family;
use crate::queue::rules::filter::ContenderFilter;

/// Lets one task of all processes in at a time, in the order in which they asked.
///
/// It has the znodes of Apache Curator's `InterProcessMutex`, so JVM and Rust processes can share one path.
///
/// * **Fair**: first come, first served, among processes and among the tasks of each. A process is one contender: its tasks
///   take turns under one node, and a contender of another process is served before those that asked after the news of it.
/// * **Not reentrant** by task or thread. [`Guard::reenter`] gives a nested guard, and inside an
///   [`Owner::scope`](crate::interop::Owner::scope) acquiring again does.
/// * **Recovery**: in a disconnection within the session lease a waiter keeps its place and a holder its lock. When the
///   session expires, [`Hold::lost`] resolves, and a waiter queues again at the tail, as the retry policy allows.
/// * **Not guaranteed**: that the process runs. A process that was paused sees the loss at its first check, not before.
///   Pass the [`fencing_token`](Hold::fencing_token) to a resource that compares it.
///
/// A mutex is a cheap handle; clones and other handles on the same path contend with each other.
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
    /// A mutex at `path`, under the namespace, with the options of this handle.
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

    /// A mutex for one of many things: at the child of `path` that `id` names. The id is one segment: what a segment cannot
    /// have is escaped as in a URL, so `a/b` is not two levels.
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
        self.mutex(format!("{}/{}", path.trim_end_matches('/'), segment_of(&id)))
    }
}

impl InterProcessMutex {
    /// Waits until the lock is held.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future, at any point, gives the place in the queue up; its node is removed by the session, and the next
    /// waiter is served.
    ///
    /// # Errors
    ///
    /// Only what waiting does not mend: [`InvalidInput`](crate::ErrorKind::InvalidInput) (an ACL),
    /// [`PermissionDenied`](crate::ErrorKind::PermissionDenied), [`Refused`](crate::ErrorKind::Refused),
    /// [`UnusablePath`](crate::ErrorKind::UnusablePath), [`Closed`](crate::ErrorKind::Closed),
    /// [`AuthenticationFailed`](crate::ErrorKind::AuthenticationFailed),
    /// [`LimitReached`](crate::ErrorKind::LimitReached); [`Unavailable`](crate::ErrorKind::Unavailable) when the retry
    /// policy is used up; inside an [`Owner::scope`](crate::interop::Owner::scope) also
    /// [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock) and [`Lost`](crate::ErrorKind::Lost).
    #[doc(alias = "lock")]
    pub async fn acquire(&self) -> Result<Guard, Error> {
        self.contender.acquire().await
    }

    /// Acquires, runs `body`, releases. The body is dropped at its next `await` when the lock is lost.
    ///
    /// One `?` is enough: the body's error type is made from [`Error`]. Where `?` stands both inside and after, write the
    /// closure's type:
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
    /// The lock is released before `?` can leave the caller. A value that a stopped body had finished is not lost if the
    /// body wrote it into a captured local.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and releases.
    ///
    /// # Errors
    ///
    /// The body's own; those of [`acquire`](Self::acquire); [`ErrorKind::Lost`](crate::ErrorKind::Lost) if the lock was lost
    /// while the body ran. A release that no server confirms in time is no error.
    #[allow(clippy::future_not_send)] // it is, if the body is
    pub async fn run<T, E, Fut>(&self, body: impl FnOnce(Hold) -> Fut) -> Result<T, E>
    where
        E: From<Error>,
        Fut: Future<Output = Result<T, E>>,
    {
        self.acquire().await?.run(body).await
    }

    /// The same as [`run`](Self::run) for a body of any value: a plain one, or another crate's `Result`.
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

    /// Takes the lock if it is free. It waits for the servers' answers, never for another holder.
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    #[doc(alias = "try_lock")]
    pub async fn try_acquire(&self) -> Result<Attempt, Error> {
        self.attempt(Patience::NoWait).await.map(Attempt::of)
    }

    /// Waits until the lock is held, at most for `limit`; [`Attempt::Busy`] when the time is up and another contender has
    /// it. The limit covers everything: a server that does not answer, retries, a lost session. A limit of zero is
    /// [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) when the time is up before any server said whether the lock
    /// is held; and all of [`acquire`](Self::acquire).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<Attempt, Error> {
        self.attempt(Patience::within(limit)).await.map(Attempt::of)
    }

    async fn attempt(&self, patience: Patience) -> Result<Option<Guard>, Error> {
        self.contender.attempt(patience).await
    }

    /// All processes of which a task holds or waits, the holder's first, and the tasks of this session that wait under its
    /// node, as the server that we are connected to tells it: of an ensemble it may be one that has not yet heard of the
    /// latest. Nodes that vanish meanwhile are left out.
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
    #[doc(alias = "getParticipantNodes")]
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        self.contender.participants().await
    }

    /// The path, under the namespace.
    pub fn path(&self) -> &str {
        self.contender.recipe.path.as_str()
    }

    /// Keeps the lock's node for so long after a release when no task of this session wants the lock. A task that comes
    /// back within that time has the lock again without a request. Zero, the default, keeps nothing.
    ///
    /// Only while no other process contends: the first contender of another process, and any change of the connection or of
    /// the node, has it deleted at once. So others wait for a round trip at most. A kept node counts as a contender:
    /// [`participants`](Self::participants) lists it. It does not keep the session open.
    ///
    /// More than a day, or together with [`with_node_per_hold`](Self::with_node_per_hold), is an
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
        self.contender.request_mut().retention = retention;
        self
    }

    /// Gives each hold a node, and so a [fencing token](Hold::fencing_token), of its own. Without it tasks of one session
    /// take turns under one node while they may, and share its token: faster by two writes for each hold.
    ///
    /// For a resource that has to tell a late write of one hold from those of the next one in the same process.
    pub fn with_node_per_hold(mut self) -> Self {
        self.contender.request_mut().node_per_hold = true;
        self
    }

    /// Which children count as contenders, for a path that other clients than Curator use. Defaults to
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
