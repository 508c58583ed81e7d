//! A busy lock is an error: a caller that ignores the answer does not go on without the lock.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::prelude::*;
use crate::support::contenders::{Make, mutex, read, semaphore, write};

/// A way to ask for a lock without waiting for ever.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    /// Makes the lock that keeps this one out.
    holder: Make,
    /// Where that lock is, below the path of this one.
    below: &'static str,
    asks: fn(Curator, String, WentOn) -> BoxFuture<'static, Result<(), Error>>,
}

/// Counts the callers that went on behind the line that asks, or in the body.
type WentOn = Arc<AtomicUsize>;

/// The careless line: the guard has a name, and the caller goes on if there is no error.
macro_rules! guards {
    ($($holder:ident $below:literal: |$curator:ident, $path:ident| $lock:expr, $ask:ident($($with:expr),*);)*) => {
        [$(Way {
            name: stringify!($lock, $ask),
            holder: $holder,
            below: $below,
            asks: |$curator, $path, went_on| async move {
                let lock = $lock;
                let _guard = lock.$ask($($with),*).await?;
                went_on.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }.boxed(),
        }),*]
    };
}

/// Both ways to run a body, which counts.
macro_rules! runs {
    ($($holder:ident $below:literal: |$curator:ident, $path:ident| $lock:expr;)*) => {
        [$(
            runs!(@way $holder $below |$curator, $path| $lock, try_run()),
            runs!(@way $holder $below |$curator, $path| $lock, run_timeout(BUSY,)),
        )*]
    };
    (@way $holder:ident $below:literal |$curator:ident, $path:ident| $lock:expr, $run:ident($($limit:expr,)?)) => {
        Way {
            name: stringify!($lock, $run),
            holder: $holder,
            below: $below,
            asks: |$curator, $path, went_on| async move {
                let lock = $lock;
                let body = async |_| {
                    went_on.fetch_add(1, Ordering::Relaxed);
                    Ok::<(), Error>(())
                };
                lock.$run($($limit,)? body).await
            }.boxed(),
        }
    };
}

const GUARDS: [Way; 15] = guards! {
    mutex "": |curator, path| curator.mutex(path)?, try_acquire();
    mutex "": |curator, path| curator.mutex(path)?, acquire_timeout(BUSY);
    write "": |curator, path| curator.read_write_lock(path)?, try_read();
    write "": |curator, path| curator.read_write_lock(path)?, read_timeout(BUSY);
    read "": |curator, path| curator.read_write_lock(path)?, try_write();
    read "": |curator, path| curator.read_write_lock(path)?, write_timeout(BUSY);
    write "": |curator, path| curator.read_write_lock(path)?.read_half(), try_acquire();
    read "": |curator, path| curator.read_write_lock(path)?.write_half(), acquire_timeout(BUSY);
    semaphore "": |curator, path| curator.semaphore(path, 1)?, try_acquire();
    semaphore "": |curator, path| curator.semaphore(path, 1)?, acquire_timeout(BUSY);
    semaphore "": |curator, path| curator.semaphore(path, 1)?, try_acquire_many(1);
    semaphore "": |curator, path| curator.semaphore(path, 1)?, acquire_many_timeout(1, BUSY);
    mutex "/b": |curator, path| several(&curator, &path)?, try_acquire();
    mutex "/b": |curator, path| several(&curator, &path)?, acquire_timeout(BUSY);
    semaphore "/c": |curator, path| several(&curator, &path)?, acquire_timeout(BUSY);
};

const RUNS: [Way; 14] = runs! {
    mutex "": |curator, path| curator.mutex(path)?;
    write "": |curator, path| curator.read_write_lock(path)?.read_half();
    read "": |curator, path| curator.read_write_lock(path)?.write_half();
    semaphore "": |curator, path| curator.semaphore(path, 1)?;
    mutex "": |curator, path| Arc::<dyn Lock>::from(curator.mutex(path)?);
    mutex "/b": |curator, path| several(&curator, &path)?;
    semaphore "/c": |curator, path| several(&curator, &path)?;
};

/// Two mutexes, and then a semaphore.
fn several(curator: &Curator, path: &str) -> Result<InterProcessMultiLock, Error> {
    let mutex = |name| curator.mutex(format!("{path}/{name}")).map(Arc::<dyn Lock>::from);
    let semaphore = curator.semaphore(format!("{path}/c"), 1)?;
    InterProcessMultiLock::new([mutex("a")?, mutex("b")?, semaphore.into()])
}

