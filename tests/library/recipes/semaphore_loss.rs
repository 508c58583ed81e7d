//! How a lease or a place in the queue for one is lost, and who learns of it.

use std::time::Duration;

use tokio::task::JoinSet;
use zookeeper_recipes::{
    AcquireError, ConnectionState, Curator, InterProcessSemaphore, Loss, ReleaseError,
};
use zookeeper_testkit::{FaultProxy, Message, Operation};

use super::leases::{Limited, asks, asks_for};
use crate::harness::{Arena, eventually, struck_once, within};

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

/// kazoo: test_handle_session_loss.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_session_is_killed_is_served_in_the_next() {
    for limited in Limited::KINDS {
        let arena = Arena::new().await;
        let (curator, other) = (arena.curator().await, arena.curator().await);
        let semaphore = limited.semaphore(&arena, &curator, 2).await;
        let rival = limited.semaphore(&arena, &other, 2).await;
        let george = within("george", rival.acquire()).await.unwrap();
        let fred = asks_for(&semaphore, 2);
        arena.nodes_are(1, 3).await;
        let [old] = arena.locks().await.try_into().unwrap();
        arena.kill_session(&curator).await;
        eventually("it is back", async || {
            let locks = arena.locks().await;
            locks.len() == 1 && locks[0] != old && arena.leases().await.len() == 3
        })
        .await;
        assert!(george.is_held() && !fred.is_finished());
        george.release().await.unwrap();
        let leases = fred.served().await;
        let owner = arena.stat(leases[0].node()).await.unwrap().ephemeral_owner;
        assert_eq!(owner, curator.session_id().unwrap());
        leases.release().await.unwrap();
        arena.nodes_are(0, 0).await;
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
async fn all_nodes_may_be_deleted_under_holder_and_waiters() {
    for limited in Limited::KINDS {
        let arena = Arena::new().await;
        let curators = [attentive(&arena).await, attentive(&arena).await];
        let semaphore = limited.semaphore(&arena, &curators[0], 1).await;
        let rival = limited.semaphore(&arena, &curators[1], 1).await;
        let holder = within("the lease", semaphore.acquire()).await.unwrap();
        let waiting = [asks(&rival), asks(&semaphore), asks(&rival)];
        arena.nodes_are(3, 2).await;
        for node in arena.locks().await.into_iter().chain(arena.leases().await) {
            // Who sees that its place is gone deletes the rest.
            let _ = arena.admin.delete(&node, None).await;
        }
        assert_eq!(within("the loss", holder.lost()).await, Loss::NodeDeleted);
        // In whatever order they came back; who was served in between lost its lease like the first.
        let mut served = JoinSet::new();
        for waiting in waiting {
            served.spawn(async move {
                match waiting.served().await.release().await {
                    Ok(_) | Err(ReleaseError::Lost { loss: Loss::NodeDeleted, .. }) => {}
                    Err(error) => panic!("{error:?}"),
                }
            });
        }
        within("all three", served.join_all()).await;
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

async fn knowing(link: &FaultProxy, arena: &Arena) -> (Curator, InterProcessSemaphore) {
    let builder = arena.builder().session_timeout(Duration::from_secs(8));
    let curator = builder.connect(link.connect_string()).await.unwrap();
    let semaphore = Limited::Fixed.semaphore(arena, &curator, 2).await;
    for _ in 0..2 {
        within("a lease", semaphore.acquire()).await.unwrap().release().await.unwrap();
    }
    (curator, semaphore)
}

/// One in `locks`, two in `leases`.
#[tokio::test(flavor = "multi_thread")]
async fn creates_whose_replies_are_lost_are_adopted() {
    let arena = Arena::new().await;
    let link = FaultProxy::start(arena.server.connect_string()).await.unwrap();
    let (_curator, semaphore) = knowing(&link, &arena).await;
    for nth in 1..=3 {
        let lost = link.lose(Message::reply(Operation::Create).nth(nth));
        let leases = within("both", semaphore.acquire_many(2)).await.unwrap();
        struck_once(&lost).await;
        arena.nodes_are(0, 2).await;
        assert!(leases.iter().all(|lease| lease.is_held()));
        leases.release().await.unwrap();
        arena.nodes_are(0, 0).await;
    }
}

/// Curator: TestInterProcessSemaphore#testAcquireAfterLostServer (CURATOR-335): between the create of the lease and its
/// admission the server goes away, for longer than the session.
#[tokio::test(flavor = "multi_thread")]
async fn leases_go_on_after_the_server_went_away_in_the_middle_of_one() {
    let arena = Arena::own().await;
    let link = FaultProxy::start(arena.server.connect_string()).await.unwrap();
    let (curator, semaphore) = knowing(&link, &arena).await;
    let reply = link.hold(Message::reply(Operation::Create).nth(2));
    let acquiring = asks(&semaphore);
    within("the create", reply.struck()).await;
    let mut state = curator.watch_state();
    arena.server.stop().await.unwrap();
    let lost = state.wait_for(|state| *state == ConnectionState::Lost);
    drop(within("the client's own expiry", lost).await.unwrap());
    reply.heal();
    assert!(!acquiring.is_finished());
    arena.server.start_again().await.unwrap();
    drop(acquiring.served().await);
    let mut kept = 0;
    while kept < 10 {
        let lease = within("another", semaphore.acquire()).await.unwrap();
        match lease.release().await {
            Ok(_) => kept += 1,
            // A session that took long to open begins with what is left of a lease from when it was asked for.
            Err(ReleaseError::Lost { loss: Loss::LeaseEnded, .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    // What the session before had left, the server would have kept for longer.
    arena.nodes_are(0, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_costs_nobody_a_lease_or_the_place_in_the_queue() {
    for limited in Limited::KINDS {
        let arena = Arena::own().await;
        let curators = [arena.patient_curator().await, arena.patient_curator().await];
        let semaphore = limited.semaphore(&arena, &curators[0], 2).await;
        let rival = limited.semaphore(&arena, &curators[1], 2).await;
        let holder = within("a lease", semaphore.acquire()).await.unwrap();
        let first = asks_for(&rival, 2);
        arena.nodes_are(1, 3).await;
        let second = asks(&semaphore);
        arena.nodes_are(2, 3).await;
        let before = (arena.locks().await, arena.leases().await);
        arena.server.restart().await.unwrap();
        for curator in &curators {
            let mut state = curator.watch_state();
            let back = state.wait_for(|state| {
                matches!(state, ConnectionState::Connected | ConnectionState::Reconnected)
            });
            drop(within("the connection", back).await.unwrap());
        }
        assert!(holder.is_held(), "{:?}", holder.loss());
        assert_eq!((arena.locks().await, arena.leases().await), before);
        holder.release().await.unwrap();
        first.served().await.release().await.unwrap();
        second.served().await.release().await.unwrap();
        arena.nodes_are(0, 0).await;
    }
}
