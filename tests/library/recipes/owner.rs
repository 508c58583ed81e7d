//! Who re-enters, and who does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use zookeeper_recipes::{AcquireError, Loss, Owner, Released};

use crate::harness::{Arena, BUSY, LONG, within};

/// Curator: TestInterProcessMutexBase#testReentrant.
#[tokio::test(start_paused = true)]
async fn an_owner_enters_three_times_and_the_last_guard_releases() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let (mutex, rival) = (arena.mutex(&curator), arena.mutex(&other));
    Owner::new()
        .scope(async {
            let one = mutex.acquire().await.unwrap();
            let two = mutex.try_acquire().await.unwrap().unwrap();
            let three = mutex.acquire_timeout(LONG).await.unwrap().unwrap();
            assert_eq!(arena.children().await.len(), 1, "nested guards have no node");
            assert_eq!(three.release().await.unwrap(), Released::StillHeld);
            assert!(rival.try_acquire().await.unwrap().is_none());
            assert_eq!(one.release().await.unwrap(), Released::StillHeld);
            assert!(two.is_held());
            assert!(rival.try_acquire().await.unwrap().is_none());
            assert_eq!(two.release().await.unwrap(), Released::Unlocked);
            assert!(rival.try_acquire().await.unwrap().is_some());
            // And once more from the beginning, through another handle on the path.
            let again = within("again", arena.mutex(&curator).acquire()).await.unwrap();
            assert_eq!(mutex.acquire().await.unwrap().fencing_token(), again.fencing_token());
        })
        .await;
    arena.children_are(0).await;
}

/// Curator: TestInterProcessMutexBase#testReentrant2Threads, with the assertion that it lacks.
#[tokio::test(start_paused = true)]
async fn another_owner_does_not_get_in_while_one_is_nested() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let mutex = arena.mutex(&curator);
    Owner::new()
        .scope(async {
            let _one = mutex.acquire().await.unwrap();
            let _two = mutex.acquire().await.unwrap();
            let other = Owner::new().scope(mutex.acquire_timeout(BUSY)).await;
            assert!(other.unwrap().is_none(), "another owner is in");
            let nobody = {
                let mutex = mutex.clone();
                tokio::spawn(async move { mutex.acquire_timeout(BUSY).await })
            };
            assert!(nobody.await.unwrap().unwrap().is_none(), "a spawned task is nobody's");
            let _three = mutex.acquire().await.unwrap();
        })
        .await;
    arena.children_are(0).await;
}

#[tokio::test(start_paused = true)]
async fn several_tasks_of_one_owner_share_one_hold() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let holder = arena.mutex(&other).acquire().await.unwrap();
    let owner = Owner::new();
    let inside = Arc::new(AtomicUsize::new(0));
    let all_in = Arc::new(tokio::sync::Barrier::new(5));
    let mut tasks = JoinSet::new();
    for _ in 0..5 {
        let (mutex, owner) = (arena.mutex(&curator), owner.clone());
        let (inside, all_in) = (inside.clone(), all_in.clone());
        tasks.spawn(async move {
            owner
                .scope(async {
                    let guard = mutex.acquire().await.unwrap();
                    inside.fetch_add(1, Ordering::SeqCst);
                    // All are in at the same time, on one hold.
                    all_in.wait().await;
                    guard.fencing_token()
                })
                .await
        });
    }
    arena.children_are(2).await;
    assert_eq!(inside.load(Ordering::SeqCst), 0);
    holder.release().await.unwrap();
    let tokens = within("five tasks", tasks.join_all()).await;
    assert!(tokens.windows(2).all(|pair| pair[0] == pair[1]), "{tokens:?}");
    arena.children_are(0).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiting_task_of_an_owner_that_is_dropped_lets_the_next_one_try() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let holder = arena.mutex(&other).acquire().await.unwrap();
    let owner = Owner::new();
    let spawn = || {
        let (mutex, owner) = (arena.mutex(&curator), owner.clone());
        tokio::spawn(async move { owner.scope(mutex.acquire()).await })
    };
    let first = spawn();
    arena.children_are(2).await;
    let second = spawn();
    assert!(
        owner.scope(arena.mutex(&curator).try_acquire()).await.unwrap().is_none(),
        "busy, also while the owner itself waits"
    );
    first.abort();
    holder.release().await.unwrap();
    let guard = within("the second", second).await.unwrap().unwrap();
    assert!(guard.is_held());
}

/// `None` means that the servers said "busy", also when only the owner's own task is in the way.
#[tokio::test(start_paused = true)]
async fn an_owner_that_no_server_answers_is_not_told_that_the_lock_is_busy() {
    let arena = Arena::own().await;
    let curator = arena.curator().await;
    let mutex = arena.mutex(&curator);
    let owner = Owner::new();
    arena.server.pause().await.unwrap();
    let first = {
        let (mutex, owner) = (mutex.clone(), owner.clone());
        tokio::spawn(async move { owner.scope(mutex.acquire()).await })
    };
    let limit = Duration::from_millis(500);
    let error = owner.scope(mutex.acquire_timeout(limit)).await.unwrap_err();
    assert!(matches!(error, AcquireError::TimedOut { .. }), "{error:?}");
    arena.server.resume().await.unwrap();
    let first = within("the first", first).await.unwrap().unwrap();
    let second = owner.scope(mutex.try_acquire()).await.unwrap().expect("nested");
    assert_eq!(first.fencing_token(), second.fencing_token());
}

#[tokio::test(start_paused = true)]
async fn two_branches_of_one_join_exclude_each_other_without_an_owner_and_nest_with_one() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let mutex = arena.mutex(&curator);
    let branch = async || mutex.acquire_timeout(BUSY).await.unwrap();
    let (one, two) = tokio::join!(branch(), branch());
    assert!(one.is_some() != two.is_some(), "exactly one holds");
    drop((one, two));
    let (one, two) = Owner::new().scope(async { tokio::join!(branch(), branch()) }).await;
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.fencing_token(), two.fencing_token());
    drop((one, two));
    arena.children_are(0).await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_lost_its_hold_is_told_when_it_enters_again() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let mutex = arena.mutex(&curator);
    Owner::new()
        .scope(async {
            let guard = mutex.acquire().await.unwrap();
            let lost = guard.lost();
            arena.kill_session(&curator).await;
            within("the loss", lost).await;
            match mutex.acquire().await {
                Err(AcquireError::HoldLost { path, loss, .. }) => {
                    assert_eq!((path.as_str(), loss), (arena.path.as_str(), Loss::SessionExpired));
                }
                other => panic!("{other:?}"),
            }
            drop(guard);
            drop(within("a new hold", mutex.acquire()).await.unwrap());
        })
        .await;
}
