//! When leadership counts as lost, by policy; and what the clock says.

use tokio::runtime::{Builder, Runtime};
use zookeeper_recipes::zookeeper_client::SessionState;
use zookeeper_recipes::{ConnectionState, Curator, LeaderLatch, Loss, LossPolicy};
use zookeeper_testkit::Cut;

use super::latches::{ceased, gained, is_quiet, leadership, round_trip, told, until};
use crate::harness::{Arena, within};

/// Curator: `TestLeaderLatch#testSessionErrorPolicy`: a server that is gone for a moment. Only under the suspended policy,
/// Curator's standard one, is that a loss; and then it leads again by the same node, and the same token, for nobody else
/// can have led.
#[tokio::test(flavor = "multi_thread")]
async fn a_short_disconnection_is_an_event_only_under_the_suspended_policy() {
    let arena = Arena::own().await;
    for policy in [LossPolicy::Lease, LossPolicy::SessionExpired, LossPolicy::Suspended] {
        let curator = arena.connect(arena.patient_builder().loss_policy(policy)).await;
        let (latch, leads) = arena.leading(&curator).await;
        let mut watch = told(&latch);
        arena.server.stop().await.unwrap();
        until(&curator, ConnectionState::Suspended).await;
        if policy == LossPolicy::Suspended {
            ceased(&mut watch).await;
            assert_eq!(within("the loss", leads.lost()).await, Loss::Suspended);
            assert!(!latch.has_leadership());
        } else {
            is_quiet(&mut watch).await;
            assert!(latch.has_leadership(), "{policy:?}");
        }
        arena.server.start_again().await.unwrap();
        until(&curator, ConnectionState::Reconnected).await;
        if policy == LossPolicy::Suspended {
            let again = gained(&mut watch).await;
            assert_eq!(again.node(), leads.node(), "the same child");
            assert_eq!(again.fencing_token(), leads.fencing_token());
            assert!(!leads.is_held(), "once and for good");
        } else {
            round_trip(&curator).await;
            is_quiet(&mut watch).await;
            assert!(leads.is_held(), "{policy:?}");
        }
        latch.close().await.unwrap();
    }
}

/// The policy can be the latch's own.
#[tokio::test(flavor = "multi_thread")]
async fn a_latch_has_its_own_policy() {
    let arena = Arena::new().await;
    let (link, curator) = arena.linked(arena.patient_builder()).await;
    let path = format!("{}-other", arena.path);
    let strict = arena.latch(&curator).with_loss_policy(LossPolicy::Suspended);
    let lease = LeaderLatch::new(&curator, &path).unwrap();
    strict.start().unwrap();
    lease.start().unwrap();
    let (suspended, held) = (leadership(&strict).await, leadership(&lease).await);
    let mut watch = told(&strict);
    link.cut(Cut::Reset);
    ceased(&mut watch).await;
    assert_eq!(suspended.loss(), Some(Loss::Suspended));
    assert_eq!(gained(&mut watch).await.node(), suspended.node());
    assert!(held.is_held() && lease.has_leadership());
}

