//! An owner re-enters a lock that it holds; a task without that owner waits.

use tokio::sync::Barrier;

use crate::prelude::*;
use crate::support::contenders::{Make, mutex, read, write};

/// Curator: TestInterProcessMutexBase#testReentrant.
#[tokio::test(start_paused = true)]
async fn an_owner_enters_three_times_and_the_last_guard_releases() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let (mutex, rival) = (testbed.mutex(&curator), testbed.mutex(&other));
    Owner::new()
        .scope(async {
            let one = mutex.acquire().await.unwrap();
            let two = mutex.try_acquire().await.unwrap();
            let three = mutex.acquire_timeout(LONG).await.unwrap();
            assert_eq!(testbed.children().await.len(), 1, "nested guards have no node");
            assert_eq!(three.release().await.unwrap(), Released::StillHeld);
            assert!(rival.try_acquire().await.unwrap_err().is_busy());
            assert_eq!(one.release().await.unwrap(), Released::StillHeld);
            assert!(two.is_held());
            assert!(rival.try_acquire().await.unwrap_err().is_busy());
            assert_eq!(two.release().await.unwrap(), Released::Confirmed);
            assert!(rival.try_acquire().await.unwrap().is_held());
            // And once more from the beginning, through another handle on the path.
            let again = within("again", testbed.mutex(&curator).acquire()).await.unwrap();
            assert_eq!(mutex.acquire().await.unwrap().fencing_token(), again.fencing_token());
        })
        .await;
    testbed.children_are(0).await;
}

/// Curator: TestInterProcessMutexBase#testReentrant2Threads, with the assertion that it lacks.
#[tokio::test(start_paused = true)]
async fn a_scope_inside_inherits_and_another_task_does_not_get_in() {
    let (testbed, curator) = Testbed::with_curator().await;
    let mutex = testbed.mutex(&curator);
    Owner::new()
        .scope(async {
            let _one = mutex.acquire().await.unwrap();
            let _two = mutex.acquire().await.unwrap();
            let other = Owner::new().scope(mutex.acquire_timeout(BUSY)).await;
            // Its scope is inside, so that it is nested as well; in a task of its own it is not.
            assert!(other.unwrap().is_held());
            let (unowned, owned) = (mutex.clone(), mutex.clone());
            let unowned = tokio::spawn(async move { unowned.acquire_timeout(BUSY).await });
            let owned = async move { Owner::new().scope(owned.acquire_timeout(BUSY)).await };
            for outside in [unowned, tokio::spawn(owned)] {
                assert!(outside.await.unwrap().unwrap_err().is_busy());
            }
            let _three = mutex.acquire().await.unwrap();
        })
        .await;
    testbed.children_are(0).await;
}

#[tokio::test(start_paused = true)]
async fn several_tasks_of_one_owner_share_one_hold() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let holder = testbed.mutex(&other).acquire().await.unwrap();
    let other_token = holder.fencing_token();
    let (owner, all_in) = (Owner::new(), Arc::new(Barrier::new(5)));
    let mut tasks = JoinSet::new();
    for _ in 0..5 {
        let (mutex, owner, all_in) = (testbed.mutex(&curator), owner.clone(), all_in.clone());
        let task = async move {
            let guard = mutex.acquire().await.unwrap();
            // All are in at the same time, on one hold.
            all_in.wait().await;
            guard.fencing_token()
        };
        tasks.spawn(async move { owner.scope(task).await });
    }
    testbed.children_are(2).await;
    holder.release().await.unwrap();
    let tokens = within("five tasks", tasks.join_all()).await;
    assert!(tokens.iter().all(|token| *token > other_token && *token == tokens[0]), "{tokens:?}");
    testbed.children_are(0).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiting_task_of_an_owner_that_is_dropped_lets_the_next_one_try() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let holder = testbed.mutex(&other).acquire().await.unwrap();
    let owner = Owner::new();
    let spawn = || {
        let (mutex, owner) = (testbed.mutex(&curator), owner.clone());
        tokio::spawn(async move { owner.scope(mutex.acquire()).await })
    };
    let first = spawn();
    testbed.children_are(2).await;
    let second = spawn();
    // Also while the owner itself waits.
    let tried = owner.scope(testbed.mutex(&curator).try_acquire()).await;
    fails(tried, ErrorKind::Busy);
    first.abort();
    holder.release().await.unwrap();
    let guard = within("the second", second).await.unwrap().unwrap();
    assert!(guard.is_held());
}

/// A busy error means that the servers said so, also when only the owner's own task is in the way.
#[tokio::test(start_paused = true)]
async fn an_owner_that_no_server_answers_is_not_told_that_the_lock_is_busy() {
    let testbed = Testbed::own().await;
    let curator = testbed.curator().await;
    let mutex = testbed.mutex(&curator);
    let owner = Owner::new();
    testbed.server.pause().await.unwrap();
    let first = {
        let (mutex, owner) = (mutex.clone(), owner.clone());
        tokio::spawn(async move { owner.scope(mutex.acquire()).await })
    };
    let limit = Duration::from_millis(500);
    fails(owner.scope(mutex.acquire_timeout(limit)).await, ErrorKind::Unavailable);
    testbed.server.resume().await.unwrap();
    let first = within("the first", first).await.unwrap().unwrap();
    let second = owner.scope(mutex.try_acquire()).await.expect("nested");
    assert_eq!(first.fencing_token(), second.fencing_token());
}

/// Also where it asks for the other half of a read-write lock.
#[tokio::test(start_paused = true)]
async fn an_owner_that_lost_its_hold_is_told_whatever_it_asks_for() {
    let testbed = Testbed::new().await;
    let read_write: &[Make] = &[read, write];
    for (held, asked) in
        [(mutex as Make, &[mutex as Make][..]), (read, read_write), (write, read_write)]
    {
        let curator = testbed.curator().await;
        let lock = held(&curator, &testbed.path);
        let scope = async {
            let guard = within("the lock", lock.acquire()).await.unwrap();
            testbed.kill_session(&curator).await;
            within("the loss", guard.lost()).await;
            for other in asked {
                let asked = within("an answer", other(&curator, &testbed.path).acquire()).await;
                assert_eq!(lost_by(asked), Loss::SessionExpired);
            }
            drop(guard);
            drop(within("a new hold", lock.acquire()).await.unwrap());
        };
        Owner::new().scope(scope).await;
        testbed.children_are(0).await;
    }
}

/// A branch of the outer owner acquires meanwhile.
#[tokio::test(start_paused = true)]
async fn a_scope_inside_inherits_while_another_branch_acquires() {
    let (testbed, curator) = Testbed::with_curator().await;
    let lock = testbed.read_write(&curator);
    let owner = Owner::new();
    let outer = owner.scope(async {
        let write = lock.write().await.unwrap();
        let inner = Owner::new();
        let (outer, inner) = tokio::join!(lock.read(), inner.scope(lock.read()));
        drop((outer.unwrap(), inner.unwrap(), write));
    });
    within("both reads", outer).await;
    testbed.children_are(0).await;
}
