//! Tasks that ask a semaphore for leases.

use tokio_util::task::AbortOnDropHandle;

use crate::prelude::*;

/// A task that waits; dropping this leaves.
pub(crate) type Asks<T> = AbortOnDropHandle<Result<T, Error>>;

pub(crate) fn spawned<T: Send + 'static>(
    acquiring: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Asks<T> {
    AbortOnDropHandle::new(tokio::spawn(acquiring))
}

/// Asks for a lease in a task of its own.
pub(crate) fn asks(semaphore: &InterProcessSemaphoreV2) -> Asks<Guard> {
    let semaphore = semaphore.clone();
    spawned(async move { semaphore.acquire().await })
}

/// Asks for several.
pub(crate) fn asks_for(semaphore: &InterProcessSemaphoreV2, count: usize) -> Asks<Guards> {
    let semaphore = semaphore.clone();
    spawned(async move { semaphore.acquire_many(count).await })
}

pub(crate) async fn served<T>(asks: Asks<T>) -> T {
    within("the waiter", asks).await.unwrap().unwrap()
}
