//! [`LocalLock`]: a lock of this process alone, for tests of code that takes any lock.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::error::{AcquireError, Loss, ReleaseError};
use crate::fencing::FencingToken;
use crate::guard::Released;
use crate::inter_process_lock::{BoxFuture, LockGuard, impl_inter_process_lock};

/// A lock of this process alone, without a server: an [`InterProcessLock`](crate::InterProcessLock) for tests of code
/// that takes any lock. It is fair, its fencing tokens rise, and a test can make it fail and lose.
///
/// Clones are handles on one lock; two that were made by [`new`](Self::new) are two locks, also on one path. It does
/// not know an [`Owner`](crate::Owner): nothing re-enters.
///
/// ```
/// use zookeeper_recipes::LocalLock;
/// use zookeeper_recipes::{InterProcessLock, Loss};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// /// The code under test.
/// async fn work(lock: &dyn InterProcessLock) -> Result<&'static str, Box<dyn std::error::Error>> {
///     let guard = lock.acquire().await?;
///     tokio::select! {
///         _ = guard.lost() => Ok("stopped"),
///         () = std::future::pending() => Ok("worked"),
///     }
/// }
///
/// let lock = LocalLock::new("/locks/orders");
/// let worker = lock.with_identity("worker");
/// let (told, ()) = tokio::join!(work(&worker), async {
///     lock.until_held().await;
///     assert_eq!(lock.holder().as_deref(), Some("worker"));
///     lock.lose(Loss::SessionExpired);
/// });
/// assert_eq!(told?, "stopped");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LocalLock {
    path: Arc<str>,
    identity: Arc<str>,
    queue: Arc<watch::Sender<Queue>>,
}

/// A [`LocalLock`] that is held. Dropping it releases the lock.
#[derive(Debug)]
#[must_use = "dropping a guard releases its lock"]
pub struct LocalGuard {
    place: Place,
}

/// All who hold or wait, the first first.
#[derive(Debug, Default)]
struct Queue {
    contenders: VecDeque<Contender>,
    /// As the transactions of a server: never twice.
    last_token: i64,
    failing_acquires: VecDeque<AcquireError>,
    failing_releases: VecDeque<ReleaseError>,
}

#[derive(Debug)]
struct Contender {
    token: i64,
    identity: Arc<str>,
    hold: Arc<Hold>,
}

/// What a guard sees of its hold. Outlives it.
#[derive(Debug, Default)]
struct Hold {
    end: OnceLock<Loss>,
    ended: CancellationToken,
}

impl Hold {
    /// Ends it, unless it has ended before; gives how it ended.
    fn finish(&self, how: Loss) -> Loss {
        let how = *self.end.get_or_init(|| how);
        self.ended.cancel();
        how
    }
}

/// A place in the queue. Dropping it leaves.
#[derive(Debug)]
struct Place {
    lock: LocalLock,
    token: i64,
    hold: Arc<Hold>,
    /// Its release failed.
    stays: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.hold.finish(Loss::Released);
        if self.stays {
            return;
        }
        self.lock.queue.send_modify(|queue| {
            queue.contenders.retain(|contender| contender.token != self.token);
        });
    }
}

impl LocalLock {
    /// A lock that nobody holds. Any text is a path here.
    pub fn new(path: &str) -> Self {
        let (path, identity) = (path.into(), "anybody".into());
        Self { path, identity, queue: Arc::new(watch::Sender::default()) }
    }

    /// A handle on the same lock for another contender, whom [`holder`](Self::holder) and [`waiters`](Self::waiters)
    /// tell apart by this. Default: `anybody`.
    #[must_use]
    pub fn with_identity(&self, identity: &str) -> Self {
        Self { identity: identity.into(), ..self.clone() }
    }

    /// The path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Waits until the lock is held.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future, at any point, gives the place in the queue up, and the next is served.
    ///
    /// # Errors
    ///
    /// What [`fail_next_acquire`](Self::fail_next_acquire) was given.
    pub async fn acquire(&self) -> Result<LocalGuard, AcquireError> {
        loop {
            // Who is ready to wait gets a place.
            if let Some(place) = self.enter(false)? {
                place.admitted().await;
                return Ok(LocalGuard { place });
            }
        }
    }

    /// Waits until the lock is held, at most for `limit`; `None` when the time is up and somebody else has it. A limit
    /// of zero is [`try_acquire`](Self::try_acquire).
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
    pub async fn acquire_timeout(
        &self,
        limit: Duration,
    ) -> Result<Option<LocalGuard>, AcquireError> {
        if limit.is_zero() {
            return self.try_acquire().await;
        }
        timeout(limit, self.acquire()).await.ok().transpose()
    }

