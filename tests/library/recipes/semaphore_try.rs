//! Trying: what it costs when all is taken, and for whom it waits.

use std::time::Duration;

use tokio::runtime::Runtime;
use zookeeper_recipes::zookeeper_client::{Acls, Client, CreateMode};
use zookeeper_recipes::{Curator, InterProcessSemaphore};
use zookeeper_testkit::FaultProxy;
use zookeeper_testkit::Operation::{self, List, Sync};

use super::leases::{Limited, Waiting, asks, asks_for};
use crate::harness::{Arena, BUSY, LONG, eventually, within};

/// Requests, without probes of the session.
fn took(link: &FaultProxy) -> Vec<Operation> {
    let mut log = link.log();
    log.retain(|one| *one != Sync);
    link.clear_log();
    log
}

async fn linked(arena: &Arena) -> (FaultProxy, Curator) {
    arena.linked(arena.patient_builder()).await
}

fn tries(semaphore: &InterProcessSemaphore) -> Waiting<Option<zookeeper_recipes::Lease>> {
    let semaphore = semaphore.clone();
    Waiting::new(async move { semaphore.try_acquire().await })
}

/// A node of somebody else's in a folder, as Curator makes it.
async fn stranger(arena: &Arena, folder: &str, kind: &str) -> String {
    let prefix = arena.below(folder, &format!("_c_1b4e28ba-2fa1-41d2-883f-0016d3cca427-{kind}-"));
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let (_, sequence) = arena.admin.create(&prefix, &[], &options).await.unwrap();
    format!("{prefix}{sequence}")
}

#[tokio::test(flavor = "multi_thread")]
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
#[tokio::test(flavor = "multi_thread")]
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

/// And a waiter that comes while it waits for `locks` sends it away.
#[tokio::test(flavor = "multi_thread")]
async fn it_waits_for_one_who_passes_through_until_too_few_are_left() {
    for limited in Limited::KINDS {
        let arena = Arena::new().await;
        let curator = arena.curator().await;
        let semaphore = limited.semaphore(&arena, &curator, 2).await;
        within("once", semaphore.acquire()).await.unwrap().release().await.unwrap();
        // Somebody is about to take a lease, and then has: one is left.
        let lock = stranger(&arena, "locks", "lock").await;
        let trying = tries(&semaphore);
        arena.nodes_are(2, 0).await;
        let lease = stranger(&arena, "leases", "lease").await;
        arena.nodes_are(2, 1).await;
        assert!(!trying.is_finished());
        arena.delete(&[lock]).await;
        let ours = trying.served().await.expect("one is free");
        assert!(ours.is_held());
        ours.release().await.unwrap();
        // Somebody takes the last.
        let lock = stranger(&arena, "locks", "lock").await;
        let trying = tries(&semaphore);
        arena.nodes_are(2, 1).await;
        let last = stranger(&arena, "leases", "lease").await;
        assert!(trying.served().await.is_none());
        arena.nodes_are(1, 2).await;
        arena.delete(&[lock, lease, last]).await;
    }
}

/// Of those that wait in one process, one lists, and the others go by what it finds.
#[tokio::test(flavor = "multi_thread")]
async fn tries_that_wait_for_one_who_passes_through_share_its_listings() {
    const TRIES: usize = 12;
    let arena = Arena::new().await;
    let (link, curator) = linked(&arena).await;
    let semaphore = Limited::Fixed.semaphore(&arena, &curator, 20).await;
    within("once", semaphore.acquire()).await.unwrap().release().await.unwrap();
    let lock = stranger(&arena, "locks", "lock").await;
    let trying: Vec<_> = (0..TRIES).map(|_| tries(&semaphore)).collect();
    arena.nodes_are(1 + TRIES, 0).await;
    // The last of them has its watches when its link is quiet.
    let mut asked = 0;
    eventually("they wait", async || {
        let before = std::mem::replace(&mut asked, link.requests(Operation::Any));
        tokio::time::sleep(Duration::from_millis(200)).await;
        before == asked
    })
    .await;
    took(&link);
    let mut leases = Vec::new();
    for count in 1..=4 {
        let listed = link.replies(List);
        leases.push(stranger(&arena, "leases", "lease").await);
        eventually("a listing", async || link.replies(List) > listed).await;
        arena.nodes_are(1 + TRIES, count).await;
    }
    let listings = took(&link).iter().filter(|one| **one == List).count();
    assert!(listings <= leases.len(), "{listings} listings for {} changes", leases.len());
    // All are refused when too few are left.
    for _ in 0..16 {
        leases.push(stranger(&arena, "leases", "lease").await);
    }
    for trying in trying {
        assert!(trying.served().await.is_none());
    }
    arena.delete(&leases).await;
    arena.delete(&[lock]).await;
}

/// The same where those who pass are ours.
#[tokio::test(flavor = "multi_thread")]
async fn who_passes_through_costs_nobody_a_lease_that_is_free() {
    for limited in Limited::KINDS {
        let arena = Arena::new().await;
        let curators = [arena.curator().await, arena.curator().await];
        let mut semaphores = Vec::new();
        for curator in &curators {
            semaphores.push(limited.semaphore(&arena, curator, 8).await);
        }
        for _ in 0..20 {
            // Eight at once, all of whom there is room for.
            let trying: Vec<_> = (0..8).map(|n| tries(&semaphores[n % 2])).collect();
            let mut leases = Vec::new();
            for trying in trying {
                leases.push(trying.served().await.expect("there is one for each"));
            }
            for lease in leases {
                lease.release().await.unwrap();
            }
        }
        arena.nodes_are(0, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
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

/// Its future watches the leases itself, without a task, so it may run on another runtime than the client does.
#[test]
fn a_client_whose_runtime_has_ended_is_an_error_and_no_panic() {
    // It polls what is woken, and then ends.
    let of_caller = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (of_client, of_curator) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let (arena, _link, trying) = of_caller.block_on(async {
        let arena = Arena::new().await;
        for path in ["", "/locks", "/leases"] {
            arena.create(&format!("{}{path}", arena.path), CreateMode::Container).await;
        }
        stranger(&arena, "locks", "lock").await;
        let link = FaultProxy::start(arena.server.connect_string()).await.unwrap();
        let connect_string = link.connect_string().to_owned();
        let connecting = async move { Client::connect(&connect_string).await };
        let client = of_client.spawn(connecting).await.unwrap().unwrap();
        let starting = async { Curator::from_client(client) };
        let curator = of_curator.spawn(starting).await.unwrap().unwrap();
        let semaphore = InterProcessSemaphore::new(&curator, &arena.path, 2).unwrap();
        let trying = tokio::spawn(async move { semaphore.try_acquire().await });
        arena.nodes_are(2, 0).await;
        // Of the path, of `locks`, and of `leases`: first without a watch, then with one.
        eventually("all listings", async || link.replies(List) == 4).await;
        (arena, link, trying)
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
        arena.delete(&arena.locks().await).await;
        tried.expect("no panic").expect_err("no server can be asked any more");
    });
}
