//! A semaphore whose limit is a shared count.

use zookeeper_recipes::interop::SharedCount;
use zookeeper_recipes::{Attempt, Curator, ErrorKind, InterProcessSemaphore};

use super::leases::{asks, asks_for};
use crate::harness::{Arena, BUSY, eventually, fails, within};

async fn count(arena: &Arena, curator: &Curator, seed: i32) -> SharedCount {
    SharedCount::start(curator, &format!("{}-limit", arena.path), seed).await.expect("a count")
}

fn semaphore(arena: &Arena, curator: &Curator, count: &SharedCount) -> InterProcessSemaphore {
    InterProcessSemaphore::with_shared_count(curator, &arena.path, count).expect("a semaphore")
}

/// Curator's `TestInterProcessSemaphore#testThreadedLeaseIncrease`, CURATOR-75. While it is zero or less nobody gets one.
#[tokio::test(start_paused = true)]
async fn raising_the_limit_wakes_who_waits() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let limit = count(&arena, &curator, 1).await;
    // Set by another process.
    let theirs = count(&arena, &other, 7).await;
    for (low, high) in [(1, 2), (0, 1), (-1, 1), (i32::MIN, 1)] {
        limit.set(low).await.unwrap();
        let semaphore = semaphore(&arena, &curator, &limit);
        let known = usize::try_from(low).unwrap_or(0);
        eventually("it is known", async || semaphore.limit() == known).await;
        let held = if known == 1 { Some(semaphore.acquire().await.unwrap()) } else { None };
        assert!(matches!(semaphore.try_acquire().await.unwrap(), Attempt::Busy), "{low}");
        let waiting = asks(&semaphore);
        eventually("it waits", async || arena.leases().await.len() == known + 1).await;
        assert!(!waiting.is_finished(), "{low}");
        theirs.set(high).await.unwrap();
        let lease = waiting.served().await;
        assert!(lease.is_held() && held.is_none_or(|held| held.is_held()), "{low}");
    }
}

#[tokio::test(start_paused = true)]
async fn lowering_the_limit_takes_nothing_from_holders() {
    let (arena, curator) = Arena::with_curator().await;
    let limit = count(&arena, &curator, 3).await;
    let semaphore = semaphore(&arena, &curator, &limit);
    let three = within("three leases", semaphore.acquire_many(3)).await.unwrap();
    limit.set(1).await.unwrap();
    eventually("it is known", async || semaphore.limit() == 1).await;
    assert!(three.is_held());
    assert!(matches!(semaphore.acquire_timeout(BUSY).await.unwrap(), Attempt::Busy));
    let mut three = three.into_iter();
    for _ in 0..2 {
        three.next().unwrap().release().await.unwrap();
        assert!(
            matches!(semaphore.try_acquire().await.unwrap(), Attempt::Busy),
            "one is enough now"
        );
    }
    three.next().unwrap().release().await.unwrap();
    within("the one there is", semaphore.acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn more_than_there_are_is_an_error_when_asked_and_while_waiting() {
    let (arena, curator) = Arena::with_curator().await;
    let limit = count(&arena, &curator, 2).await;
    let semaphore = semaphore(&arena, &curator, &limit);
    let error = fails(semaphore.acquire_many(3).await, ErrorKind::InvalidInput).to_string();
    assert!(error.contains('3') && error.contains('2'), "{error}");
    let held = within("a lease", semaphore.acquire()).await.unwrap();
    let waiting = asks_for(&semaphore, 2);
    eventually("it waits with its nodes", async || arena.leases().await.len() == 3).await;
    limit.set(1).await.unwrap();
    let error = fails(waiting.ended().await, ErrorKind::InvalidInput).to_string();
    assert!(error.contains('2') && error.contains('1'), "{error}");
    eventually("its nodes are gone", async || arena.leases().await.len() == 1).await;
    held.release().await.unwrap();
}
