//! A semaphore's future or lease that is dropped anywhere leaves no node, and the next waiter is served (invariant 3).

use std::future::Future;
use std::time::Duration;

use zookeeper_recipes::{AcquireError, InterProcessSemaphore, Leases};
use zookeeper_testkit::{Message, Operation};

use super::leases::{Limited, asks_for};
use super::mutex_dropped::{Polled, poll_times};
use crate::harness::{Arena, within};

/// Of so many leases …
const LIMIT: usize = 3;

/// Drops what `operation` makes after 0, 1, 2, … polls until it finishes, while so many are held by somebody else;
/// after each all can be had as soon as nobody holds any.
async fn dropped_at_every_poll<F>(taken: usize, operation: impl Fn(InterProcessSemaphore) -> F)
where
    F: Future<Output = Result<Option<Leases>, AcquireError>>,
{
    for limited in Limited::KINDS {
        let arena = Arena::new().await;
        let (curator, other) = (arena.curator().await, arena.curator().await);
        let semaphore = limited.semaphore(&arena, &curator, LIMIT).await;
        let rival = limited.semaphore(&arena, &other, LIMIT).await;
        for polls in 0.. {
            let holder =
                if taken > 0 { Some(rival.acquire_many(taken).await.unwrap()) } else { None };
            let finished = poll_times(polls, operation(semaphore.clone())).await;
            let done = !matches!(finished, Polled::Dropped);
            if let Polled::Finished(Err(error)) = &finished {
                panic!("{error:?}");
            }
            drop(finished);
            arena.nodes_are(0, taken).await;
            if let Some(holder) = holder {
                assert!(holder.iter().all(|lease| lease.is_held()));
                holder.release().await.unwrap();
            }
            let next = within("the next", rival.acquire_many(LIMIT)).await.unwrap();
            assert_eq!(arena.leases().await.len(), LIMIT, "after {polls} polls");
            next.release().await.unwrap();
            if done {
                assert!(polls > 0, "it was dropped at least before its first poll");
                break;
            }
            assert!(polls < 50, "it never finishes");
        }
    }
}

async fn acquire_many(
    semaphore: InterProcessSemaphore,
    count: usize,
) -> Result<Option<Leases>, AcquireError> {
    semaphore.acquire_many(count).await.map(Some)
}

#[tokio::test(flavor = "multi_thread")]
async fn acquire_of_a_free_lease() {
    dropped_at_every_poll(0, |semaphore| acquire_many(semaphore, 1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acquire_of_several() {
    dropped_at_every_poll(0, |semaphore| acquire_many(semaphore, LIMIT)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acquire_of_more_than_are_free() {
    dropped_at_every_poll(2, |semaphore| acquire_many(semaphore, 2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acquire_timeout_of_a_semaphore() {
    let limit = Duration::from_millis(200);
    for taken in [0, 2] {
        dropped_at_every_poll(taken, |semaphore| async move {
            match semaphore.acquire_many_timeout(2, limit).await {
                // On a busy machine.
                Err(AcquireError::TimedOut { .. }) => Ok(None),
                acquired => acquired,
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn try_acquire_of_a_semaphore() {
    for taken in [0, 2] {
        dropped_at_every_poll(
            taken,
            |semaphore| async move { semaphore.try_acquire_many(2).await },
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_lease() {
    dropped_at_every_poll(2, |semaphore| async move {
        let body = async |_: &_| tokio::task::yield_now().await;
        semaphore.with(body).await.unwrap();
        Ok(None)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn release_of_leases_dropped_at_every_poll_releases() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let semaphore = Limited::Fixed.semaphore(&arena, &curator, LIMIT).await;
    for polls in 0..50 {
        let leases = semaphore.acquire_many(LIMIT).await.unwrap();
        let released = poll_times(polls, leases.release()).await;
        arena.nodes_are(0, 0).await;
        if let Polled::Finished(released) = released {
            released.unwrap();
            return;
        }
    }
    panic!("a release never finishes");
}

/// Its create is on the way, and whether it took effect is not known.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_whose_create_loses_its_reply_and_whose_caller_is_gone_is_removed() {
    let arena = Arena::new().await;
    let (link, curator) = arena.linked(arena.builder()).await;
    let semaphore = Limited::Fixed.semaphore(&arena, &curator, LIMIT).await;
    semaphore.acquire().await.unwrap().release().await.unwrap();
    // That in `locks`, then one after the other in `leases`.
    for nth in 1..=LIMIT + 1 {
        let reply = link.hold(Message::reply(Operation::Create).nth(nth));
        let acquiring = asks_for(&semaphore, LIMIT);
        within("the create", reply.struck()).await;
        drop(acquiring);
        let lost = link.cut(zookeeper_testkit::Cut::Reset);
        assert_eq!(lost, 1);
        reply.heal();
        arena.nodes_are(0, 0).await;
    }
    within("all", semaphore.acquire_many(LIMIT)).await.unwrap().release().await.unwrap();
}
