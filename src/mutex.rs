//! [`InterProcessMutex`]: one holder among all processes.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::timeout;

use crate::client::{Acl, Acls, check_frame};
use crate::contender::{Queued, Request, contend};
use crate::contender_name::Kind;
use crate::curator::Curator;
use crate::error::{AcquireError, ConfigError, WithError};
use crate::guard::MutexGuard;
use crate::lock_path::LockPath;
use crate::owner::Owner;
use crate::participants::{Participant, participants};
use crate::retry::RetryPolicy;
use crate::session::clock::Moment;
use crate::session::lease::LossPolicy;

/// A mutual exclusion lock for processes and tasks, on the znodes of Apache Curator's
/// `InterProcessMutex`: old Curator processes and new Rust processes contend on one path.
///
/// * **Fair**: first come, first served, among all contenders of all processes.
/// * **Not reentrant** by task or thread. [`MutexGuard::reenter`] gives a nested guard, and inside an
///   [`Owner::scope`] acquiring again does.
/// * **Recovery**: through a short disconnection a waiter keeps its place, a holder its lock, as long
///   as the lease lasts. When the session expires, a holder is told ([`MutexGuard::lost`]) and a waiter
///   queues again at the tail, as the retry policy allows.
/// * **Not guaranteed**: that the process runs. One that is stopped and resumed finds out at its first
///   look that it lost the lock, but not before it looks; pass the
///   [`fencing_token`](MutexGuard::fencing_token) on to what can compare it.
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
    curator: Curator,
    path: LockPath,
    data: Arc<[u8]>,
    acls: Arc<[Acl]>,
    retry: RetryPolicy,
    loss_policy: LossPolicy,
}

/// How long a caller waits.
#[derive(Clone, Copy, Debug)]
enum Patience {
    /// Not for other holders.
    OnlyIfFree,
    For(Duration),
    Forever,
}

impl InterProcessMutex {
    /// The lock at `path`, under the curator's namespace. Options are the curator's.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidPath`] for a path that ZooKeeper does not accept.
    pub fn new(curator: &Curator, path: &str) -> Result<Self, ConfigError> {
        let path = LockPath::parse("lock path", path)?;
        let settings = &curator.session().settings;
        let (data, acls) = (settings.identity.clone(), settings.acls.clone());
        let (retry, loss_policy) = (settings.retry.clone(), settings.loss_policy);
        Self { curator: curator.clone(), path, data, acls, retry, loss_policy }.checked()
    }

    /// What the contender's node says of who contends. Defaults to the curator's identity.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidOption`] if it is larger than a server takes.
    pub fn with_identity(mut self, identity: impl AsRef<[u8]>) -> Result<Self, ConfigError> {
        self.data = identity.as_ref().into();
        self.checked()
    }

    /// The ACLs of the contender's node and of parents that it makes. Defaults to the curator's.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidOption`] if there are none, or more than a server takes.
    pub fn with_acls(mut self, acls: Acls<'_>) -> Result<Self, ConfigError> {
        self.acls = crate::curator::some_acls(acls)?;
        self.checked()
    }

    fn checked(self) -> Result<Self, ConfigError> {
        let path = self.curator.session().absolute(&self.path);
        check_frame("identity", &path, self.data.len(), &self.acls)?;
        Ok(self)
    }

    /// When to try again. Defaults to the curator's policy.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// When a hold counts as lost. Defaults to the curator's policy.
    #[must_use]
    pub fn with_loss_policy(mut self, policy: LossPolicy) -> Self {
        self.loss_policy = policy;
        self
    }

    /// The path, under the namespace.
    pub fn path(&self) -> &str {
        self.path.as_str()
    }

    /// Waits until the lock is held.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future, at any point, gives the place in the queue up; its node is removed by the
    /// session, and the next waiter is served.
    ///
    /// # Errors
    ///
    /// Every [`AcquireError`] but [`AcquireError::TimedOut`].
    pub async fn acquire(&self) -> Result<MutexGuard, AcquireError> {
        loop {
            // Without a bound on its patience it never comes back without a guard or an error.
            if let Some(guard) = self.acquire_with(Patience::Forever).await? {
                return Ok(guard);
            }
        }
    }

