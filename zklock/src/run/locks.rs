//! Which lock the options mean.

use std::sync::Arc;
use std::time::Duration;

use zookeeper_recipes::session::RetryPolicy;
use zookeeper_recipes::{Attempt, Curator, Error, Guards, InterProcessMultiLock, Lock};

use crate::arguments::Run;

/// Between two tries while ZooKeeper does not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// A run that waits for the lock waits for ZooKeeper, too. One that does not wait gets an answer.
pub(super) fn patient(curator: &Curator, arguments: &Run) -> Curator {
    let policy =
        if waits(arguments) { RetryPolicy::forever(PAUSE) } else { RetryPolicy::default() };
    curator.with_retry(policy)
}

/// The locks of all paths.
pub(super) fn lock(curator: &Curator, arguments: &Run) -> Result<InterProcessMultiLock, Error> {
    let locks = arguments.paths.iter().map(|path| one(curator, arguments, path));
    let locks = locks.collect::<Result<Vec<_>, _>>()?;
    // In the same order in each process: else two would wait for each other.
    Ok(InterProcessMultiLock::new(locks)?.sorted_by_path())
}

/// Acquires them, within the limit if there is one.
pub(super) async fn acquire(
    lock: &InterProcessMultiLock,
    limit: Option<Duration>,
) -> Result<Attempt<Guards>, Error> {
    match limit {
        Some(limit) => lock.acquire_timeout(limit).await,
        None => lock.acquire().await.map(Attempt::Acquired),
    }
}

fn one(curator: &Curator, arguments: &Run, path: &str) -> Result<Arc<dyn Lock>, Error> {
    Ok(if let Some(count) = arguments.count {
        curator.semaphore(path, usize::try_from(count).unwrap_or(usize::MAX))?.into()
    } else if arguments.read {
        curator.read_write_lock(path)?.read_half()
    } else if arguments.write {
        curator.read_write_lock(path)?.write_half()
    } else {
        curator.mutex(path)?.into()
    })
}

/// No time to wait is not to wait, as for `flock`.
pub(super) fn waits(arguments: &Run) -> bool {
    !arguments.nonblock && arguments.timeout != Some(Duration::ZERO)
}

/// What bounds the time to wait, if something does.
pub(super) fn limit(arguments: &Run) -> Option<Duration> {
    arguments.timeout.filter(|_| waits(arguments))
}
