//! [`Lock`]: any lock of this crate, as a trait object.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::hold::{Guard, Hold};
use super::recipe::Patience;
use super::runs::impl_runs;
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
    fn acquire(&self) -> BoxFuture<'_, Result<Guard, Error>> {
        self.acquire_with(Patience::Forever)
    }

    /// See [`InterProcessMutex::try_acquire`](crate::InterProcessMutex::try_acquire).
    fn try_acquire(&self) -> BoxFuture<'_, Result<Guard, Error>> {
        self.acquire_with(Patience::TRY)
    }

    /// See [`InterProcessMutex::acquire_timeout`](crate::InterProcessMutex::acquire_timeout).
    fn acquire_timeout(&self, limit: Duration) -> BoxFuture<'_, Result<Guard, Error>> {
        // The time counts from the first poll, as that of an async function.
        Box::pin(async move { self.acquire_with(Patience::within(limit)).await })
    }
}

impl_runs!(dyn Lock + '_, Hold);

#[allow(unnameable_types)] // so that `Lock` cannot be implemented elsewhere
pub trait Sealed {
    fn acquire_with(&self, patience: Patience) -> BoxFuture<'_, Result<Guard, Error>>;
}

/// Implements [`Lock`] for a type with the methods `path` and `acquire_with`.
macro_rules! impl_lock {
    ($Lock:ident) => {
        impl $crate::recipes::shared::lock::Sealed for $Lock {
            fn acquire_with(
                &self,
                patience: $crate::recipes::shared::recipe::Patience,
            ) -> futures_util::future::BoxFuture<'_, Result<$crate::Guard, $crate::Error>> {
                Box::pin(Self::acquire_with(self, patience))
            }
        }

        impl $crate::Lock for $Lock {
            fn path(&self) -> &str {
                Self::path(self)
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
