//! The calls `run`, `with`, `try_run` and `run_timeout`, and those of guards: one text and one code for all locks.

use std::future::Future;

use crate::error::{Error, ErrorKind, Released};

/// Implements the calls that acquire, run a body and release, for a type with `acquire`, `try_acquire` and `acquire_timeout`. The
/// body gets a `$Hold`.
macro_rules! impl_runs {
    ($Lock:ty, $Hold:ty) => {
        impl $Lock {
            /// Acquires, runs `body`, and releases. The body is dropped at its next `await` when the hold is lost.
            ///
            /// One `?` is enough, because the body's error type converts from [`Error`](crate::Error). If `?` stands both inside the body and after
            /// the call, write the closure's type:
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
            /// The lock is released before `?` can return from the caller. To keep a partial result of a body that is dropped, let the body write it
            /// into a captured local.
            ///
            /// # Cancel safety
            ///
            /// Dropping the future drops the body and releases.
            ///
            /// # Errors
            ///
            /// The body's own; those of `acquire`; [`ErrorKind::Lost`](crate::ErrorKind::Lost) if the hold was lost while the body ran. A release
            /// that no server confirms in time is not an error.
            ///
            /// # Panics
            ///
            /// Outside a tokio runtime with timers.
            #[allow(clippy::future_not_send)] // it is, if the body is
            pub async fn run<T, E, Fut>(&self, body: impl FnOnce($Hold) -> Fut) -> Result<T, E>
            where
                E: From<$crate::Error>,
                Fut: std::future::Future<Output = Result<T, E>>,
            {
                self.acquire().await?.run(body).await
            }

            /// Acquires, runs a `body` of any value, and releases: as `run`, for a body that returns no `Result`.
            ///
            /// # Cancel safety
            ///
            /// Dropping the future drops the body and releases.
            ///
            /// # Errors
            ///
            /// As for `run`, without the body's.
            ///
            /// # Panics
            ///
            /// Outside a tokio runtime with timers.
            #[allow(clippy::future_not_send)] // it is, if the body is
            pub async fn with<T, Fut>(
                &self,
                body: impl FnOnce($Hold) -> Fut,
            ) -> Result<T, $crate::Error>
            where
                Fut: std::future::Future<Output = T>,
            {
                self.acquire().await?.with(body).await
            }

            /// Runs `body` and releases, if the hold can be acquired without waiting for another holder: as `run`. Otherwise the body is not called,
            /// and the error is [`ErrorKind::Busy`](crate::ErrorKind::Busy). The future waits for the servers' answers, never for another holder.
            ///
            /// ```no_run
            /// # use zookeeper_recipes::{Error, InterProcessMutex};
            /// # async fn bill(token: i64) -> Result<u64, Error> { Ok(1) }
            /// # async fn example(mutex: InterProcessMutex) -> Result<(), Error> {
            /// match mutex.try_run(async |hold| bill(hold.fencing_token().value()).await).await {
            ///     Ok(billed) => println!("{billed} orders"),
            ///     Err(error) if error.is_busy() => println!("another process bills"),
            ///     Err(error) => return Err(error),
            /// }
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// If the body itself tries a lock and returns its error, a busy error can be of that lock. Compare
            /// [`Error::path`](crate::Error::path) with the path of this one.
            ///
            /// # Cancel safety
            ///
            /// Dropping the future drops the body and releases.
            ///
            /// # Errors
            ///
            /// As for `run` and `try_acquire`.
            ///
            /// # Panics
            ///
            /// Outside a tokio runtime with timers.
            #[allow(clippy::future_not_send)] // it is, if the body is
            pub async fn try_run<T, E, Fut>(&self, body: impl FnOnce($Hold) -> Fut) -> Result<T, E>
            where
                E: From<$crate::Error>,
                Fut: std::future::Future<Output = Result<T, E>>,
            {
                self.try_acquire().await?.run(body).await
            }

            /// Acquires, waiting at most for `limit`, then runs `body` and releases: as `run`. The limit does not bound the body. A
            /// limit of zero is a try that does not wait for a connection.
            ///
            /// # Cancel safety
            ///
            /// Dropping the future drops the body and releases.
            ///
            /// # Errors
            ///
            /// As for `run` and `acquire_timeout`.
            ///
            /// # Panics
            ///
            /// Outside a tokio runtime with timers.
            #[allow(clippy::future_not_send)] // it is, if the body is
            pub async fn run_timeout<T, E, Fut>(
                &self,
                limit: std::time::Duration,
                body: impl FnOnce($Hold) -> Fut,
            ) -> Result<T, E>
            where
                E: From<$crate::Error>,
                Fut: std::future::Future<Output = Result<T, E>>,
            {
                self.acquire_timeout(limit).await?.run(body).await
            }
        }
    };
}

