//! Trying: what it costs when all is taken, and that it waits for nobody.

use crate::harness::Operation::{self, List, Sync};
use tokio::runtime::Runtime;
use zookeeper_recipes::zookeeper_client::{Acls, Client, CreateMode};
use zookeeper_recipes::{Curator, InterProcessSemaphore, Leases};

use super::leases::{Limited, Waiting, asks, asks_for};
use super::mutex_dropped::{Polled, poll_times};
use crate::harness::{Arena, BUSY, LONG, Link, Message, eventually, within};

/// Requests, without probes of the session.
fn took(link: &Link) -> Vec<Operation> {
    let mut log = link.log();
    log.retain(|one| *one != Sync);
    link.clear_log();
    log
}

async fn linked(arena: &Arena) -> (Link, Curator) {
    arena.linked(arena.patient_builder()).await
}

fn tries(semaphore: &InterProcessSemaphore, count: usize) -> Waiting<Option<Leases>> {
    let semaphore = semaphore.clone();
    Waiting::new(async move { semaphore.try_acquire_many(count).await })
}

/// A node of somebody else's in a folder, as Curator makes it.
async fn stranger(arena: &Arena, folder: &str, kind: &str) -> String {
    let prefix = arena.below(folder, &format!("_c_1b4e28ba-2fa1-41d2-883f-0016d3cca427-{kind}-"));
    arena
        .admin
        .create(&prefix, &[], CreateMode::EphemeralSequential, &Acls::anyone_all())
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn when_all_is_taken_it_reads_once_and_writes_nothing() {
    for limited in Limited::KINDS {
        let arena = Arena::new().await;
        let other = arena.curator().await;
        let (link, curator) = linked(&arena).await;
        let semaphore = limited.semaphore(&arena, &curator, 3).await;
        let holder = limited.semaphore(&arena, &other, 3).await;
        // It looks for other recipes once in a session.
        within("a lease", semaphore.acquire()).await.unwrap().release().await.unwrap();
        let leases = within("two", holder.acquire_many(2)).await.unwrap();
        link.clear_log();
        for count in [2, 3] {
            assert!(semaphore.try_acquire_many(count).await.unwrap().is_none());
            assert_eq!(took(&link), [List]);
        }
        let last = within("the last", holder.acquire()).await.unwrap();
        assert!(semaphore.try_acquire().await.unwrap().is_none());
        assert_eq!(took(&link), [List]);
        leases.release().await.unwrap();
        last.release().await.unwrap();
    }
}

/// It has `locks` for as long as it waits.
#[tokio::test(start_paused = true)]
async fn it_does_not_wait_for_a_waiter() {
    for limited in Limited::KINDS {
        let arena = Arena::new().await;
        let curators = [arena.curator().await, arena.curator().await, arena.curator().await];
        let holder = limited.semaphore(&arena, &curators[0], 3).await;
        let waiter = limited.semaphore(&arena, &curators[1], 3).await;
        let leases = within("two", holder.acquire_many(2)).await.unwrap();
        let waiting = asks_for(&waiter, 3);
        arena.nodes_are(1, 5).await;
        // One is free, and the first in the queue has the right to it.
        for curator in &curators {
            let semaphore = limited.semaphore(&arena, curator, 3).await;
            assert!(within("refused", semaphore.try_acquire()).await.unwrap().is_none());
        }
        arena.nodes_are(1, 5).await;
        leases.release().await.unwrap();
        waiting.served().await.release().await.unwrap();
    }
}

/// As Curator's: a lease may be free a moment later. However many a try asks for, it goes by what it sees itself.
#[tokio::test(start_paused = true)]
async fn it_does_not_wait_for_one_who_passes_through() {
    for limited in Limited::KINDS {
        let arena = Arena::new().await;
        let curator = arena.curator().await;
        let semaphore = limited.semaphore(&arena, &curator, 4).await;
        within("once", semaphore.acquire()).await.unwrap().release().await.unwrap();
        // Somebody is about to take a lease: three are left, or two.
        let lock = stranger(&arena, "locks", "lock").await;
        let lease = stranger(&arena, "leases", "lease").await;
        for _ in 0..5 {
            // A greater count is refused by the leases, a smaller one by the lock.
            let trying = [1, 3, 4].map(|count| tries(&semaphore, count));
            for trying in trying {
                assert!(trying.served().await.is_none());
            }
        }
        arena.nodes_are(1, 1).await;
        arena.delete(&[lock]).await;
        let ours = within("three", semaphore.try_acquire_many(3)).await.unwrap();
        assert_eq!(ours.expect("three are free").len(), 3);
        arena.delete(&[lease]).await;
    }
}

/// Of one semaphore and its clones.
#[tokio::test(start_paused = true)]
async fn a_try_that_is_not_polled_any_more_does_not_stop_another() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let semaphore = Limited::Fixed.semaphore(&arena, &curator, 2).await;
    for passing in [false, true] {
        for polls in 0.. {
            let lock = if passing { Some(stranger(&arena, "locks", "lock").await) } else { None };
            let mut kept = Box::pin(semaphore.try_acquire());
            let done = !matches!(poll_times(polls, &mut kept).await, Polled::Dropped);
            if let Some(lock) = lock {
                assert!(tries(&semaphore, 1).served().await.is_none());
                arena.delete(&[lock]).await;
            }
            eventually("the other lease", async || tries(&semaphore, 1).served().await.is_some())
                .await;
            drop(kept);
            arena.nodes_are(0, 0).await;
            if done {
                break;
            }
            assert!(polls < 50, "it never finishes");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_covers_locks_and_leases() {
    for limited in Limited::KINDS {
        let arena = Arena::new().await;
        let (curator, other) = (arena.curator().await, arena.curator().await);
        let semaphore = limited.semaphore(&arena, &curator, 1).await;
        let rival = limited.semaphore(&arena, &other, 1).await;
        let holder = within("the lease", semaphore.acquire()).await.unwrap();
        // As the first, who has `locks` …
        assert!(within("refused", rival.acquire_timeout(BUSY)).await.unwrap().is_none());
        arena.nodes_are(0, 1).await;
        // … and behind another.
        let waiting = asks(&semaphore);
        arena.nodes_are(1, 2).await;
        assert!(within("refused", rival.acquire_timeout(BUSY)).await.unwrap().is_none());
        arena.nodes_are(1, 2).await;
        holder.release().await.unwrap();
        waiting.served().await.release().await.unwrap();
    }
}

mod real {
    use super::*;

    /// Its future reads the leases itself, without a task, so it may run on another runtime than the client does.
    #[test]
    fn a_client_whose_runtime_has_ended_is_an_error_and_no_panic() {
        // It polls what is woken, and then ends.
        let of_caller = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (of_client, of_curator) = (Runtime::new().unwrap(), Runtime::new().unwrap());
        let (_arena, _link, _held, trying) = of_caller.block_on(async {
            let arena = Arena::real().await;
            let link = arena.link().await;
            let connect_string = link.connect_string().to_owned();
            let connecting = async move { Client::connect(&connect_string).await };
            let client = of_client.spawn(connecting).await.unwrap().unwrap();
            let starting = async { Curator::from_client(client) };
            let curator = of_curator.spawn(starting).await.unwrap().unwrap();
            let semaphore = InterProcessSemaphore::new(&curator, &arena.path, 2).unwrap();
            within("once", semaphore.acquire()).await.unwrap().release().await.unwrap();
            let held = link.hold(Message::reply(List));
            let trying = tokio::spawn(async move { semaphore.try_acquire().await });
            within("the listing of the leases", held.struck()).await;
            (arena, link, held, trying)
        });
        of_client.shutdown_timeout(LONG);
        of_caller.block_on(async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        });
        of_curator.shutdown_timeout(LONG);
        of_caller.block_on(async {
            let tried = within("an answer", trying).await;
            tried.expect("no panic").expect_err("no server can be asked any more");
        });
    }
}
