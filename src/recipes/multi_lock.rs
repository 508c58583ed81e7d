//! [`InterProcessMultiLock`]: several locks as one.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::timeout_at;

use super::shared::guards::Guards;
use super::shared::hold::{Guard, Hold};
use super::shared::lock::Lock;
use super::shared::recipe::Patience;
use super::shared::runs::impl_runs;
use crate::curator::Curator;
use crate::error::{Error, ErrorKind};

/// Several locks as one: all of them are held, or none. The counterpart of Apache Curator's
/// `InterProcessMultiLock`. Neither has znodes of its own.
///
/// * **Order**: members are acquired one after the other, in the order in which they were given, and released in the
///   reverse order. Two multi-locks that share members and acquire them in different orders can deadlock. Give the members
///   the same order everywhere, as [`Curator::multi_lock`] and [`sorted_by_path`](Self::sorted_by_path) do, or use a deadline.
/// * **All or none**: at the first member that is busy, fails, or is lost meanwhile, the members that were acquired are
///   released, and the remaining ones are not tried.
/// * **One deadline** for all members.
///
/// ```no_run
/// # use zookeeper_recipes::{Curator, Error, InterProcessMultiLock};
/// # async fn example(curator: Curator) -> Result<(), Error> {
/// let mutexes = curator.multi_lock(["/locks/orders", "/locks/stock"])?;
/// let stock = curator.mutex("/locks/stock")?;
/// let catalogue = curator.read_write_lock("/locks/catalogue")?;
/// let mixed = InterProcessMultiLock::new([stock.into(), catalogue.read_half()])?;
/// mixed.with(async |_holds| { /* … while both are held … */ }).await
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is locked until `acquire` or `run`"]
pub struct InterProcessMultiLock {
    members: Arc<[Arc<dyn Lock>]>,
    path: Arc<str>,
}

impl_runs!(InterProcessMultiLock, Vec<Hold>);

impl Curator {
    /// Returns a lock of a mutex at each of `paths`, in the order of the paths, with the options of this handle.
    ///
    /// # Errors
    ///
    /// As for [`mutex`](Self::mutex) and [`InterProcessMultiLock::new`].
    pub fn multi_lock<P: AsRef<str>>(
        &self,
        paths: impl IntoIterator<Item = P>,
    ) -> Result<InterProcessMultiLock, Error> {
        let mutex = |path: P| self.mutex(path).map(Arc::<dyn Lock>::from);
        let mutexes = paths.into_iter().map(mutex).collect::<Result<Vec<_>, _>>()?;
        Ok(InterProcessMultiLock::new(mutexes)?.sorted_by_path())
    }
}

impl InterProcessMultiLock {
    /// Returns a lock of `members`, which are acquired in this order. Members may belong to different `Curator`s.
    ///
    /// Members are compared by their paths. Paths of `Curator`s with different namespaces can name the same node, which this
    /// function does not detect: such a multi-lock waits for itself.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`] if there are no members, or if two have the same path: the
    /// second would wait for the first for ever.
    pub fn new(members: impl IntoIterator<Item = Arc<dyn Lock>>) -> Result<Self, Error> {
        let members: Vec<_> = members.into_iter().collect();
        if members.is_empty() {
            return Err(Error::invalid("members", "[]", "a multi-lock needs at least one"));
        }
        let mut paths = HashSet::new();
        if let Some(twice) = members.iter().find(|member| !paths.insert(member.path())) {
            let path = twice.path();
            let reason = "it is a member twice, and would wait for itself";
            return Err(Error::invalid("member", format_args!("{path:?}"), reason).at(path));
        }
        Ok(Self::of(members))
    }

    fn of(members: Vec<Arc<dyn Lock>>) -> Self {
        let paths: Vec<_> = members.iter().map(|member| member.path()).collect();
        let path = paths.join(" + ").into();
        Self { members: members.into(), path }
    }