    /// Waits until the lock is held, at most for `limit`; `None` when the time is up and somebody else
    /// has it. The limit covers everything: a server that does not answer, retries, a lost session.
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`] when the time is up before any server said whether somebody has it;
    /// and all of [`acquire`](Self::acquire).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn acquire_timeout(
        &self,
        limit: Duration,
    ) -> Result<Option<MutexGuard>, AcquireError> {
        self.acquire_with(Patience::For(limit)).await
    }

    /// Takes the lock if it is free; `None` if it is busy. It waits for the servers' answers, never for
    /// another holder.
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<MutexGuard>, AcquireError> {
        self.acquire_with(Patience::OnlyIfFree).await
    }

    /// Runs `body` while the lock is held: acquires, runs, releases. The body is dropped at its next
    /// `await` when the lock is lost.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and releases.
    ///
    /// # Errors
    ///
    /// [`WithError::Acquire`] if the body did not run; [`WithError::Lost`] if it did, and not under the
    /// lock to its end. A release that nobody confirms in time is not an error here.
    ///
    /// ```no_run
    /// # use zookeeper_recipes::InterProcessMutex;
    /// # async fn example(mutex: InterProcessMutex) -> Result<(), Box<dyn std::error::Error>> {
    /// let token = mutex.with(async |hold| hold.fencing_token()).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::future_not_send)] // it is, if the body is
    pub async fn with<T, F>(&self, body: F) -> Result<T, WithError>
    where
        F: AsyncFnOnce(&MutexGuard) -> T,
    {
        let guard = self.acquire().await?;
        let value = tokio::select! {
            biased;
            _ = guard.lost() => None,
            value = body(&guard) => Some(value),
        };
        let path = self.path.to_string();
        if let Some(loss) = guard.loss() {
            drop(guard);
            return Err(WithError::Lost { path, loss });
        }
        match (guard.release().await, value) {
            (Err(crate::error::ReleaseError::Lost { loss, .. }), _) => {
                Err(WithError::Lost { path, loss })
            }
            (_, Some(value)) => Ok(value),
            // Without a value it had ended, which was seen above.
            (_, None) => Err(WithError::Lost { path, loss: crate::error::Loss::Released }),
        }
    }

    /// All who hold or wait, the holder first, as the server that we are connected to tells it: of an ensemble it may
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
        participants(self.curator.session(), &self.path, Kind::Lock, &self.retry).await
    }

    async fn acquire_with(&self, patience: Patience) -> Result<Option<MutexGuard>, AcquireError> {
        match Owner::current() {
            None => self.contend(patience, Queued::default()).await,
            Some(owner) => self.acquire_as(&owner, patience).await,
        }
    }

    /// Acquires as `owner`: nested if it holds the lock, in turn if another of its tasks acquires.
    async fn acquire_as(
        &self,
        owner: &Owner,
        patience: Patience,
    ) -> Result<Option<MutexGuard>, AcquireError> {
        let began = Moment::now();
        let slot = owner.slot(Arc::as_ptr(self.curator.session()) as usize, self.path.as_str());
        let locked = match patience {
            Patience::Forever => Some(slot.held.lock().await),
            // Another task of this owner is about to have it, or has to wait for somebody.
            Patience::OnlyIfFree => tokio::select! {
                biased;
                held = slot.held.lock() => Some(held),
                () = is_queued(&slot.queued) => None,
            },
            Patience::For(limit) => timeout(limit, slot.held.lock()).await.ok(),
        };
        let Some(mut held) = locked else {
            return self.out_of_patience(patience, &slot.queued);
        };
        if let Some(held) = held.upgrade() {
            return match held.loss() {
                None => Ok(Some(MutexGuard::nested(held))),
                Some(loss) => Err(AcquireError::HoldLost { path: self.path.to_string(), loss }),
            };
        }
        let left = match patience {
            Patience::For(limit) => Patience::For(limit.saturating_sub(began.elapsed())),
            patience => patience,
        };
        let guard = self.contend(left, slot.queued.clone()).await?;
        *held = guard.as_ref().map_or_else(Weak::new, |guard| Arc::downgrade(guard.held()));
        Ok(guard)
    }

    async fn contend(
        &self,
        patience: Patience,
        queued: Queued,
    ) -> Result<Option<MutexGuard>, AcquireError> {
        let request = Request {
            path: self.path.clone(),
            kind: Kind::Lock,
            data: self.data.clone(),
            acls: self.acls.clone(),
            retry: self.retry.clone(),
            loss_policy: self.loss_policy,
            only_if_free: matches!(patience, Patience::OnlyIfFree),
        };
        let mut contending = contend(self.curator.contenders(), request, queued.clone());
        let answer = match patience {
            Patience::Forever | Patience::OnlyIfFree => contending.answer().await,
            Patience::For(limit) => match timeout(limit, contending.answer()).await {
                Ok(answer) => answer,
                Err(_) => return self.out_of_patience(patience, &queued),
            },
        };
        Ok(answer?.map(|hold| MutexGuard::new(hold, self.curator.clone())))
    }

    /// Busy, if the servers said so; else there was no answer.
    fn out_of_patience(
        &self,
        patience: Patience,
        queued: &Queued,
    ) -> Result<Option<MutexGuard>, AcquireError> {
        match patience {
            Patience::For(waited) if !*queued.borrow() => {
                Err(AcquireError::TimedOut { path: self.path.to_string(), waited })
            }
            _ => Ok(None),
        }
    }
}

async fn is_queued(queued: &Queued) {
    // The sender is there as long as we have a reference to it.
    let _ = queued.subscribe().wait_for(|queued| *queued).await;
}
