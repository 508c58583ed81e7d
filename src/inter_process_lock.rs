//! [`InterProcessLock`] and [`LockGuard`]: any lock, and any guard, behind a pointer.
//!
//! The recipes' own methods give guards of their own types; these traits are for who takes any of them, such as the
//! multi-lock.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

pub use futures_util::future::BoxFuture;

use crate::error::{AcquireError, Loss, ReleaseError};
use crate::fencing::FencingToken;
use crate::guard::Released;

/// Any lock: a recipe of this crate, a [multi-lock](crate::InterProcessMultiLock) of several, or one of your own.
///
/// Each recipe has methods of these names that give its own guard; on the recipe itself those are called.
///
/// # Cancel safety
///
/// Whoever implements this promises that a future of [`acquire`](Self::acquire),
/// [`acquire_timeout`](Self::acquire_timeout) and [`try_acquire`](Self::try_acquire) can be dropped at any point,
/// also before it is polled: then nothing is held or going to be, no place in a queue is left, and the next waiter is
/// served. A guard that was made for it and not yet given is released.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use tokio::sync::{OwnedSemaphorePermit, Semaphore};
/// use tokio_util::sync::CancellationToken;
/// use zookeeper_recipes::{
///     AcquireError, BoxFuture, FencingToken, InterProcessLock, LockGuard, Loss, ReleaseError, Released,
/// };
///
/// /// A lock of this process, beside those of ZooKeeper. Its semaphore is fair, and its futures can be dropped.
/// #[derive(Debug)]
/// struct Local {
///     path: String,
///     free: Arc<Semaphore>,
/// }
///
/// #[derive(Debug)]
/// struct Held {
///     path: String,
///     released: CancellationToken,
///     _permit: OwnedSemaphorePermit,
/// }
///
/// impl Local {
///     fn held(&self, permit: OwnedSemaphorePermit) -> Box<dyn LockGuard> {
///         let released = CancellationToken::new();
///         Box::new(Held { path: self.path.clone(), released, _permit: permit })
///     }
/// }
///
/// impl InterProcessLock for Local {
///     fn path(&self) -> &str {
///         &self.path
///     }
///
///     fn acquire(&self) -> BoxFuture<'_, Result<Box<dyn LockGuard>, AcquireError>> {
///         Box::pin(async {
///             let permit = self.free.clone().acquire_owned().await;
///             permit.map(|permit| self.held(permit)).map_err(|error| AcquireError::other(&self.path, error))
///         })
///     }
///
///     fn acquire_timeout(
///         &self,
///         limit: Duration,
///     ) -> BoxFuture<'_, Result<Option<Box<dyn LockGuard>>, AcquireError>> {
///         // That nobody gave it in time means that somebody else has it.
///         Box::pin(async move { tokio::time::timeout(limit, self.acquire()).await.ok().transpose() })
///     }
///
///     fn try_acquire(&self) -> BoxFuture<'_, Result<Option<Box<dyn LockGuard>>, AcquireError>> {
///         Box::pin(async { Ok(self.free.clone().try_acquire_owned().ok().map(|permit| self.held(permit))) })
///     }
/// }
///
/// impl LockGuard for Held {
///     fn path(&self) -> &str {
///         &self.path
///     }
///
///     fn loss(&self) -> Option<Loss> {
///         None // nobody can take it away
///     }
///
///     fn lost(&self) -> BoxFuture<'static, Loss> {
///         let released = self.released.clone();
///         Box::pin(async move {
///             released.cancelled().await;
///             Loss::Released
///         })
///     }
///
///     fn fencing_token(&self) -> Option<FencingToken> {
///         None
///     }
///
///     fn release(self: Box<Self>) -> BoxFuture<'static, Result<Released, ReleaseError>> {
///         // Dropped before it is polled, the future drops the guard all the same.
///         Box::pin(async move {
///             drop(self);
///             Ok(Released::Unlocked)
///         })
///     }
/// }
///
/// impl Drop for Held {
///     fn drop(&mut self) {
///         self.released.cancel();
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let local = Local { path: "local".to_owned(), free: Arc::new(Semaphore::new(1)) };
/// let guard = local.acquire().await?;
/// assert!(guard.is_held());
/// assert!(local.try_acquire().await?.is_none());
/// let lost = guard.lost();
/// assert_eq!(guard.release().await?, Released::Unlocked);
/// assert_eq!(lost.await, Loss::Released);
/// assert!(local.acquire_timeout(Duration::from_secs(1)).await?.is_some());
/// # Ok(())
/// # }
/// ```
pub trait InterProcessLock: Debug + Send + Sync {
    /// The path, under the namespace. What other locks are told apart by, so a lock that has none makes one up.
    fn path(&self) -> &str;