/// Curator: `TestLeaderLatch#testErrorPolicies`: a server that is gone for good, by policy. And CURATOR-460 and 444: only
/// the session policy goes on until the client knows that the session is over; the lease ends before the servers can
/// have given the leadership away.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_for_good_the_policy_says_when_it_is_lost() {
    let arena = Arena::own().await;
    let mut latches = Vec::new();
    for policy in [LossPolicy::Suspended, LossPolicy::Lease, LossPolicy::SessionExpired] {
        let curator = arena.short_lived_curator().await;
        let path = format!("{}-{policy:?}", arena.path);
        let latch = LeaderLatch::new(&curator, &path).unwrap();
        let latch = latch.with_loss_policy(policy);
        latch.start().unwrap();
        let leads = leadership(&latch).await;
        let watch = told(&latch);
        latches.push((curator, latch, leads, watch));
    }
    let [suspended, lease, session] = latches.as_mut_slice() else { panic!("there are three") };
    arena.server.stop().await.unwrap();
    ceased(&mut suspended.3).await;
    assert_eq!(suspended.2.loss(), Some(Loss::Suspended));
    ceased(&mut lease.3).await;
    assert_eq!(lease.2.loss(), Some(Loss::LeaseEnded));
    ceased(&mut session.3).await;
    assert_eq!(session.2.loss(), Some(Loss::SessionExpired));
    // With it goes every place in the queue; and nobody leads again by himself.
    for (curator, latch, leads, watch) in &mut latches {
        until(curator, ConnectionState::Lost).await;
        is_quiet(watch).await;
        assert!(!latch.has_leadership() && !leads.is_held());
    }
    arena.server.start_again().await.unwrap();
    for (_, _, leads, watch) in &mut latches {
        let again = gained(watch).await;
        assert_ne!(again.node(), leads.node());
        assert!(again.fencing_token() > leads.fencing_token());
    }
}

/// A process that was stopped for longer than its session. The runtime of its client stands still, as all of it does then; what
/// it says when asked before anything else runs must be right, and comes from the clock.
#[test]
fn a_process_that_was_stopped_knows_at_its_first_look() {
    let outer = Runtime::new().unwrap();
    let inner = Builder::new_current_thread().enable_all().build().unwrap();
    let arena = outer.block_on(Arena::new());
    let (curator, latch, leads, mut watch) = inner.block_on(async {
        let curator = arena.short_lived_curator().await;
        let (latch, leads) = arena.leading(&curator).await;
        let watch = told(&latch);
        (curator, latch, leads, watch)
    });
    // Nobody renews the lease, and the server expires the session.
    let rival = outer.block_on(async {
        let other = arena.curator().await;
        let rival = arena.latch(&other);
        rival.start().unwrap();
        leadership(&rival).await;
        rival
    });
    assert!(!latch.has_leadership() && latch.leadership().is_none());
    assert!(!leads.is_held() && leads.loss().is_some());
    assert!(!watch.state().is_leader());
    assert!(rival.has_leadership());
    // It goes on.
    inner.block_on(async {
        is_quiet(&mut watch).await;
        arena.children_are(2).await;
        assert!(!latch.has_leadership());
    });
    outer.block_on(async { rival.close().await.unwrap() });
    inner.block_on(async {
        gained(&mut watch).await;
        latch.close().await.unwrap();
        within("the end", curator.close()).await.unwrap();
    });
    outer.block_on(async move { drop((rival, arena)) });
}

/// A link that was cut and is back before anybody looked is a disconnection.
#[test]
fn a_disconnection_that_was_over_before_anybody_looked_is_one() {
    let outer = Runtime::new().unwrap();
    let inner = Builder::new_current_thread().enable_all().build().unwrap();
    let (arena, proxy, client) = outer.block_on(async {
        let arena = Arena::new().await;
        let (proxy, client) = arena.linked_client().await;
        (arena, proxy, client)
    });
    let (curator, latch, leads, mut watch) = inner.block_on(async {
        let curator = Curator::from_client(client.clone()).unwrap();
        let latch = arena.latch(&curator).with_loss_policy(LossPolicy::Suspended);
        latch.start().unwrap();
        let leads = leadership(&latch).await;
        let watch = told(&latch);
        (curator, latch, leads, watch)
    });
    outer.block_on(within("the connection", async {
        let mut state = client.state_watcher();
        proxy.cut(Cut::Reset);
        while state.changed().await != SessionState::SyncConnected {}
    }));
    inner.block_on(async {
        ceased(&mut watch).await;
        assert_eq!(leads.loss(), Some(Loss::Suspended));
        assert_eq!(gained(&mut watch).await.fencing_token(), leads.fencing_token());
        latch.close().await.unwrap();
        within("the end", curator.close()).await.unwrap();
    });
    outer.block_on(async {
        proxy.close().await;
        drop((client, arena));
    });
}
