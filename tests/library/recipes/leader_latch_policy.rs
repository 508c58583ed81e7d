//! When leadership counts as lost, by policy; and what the clock says.

use zookeeper_recipes::{ConnectionState, Loss, LossPolicy};

use super::latches::{ceased, gained, is_quiet, leadership, told};
use crate::harness::{Arena, round_trip, until, within};

/// Curator: `TestLeaderLatch#testSessionErrorPolicy`: a server that is gone for a moment. Only under the suspended policy,
/// Curator's standard one, is that a loss; and then it leads again by the same node, and the same token, for nobody else
/// can have led.
#[tokio::test(start_paused = true)]
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

mod real {
    use super::*;
    use tokio::runtime::{Builder, Runtime};

    /// A process that was stopped for longer than its session. The runtime of its client stands still, as all of it does then; what
    /// it says when asked before anything else runs must be right, and comes from the clock.
    #[test]
    fn a_process_that_was_stopped_knows_at_its_first_look() {
        let outer = Runtime::new().unwrap();
        let inner = Builder::new_current_thread().enable_all().build().unwrap();
        let arena = outer.block_on(Arena::real());
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
}
