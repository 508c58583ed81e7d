//! [`InterProcessMutex`]: one holder among all processes.

use std::fmt;
use std::time::Duration;

use super::shared::contender::Contender;
use super::shared::hold::{Guard, Hold};
use super::shared::lock::impl_lock;
use super::shared::participants::Participant;
use super::shared::recipe::{Patience, Recipe};
use super::shared::runs::impl_runs;
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
impl_runs!(InterProcessMutex, Hold);

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
    /// Waits until the lock is held.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future, at any point, gives up the place in the queue. The session deletes the node, and the next waiter
    /// is served.
    ///
    /// A future that is granted the lock holds it from then on, even if it is not polled. Poll or drop the futures that you keep:
    /// one that waits in a `buffered` stream behind another, or that a `select!` loop leaves aside, keeps all others out, as with
    /// tokio's mutex.
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
    /// lost session. A limit of zero is a try that does not wait for a connection.
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Busy`](crate::ErrorKind::Busy) if the time is up after a server said, at some instant of the call, that another
    /// contender is first, also if no server answers now; [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if the time is up
    /// before any server said whether the lock is held; as for [`acquire`](Self::acquire).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<Guard, Error> {
        self.acquire_with(Patience::within(limit)).await
    }

    async fn acquire_with(&self, patience: Patience) -> Result<Guard, Error> {
        self.contender.acquire_with(patience).await
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
        self.contender.path()
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
