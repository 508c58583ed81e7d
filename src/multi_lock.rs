//! [`InterProcessMultiLock`]: several locks as one.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::curator::Curator;
use crate::error::{AcquireError, ConfigError, Loss, WithError};
use crate::inter_process_lock::{Acquiring, InterProcessLock, LockGuard, Trying, boxed};
use crate::multi_guard::{Acquired, MemberLoss, MultiGuard};
use crate::mutex::InterProcessMutex;
use crate::recipe::Patience;
use crate::session::clock::Moment;

/// Several locks as one: all of them are held, or none. The counterpart of Apache Curator's
/// `InterProcessMultiLock`; like that one it has no znodes of its own.
///
/// * **Order**: members are acquired one after the other, in the order in which they were given, and released in the
///   reverse order. Two multi-locks that share members and take them in different orders can wait for each
///   other for ever. Give the members the same order everywhere, for which there is
///   [`sorted_by_path`](Self::sorted_by_path), or use a deadline.
/// * **All or none**: at the first member that is busy, fails, or is lost meanwhile, those behind it are not
///   asked, and those that were acquired are released.
/// * **One deadline** for all members.
///
/// Its members can be any [`InterProcessLock`], other multi-locks among them, on different `Curator`s too. Each
/// keeps its own options: [loss policy](crate::LossPolicy), retries, ACLs.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use zookeeper_recipes::{Curator, InterProcessLock, InterProcessMultiLock, InterProcessMutex};
/// # async fn example(curator: Curator) -> Result<(), Box<dyn std::error::Error>> {
/// let orders = InterProcessMutex::new(&curator, "/locks/orders")?;
/// let stock = InterProcessMutex::new(&curator, "/locks/stock")?;
/// let members: [Arc<dyn InterProcessLock>; 2] = [Arc::new(orders), Arc::new(stock)];
/// let both = InterProcessMultiLock::new(members)?.sorted_by_path();
/// let guard = both.acquire().await?;
/// // … while `guard.is_held()` …
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct InterProcessMultiLock {
    members: Arc<[Arc<dyn InterProcessLock>]>,
    path: Arc<str>,
}

/// How far an attempt has come.
#[derive(Debug)]
struct Attempt {
    patience: Patience,
    began: Moment,
    acquired: Acquired,
}

impl InterProcessMultiLock {
    /// A lock of `members`, which are acquired in this order.
    ///
    /// Members are told apart by their paths, those of nested multi-locks included. It is not seen that
    /// two paths of `Curator`s with different namespaces are the same node; such members wait for each other.
    ///
    /// # Errors
    ///
    /// * [`ConfigError::InvalidOption`] if there are no members;
    /// * [`ConfigError::InvalidPath`] if two have the same path: the second would wait for the first for ever.
    pub fn new(
        members: impl IntoIterator<Item = Arc<dyn InterProcessLock>>,
    ) -> Result<Self, ConfigError> {
        let members: Vec<_> = members.into_iter().collect();
        if members.is_empty() {
            let reason = "a multi-lock needs at least one";
            let value = "[]".to_owned();
            return Err(ConfigError::InvalidOption { option: "members", value, reason });
        }
        let mut paths = HashSet::new();
        for member in flat(&members) {
            let path = member.path().to_owned();
            if paths.contains(&path) {
                let reason = "it is a member twice, and would wait for itself";
                return Err(ConfigError::InvalidPath { option: "member", path, reason });
            }
            paths.insert(path);
        }
        Ok(Self::of(members))
    }

    /// A lock of an [`InterProcessMutex`] at each of `paths`, with the curator's options.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new), and for a path that ZooKeeper does not accept.
    pub fn from_paths<P: AsRef<str>>(
        curator: &Curator,
        paths: impl IntoIterator<Item = P>,
    ) -> Result<Self, ConfigError> {
        let mutex = |path: P| -> Result<Arc<dyn InterProcessLock>, ConfigError> {
            Ok(Arc::new(InterProcessMutex::new(curator, path.as_ref())?))
        };
        Self::new(paths.into_iter().map(mutex).collect::<Result<Vec<_>, _>>()?)
    }

    fn of(members: Vec<Arc<dyn InterProcessLock>>) -> Self {
        let paths: Vec<_> = members.iter().map(|member| member.path()).collect();
        let path = paths.join(" + ").into();
        Self { members: members.into(), path }
    }

    /// The same locks, acquired in the order of their paths. Who sorts everywhere cannot dead-lock with others
    /// who do, whatever members they share. The members of nested multi-locks become members of this one, for
    /// their order counts too.
    #[must_use]
    pub fn sorted_by_path(&self) -> Self {
        let mut members = flat(&self.members);
        members.sort_by(|one, other| one.path().cmp(other.path()));
        Self::of(members)
    }

    /// The members, in the order in which they are acquired.
    pub fn members(&self) -> &[Arc<dyn InterProcessLock>] {
        &self.members
    }

    /// Those of its members, for people to read. It is no znode.
    pub fn path(&self) -> &str {
        &self.path
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
    /// [`AcquireError::Member`] says which member failed, and how, as soon as one does;
    /// [`AcquireError::MemberLost`], which one was lost again before all were acquired. What was acquired has been
    /// released then, as far as that could be confirmed; a failure of that is in the log.
    pub async fn acquire(&self) -> Result<MultiGuard, AcquireError> {
        loop {
            // Without a bound on its patience it never comes back without a guard or an error.
            if let Some(guard) = self.acquire_with(Patience::Forever).await? {
                return Ok(guard);
            }
        }
    }

    /// Waits until all members are held, for all of them together at most for `limit`; `None` when the time is up and
    /// somebody else has one of them. What was acquired is released then, in the background. A limit of zero is
    /// [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire); with [`AcquireError::TimedOut`] as the source, if the time is up before
    /// anybody said whether somebody has the member whose turn it is.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn acquire_timeout(
        &self,
        limit: Duration,
    ) -> Result<Option<MultiGuard>, AcquireError> {
        self.acquire_with(Patience::within(limit)).await
    }