    /// Waits until the lock is held.
    ///
    /// # Errors
    ///
    /// Every [`AcquireError`] but [`AcquireError::TimedOut`].
    fn acquire(&self) -> BoxFuture<'_, Result<Box<dyn LockGuard>, AcquireError>>;

    /// Waits until the lock is held, at most for `limit`, which covers everything; `None` when the time is up and
    /// somebody else has it. A limit of zero is [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`] when the time is up before anybody said whether somebody has it; and all of
    /// [`acquire`](Self::acquire).
    fn acquire_timeout(
        &self,
        limit: Duration,
    ) -> BoxFuture<'_, Result<Option<Box<dyn LockGuard>>, AcquireError>>;

    /// Takes the lock if it is free; `None` if it is busy. Never waits for another holder.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire).
    fn try_acquire(&self) -> BoxFuture<'_, Result<Option<Box<dyn LockGuard>>, AcquireError>>;

    /// The locks that this one is made of, in the order in which it acquires them; none, unless it is a multi-lock.
    /// To acquire them one by one must come to the same.
    fn members(&self) -> &[Arc<dyn InterProcessLock>] {
        &[]
    }
}

/// Any lock that is held. Dropping it releases the lock; so does [`release`](Self::release), which also tells what
/// became of it. See [`MutexGuard`](crate::MutexGuard), which is one.
///
/// # Cancel safety
///
/// Whoever implements this promises that dropping a guard releases it, anywhere, without blocking and without a
/// panic; that the future of [`lost`](Self::lost) outlives the guard, and can be dropped and made again; and that a
/// future of [`release`](Self::release) that is dropped at any point, also before it is polled, releases all the
/// same.
#[must_use = "dropping a guard releases its lock"]
pub trait LockGuard: Debug + Send + Sync {
    /// The path of the lock, under the namespace.
    fn path(&self) -> &str;

    /// Whether the lock is held at this instant. Once it says `false` it always will.
    fn is_held(&self) -> bool {
        self.loss().is_none()
    }

    /// How the lock was lost, if it was; once and for good.
    fn loss(&self) -> Option<Loss>;

    /// Resolves when the lock is lost, with how. After a release it resolves with [`Loss::Released`].
    fn lost(&self) -> BoxFuture<'static, Loss>;

    /// How long nobody else can have the lock because we are not heard of any more, from now on: see
    /// [`MutexGuard::lease_left`](crate::MutexGuard::lease_left). Without end for a lock that knows no such time, unless
    /// one says otherwise; nothing once it is lost.
    fn lease_left(&self) -> Duration {
        if self.is_held() { Duration::MAX } else { Duration::ZERO }
    }

    /// Resolves when [`lease_left`](Self::lease_left) has more again; with the loss when the lock is lost before. For a
    /// lock that knows no such time, only then.
    ///
    /// # Errors
    ///
    /// How the lock was lost, or given back.
    fn lease_renewed(&self) -> BoxFuture<'static, Result<(), Loss>> {
        let lost = self.lost();
        Box::pin(async move { Err(lost.await) })
    }

    /// What a resource can tell an older hold from this one by, if there is one such number.
    fn fencing_token(&self) -> Option<FencingToken>;

    /// The path of the contender's node, under the namespace, if there is one.
    fn node(&self) -> Option<&str> {
        None
    }

    /// Resolves when somebody asks that the lock be given back: see
    /// [`MutexGuard::revocation_requested`](crate::MutexGuard::revocation_requested). With the loss when the lock is lost
    /// before; for a lock that cannot be asked for, only then.
    ///
    /// # Errors
    ///
    /// How the lock was lost, or given back.
    fn revocation_requested(&self) -> BoxFuture<'static, Result<(), Loss>> {
        let lost = self.lost();
        Box::pin(async move { Err(lost.await) })
    }

    /// The guards of the locks that this one is made of, in the order in which they were acquired; none, unless it is
    /// that of a multi-lock.
    fn members(&self) -> &[Box<dyn LockGuard>] {
        &[]
    }

    /// Releases the lock and waits until that is confirmed.
    ///
    /// # Errors
    ///
    /// A [`ReleaseError`], for instance [`ReleaseError::Lost`] if the hold had ended before.
    fn release(self: Box<Self>) -> BoxFuture<'static, Result<Released, ReleaseError>>;
}