    /// Takes the lock if it is free; `None` if it is busy.
    ///
    /// # Cancel safety
    ///
    /// It does not wait.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<LocalGuard>, AcquireError> {
        Ok(self.enter(true)?.map(|place| LocalGuard { place }))
    }

    /// The next call that would acquire fails with `error` instead, whoever makes it. Several are used up in the order
    /// in which they were given. See [`AcquireError::other`].
    pub fn fail_next_acquire(&self, error: AcquireError) {
        self.queue.send_modify(|queue| queue.failing_acquires.push_back(error));
    }

    /// The next release of a hold fails with `error`, and the lock stays taken, as it does when a server does not let us
    /// delete the node; [`lose`](Self::lose) frees it. A guard that is dropped releases all the same.
    pub fn fail_next_release(&self, error: ReleaseError) {
        self.queue.send_modify(|queue| queue.failing_releases.push_back(error));
    }

    /// The holder loses the lock; `false` if nobody holds it.
    ///
    /// As with ZooKeeper, the next is served at once, unless the node would still be there:
    /// after [`Loss::LeaseEnded`] and [`Loss::Suspended`] the lock stays taken until the guard is let go.
    pub fn lose(&self, loss: Loss) -> bool {
        self.queue.send_if_modified(|queue| {
            let Some(holder) = queue.contenders.front() else {
                return false;
            };
            holder.hold.finish(loss);
            if !matches!(loss, Loss::LeaseEnded | Loss::Suspended) {
                queue.contenders.pop_front();
            }
            true
        })
    }

    /// Who has the lock taken.
    pub fn holder(&self) -> Option<String> {
        self.queue.borrow().contenders.front().map(|holder| holder.identity.to_string())
    }

    /// Who waits for it, the next first.
    pub fn waiters(&self) -> Vec<String> {
        let queue = self.queue.borrow();
        queue.contenders.iter().skip(1).map(|waiter| waiter.identity.to_string()).collect()
    }

    /// Waits until somebody has the lock taken.
    ///
    /// # Cancel safety
    ///
    /// It only looks.
    pub async fn until_held(&self) {
        self.until(|queue| !queue.contenders.is_empty()).await;
    }

    /// Waits until nobody has the lock taken.
    ///
    /// # Cancel safety
    ///
    /// It only looks.
    pub async fn until_free(&self) {
        self.until(|queue| queue.contenders.is_empty()).await;
    }

    /// Waits until at least so many wait for the lock.
    ///
    /// # Cancel safety
    ///
    /// It only looks.
    pub async fn until_waiters(&self, count: usize) {
        self.until(|queue| queue.contenders.len() > count).await;
    }

    async fn until(&self, condition: impl FnMut(&Queue) -> bool) {
        // The sender is there as long as we have a reference to it.
        let _ = self.queue.subscribe().wait_for(condition).await;
    }

    fn enter(&self, only_if_free: bool) -> Result<Option<Place>, AcquireError> {
        let mut entered = Ok(None);
        self.queue.send_modify(|queue| entered = queue.enter(&self.identity, only_if_free));
        let place = |(token, hold)| Place { lock: self.clone(), token, hold, stays: false };
        Ok(entered?.map(place))
    }
}

impl Queue {
    fn enter(
        &mut self,
        identity: &Arc<str>,
        only_if_free: bool,
    ) -> Result<Option<(i64, Arc<Hold>)>, AcquireError> {
        if let Some(error) = self.failing_acquires.pop_front() {
            return Err(error);
        }
        if only_if_free && !self.contenders.is_empty() {
            return Ok(None);
        }
        self.last_token += 1;
        let (token, hold) = (self.last_token, Arc::<Hold>::default());
        let (identity, contender) = (identity.clone(), hold.clone());
        self.contenders.push_back(Contender { token, identity, hold: contender });
        Ok(Some((token, hold)))
    }
}

impl Place {
    /// Waits until it is first; or was, and lost before anybody looked.
    async fn admitted(&self) {
        let is_admitted = |queue: &Queue| {
            let first = queue.contenders.front();
            first.is_some_and(|first| first.token == self.token) || self.hold.end.get().is_some()
        };
        self.lock.until(is_admitted).await;
    }
}

impl LocalGuard {
    /// Whether the lock is held. Once it says `false` it always will.
    pub fn is_held(&self) -> bool {
        self.loss().is_none()
    }

    /// How the lock was lost, if it was.
    pub fn loss(&self) -> Option<Loss> {
        self.place.hold.end.get().copied()
    }

    /// Resolves when the lock is lost, with how. After a release it resolves with [`Loss::Released`].
    ///
    /// # Cancel safety
    ///
    /// It can be dropped and made again at any time.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        let hold = self.place.hold.clone();
        async move {
            hold.ended.cancelled().await;
            hold.end.get().copied().unwrap_or(Loss::Released)
        }
    }

    /// A token that is cancelled when the lock is lost, and when it is released.
    pub fn cancellation_token(&self) -> CancellationToken {
        self.place.hold.ended.child_token()
    }

    /// Greater than that of each hold before it.
    pub fn fencing_token(&self) -> FencingToken {
        FencingToken::new(self.place.token)
    }

    /// The path of the lock.
    pub fn path(&self) -> &str {
        self.place.lock.path()
    }

    /// Releases the lock.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is polled releases all the same; it does not wait.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] if the hold had ended before, and what
    /// [`LocalLock::fail_next_release`] was given.
    pub async fn release(mut self) -> Result<Released, ReleaseError> {
        let end = self.place.hold.finish(Loss::Released);
        if end != Loss::Released {
            return Err(ReleaseError::lost(self.path(), end));
        }
        let mut failure = None;
        let queue = &self.place.lock.queue;
        queue.send_modify(|queue| failure = queue.failing_releases.pop_front());
        match failure {
            Some(error) => {
                self.place.stays = true;
                Err(error)
            }
            None => Ok(Released::Unlocked),
        }
    }
}

impl_inter_process_lock!(LocalLock);

impl LockGuard for LocalGuard {
    fn path(&self) -> &str {
        Self::path(self)
    }

    fn loss(&self) -> Option<Loss> {
        Self::loss(self)
    }

    fn lost(&self) -> BoxFuture<'static, Loss> {
        Box::pin(Self::lost(self))
    }

    fn fencing_token(&self) -> Option<FencingToken> {
        Some(Self::fencing_token(self))
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, Result<Released, ReleaseError>> {
        Box::pin(Self::release(*self))
    }
}