async fn keeps_out(way: Way, testbed: &Testbed, path: String) {
    let [curator, other] = testbed.curators().await;
    let Way { name, holder, below, asks } = way;
    let busy = format!("{path}{below}");
    let holder = holder(&other, &busy);
    let went_on = WentOn::default();
    let ask = async || within(name, asks(curator.clone(), path.clone(), went_on.clone())).await;
    for round in 1..3 {
        ask().await.unwrap_or_else(|error| panic!("{name}: free: {error}"));
        assert_eq!(went_on.load(Ordering::Relaxed), round, "{name}: free");
        // What it acquired, it released.
        let held = within(name, holder.acquire()).await.unwrap();
        let error = fails(ask().await, ErrorKind::Busy);
        assert_eq!(went_on.load(Ordering::Relaxed), round, "{name}: it went on without the lock");
        assert!(error.is_busy() && !error.is_transient(), "{name}: {error:?}");
        assert_eq!(error.path(), Some(&*busy), "{name}");
        held.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_careless_caller_does_not_go_on_without_the_lock() {
    let testbed = &Testbed::new().await;
    let ways = GUARDS.into_iter().enumerate();
    join_all(ways.map(|(at, way)| keeps_out(way, testbed, format!("{}/{at}", testbed.path)))).await;
}

#[tokio::test(start_paused = true)]
async fn a_body_runs_if_the_lock_is_free_and_is_not_called_if_it_is_busy() {
    let testbed = &Testbed::new().await;
    let ways = RUNS.into_iter().enumerate();
    join_all(ways.map(|(at, way)| keeps_out(way, testbed, format!("{}/{at}", testbed.path)))).await;
}

#[tokio::test(start_paused = true)]
async fn the_text_says_which_lock_is_busy() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let at = |name| format!("{}/{name}", testbed.path);
    let held = other.mutex(at("b")).unwrap().acquire().await.unwrap();
    let one = fails(curator.mutex(at("b")).unwrap().try_acquire().await, ErrorKind::Busy);
    assert_eq!(one.to_string(), format!("another contender has {}", at("b")));
    let all = several(&curator, &testbed.path).unwrap();
    let member = fails(all.try_acquire().await, ErrorKind::Busy);
    assert_eq!(member.to_string(), format!("member 1, {0}: another contender has {0}", at("b")));
    held.release().await.unwrap();
    let leases = curator.semaphore(at("leases"), 3).unwrap();
    let held = leases.acquire_many(2).await.unwrap();
    let two = fails(leases.try_acquire_many(2).await, ErrorKind::Busy);
    assert_eq!(two.to_string(), format!("too few leases of {} are free: 2 needed", at("leases")));
    held.release().await.unwrap();
}

/// The error of a body that tries a lock itself has the path of that lock.
#[tokio::test(start_paused = true)]
async fn the_path_tells_the_lock_of_the_body_from_its_own() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let at = |name| format!("{}/{name}", testbed.path);
    let (outer, inner) = (curator.mutex(at("a")).unwrap(), curator.mutex(at("b")).unwrap());
    let held = other.mutex(at("b")).unwrap().acquire().await.unwrap();
    let run = outer.try_run(async |_| inner.try_run(async |_| Ok::<_, Error>(())).await);
    let error = fails(within("the inner lock", run).await, ErrorKind::Busy);
    assert_eq!(error.path(), Some(inner.path()));
    held.release().await.unwrap();
    let held = other.mutex(at("a")).unwrap().acquire().await.unwrap();
    let run = outer.try_run(async |_| inner.try_run(async |_| Ok::<_, Error>(())).await);
    let error = fails(within("the outer lock", run).await, ErrorKind::Busy);
    assert_eq!(error.path(), Some(outer.path()));
    held.release().await.unwrap();
}

/// The clock cannot count so far.
#[tokio::test(start_paused = true)]
async fn the_longest_limit_is_none() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let held = testbed.mutex(&other).acquire().await.unwrap();
    let mutex = testbed.mutex(&curator);
    let waiting = tokio::spawn(async move { mutex.acquire_timeout(Duration::MAX).await });
    testbed.children_are(2).await;
    held.release().await.unwrap();
    assert!(within("the lock", waiting).await.unwrap().unwrap().is_held());
}