    /// Takes all members if they are free; `None` if one is busy. It waits for answers, never for another holder.
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>, AcquireError> {
        self.acquire_with(Patience::OnlyIfFree).await
    }

    /// Runs `body` while all members are held: acquires, runs, releases. The body is dropped at its next
    /// `await` when a member is lost.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and releases.
    ///
    /// # Errors
    ///
    /// [`WithError::Acquire`] if the body did not run; [`WithError::Lost`], with the member's path, if it did, and
    /// not under all locks to its end. A release that fails otherwise is not an error here, but in the log.
    #[allow(clippy::future_not_send)] // it is, if the body is
    pub async fn with<T, F>(&self, body: F) -> Result<T, WithError>
    where
        F: AsyncFnOnce(&MultiGuard) -> T,
    {
        let guard = self.acquire().await?;
        let value = tokio::select! {
            biased;
            _ = guard.lost() => None,
            value = body(&guard) => Some(value),
        };
        if let Some(MemberLoss { path, loss, .. }) = guard.loss() {
            drop(guard);
            return Err(WithError::Lost { path, loss });
        }
        if let Err(error) = guard.release().await {
            if let Some((path, loss)) = error.loss() {
                return Err(WithError::Lost { path: path.to_owned(), loss });
            }
            tracing::warn!(path = %self.path, %error, "not all members were released");
        }
        // Without a value it had ended, which was seen above.
        value.ok_or_else(|| WithError::Lost { path: self.path.to_string(), loss: Loss::Released })
    }

    async fn acquire_with(&self, patience: Patience) -> Result<Option<MultiGuard>, AcquireError> {
        let (began, acquired) = (Moment::now(), Acquired::default());
        let mut attempt = Attempt { patience, began, acquired };
        for (position, member) in self.members.iter().enumerate() {
            match attempt.ask(position, &**member).await {
                Ok(Some(guard)) => attempt.acquired.push(guard),
                Ok(None) => {
                    tracing::debug!(path = %self.path, member = member.path(), "busy");
                    attempt.roll_back().await;
                    return Ok(None);
                }
                Err(error) => {
                    attempt.roll_back().await;
                    return Err(error);
                }
            }
        }
        // One may have been lost while the last was on its way.
        if let Some(loss) = attempt.acquired.loss() {
            attempt.roll_back().await;
            return Err(member_lost(loss));
        }
        Ok(Some(MultiGuard::new(self.path.clone(), attempt.acquired)))
    }
}

impl Attempt {
    /// Asks for the next member, while those that it has last.
    async fn ask(
        &self,
        position: usize,
        member: &dyn InterProcessLock,
    ) -> Result<Option<Box<dyn LockGuard>>, AcquireError> {
        let asked = async {
            match self.patience {
                Patience::OnlyIfFree => member.try_acquire().await,
                Patience::For(limit) => match self.left(limit) {
                    // A member would take it for a try, whose time nothing limits.
                    Duration::ZERO => {
                        let path = member.path().to_owned();
                        Err(AcquireError::TimedOut { path, waited: limit })
                    }
                    left => member.acquire_timeout(left).await,
                },
                Patience::Forever => member.acquire().await.map(Some),
            }
        };
        tokio::select! {
            biased;
            loss = self.acquired.lost() => Err(member_lost(loss)),
            answer = asked => answer.map_err(|source| {
                let (path, source) = (member.path().to_owned(), Box::new(source));
                AcquireError::Member { path, position, source }
            }),
        }
    }

    /// Of one limit for all members.
    fn left(&self, limit: Duration) -> Duration {
        limit.saturating_sub(self.began.elapsed())
    }

    /// Releases what was acquired. What went wrong before is what the caller must know, not this; and the caller's
    /// time is not exceeded for it: releases that are dropped go on.
    async fn roll_back(self) {
        let left = match self.patience {
            Patience::For(limit) => Some(self.left(limit)),
            Patience::OnlyIfFree | Patience::Forever => None,
        };
        let releasing = self.acquired.release();
        let released = match left {
            Some(left) => timeout(left, releasing).await.ok().transpose(),
            None => releasing.await.map(Some),
        };
        if let Err(error) = released {
            tracing::warn!(%error, "not all members that were acquired were released");
        }
    }
}

fn member_lost(lost: MemberLoss) -> AcquireError {
    let MemberLoss { path, position, loss } = lost;
    AcquireError::MemberLost { path, position, loss }
}

/// The locks themselves, without the multi-locks around them.
fn flat(members: &[Arc<dyn InterProcessLock>]) -> Vec<Arc<dyn InterProcessLock>> {
    let of_one = |member: &Arc<dyn InterProcessLock>| match member.members() {
        [] => vec![member.clone()],
        nested => flat(nested),
    };
    members.iter().flat_map(of_one).collect()
}

impl InterProcessLock for InterProcessMultiLock {
    fn path(&self) -> &str {
        Self::path(self)
    }

    fn acquire(&self) -> Acquiring<'_> {
        Box::pin(async { Self::acquire(self).await.map(boxed) })
    }

    fn acquire_timeout(&self, limit: Duration) -> Trying<'_> {
        Box::pin(async move { Ok(Self::acquire_timeout(self, limit).await?.map(boxed)) })
    }

    fn try_acquire(&self) -> Trying<'_> {
        Box::pin(async { Ok(Self::try_acquire(self).await?.map(boxed)) })
    }

    fn members(&self) -> &[Arc<dyn InterProcessLock>] {
        Self::members(self)
    }
}
