//! Needs no server: promises about the types of the public API.

mod local_lock;
mod multi_lock;
mod no_threads;
mod odd_locks;

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;

use zookeeper_recipes::{
    AcquireError, ConfigError, ConnectionState, ContenderKind, CountWatch, Curator, CuratorBuilder,
    Fenced, FencedError, FencingToken, InterProcessLock, InterProcessMultiLock, InterProcessMutex,
    LocalGuard, LocalLock, LockGuard, Loss, LossPolicy, MemberFailure, MemberLoss, MultiGuard,
    MultiReleaseError, MutexGuard, Owner, Participant, ReleaseError, Released, RetryPolicy,
    SessionError, SharedCount, SharedCountError, SharedError, VersionedCount, WithError,
};
use zookeeper_testkit::{Fault, FaultProxy, TestEnsemble, TestServer};

fn error<T: Error + Clone + Send + Sync + 'static>() {}
fn sync<T: Debug + Send + Sync + Unpin + 'static>() {}
fn future<T: Send + 'static>(_: T) {}

#[test]
fn errors_are_errors_that_can_be_sent_and_shared() {
    error::<AcquireError>();
    error::<ConfigError>();
    error::<FencedError>();
    error::<ReleaseError>();
    error::<SessionError>();
    error::<SharedCountError>();
    error::<WithError>();
    error::<MultiReleaseError>();
    error::<zookeeper_recipes::ClientError>();
}

#[test]
fn types_can_be_sent_shared_and_printed() {
    sync::<Curator>();
    sync::<CuratorBuilder>();
    sync::<InterProcessMutex>();
    sync::<MutexGuard>();
    sync::<InterProcessMultiLock>();
    sync::<MultiGuard>();
    sync::<MemberFailure>();
    sync::<MemberLoss>();
    sync::<SharedError>();
    sync::<Arc<dyn InterProcessLock>>();
    sync::<Box<dyn LockGuard>>();
    sync::<LocalLock>();
    sync::<LocalGuard>();
    sync::<Owner>();
    sync::<Participant>();
    sync::<ContenderKind>();
    sync::<RetryPolicy>();
    sync::<FencingToken>();
    sync::<ConnectionState>();
    sync::<Loss>();
    sync::<Released>();
    sync::<Fenced>();
    sync::<LossPolicy>();
    sync::<SharedCount>();
    sync::<VersionedCount>();
    sync::<CountWatch>();
    sync::<Fault>();
    sync::<FaultProxy>();
    sync::<TestEnsemble>();
    sync::<TestServer>();
}

/// Only compiled: the futures can be spawned.
#[allow(dead_code)]
fn futures_can_be_spawned(curator: Curator, mutex: InterProcessMutex, guard: MutexGuard) {
    future(TestServer::start());
    future(TestEnsemble::start(3));
    future(async move { FaultProxy::start("127.0.0.1:2181").await });
    let fenced = guard.fenced();
    future(async move { fenced.create("/node", b"data").await });
    future(guard.lost());
    future(guard.release());
    let owned = mutex.clone();
    future(async move { owned.acquire().await });
    let owned = mutex.clone();
    future(async move { owned.try_acquire().await });
    let owned = mutex.clone();
    future(async move { owned.with(async |hold| hold.is_held()).await });
    let owned = mutex.clone();
    future(async move { owned.participants().await });
    future(async move { Owner::new().scope(mutex.acquire()).await });
    future(async move { curator.close().await });
}

/// The same of the shared count.
#[allow(dead_code)]
fn futures_of_a_count_can_be_spawned(curator: Curator, count: SharedCount, mut watch: CountWatch) {
    future(async move { SharedCount::start(&curator, "/count", 1).await });
    let owned = count.clone();
    future(async move { owned.set(2).await });
    future(async move { count.try_set(&count.versioned(), 3).await });
    future(async move { watch.changed().await });
}

/// The same for those of several locks, and behind a pointer.
#[allow(dead_code)]
fn futures_of_any_lock_can_be_spawned(
    multi: InterProcessMultiLock,
    lock: Arc<dyn InterProcessLock>,
    guards: (MultiGuard, Box<dyn LockGuard>),
) {
    let owned = multi.clone();
    future(async move { owned.acquire().await });
    let owned = multi.clone();
    future(async move { owned.try_acquire().await });
    future(async move { multi.with(async |guard| guard.is_held()).await });
    future(async move { lock.acquire().await });
    future(guards.0.lost());
    future(guards.0.release());
    future(guards.1.lost());
    future(guards.1.release());
}

#[test]
fn credentials_are_not_printed() {
    let builder = Curator::builder().auth("digest", b"user:secret");
    assert!(!format!("{builder:?}").contains("secret"));
}
