//! How a lease or a place in the queue for one is lost, and who learns of it.

use std::time::Duration;

use zookeeper_recipes::Curator;

use super::leases::asks_for;
use crate::harness::{Arena, eventually, within};

/// A hold's node is looked after within a sixth of its session's timeout: 3 s, while a busy machine has 12 s to renew the lease.
async fn attentive(arena: &Arena) -> Curator {
    arena.connect(arena.builder().session_timeout(Duration::from_secs(18))).await
}

/// Curator: TestInterProcessSemaphore#testNoOrphanedNodes (CURATOR-315).
#[tokio::test(start_paused = true)]
async fn a_waiter_whose_lease_an_administrator_deletes_makes_another() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let semaphore = arena.semaphore(&curator, 2);
    let rival = arena.semaphore(&other, 2);
    let holder = within("a lease", semaphore.acquire()).await.unwrap();
    let waiting = asks_for(&rival, 2);
    arena.nodes_are(1, 3).await;
    let before = arena.leases().await;
    arena.delete(&before[2..]).await;
    eventually("others", async || {
        let now = arena.leases().await;
        now.len() == 3 && !now.contains(&before[1]) && !now.contains(&before[2])
    })
    .await;
    assert!(!waiting.is_finished());
    holder.release().await.unwrap();
    waiting.served().await.release().await.unwrap();
    arena.nodes_are(0, 0).await;
    within("the next", semaphore.acquire()).await.unwrap().release().await.unwrap();
}

/// Else two could have nodes that are not granted, and each count the other's.
#[tokio::test(start_paused = true)]
async fn a_waiter_whose_lock_an_administrator_deletes_gives_its_leases_up_and_queues_again() {
    let arena = Arena::new().await;
    let curators = [attentive(&arena).await, attentive(&arena).await, attentive(&arena).await];
    let mut semaphores = Vec::new();
    for curator in &curators {
        semaphores.push(arena.semaphore(curator, 2));
    }
    let holder = within("a lease", semaphores[0].acquire()).await.unwrap();
    let robbed = asks_for(&semaphores[1], 2);
    arena.nodes_are(1, 3).await;
    let behind = asks_for(&semaphores[2], 2);
    arena.nodes_are(2, 3).await;
    let (locks, leases) = (arena.locks().await, arena.leases().await);
    arena.delete(&locks[..1]).await;
    eventually("it is behind the other, with no lease", async || {
        let (now, theirs) = (arena.locks().await, arena.leases().await);
        now.len() == 2
            && now[0] == locks[1]
            && theirs.len() == 3
            && !theirs.contains(&leases[1])
            && !theirs.contains(&leases[2])
    })
    .await;
    holder.release().await.unwrap();
    let behind = behind.served().await;
    arena.nodes_are(1, 4).await;
    assert!(!robbed.is_finished());
    behind.release().await.unwrap();
    robbed.served().await.release().await.unwrap();
    arena.nodes_are(0, 0).await;
}
