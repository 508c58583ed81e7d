//! A limit of zero: whatever `try_acquire` answers.

use super::contract::locks;
use crate::prelude::*;
use crate::support::contenders::{Contender, write};

/// Takes it while it is free, and does not while `holder` has it.
async fn tries(lock: &Contender, holder: &Contender) {
    for _ in 0..5 {
        let ours = within("a try", lock.acquire_timeout(Duration::ZERO)).await;
        let ours = ours.unwrap_or_else(|error| panic!("{lock:?} is free: {error}"));
        ours.release().await.unwrap();
        let theirs = within("the lock", holder.acquire()).await.unwrap();
        fails(within("a try", lock.try_acquire()).await, ErrorKind::Busy);
        fails(within("a try", lock.acquire_timeout(Duration::ZERO)).await, ErrorKind::Busy);
        theirs.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn it_takes_what_is_free_and_says_what_is_busy() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let write = write(&other, &format!("{}/read", testbed.path));
    for (lock, holder) in locks(&testbed, &curator).iter().zip(locks(&testbed, &other)) {
        // Readers hold together.
        let holder = if lock.path() == write.path() { write.clone() } else { holder };
        tries(lock, &holder).await;
        Owner::new().scope(tries(lock, &holder)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_server_it_is_the_same_error() {
    let testbed = Testbed::new().await;
    let builder = testbed
        .builder()
        .connection_timeout(Duration::from_millis(100))
        .retry(RetryPolicy::one_time(Duration::from_millis(10)));
    let (_link, refused, curator) = testbed.unconnected(builder).await;
    for lock in locks(&testbed, &curator) {
        let limited = lock.acquire_timeout(Duration::ZERO);
        fails(within("a try", limited).await, ErrorKind::Unavailable);
        fails(within("a try", lock.try_acquire()).await, ErrorKind::Unavailable);
    }
    refused.heal();
}

/// A deadline that has passed must not become a wait for a connection; a try waits for one connection timeout in all. Only virtual
/// time shows how long something takes.
#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_does_not_wait_for_a_connection() {
    let testbed = Testbed::new().await;
    let patience = Duration::from_secs(5);
    let forever = RetryPolicy::forever(Duration::from_millis(100));
    let builder = testbed.patient_builder().connection_timeout(patience).retry(forever);
    let (link, curator) = testbed.linked(builder).await;
    let refused = cut_off(&link).await;
    until(&curator, ConnectionState::Suspended).await;
    for lock in locks(&testbed, &curator) {
        let began = Instant::now();
        fails(lock.acquire_timeout(Duration::ZERO).await, ErrorKind::Unavailable);
        assert!(began.elapsed() <= lateness(), "{lock:?}: {:?}", began.elapsed());
        fails(lock.try_acquire().await, ErrorKind::Unavailable);
        assert!(
            began.elapsed() <= patience + lateness() + Duration::from_millis(10),
            "{lock:?}: {:?}",
            began.elapsed()
        );
    }
    refused.heal();
}

/// It waits for a caller that is entering. A server has said so.
#[tokio::test(start_paused = true)]
async fn a_semaphore_that_was_busy_when_the_connection_broke_is_busy() {
    let testbed = Testbed::new().await;
    let (link, curator) = testbed.linked(testbed.builder()).await;
    let semaphore = testbed.semaphore(&curator, 2);
    within("once", semaphore.acquire()).await.unwrap().release().await.unwrap();
    let locks = testbed.curator().await.mutex(format!("{}/locks", testbed.path)).unwrap();
    let entering = locks.acquire().await.unwrap();
    let trying = tokio::spawn(async move { semaphore.acquire_timeout(Duration::ZERO).await });
    testbed.nodes_are(2, 0).await;
    round_trip(&curator).await;
    let began = Instant::now();
    let refused = cut_off(&link).await;
    fails(within("its answer", trying).await.unwrap(), ErrorKind::Busy);
    assert!(began.elapsed() < SHORT + lateness(), "{:?}", began.elapsed());
    refused.heal();
    entering.release().await.unwrap();
}
