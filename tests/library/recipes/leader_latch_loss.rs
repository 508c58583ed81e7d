//! How leadership is lost, who learns of it, and what does not cost it.

use zookeeper_recipes::{ConnectionState, Loss, LossPolicy};

use super::latches::{ceased, gained, is_quiet, leaders, leadership, the_leader, told, until};
use crate::harness::Arena;

/// Curator: `TestLeaderLatch#testLostConnection`: of ten latches none leads without a server, and one with it.
#[tokio::test(start_paused = true)]
async fn without_a_server_nobody_leads_and_with_it_one() {
    let arena = Arena::own().await;
    let mut latches = Vec::new();
    let mut curators = Vec::new();
    for _ in 0..10 {
        let short = arena.short_lived_builder();
        let curator = arena.connect(short).await;
        latches.push(arena.latch(&curator));
        curators.push(curator);
    }
    latches.iter().for_each(|latch| latch.start().unwrap());
    arena.children_are(10).await;
    let leader = the_leader(&latches).await;
    let mut watch = told(&latches[leader]);
    arena.server.stop().await.unwrap();
    ceased(&mut watch).await;
    assert_eq!(leaders(&latches), 0);
    for curator in &curators {
        until(curator, ConnectionState::Lost).await;
    }
    assert_eq!(leaders(&latches), 0);
    arena.server.start_again().await.unwrap();
    let mut terms = Vec::new();
    while !latches.is_empty() {
        let leader = the_leader(&latches).await;
        let latch = latches.remove(leader);
        terms.push(latch.leadership().map(|leads| leads.fencing_token()));
        latch.close().await.unwrap();
    }
    assert!(terms.is_sorted_by(|one, next| one < next), "{terms:?}");
    arena.children_are(0).await;
}

/// CURATOR-171 and 49: an administrator deletes the node of the leader. It is told, the next leads, and it queues at the tail. (The
/// latch of `zookeeper-async` hangs here for ever.)
#[tokio::test(start_paused = true)]
async fn a_leader_whose_node_is_deleted_is_told_and_queues_at_the_tail() {
    let arena = Arena::new().await;
    let mut builder = arena.short_lived_builder();
    for policy in [LossPolicy::Lease, LossPolicy::Suspended, LossPolicy::SessionExpired] {
        builder = builder.loss_policy(policy);
        let curators = [arena.connect(builder.clone()).await, arena.curator().await];
        let (latch, leads) = arena.leading(&curators[0]).await;
        let mut watch = told(&latch);
        let rival = arena.queued(&curators[1]).await;
        arena.remove(leads.node()).await;
        ceased(&mut watch).await;
        assert_eq!(leads.loss(), Some(Loss::NodeDeleted));
        let next = leadership(&rival).await;
        assert!(next.fencing_token() > leads.fencing_token());
        arena.children_are(2).await;
        let queue = latch.participants().await.unwrap();
        assert_eq!(queue[1].session, curators[0].session_id().unwrap());
        is_quiet(&mut watch).await;
        rival.close().await.unwrap();
        let again = gained(&mut watch).await;
        assert_eq!(again.node(), queue[1].path);
        latch.close().await.unwrap();
        arena.children_are(0).await;
    }
}
