//! [`InterProcessMultiLock`]: several locks as one.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::shared::attempt::Attempt;
use super::shared::guards::Guards;
use super::shared::hold::Hold;
use super::shared::lock::Lock;
use super::shared::recipe::Patience;
use crate::clock::Moment;
use crate::curator::Curator;
use crate::error::Error;

/// Several locks as one: all of them are held, or none. The counterpart of Apache Curator's
/// `InterProcessMultiLock`; like that one it has no znodes of its own.
///
/// * **Order**: members are acquired one after the other, in the order in which they were given, and released in the
///   reverse order. Two multi-locks that share members and take them in different orders can wait for each
///   other for ever. Give the members the same order everywhere, as [`Curator::multi_lock`] and
///   [`sorted_by_path`](Self::sorted_by_path) do, or use a deadline.
/// * **All or none**: at the first member that is busy, fails, or is lost meanwhile, those behind it are not
///   asked, and those that were acquired are released.
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

impl Curator {
    /// A lock of a mutex at each of `paths`, in the order of their paths, with the options of this handle.
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
    /// A lock of `members`, which are acquired in this order. They may be of different `Curator`s.
    ///
    /// Members are compared by their paths. Two paths of `Curator`s with different namespaces can be the same node, which is not
    /// noticed: such members wait for each other.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if there are no members, or two have the same path: the
    /// second would wait for the first for ever.
    pub fn new(members: impl IntoIterator<Item = Arc<dyn Lock>>) -> Result<Self, Error> {
        let members: Vec<_> = members.into_iter().collect();
        if members.is_empty() {
            return Err(Error::invalid("members", "[]", "a multi-lock needs at least one"));
        }
        let mut paths = HashSet::new();
        if let Some(twice) = members.iter().find(|member| !paths.insert(member.path())) {
            let (path, reason) = (twice.path(), "it is a member twice, and would wait for itself");
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
    /// Dropping the future, at any point, releases what was acquired, the last first, and gives up the place in the
    /// queue of the member that it waits for.
    ///
    /// # Errors
    ///
    /// As for [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire), as soon as a member fails;
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) if one was lost before all were acquired. [`Error::path`] is the
    /// member's. What was acquired has been released then, as far as that could be confirmed.
    pub async fn acquire(&self) -> Result<Guards, Error> {
        let acquired = self.acquire_with(Patience::Forever).await?;
        // For the type alone: members that wait without a limit are never busy.
        acquired.ok_or_else(|| Error::unavailable(&self.path, None))
    }

    /// Acquires all, runs `body` with a [`Hold`] of each, in their order, and releases: see
    /// [`InterProcessMutex::run`](crate::InterProcessMutex::run).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and releases.
    ///
    /// # Errors
    ///
    /// The body's own; those of [`acquire`](Self::acquire); [`ErrorKind::Lost`](crate::ErrorKind::Lost) if a member was
    /// lost while the body ran.
    #[allow(clippy::future_not_send)] // it is, if the body is
    pub async fn run<T, E, Fut>(&self, body: impl FnOnce(Vec<Hold>) -> Fut) -> Result<T, E>
    where
        E: From<Error>,
        Fut: Future<Output = Result<T, E>>,
    {
        self.acquire().await?.run(body).await
    }

    /// The same for a body of any value.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and releases.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run), without the body's.
    #[allow(clippy::future_not_send)] // it is, if the body is
    pub async fn with<T, Fut>(&self, body: impl FnOnce(Vec<Hold>) -> Fut) -> Result<T, Error>
    where
        Fut: Future<Output = T>,
    {
        self.acquire().await?.with(body).await
    }

    /// Takes all members if they are free. It waits for answers, never for another holder.
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Attempt<Guards>, Error> {
        self.acquire_with(Patience::NoWait).await.map(Attempt::of)
    }

    /// Waits until all members are held, for all of them together at most for `limit`; [`Attempt::Busy`] when the time is
    /// up and another contender has one of them. What was acquired is released then, in the background. A limit of zero is
    /// [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire); [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if the time is up before
    /// any server said whether the member whose turn it is is held.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<Attempt<Guards>, Error> {
        self.acquire_with(Patience::within(limit)).await.map(Attempt::of)
    }

    /// The same locks, acquired in the order of their paths: two multi-locks that are sorted cannot wait for each other for
    /// ever, whatever members they share.
    pub fn sorted_by_path(self) -> Self {
        let mut members = self.members.to_vec();
        members.sort_by(|one, other| one.path().cmp(other.path()));
        Self::of(members)
    }

    /// The paths of its members, for people to read. It is no znode.
    pub fn path(&self) -> &str {
        &self.path
    }

    async fn acquire_with(&self, patience: Patience) -> Result<Option<Guards>, Error> {
        let began = Moment::now();
        let left = |limit: Duration| limit.saturating_sub(began.elapsed());
        let rest = || match patience {
            Patience::For(limit) => Some(left(limit)),
            Patience::NoWait | Patience::Forever => None,
        };
        let mut guards = Guards::default();
        for (position, member) in self.members.iter().enumerate() {
            let asked = async {
                match patience {
                    Patience::NoWait => member.try_acquire().await,
                    Patience::For(limit) => match left(limit) {
                        // A member would take it for a try, whose time nothing limits.
                        Duration::ZERO => Err(Error::unavailable(member.path(), Some(limit))),
                        left => member.acquire_timeout(left).await,
                    },
                    Patience::Forever => member.acquire().await.map(Attempt::Acquired),
                }
            };
            let named = |error: Error| {
                let path = error.path().unwrap_or(member.path()).to_owned();
                let error = error.at(path);
                if self.members.len() == 1 {
                    return error;
                }
                error.while_doing(format_args!("member {position}, {}", member.path()))
            };
            let asked = tokio::select! {
                biased;
                lost = guards.lost_as_error() => Err(lost),
                attempt = asked => attempt.map_err(named),
            };
            match asked {
                Ok(Attempt::Acquired(guard)) => guards.push(guard),
                failed => {
                    roll_back(guards, rest()).await;
                    return failed.map(|_| None);
                }
            }
        }
        // One may have been lost while the last was on its way.
        let lost = guards.iter().find_map(|guard| Some(Error::lost(guard.path(), guard.loss()?)));
        match lost {
            None => Ok(Some(guards)),
            Some(error) => {
                roll_back(guards, rest()).await;
                Err(error)
            }
        }
    }
}

/// Releases what was acquired. What went wrong before is what the caller must know, not this; and the caller's
/// time is not exceeded for it: releases that are dropped go on.
async fn roll_back(guards: Guards, left: Option<Duration>) {
    let releasing = guards.release_now();
    let released = match left {
        Some(left) => timeout(left, releasing).await.ok().transpose(),
        None => releasing.await.map(Some),
    };
    if let Err(error) = released {
        tracing::warn!(%error, "not all members that were acquired were released");
    }
}
