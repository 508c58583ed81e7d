//! The mutex that is a semaphore with one lease: the tests that Curator runs for all its mutexes, and what is its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use zookeeper_recipes::{
    ConnectionState, Curator, InterProcessMutex, InterProcessSemaphore, InterProcessSemaphoreMutex,
    Loss, MutexGuard, Owner, ReleaseError, Released,
};
use zookeeper_testkit::TestServer;

use super::leases::Waiting;
use crate::harness::{Arena, BUSY, eventually, within};

fn asks(arena: &Arena, curator: &Curator) -> Waiting<MutexGuard> {
    let mutex = arena.semaphore_mutex(curator);
    Waiting::new(async move { mutex.acquire().await })
}

/// Curator: TestInterProcessMutexBase#testLocker.
#[tokio::test(flavor = "multi_thread")]
async fn with_holds_the_semaphore_mutex_while_its_body_runs() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let (mutex, rival) = (arena.semaphore_mutex(&curator), arena.semaphore_mutex(&other));
    let value = mutex
        .with(async |hold| {
            assert!(hold.is_held());
            assert!(rival.try_acquire().await.unwrap().is_none());
            7
        })
        .await;
    assert_eq!(value.unwrap(), 7);
    arena.nodes_are(0, 0).await;
    assert!(rival.try_acquire().await.unwrap().is_some());
}

/// Curator: TestInterProcessMutexBase#testWithNamespace.
#[tokio::test(flavor = "multi_thread")]
async fn with_a_namespace_the_two_folders_are_under_it() {
    let arena = Arena::new().await;
    let curator = arena.connect(arena.builder().namespace(&arena.path)).await;
    let mutex = InterProcessSemaphoreMutex::new(&curator, "/locks/orders").unwrap();
    let guard = mutex.acquire_timeout(Duration::from_secs(10)).await.unwrap().unwrap();
    assert_eq!((mutex.path(), guard.path()), ("/locks/orders", "/locks/orders"));
    assert!(guard.node().starts_with("/locks/orders/leases/_c_"), "{}", guard.node());
    assert!(arena.stat(&format!("{}{}", arena.path, guard.node())).await.is_some());
    assert!(arena.stat(&format!("{}/locks/orders/locks", arena.path)).await.is_some());
    assert_eq!(mutex.participants().await.unwrap()[0].path, guard.node());
    guard.release().await.unwrap();
}

/// Curator: TestInterProcessMutexBase#test2Clients. And CURATOR-376: held, though a field says that it is not.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_clients_one_has_the_lease_and_then_the_other() {
    let arena = Arena::new().await;
    let (one, two) = (arena.curator().await, arena.curator().await);
    for _ in 0..10 {
        let (mut first, mut second) = (asks(&arena, &one), asks(&arena, &two));
        let (guard, waiting) = tokio::select! {
            guard = first.first() => (guard, second),
            guard = second.first() => (guard, first),
        };
        arena.nodes_are(1, 2).await;
        assert!(guard.is_held() && !waiting.is_finished(), "one holds");
        guard.release().await.unwrap();
        let guard = waiting.served().await;
        assert!(guard.is_held());
        guard.release().await.unwrap();
    }
}

/// Curator: TestInterProcessMutexBase#testKilledSession.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_session_ends_the_hold_and_the_next_is_served() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let guard = within("the lock", arena.semaphore_mutex(&curator).acquire()).await.unwrap();
    let next = asks(&arena, &other);
    arena.nodes_are(1, 2).await;
    arena.kill_session(&curator).await;
    assert_eq!(within("the loss", guard.lost()).await, Loss::SessionExpired);
    let next = next.served().await;
    assert!(next.fencing_token() > guard.fencing_token(), "invariant 4");
    let error = guard.release().await.unwrap_err();
    assert!(matches!(error, ReleaseError::Lost { loss: Loss::SessionExpired, .. }), "{error:?}");
    next.release().await.unwrap();
}

