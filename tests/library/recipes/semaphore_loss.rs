//! How a lease or a place in the queue for one is lost, and who learns of it.

use std::time::Duration;

use tokio::task::JoinSet;
use zookeeper_recipes::{AcquireError, Curator, Loss, ReleaseError};

use super::leases::{Limited, asks_for};
use crate::harness::{Arena, eventually, within};

/// A hold's node is looked after within a sixth of its session's timeout: 3 s, while a busy machine has 12 s to renew the lease.
async fn attentive(arena: &Arena) -> Curator {
    arena.connect(arena.builder().session_timeout(Duration::from_secs(18))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_are_lost_with_their_session_and_the_next_is_served() {
    for limited in Limited::KINDS {
        let arena = Arena::new().await;
        let (curator, other) = (arena.curator().await, arena.curator().await);
        let semaphore = limited.semaphore(&arena, &curator, 2).await;
        let rival = limited.semaphore(&arena, &other, 2).await;
        let leases = within("both", semaphore.acquire_many(2)).await.unwrap();
        let mut losses = JoinSet::new();
        leases.iter().for_each(|lease| drop(losses.spawn(lease.lost())));
        let next = asks_for(&rival, 2);
        arena.nodes_are(1, 4).await;
        arena.kill_session(&curator).await;
        for loss in within("the losses", losses.join_all()).await {
            assert_eq!(loss, Loss::SessionExpired);
        }
        let next = next.served().await;
        assert!(next[0].fencing_token() > leases[1].fencing_token(), "invariant 4");
        assert!(leases.iter().all(|lease| !lease.is_held()));
        let error = leases.release().await.unwrap_err();
        match error {
            ReleaseError::Lost { path, loss, .. } => {
                assert_eq!((path.as_str(), loss), (arena.path.as_str(), Loss::SessionExpired));
            }
            other => panic!("{other:?}"),
        }
        next.release().await.unwrap();
        // The same handle works on, in the next session.
        within("a new session", semaphore.acquire()).await.unwrap().release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_whose_lease_an_administrator_deletes_is_told() {
    for limited in Limited::KINDS {
        let arena = Arena::new().await;
        let curator = attentive(&arena).await;
        let semaphore = limited.semaphore(&arena, &curator, 2).await;
        let leases = within("both", semaphore.acquire_many(2)).await.unwrap();
        arena.admin.delete(leases[0].node(), None).await.unwrap();
        assert_eq!(within("the loss", leases[0].lost()).await, Loss::NodeDeleted);
        assert!(leases[1].is_held(), "the other is there");
        // All are given back, and the first that was not held to the end is told.
        let error = leases.release().await.unwrap_err();
        assert!(matches!(error, ReleaseError::Lost { loss: Loss::NodeDeleted, .. }), "{error:?}");
        arena.nodes_are(0, 0).await;
    }
}

/// Curator: TestInterProcessSemaphore#testNoOrphanedNodes (CURATOR-315).
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_lease_an_administrator_deletes_makes_another() {
    for limited in Limited::KINDS {
        let arena = Arena::new().await;
        let (curator, other) = (arena.curator().await, arena.curator().await);
        let semaphore = limited.semaphore(&arena, &curator, 2).await;
        let rival = limited.semaphore(&arena, &other, 2).await;
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
}

/// Else two could have nodes that are not granted, and each count the other's.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_lock_an_administrator_deletes_gives_its_leases_up_and_queues_again() {
    for limited in Limited::KINDS {
        let arena = Arena::new().await;
        let curators = [attentive(&arena).await, attentive(&arena).await, attentive(&arena).await];
        let mut semaphores = Vec::new();
        for curator in &curators {
            semaphores.push(limited.semaphore(&arena, curator, 2).await);
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
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_is_told_that_its_curator_was_closed() {
    for limited in Limited::KINDS {
        let arena = Arena::new().await;
        let (curator, other) = (arena.curator().await, arena.curator().await);
        let semaphore = limited.semaphore(&arena, &curator, 1).await;
        let rival = limited.semaphore(&arena, &other, 1).await;
        let holder = within("the lease", semaphore.acquire()).await.unwrap();
        let acquiring = {
            let rival = rival.clone();
            tokio::spawn(async move { rival.acquire().await })
        };
        arena.nodes_are(1, 2).await;
        within("the end", other.close()).await.unwrap();
        let error = within("the waiter", acquiring).await.unwrap().unwrap_err();
        assert!(matches!(error, AcquireError::Session { .. }), "{error:?}");
        arena.nodes_are(0, 1).await;
        holder.release().await.unwrap();
    }
}