/// Implements the calls that run a body under a guard and release it, for a guard with `lost_as_error` and `release_now`. The body
/// gets the `$Hold` that `$view` returns.
macro_rules! impl_guard_runs {
    ($Guard:ty, $Hold:ty, $view:expr) => {
        impl $Guard {
            /// Runs `body` while the guard is held, and releases. The body is dropped at its next `await` when the hold is lost. See
            /// [`InterProcessMutex::run`](crate::InterProcessMutex::run).
            ///
            /// # Cancel safety
            ///
            /// Dropping the future drops the body and releases.
            ///
            /// # Errors
            ///
            /// The body's own, and [`ErrorKind::Lost`](crate::ErrorKind::Lost).
            #[allow(clippy::future_not_send)] // it is, if the body is
            pub async fn run<T, E, Fut>(self, body: impl FnOnce($Hold) -> Fut) -> Result<T, E>
            where
                E: From<$crate::Error>,
                Fut: std::future::Future<Output = Result<T, E>>,
            {
                let view: fn(&Self) -> $Hold = $view;
                let ended = $crate::recipes::shared::runs::race_loss(
                    self.lost_as_error(),
                    body(view(&self)),
                )
                .await;
                $crate::recipes::shared::runs::finish_run(ended, self.release_now()).await
            }

            /// Runs a `body` of any value while the guard is held, and releases: as `run`, for a body that returns no `Result`.
            ///
            /// # Cancel safety
            ///
            /// Dropping the future drops the body and releases.
            ///
            /// # Errors
            ///
            /// [`ErrorKind::Lost`](crate::ErrorKind::Lost).
            #[allow(clippy::future_not_send)] // it is, if the body is
            pub async fn with<T, Fut>(
                self,
                body: impl FnOnce($Hold) -> Fut,
            ) -> Result<T, $crate::Error>
            where
                Fut: std::future::Future<Output = T>,
            {
                self.run(|hold| {
                    let body = body(hold);
                    async { Ok(body.await) }
                })
                .await
            }
        }
    };
}

/// The value of `body`, unless the hold is lost first.
#[allow(clippy::future_not_send)] // it is, if the body is
pub(crate) async fn race_loss<T>(
    lost: impl Future<Output = Error>,
    body: impl Future<Output = T>,
) -> Result<T, Error> {
    tokio::select! {
        biased;
        error = lost => Err(error),
        value = body => Ok(value),
    }
}

/// The result of a run: the body's own error comes first, then a loss.
#[allow(clippy::future_not_send)] // it is, if the body is
pub(crate) async fn finish_run<T, E: From<Error>>(
    ended: Result<Result<T, E>, Error>,
    releasing: impl Future<Output = Result<Released, Error>>,
) -> Result<T, E> {
    // A lost hold is released in the background.
    let value = ended?;
    match (releasing.await, value) {
        (Err(error), Ok(_)) if error.kind() == ErrorKind::Lost => Err(error.into()),
        (Err(error), value) => {
            tracing::warn!(%error, "the release failed");
            value
        }
        (Ok(_), value) => value,
    }
}

pub(crate) use {impl_guard_runs, impl_runs};
