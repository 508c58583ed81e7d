//! Needs no server: promises about the types of the public API.

mod behind_your_own_trait;
mod errors_in_a_service;
mod no_threads;

use std::error::Error as _;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use zookeeper_recipes::interop::{
    ContenderFilter, ContenderKind, CountWatch, LossPolicy, Owner, Revoker, SharedCount,
    VersionedCount,
};
use zookeeper_recipes::leader::{
    LeaderLatch, LeaderObserver, LeaderRun, LeaderSelector, TermError,
};
use zookeeper_recipes::session::{ConnectionState, RetryPolicy};
use zookeeper_recipes::{
    Curator, CuratorBuilder, Error, ErrorKind, Fenced, FencingToken, Guard, Guards, Hold,
    InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphoreV2,
    Lock, Loss, Participant, Released, SlotGuard, SlotHold, Slots, WriteGuard,
};
use zookeeper_testkit::{Fault, FaultProxy, TestEnsemble, TestServer};

fn error<T: std::error::Error + Send + Sync + 'static>() {}
fn sync<T: Debug + Send + Sync + Unpin + 'static>() {}
fn future<T: Send + 'static>(_: T) {}

#[test]
fn types_can_be_sent_shared_and_printed() {
    error::<Error>();
    error::<Loss>();
    error::<TermError<()>>();
    sync::<(Curator, CuratorBuilder, ConnectionState, RetryPolicy, Owner, Released, LossPolicy)>();
    sync::<(InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphoreV2)>();
    sync::<(InterProcessMultiLock, Arc<dyn Lock>, Guard, WriteGuard, Guards, Hold, Fenced)>();
    sync::<(Slots, SlotGuard, SlotHold)>();
    sync::<(ErrorKind, FencingToken, Participant, Revoker)>();
    sync::<(LeaderLatch, LeaderSelector, LeaderRun<()>, LeaderObserver)>();
    sync::<(ContenderFilter, ContenderKind, SharedCount, VersionedCount, CountWatch)>();
    sync::<(Fault, FaultProxy, TestEnsemble, TestServer)>();
}

/// Only compiled: futures that depend on what they are given can be spawned. The others are looked at by clippy
/// (`future_not_send`).
#[allow(dead_code)]
fn futures_can_be_spawned(mutex: InterProcessMutex, multi: InterProcessMultiLock, slots: Slots) {
    future(async move { slots.with(async |slot| slot.index()).await });
    let owned = mutex.clone();
    future(async move { owned.with(async |hold| hold.is_held()).await });
    let owned = mutex.clone();
    future(async move { owned.run(async |hold| Ok::<_, Error>(hold.is_held())).await });
    let owned = mutex.clone();
    future(async move { owned.try_run(async |hold| Ok::<_, Error>(hold.is_held())).await });
    let owned = mutex.clone();
    let limit = Duration::from_secs(1);
    future(async move { owned.run_timeout(limit, async |_| Ok::<_, Error>(())).await });
    future(async move { Owner::new().scope(mutex.acquire()).await });
    future(async move { multi.with(async |holds| holds[0].is_held()).await });
}

#[test]
fn credentials_are_not_printed() {
    let builder = Curator::builder().auth("digest", b"user:secret");
    assert!(!format!("{builder:?}").contains("secret"));
}

#[test]
fn an_error_is_the_same_when_it_is_cloned_and_a_loss_is_no_source() {
    let error = Curator::builder().connect_lazy("").unwrap_err();
    let clone = error.clone();
    assert_eq!((clone.kind(), clone.option()), (ErrorKind::InvalidInput, Some("connect string")));
    assert_eq!(clone.to_string(), error.to_string());
    assert_eq!((error.path(), error.loss(), error.is_transient()), (None, None, false));
    assert!(error.source().is_none());
    let debug = format!("{error:?}");
    assert!(debug.contains("InvalidInput") && debug.contains("it names no server"), "{debug}");
}
