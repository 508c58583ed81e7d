//! The test double of a lock, and what any code can rely on that takes an `InterProcessLock`.

use std::io;
use std::time::Duration;

use tokio::task::JoinSet;
use zookeeper_recipes::{AcquireError, LocalLock, Loss, ReleaseError, Released};

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn who_comes_first_is_served_first_and_tokens_rise() {
    let lock = LocalLock::new("/locks/orders");
    assert_eq!((lock.path(), lock.holder()), ("/locks/orders", None));
    let first = lock.with_identity("first").acquire().await.unwrap();
    let mut tasks = JoinSet::new();
    for number in 0..5 {
        let handle = lock.with_identity(&number.to_string());
        tasks.spawn(async move {
            let guard = handle.acquire().await.unwrap();
            assert_eq!(handle.holder(), Some(number.to_string()));
            let token = guard.fencing_token();
            assert_eq!(guard.release().await.unwrap(), Released::Unlocked);
            (number, token)
        });
        lock.until_waiters(number + 1).await;
    }
    lock.until_waiters(5).await;
    assert_eq!(lock.holder().as_deref(), Some("first"));
    assert_eq!(lock.waiters(), ["0", "1", "2", "3", "4"]);
    let mut last = first.fencing_token();
    drop(first);
    let mut served = tasks.join_all().await;
    served.sort();
    for (number, token) in served {
        assert!(token > last, "{number}");
        last = token;
    }
    lock.until_free().await;
}

#[tokio::test]
async fn a_waiter_that_is_dropped_leaves_and_the_next_is_served() {
    let lock = LocalLock::new("/locks/orders");
    let guard = lock.acquire().await.unwrap();
    let mut tasks = JoinSet::new();
    let goes = {
        let lock = lock.with_identity("goes");
        tasks.spawn(async move { lock.acquire().await.map(drop) })
    };
    lock.until_waiters(1).await;
    let stays = lock.with_identity("stays");
    tasks.spawn(async move { stays.acquire().await.map(drop) });
    lock.until_waiters(2).await;
    goes.abort();
    assert!(tasks.join_next().await.unwrap().is_err());
    assert_eq!(lock.waiters(), ["stays"]);
    // Nor does a future that was admitted and is not polled any more keep the lock.
    let admitted = lock.with_identity("admitted");
    let mut admitted = Box::pin(admitted.acquire());
    assert!(futures_util::poll!(&mut admitted).is_pending());
    guard.release().await.unwrap();
    tasks.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(lock.holder().as_deref(), Some("admitted"));
    drop(admitted);
    assert_eq!(lock.holder(), None);
}

#[tokio::test]
async fn a_test_makes_the_next_acquire_fail() {
    let lock = LocalLock::new("/locks/orders");
    let unreachable = io::Error::from(io::ErrorKind::HostUnreachable);
    lock.fail_next_acquire(AcquireError::other("/locks/orders", unreachable));
    lock.fail_next_acquire(AcquireError::timed_out("/locks/orders", LONG));
    let error = lock.acquire().await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap();
    let cause = cause.downcast_ref::<io::Error>().unwrap();
    assert_eq!(cause.kind(), io::ErrorKind::HostUnreachable);
    let error = lock.try_acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::TimedOut { waited: LONG, .. }), "{error:?}");
    assert!(lock.try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn a_test_makes_the_next_release_fail_and_the_lock_stays_taken() {
    let lock = LocalLock::new("/locks/orders");
    let guard = lock.acquire().await.unwrap();
    let failure = ReleaseError::unconfirmed("/locks/orders", LONG);
    lock.fail_next_release(failure.clone());
    let lost = guard.lost();
    assert_eq!(guard.release().await.unwrap_err(), failure);
    assert_eq!(lost.await, Loss::Released, "the guard is gone all the same");
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(lock.lose(Loss::NodeDeleted));
    assert!(!lock.lose(Loss::NodeDeleted), "nobody has it");
    lock.acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_loss_is_told_and_passes_the_lock_on_when_the_node_is_gone() {
    for (loss, stays) in [
        (Loss::SessionExpired, false),
        (Loss::NodeDeleted, false),
        (Loss::Closed, false),
        (Loss::LeaseEnded, true),
        (Loss::Suspended, true),
    ] {
        let lock = LocalLock::new("/locks/orders");
        let guard = lock.acquire().await.unwrap();
        let (lost, token) = (guard.lost(), guard.cancellation_token());
        assert!(guard.is_held() && !token.is_cancelled());
        assert!(lock.lose(loss));
        assert_eq!((guard.loss(), lost.await), (Some(loss), loss));
        assert!(!guard.is_held() && token.is_cancelled());
        assert_eq!(lock.try_acquire().await.unwrap().is_none(), stays, "{loss}");
        assert_eq!(guard.release().await.unwrap_err(), ReleaseError::lost("/locks/orders", loss));
        assert!(lock.try_acquire().await.unwrap().is_some());
    }
}

#[tokio::test]
async fn who_lost_before_it_looked_gets_a_guard_that_says_so() {
    let lock = LocalLock::new("/locks/orders");
    let holder = lock.acquire().await.unwrap();
    let mut waiting = Box::pin(lock.acquire());
    assert!(futures_util::poll!(&mut waiting).is_pending());
    drop(holder);
    lock.lose(Loss::SessionExpired);
    let late = tokio::time::timeout(LONG, waiting).await.expect("it waits for ever").unwrap();
    assert_eq!(late.loss(), Some(Loss::SessionExpired));
}

#[test]
fn errors_of_other_locks_can_be_cloned_and_compared() {
    let error = ReleaseError::other("/locks/orders", "as the test wants");
    assert_eq!(error, error.clone());
    assert_ne!(error, ReleaseError::other("/locks/orders", "as the test wants"));
    let cause = std::error::Error::source(&error).unwrap();
    assert_eq!(cause.to_string(), "as the test wants");
}