/// Implements [`InterProcessLock`] for a recipe, by its methods of the same names, and [`LockGuard`] for its guard;
/// without a guard's name for the recipe alone.
macro_rules! impl_inter_process_lock {
    ($lock:ty, $guard:ty) => {
        $crate::inter_process_lock::impl_inter_process_lock!($lock);

        impl $crate::inter_process_lock::LockGuard for $guard {
            fn path(&self) -> &str {
                <$guard>::path(self)
            }

            fn is_held(&self) -> bool {
                <$guard>::is_held(self)
            }

            fn loss(&self) -> Option<$crate::error::Loss> {
                <$guard>::loss(self)
            }

            fn lost(&self) -> $crate::inter_process_lock::BoxFuture<'static, $crate::error::Loss> {
                Box::pin(<$guard>::lost(self))
            }

            fn lease_left(&self) -> std::time::Duration {
                <$guard>::lease_left(self)
            }

            fn lease_renewed(
                &self,
            ) -> $crate::inter_process_lock::BoxFuture<'static, Result<(), $crate::error::Loss>>
            {
                Box::pin(<$guard>::lease_renewed(self))
            }

            fn fencing_token(&self) -> Option<$crate::fencing::FencingToken> {
                Some(<$guard>::fencing_token(self))
            }

            fn node(&self) -> Option<&str> {
                Some(<$guard>::node(self))
            }

            fn revocation_requested(
                &self,
            ) -> $crate::inter_process_lock::BoxFuture<'static, Result<(), $crate::error::Loss>>
            {
                Box::pin(<$guard>::revocation_requested(self))
            }

            fn release(
                self: Box<Self>,
            ) -> $crate::inter_process_lock::BoxFuture<
                'static,
                Result<$crate::guard::Released, $crate::error::ReleaseError>,
            > {
                Box::pin(<$guard>::release(*self))
            }
        }
    };
    ($lock:ty) => {
        impl $crate::inter_process_lock::InterProcessLock for $lock {
            fn path(&self) -> &str {
                <$lock>::path(self)
            }

            fn acquire(&self) -> $crate::inter_process_lock::Acquiring<'_> {
                Box::pin(async move {
                    let guard = <$lock>::acquire(self).await?;
                    Ok($crate::inter_process_lock::boxed(guard))
                })
            }

            fn acquire_timeout(
                &self,
                limit: std::time::Duration,
            ) -> $crate::inter_process_lock::Trying<'_> {
                Box::pin(async move {
                    let guard = <$lock>::acquire_timeout(self, limit).await?;
                    Ok(guard.map($crate::inter_process_lock::boxed))
                })
            }

            fn try_acquire(&self) -> $crate::inter_process_lock::Trying<'_> {
                Box::pin(async move {
                    let guard = <$lock>::try_acquire(self).await?;
                    Ok(guard.map($crate::inter_process_lock::boxed))
                })
            }
        }
    };
}
pub(crate) use impl_inter_process_lock;

pub(crate) type Acquiring<'a> = BoxFuture<'a, Result<Box<dyn LockGuard>, AcquireError>>;
pub(crate) type Trying<'a> = BoxFuture<'a, Result<Option<Box<dyn LockGuard>>, AcquireError>>;

pub(crate) fn boxed(guard: impl LockGuard + 'static) -> Box<dyn LockGuard> {
    Box::new(guard)
}