    /// Waits until all members are held.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future, at any point, releases the members that were acquired, the last first, and gives up the place in the
    /// queue of the next one.
    ///
    /// # Errors
    ///
    /// As for [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire), as soon as a member fails;
    /// [`ErrorKind::Lost`] if one was lost before all were acquired. [`Error::path`] is that of the
    /// member. The members that were acquired have been released, as far as that could be confirmed.
    pub async fn acquire(&self) -> Result<Guards, Error> {
        self.acquire_with(Patience::Forever).await
    }

    /// Acquires all members if they are free. The future waits for the servers' answers, never for another holder.
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Busy`] at the first member that another contender has, with its path; as for
    /// [`acquire`](Self::acquire).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn try_acquire(&self) -> Result<Guards, Error> {
        self.acquire_with(Patience::TRY).await
    }

    /// Waits until all members are held, at most for `limit` in all. When the time is up, the members that were acquired are
    /// released in the background. A limit of zero is a try that does not wait for a connection; it waits for the release of members
    /// that it acquired, at most for the connection timeout.
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Busy`], with the path of the next member, if the time is up and the call waited for
    /// another contender of any member; [`ErrorKind::Unavailable`] if the time is up and no
    /// server said so; as for [`acquire`](Self::acquire).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<Guards, Error> {
        self.acquire_with(Patience::within(limit)).await
    }

    /// Returns a lock of the members in the order of their paths. Two multi-locks that are sorted cannot deadlock, whatever
    /// members they share.
    pub fn sorted_by_path(self) -> Self {
        let mut members = self.members.to_vec();
        members.sort_by(|one, other| one.path().cmp(other.path()));
        Self::of(members)
    }

    /// Returns the paths of the members, for people to read. The result is not the path of a znode.
    pub fn path(&self) -> &str {
        &self.path
    }

    async fn acquire_with(&self, patience: Patience) -> Result<Guards, Error> {
        let mut guards = Guards::default();
        // One set for all members: to await the guards anew for each member would take quadratic time.
        let mut losses = FuturesUnordered::new();
        for (position, member) in self.members.iter().enumerate() {
            let acquired = tokio::select! {
                biased;
                Some(lost) = losses.next(), if !losses.is_empty() => Err(lost),
                acquired = member.acquire_with(patience) => acquired.map_err(|error| {
                    // The limit is for all members, so another contender of an earlier one used it up.
                    let is_late = error.kind() == ErrorKind::Unavailable && patience.is_over();
                    let waited = guards.iter().any(Guard::has_waited);
                    let error = if is_late && waited { self.busy(position) } else { error };
                    self.member_error(position, error)
                }),
            };
            match acquired {
                Ok(guard) => {
                    let hold = guard.view();
                    losses.push(async move { hold.lost_as_error().await });
                    guards.push(guard);
                }
                Err(error) => {
                    roll_back(guards, patience).await;
                    return Err(error);
                }
            }
        }
        // A member may have been lost while the last one was acquired.
        let lost = guards.iter().find_map(|guard| Some(Error::lost(guard.path(), guard.loss()?)));
        match lost {
            None => Ok(guards),
            Some(error) => {
                roll_back(guards, patience).await;
                Err(error)
            }
        }
    }

    fn busy(&self, position: usize) -> Error {
        let path = self.members[position].path();
        let text = format!(
            "{path} was not acquired in time, behind other contenders of the members before it"
        );
        Error::new(ErrorKind::Busy, text).at(path)
    }

    /// Names the member that failed.
    fn member_error(&self, position: usize, error: Error) -> Error {
        let member = self.members[position].path();
        let path = error.path().unwrap_or(member).to_owned();
        let error = error.at(path);
        if self.members.len() == 1 {
            return error;
        }
        error.while_doing(format_args!("member {position}, {member}"))
    }
}

/// Releases the members that were acquired, at most until the caller's deadline. Releases that are dropped continue. An error is
/// only logged, because the caller needs the reason for the rollback.
async fn roll_back(guards: Guards, patience: Patience) {
    let releasing = guards.release_now();
    let released = match patience {
        Patience::Until { deadline, .. } => timeout_at(deadline, releasing).await.ok().transpose(),
        Patience::NoWait { .. } | Patience::Forever => releasing.await.map(Some),
    };
    if let Err(error) = released {
        tracing::warn!(%error, "not all members that were acquired were released");
    }
}
