//! Which lock the options mean.

use std::sync::Arc;
use std::time::Duration;

use zookeeper_recipes::{
    AcquireError, BoxFuture, ConfigError, Curator, InterProcessLock, InterProcessMultiLock,
    InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphore, LockGuard, RetryPolicy,
};

use crate::arguments::Run;
use crate::supervision::Environment;

/// Between two tries while ZooKeeper does not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// The lock; of several paths all of them.
pub(super) fn lock(
    curator: &Curator,
    arguments: &Run,
) -> Result<Arc<dyn InterProcessLock>, ConfigError> {
    if let [path] = arguments.paths.as_slice() {
        return one(curator, arguments, path);
    }
    let locks = arguments.paths.iter().map(|path| one(curator, arguments, path));
    let locks = locks.collect::<Result<Vec<_>, _>>()?;
    // In the same order for everybody: else two would wait for each other.
    Ok(Arc::new(InterProcessMultiLock::new(locks)?.sorted_by_path()))
}

fn one(
    curator: &Curator,
    arguments: &Run,
    path: &str,
) -> Result<Arc<dyn InterProcessLock>, ConfigError> {
    // Who is to wait, waits for ZooKeeper, too. Who is not gets an answer.
    let retry =
        || if waits(arguments) { RetryPolicy::forever(PAUSE) } else { RetryPolicy::default() };
    Ok(if let Some(count) = arguments.count {
        let limit = usize::try_from(count).unwrap_or(usize::MAX);
        Arc::new(InterProcessSemaphore::new(curator, path, limit)?.with_retry(retry()))
    } else if arguments.read {
        Arc::new(InterProcessReadWriteLock::new(curator, path)?.with_retry(retry()).read())
    } else if arguments.write {
        Arc::new(InterProcessReadWriteLock::new(curator, path)?.with_retry(retry()).write())
    } else {
        Arc::new(InterProcessMutex::new(curator, path)?.with_retry(retry()))
    })
}

/// No time to wait is not to wait, as for `flock`.
fn waits(arguments: &Run) -> bool {
    !arguments.nonblock && arguments.timeout != Some(Duration::ZERO)
}

/// What bounds the time to wait, if something does.
pub(super) fn limit(arguments: &Run) -> Option<Duration> {
    arguments.timeout.filter(|_| waits(arguments))
}

/// Acquires it as the options say, with what is `left` of the time to wait; `None` if somebody else has it.
pub(super) fn acquire<'a>(
    lock: &'a dyn InterProcessLock,
    arguments: &Run,
    left: Duration,
) -> BoxFuture<'a, Result<Option<Box<dyn LockGuard>>, AcquireError>> {
    match limit(arguments) {
        _ if !waits(arguments) => lock.try_acquire(),
        Some(_) => lock.acquire_timeout(left),
        None => Box::pin(async move { lock.acquire().await.map(Some) }),
    }
}

/// What the command is told of it: a line for each lock.
pub(super) fn environment(guard: &dyn LockGuard) -> Environment {
    let members = guard.members();
    let lines = |one: &dyn Fn(&dyn LockGuard) -> String| match members {
        [] => one(guard),
        members => members.iter().map(|guard| one(&**guard)).collect::<Vec<_>>().join("\n"),
    };
    Environment {
        path: lines(&|guard| guard.path().to_owned()),
        node: lines(&|guard| guard.node().unwrap_or_default().to_owned()),
        token: lines(&|guard| {
            guard.fencing_token().map_or_else(String::new, |token| token.to_string())
        }),
    }
}
