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
    sync::<(Curator, CuratorBuilder, ConnectionState, RetryPolicy, Owner)>();
    sync::<(InterProcessMutex, MutexGuard, Released, Loss, LossPolicy, FencingToken, Fenced)>();
    sync::<(InterProcessMultiLock, MultiGuard, MemberFailure, MemberLoss, SharedError)>();
    sync::<(Arc<dyn InterProcessLock>, Box<dyn LockGuard>, LocalLock, LocalGuard)>();
    sync::<(Participant, ContenderKind, SharedCount, VersionedCount, CountWatch)>();
    sync::<(Fault, FaultProxy, TestEnsemble, TestServer)>();
}

/// Only compiled: those futures can be spawned that depend on what they are given. The others are looked at by clippy
/// (`future_not_send`).
#[allow(dead_code)]
fn futures_can_be_spawned(mutex: InterProcessMutex, multi: InterProcessMultiLock) {
    let owned = mutex.clone();
    future(async move { owned.with(async |hold| hold.is_held()).await });
    future(async move { Owner::new().scope(mutex.acquire()).await });
    future(async move { multi.with(async |guard| guard.is_held()).await });
}

#[test]
fn credentials_are_not_printed() {
    let builder = Curator::builder().auth("digest", b"user:secret");
    assert!(!format!("{builder:?}").contains("secret"));
}
