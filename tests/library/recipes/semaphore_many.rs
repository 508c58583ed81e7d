//! Several leases at once: all of them or none, first come, first served, and never more than there are.

use zookeeper_recipes::zookeeper_client::CreateMode;
use zookeeper_recipes::{Attempt, ErrorKind, Guards};

use super::leases::{asks, asks_for};
use crate::harness::{Arena, eventually, fails, within};

/// All or nothing: while one waits for several, no other of ours keeps a part of what it waits for.
#[tokio::test(start_paused = true)]
async fn only_one_has_nodes_that_are_not_granted() {
    let (arena, curators) = Arena::with_curators::<4>().await;
    let semaphores = curators.each_ref().map(|curator| arena.semaphore(curator, 3));
    let held = within("two", semaphores[0].acquire_many(2)).await.unwrap();
    let three = asks_for(&semaphores[1], 3);
    arena.nodes_are(1, 5).await;
    let two = asks_for(&semaphores[2], 2);
    arena.nodes_are(2, 5).await;
    let one = asks(&semaphores[3]);
    arena.nodes_are(3, 5).await;
    assert!(held.iter().all(|lease| lease.is_held()));
    let mut held = held.into_iter();
    held.next().unwrap().release().await.unwrap();
    arena.nodes_are(3, 4).await;
    assert!(!three.is_finished(), "one of three is not there yet");
    for semaphore in &semaphores {
        let tried = within("a try", semaphore.try_acquire()).await.unwrap();
        // One is free, and the first in the queue has the right to it.
        assert!(matches!(tried, Attempt::Busy));
    }
    held.next().unwrap().release().await.unwrap();
    let three = three.served().await;
    arena.nodes_are(2, 5).await;
    assert!(!two.is_finished() && !one.is_finished());
    three.release().await.unwrap();
    let (two, one) = (two.served().await, one.served().await);
    arena.nodes_are(0, 3).await;
    two.release().await.unwrap();
    one.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn first_come_first_served_however_many_each_asks_for() {
    let (arena, curators) = Arena::with_curators::<13>().await;
    let semaphores = curators.each_ref().map(|curator| arena.semaphore(curator, 4));
    let first = within("all", semaphores[12].acquire_many(4)).await.unwrap();
    let token = |leases: &Guards| leases.iter().next().unwrap().fencing_token();
    let mut last = token(&first);
    // Its own node in the queue is not counted below.
    arena.nodes_are(0, 4).await;
    let mut waiting = Vec::new();
    for (place, semaphore) in semaphores[..12].iter().enumerate() {
        waiting.push(asks_for(semaphore, fastrand::usize(1..=4)));
        eventually("it is queued", async || arena.locks().await.len() == place + 1).await;
    }
    first.release().await.unwrap();
    for next in waiting {
        let leases = next.served().await;
        // By their tokens: who is served is told later than it is so.
        assert!(token(&leases) > last);
        last = token(&leases);
        leases.release().await.unwrap();
    }
    arena.nodes_are(0, 0).await;
}

/// Curator takes any number, and waits for ever.
#[tokio::test(start_paused = true)]
async fn a_limit_that_cannot_be_curators_is_refused() {
    let (arena, curator) = Arena::with_curator().await;
    let largest = i32::MAX as usize;
    for limit in [0, largest + 1, usize::MAX] {
        let error = fails(curator.semaphore(&arena.path, limit), ErrorKind::InvalidInput);
        assert_eq!(error.option(), Some("limit"));
        assert!(error.to_string().contains(&limit.to_string()), "{error}");
    }
    for limit in [1, largest] {
        let semaphore = curator.semaphore(&arena.path, limit).unwrap();
        assert_eq!(semaphore.limit(), limit);
        within("a lease", semaphore.acquire()).await.unwrap().release().await.unwrap();
    }
}

/// As Curator counts them. Nobody gets in by mistake; but one lease less is there.
#[tokio::test(start_paused = true)]
async fn children_of_others_under_leases_count() {
    let (arena, curator) = Arena::with_curator().await;
    arena.create(&arena.path, CreateMode::Persistent).await;
    arena.create(&format!("{}/leases", arena.path), CreateMode::Persistent).await;
    let foreign = arena.below("leases", "zzz");
    arena.create(&foreign, CreateMode::Persistent).await;
    let semaphore = arena.semaphore(&curator, 2);
    let lease = within("the other lease", semaphore.acquire()).await.unwrap();
    assert!(matches!(semaphore.try_acquire().await.unwrap(), Attempt::Busy));
    let waiting = asks(&semaphore);
    arena.nodes_are(1, 3).await;
    assert!(!waiting.is_finished());
    arena.delete(&[foreign]).await;
    waiting.served().await.release().await.unwrap();
    lease.release().await.unwrap();
}
