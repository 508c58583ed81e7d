//! [`Lock`]: any lock of this crate, as a trait object.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures_util::TryFutureExt;
use futures_util::future::BoxFuture;

use super::attempt::Attempt;
use super::hold::{Guard, Hold};
use super::recipe::Patience;
use crate::error::Error;

/// Any lock of this crate, as a trait object: a mutex, a semaphore, half of a read-write lock.
///
/// The trait is sealed. In place of a test double of your own, use the module `simulation` (feature `simulation`).
///
/// ```no_run
/// # use std::sync::Arc;
/// # use zookeeper_recipes::{Curator, Error, Lock};
/// # async fn nightly() -> Result<(), Error> { Ok(()) }
/// async fn guarded(lock: &dyn Lock) -> Result<(), Error> {
///     lock.run(async |_hold| nightly().await).await
/// }
///
/// # async fn example(curator: Curator) -> Result<(), Error> {
/// let lock: Arc<dyn Lock> = curator.mutex("/jobs/nightly")?.into();
/// guarded(&*lock).await
/// # }
/// ```
pub trait Lock: fmt::Debug + Send + Sync + Sealed {
    /// The path, under the namespace.
    fn path(&self) -> &str;

    /// See [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    fn acquire(&self) -> BoxFuture<'_, Result<Guard, Error>>;

    /// See [`InterProcessMutex::try_acquire`](crate::InterProcessMutex::try_acquire).
    fn try_acquire(&self) -> BoxFuture<'_, Result<Attempt, Error>> {
        Box::pin(self.attempt(Patience::NoWait).map_ok(Attempt::of))
    }

    /// See [`InterProcessMutex::acquire_timeout`](crate::InterProcessMutex::acquire_timeout).
    fn acquire_timeout(&self, limit: Duration) -> BoxFuture<'_, Result<Attempt, Error>> {
        Box::pin(self.attempt(Patience::within(limit)).map_ok(Attempt::of))
    }
}

impl dyn Lock + '_ {
    /// See [`InterProcessMutex::run`](crate::InterProcessMutex::run).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and releases.
    ///
    /// # Errors
    ///
    /// The body's own; those of [`acquire`](Lock::acquire); [`ErrorKind::Lost`](crate::ErrorKind::Lost).
    #[allow(clippy::future_not_send)] // it is, if the body is
    pub async fn run<T, E, Fut>(&self, body: impl FnOnce(Hold) -> Fut) -> Result<T, E>
    where
        E: From<Error>,
        Fut: Future<Output = Result<T, E>>,
    {
        self.acquire().await?.run(body).await
    }

    /// See [`InterProcessMutex::with`](crate::InterProcessMutex::with).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and releases.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Lock::acquire), and [`ErrorKind::Lost`](crate::ErrorKind::Lost).
    #[allow(clippy::future_not_send)] // it is, if the body is
    pub async fn with<T, Fut>(&self, body: impl FnOnce(Hold) -> Fut) -> Result<T, Error>
    where
        Fut: Future<Output = T>,
    {
        self.acquire().await?.with(body).await
    }
}

#[allow(unnameable_types)] // so that `Lock` cannot be implemented elsewhere
pub trait Sealed {
    fn attempt(&self, patience: Patience) -> BoxFuture<'_, Result<Option<Guard>, Error>>;
}

/// Implements [`Lock`] for a type with the methods `path`, `acquire` and `attempt`.
macro_rules! impl_lock {
    ($Lock:ident) => {
        impl $crate::recipes::shared::lock::Sealed for $Lock {
            fn attempt(
                &self,
                patience: $crate::recipes::shared::recipe::Patience,
            ) -> futures_util::future::BoxFuture<'_, Result<Option<$crate::Guard>, $crate::Error>>
            {
                Box::pin(Self::attempt(self, patience))
            }
        }

        impl $crate::Lock for $Lock {
            fn path(&self) -> &str {
                Self::path(self)
            }

            fn acquire(
                &self,
            ) -> futures_util::future::BoxFuture<'_, Result<$crate::Guard, $crate::Error>> {
                Box::pin(Self::acquire(self))
            }
        }

        impl From<$Lock> for std::sync::Arc<dyn $crate::Lock> {
            fn from(lock: $Lock) -> Self {
                std::sync::Arc::new(lock)
            }
        }
    };
}

pub(crate) use impl_lock;
