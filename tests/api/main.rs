//! Needs no server: promises about the types of the public API.

use std::error::Error;
use std::fmt::Debug;

use zookeeper_recipes::testkit::{Fault, FaultProxy, TestEnsemble, TestServer};
use zookeeper_recipes::{
    AcquireError, ConfigError, ConnectionState, CountWatch, Curator, CuratorBuilder, Fenced,
    FencedError, FencingToken, InterProcessMutex, Loss, LossPolicy, MutexGuard, Owner, Participant,
    ReleaseError, Released, RetryPolicy, SessionError, SharedCount, SharedCountError,
    VersionedCount, WithError,
};

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
    error::<zookeeper_recipes::ClientError>();
}

#[test]
fn types_can_be_sent_shared_and_printed() {
    sync::<Curator>();
    sync::<CuratorBuilder>();
    sync::<InterProcessMutex>();
    sync::<MutexGuard>();
    sync::<Owner>();
    sync::<Participant>();
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

#[test]
fn credentials_are_not_printed() {
    let builder = Curator::builder().auth("digest", b"user:secret");
    assert!(!format!("{builder:?}").contains("secret"));
}
