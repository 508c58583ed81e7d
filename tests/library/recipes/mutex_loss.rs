//! How a hold or a place in the queue is lost, and who learns of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use zookeeper_recipes::{AcquireError, FencedError, Loss, MutexGuard, ReleaseError, WithError};

use crate::harness::{Arena, eventually, within};

type Waiting = tokio::task::JoinHandle<Result<MutexGuard, AcquireError>>;

async fn served(waiting: Waiting) -> MutexGuard {
    within("the waiter", waiting).await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_session_killed_while_creating_leaves_no_node_and_the_lock_is_had_in_the_next() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    for round in 0..10_u64 {
        let mutex = arena.mutex(&curator);
        let acquiring = tokio::spawn(async move { mutex.acquire().await });
        // Earlier and later in its life from round to round; wherever it hits is right.
        tokio::time::sleep(Duration::from_micros(300 * round)).await;
        if curator.session_id().is_ok() {
            // It may be gone by itself already.
            let _ = arena.end_session(&curator).await;
        }
        let guard = served(acquiring).await;
        if !guard.is_held() {
            assert_eq!(guard.loss(), Some(Loss::SessionExpired));
        }
        drop(guard);
        arena.children_are(0).await;
    }
}

/// The outcome of a create that was in flight is unknown: it is looked for, and adopted or made again.
#[tokio::test(start_paused = true)]
async fn creates_in_flight_when_the_server_dies_leave_no_ghost() {
    let arena = Arena::own().await;
    let stop = CancellationToken::new();
    let (inside, entered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let curator = arena.patient_curator().await;
        for _ in 0..2 {
            let (mutex, stop) = (arena.mutex(&curator), stop.clone());
            let (inside, entered) = (inside.clone(), entered.clone());
            tasks.spawn(async move {
                while !stop.is_cancelled() {
                    let guard = mutex.acquire().await.unwrap();
                    assert!(guard.is_held());
                    assert!(!inside.swap(true, Ordering::SeqCst), "invariant 1");
                    tokio::task::yield_now().await;
                    inside.store(false, Ordering::SeqCst);
                    entered.fetch_add(1, Ordering::SeqCst);
                    // Confirmed or not, it must not say that somebody else deleted the node.
                    let released = guard.release().await;
                    assert!(!matches!(released, Err(ReleaseError::Lost { .. })), "{released:?}");
                }
            });
        }
    }
    for _ in 0..4 {
        let before = entered.load(Ordering::SeqCst);
        eventually("they go on", async || entered.load(Ordering::SeqCst) > before + 20).await;
        arena.server.kill().await.unwrap();
        arena.server.start_again().await.unwrap();
    }
    stop.cancel();
    within("all tasks", tasks.join_all()).await;
    arena.children_are(0).await;
}

#[tokio::test(start_paused = true)]
async fn with_cancels_its_body_at_the_loss() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let mutex = arena.mutex(&curator);
    let result = mutex
        .with(async |_| {
            arena.kill_session(&curator).await;
            std::future::pending::<()>().await;
        })
        .await;
    match result {
        Err(WithError::Lost { path, loss, .. }) => {
            assert_eq!((path.as_str(), loss), (arena.path.as_str(), Loss::SessionExpired));
        }
        other => panic!("{other:?}"),
    }
    drop(within("the lock", mutex.acquire()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_no_server_answers_loses_before_the_servers_give_the_lock_away() {
    let arena = Arena::own().await;
    let curator = arena.short_lived_curator().await;
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    let lost = tokio::spawn(guard.lost());
    arena.server.stop().await.unwrap();
    assert_eq!(within("the loss", lost).await.unwrap(), Loss::LeaseEnded);
    assert!(!guard.is_held());
    // The server kept the session (its clock starts anew): the node is still there, and the hold stays
    // lost all the same.
    arena.server.start_again().await.unwrap();
    let mut state = curator.watch_state();
    let connected =
        state.wait_for(|state| *state == zookeeper_recipes::ConnectionState::Reconnected);
    within("the connection", connected).await.unwrap();
    assert!(!guard.is_held());
    let other = format!("{}-other", arena.path);
    let error = within("the write", guard.fenced().create(&other, b"")).await.unwrap_err();
    assert!(matches!(error, FencedError::Lost { loss: Loss::LeaseEnded, .. }), "{error:?}");
    let error = within("the release", guard.release()).await.unwrap_err();
    assert!(matches!(error, ReleaseError::Lost { loss: Loss::LeaseEnded, .. }), "{error:?}");
    arena.children_are(0).await;
    drop(within("the lock", arena.mutex(&curator).acquire()).await.unwrap());
}