/// Curator: TestInterProcessMutexBase#testWaitingProcessKilledServer.
#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_costs_neither_holder_nor_waiter_its_nodes() {
    let arena = Arena::own().await;
    let (curator, other) = (arena.patient_curator().await, arena.patient_curator().await);
    let guard = within("the lock", arena.semaphore_mutex(&curator).acquire()).await.unwrap();
    let next = asks(&arena, &other);
    arena.nodes_are(1, 2).await;
    let before = (arena.locks().await, arena.leases().await);
    arena.server.restart().await.unwrap();
    for curator in [&curator, &other] {
        let mut state = curator.watch_state();
        let back = state.wait_for(|state| {
            matches!(state, ConnectionState::Connected | ConnectionState::Reconnected)
        });
        drop(within("the connection", back).await.unwrap());
    }
    assert!(guard.is_held(), "{:?}", guard.loss());
    assert_eq!((arena.locks().await, arena.leases().await), before);
    guard.release().await.unwrap();
    next.served().await.release().await.unwrap();
}

/// Curator: TestInterProcessMutexBase#testContainerCleanup.
#[tokio::test(flavor = "multi_thread")]
async fn the_two_folders_go_when_nobody_uses_them() {
    let builder = TestServer::builder().container_check_interval(Duration::from_millis(10));
    let arena = Arena::on(Arc::new(builder.start().await.unwrap())).await;
    let curator = arena.curator().await;
    let mutex = arena.semaphore_mutex(&curator);
    let inside = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let (mutex, inside) = (mutex.clone(), inside.clone());
        tasks.spawn(async move {
            let body = async |_: &MutexGuard| {
                assert!(!inside.swap(true, Ordering::SeqCst), "two are inside");
                tokio::task::yield_now().await;
                inside.store(false, Ordering::SeqCst);
            };
            mutex.with(body).await.unwrap();
        });
    }
    within("ten tasks", tasks.join_all()).await;
    eventually("all is reaped", async || arena.stat(&arena.path).await.is_none()).await;
    within("the lock", mutex.acquire()).await.unwrap().release().await.unwrap();
}

/// Curator: TestInterProcessSemaphoreMutex#testReentrant and its two like are disabled there: it is not reentrant.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_re_enters_not_even_an_owner() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let mutex = arena.semaphore_mutex(&curator);
    let scoped = async {
        let guard = mutex.acquire().await.unwrap();
        assert!(mutex.try_acquire().await.unwrap().is_none());
        let again = mutex.acquire_timeout(BUSY).await;
        assert!(again.unwrap().is_none());
        // By the guard it is, as any.
        let nested = guard.reenter();
        assert_eq!(guard.release().await.unwrap(), Released::StillHeld);
        assert!(mutex.try_acquire().await.unwrap().is_none());
        assert_eq!(nested.release().await.unwrap(), Released::Unlocked);
    };
    within("the owner", Owner::new().scope(scoped)).await;
    arena.nodes_are(0, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_a_semaphore_of_one_to_others() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let mutex = arena.semaphore_mutex(&curator).with_identity("the mutex").unwrap();
    let semaphore = InterProcessSemaphore::new(&other, &arena.path, 1).unwrap();
    let guard = within("the lock", mutex.acquire()).await.unwrap();
    assert_eq!(arena.admin.get_data(guard.node()).await.unwrap().0, b"the mutex");
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    let lease = within("the lease", semaphore.acquire()).await.unwrap();
    assert!(mutex.try_acquire().await.unwrap().is_none());
    lease.release().await.unwrap();
}

/// As Curator's. A warning is all there is.
#[tokio::test(flavor = "multi_thread")]
async fn a_mutex_right_at_its_path_is_another_lock() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let mutex = InterProcessMutex::new(&other, &arena.path).unwrap();
    let one = within("the mutex", mutex.acquire()).await.unwrap();
    let two = within("the lock", arena.semaphore_mutex(&curator).acquire()).await.unwrap();
    assert!(one.is_held() && two.is_held());
    one.release().await.unwrap();
    two.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_goes_leaves_neither_lock_nor_lease() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let guard = within("the lock", arena.semaphore_mutex(&curator).acquire()).await.unwrap();
    let (goes, stays) = (asks(&arena, &other), asks(&arena, &curator));
    arena.nodes_are(2, 2).await;
    drop(goes);
    arena.nodes_are(1, 2).await;
    assert!(guard.is_held() && !stays.is_finished());
    drop(guard);
    stays.served().await.release().await.unwrap();
    arena.nodes_are(0, 0).await;
}
