//! How a leader latch begins, leads one term after the other, and ends.

use std::mem;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use zookeeper_recipes::interop::LossPolicy;
use zookeeper_recipes::leader::LeaderLatch;
use zookeeper_recipes::session::{ConnectionState, RetryPolicy};
use zookeeper_recipes::zookeeper_client::{Acls, Permission};
use zookeeper_recipes::{Curator, ErrorKind, FencingToken, Loss, Released};

use super::latches::{awaited, is_candidate, is_over, leadership};
use crate::harness::{Arena, Link, Operation, round_trip, until, within};

/// CURATOR-110. Curator: `TestLeaderLatch#testNoServerAtStart`: one gain, no loss.
#[tokio::test(start_paused = true)]
async fn a_latch_is_a_candidate_at_once_and_needs_no_connection() {
    let arena = Arena::new().await;
    let (_link, refused, curator) = arena.unconnected(arena.builder()).await;
    let latch = arena.latch(&curator);
    within("a refusal", refused.struck()).await;
    is_candidate(&latch);
    assert_eq!(curator.state(), ConnectionState::Connecting);
    refused.heal();
    let leads = leadership(&latch).await;
    assert_eq!(curator.state(), ConnectionState::Connected);
    round_trip(&curator).await;
    assert!(leads.is_held() && latch.is_leader());
    assert_eq!(arena.children().await.len(), 1);
    latch.close().await.unwrap();
}

/// Curator: `TestLeaderLatch#testProperCloseWithoutConnectionEstablished`.
#[tokio::test(start_paused = true)]
async fn a_latch_that_was_closed_before_any_connection_never_takes_part() {
    let arena = Arena::new().await;
    let (link, refused, curator) = arena.unconnected(arena.builder()).await;
    let (closed, dropped) = (arena.latch(&curator), arena.latch(&curator));
    within("a refusal", refused.struck()).await;
    within("the close", closed.close()).await.unwrap();
    drop(dropped);
    assert_eq!(is_over(&closed).await, ErrorKind::Closed);
    refused.heal();
    until(&curator, ConnectionState::Connected).await;
    round_trip(&curator).await;
    assert_eq!(link.requests(Operation::Create), 0);
    assert!(arena.stat(&arena.path).await.is_none());
    // The curator is as good as new.
    let (latch, _) = arena.leading(&curator).await;
    latch.close().await.unwrap();
}

/// Calls `leadership` in a loop, as a service does. Another client ends the first term, and the latch closes in the second.
async fn leads_twice(arena: Arc<Arena>, latch: LeaderLatch, terms: Arc<Mutex<Vec<FencingToken>>>) {
    for term in 0..2 {
        let leads = latch.leadership().await.unwrap();
        terms.lock().unwrap().push(leads.fencing_token());
        if term == 0 {
            arena.remove(leads.node()).await;
            assert_eq!(leads.lost().await, Loss::NodeDeleted);
        } else {
            assert_eq!(latch.close().await.unwrap(), Released::Confirmed);
            assert!(leads.cancellation_token().is_cancelled());
        }
        assert!(!leads.is_held());
    }
    assert_eq!(is_over(&latch).await, ErrorKind::Closed);
}

/// Curator: `TestLeaderLatch#testCallbackSanity`.
#[tokio::test(start_paused = true)]
async fn each_latch_is_given_each_of_its_terms() {
    let arena = Arc::new(Arena::new().await);
    let curators: [_; 2] = arena.curators().await;
    let (mut tasks, terms) = (JoinSet::new(), Arc::default());
    for place in 0..10 {
        let latch = arena.latch(&curators[place % 2]);
        tasks.spawn(leads_twice(arena.clone(), latch, Arc::clone(&terms)));
    }
    within("twenty terms", tasks.join_all()).await;
    let terms = mem::take(&mut *terms.lock().unwrap());
    assert_eq!(terms.len(), 20);
    assert!(terms.is_sorted_by(|one, next| one < next), "invariant 4: {terms:?}");
    arena.children_are(0).await;
}

/// Terms that ended while the caller did not look are not given.
#[tokio::test(start_paused = true)]
async fn a_caller_that_comes_late_is_given_the_present_term() {
    let (arena, curator) = Arena::with_curator().await;
    let (latch, first) = arena.leading(&curator).await;
    let mut last = first.view();
    for _ in 0..3 {
        arena.remove(last.node()).await;
        within("the loss", last.lost()).await;
        let next = leadership(&latch).await;
        assert!(next.fencing_token() > last.fencing_token(), "invariant 4");
        last = next;
    }
    assert_eq!(first.loss(), Some(Loss::NodeDeleted));
    // It is given again and again.
    for _ in 0..2 {
        assert_eq!(leadership(&latch).await.fencing_token(), last.fencing_token());
    }
}

#[tokio::test(start_paused = true)]
async fn a_latch_closes_once_and_its_callers_get_an_error() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let (latch, leads) = arena.leading(&curator).await;
    let candidate = arena.queued(&curator).await;
    let waiting = [awaited(&candidate), awaited(&candidate)];
    round_trip(&curator).await;
    is_candidate(&candidate);
    for latch in [&candidate, &latch] {
        let (one, another) = tokio::join!(latch.close(), latch.close());
        for closed in [one, another, latch.close().await] {
            assert_eq!(closed.unwrap(), Released::Confirmed);
        }
        assert_eq!(is_over(latch).await, ErrorKind::Closed);
    }
    assert_eq!(arena.children().await.len(), 0, "confirmed");
    for waiting in waiting {
        let error = within("the end", waiting).await.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::Closed, Some(arena.path.as_str())));
    }
    assert!(!leads.is_held() && leads.loss().is_none(), "it was not lost");
    // Or with its `Curator`.
    let (latch, leads) = arena.leading(&other).await;
    other.close().await;
    assert_eq!(is_over(&latch).await, ErrorKind::Closed);
    assert_eq!(leads.loss(), Some(Loss::Closed));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_closes() {
    let (arena, curators) = Arena::with_curators::<2>().await;
    let (latch, leads) = arena.leading(&curators[0]).await;
    let rival = arena.queued(&curators[1]).await;
    let clone = latch.clone();
    drop(latch);
    round_trip(&curators[0]).await;
    assert!(leads.is_held() && clone.is_leader(), "a clone is left");
    drop(clone);
    // A hold does not keep it open.
    let next = leadership(&rival).await;
    assert!(!leads.is_held() && leads.loss().is_none());
    assert!(next.fencing_token() > leads.fencing_token());
    drop(rival);
    arena.children_are(0).await;
}

/// By default it tries for ever. With a policy of its own it ends when that is used up. Waiting is no retry.
#[tokio::test(start_paused = true)]
async fn a_latch_whose_retries_are_used_up_ends_and_says_so() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let (leader, _) = arena.leading(&other).await;
    let patient = arena.queued(&curator).await;
    let latch = arena.queued(&curator.with_retry(RetryPolicy::never())).await;
    for participant in leader.participants().await.unwrap() {
        if participant.session_id == Some(curator.session_id().unwrap()) {
            arena.remove(&participant.node).await;
        }
    }
    assert_eq!(is_over(&latch).await, ErrorKind::Unavailable);
    arena.children_are(2).await;
    leader.close().await.unwrap();
    leadership(&patient).await;
    within("the close", latch.close()).await.unwrap();
}

/// A latch ends, each caller gets the error that ended it, and it sends no more requests.
async fn ends_refused(link: &Link, curator: &Curator, path: &str) {
    let latch = curator.leader_latch(path).unwrap();
    let waiting = awaited(&latch);
    let error = within("the refusal", waiting).await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::PermissionDenied, Some(path)));
    assert_eq!(is_over(&latch).await, ErrorKind::PermissionDenied);
    // No storm: Curator's selector asked 738 times a second. What was sent along with the create has arrived.
    round_trip(curator).await;
    link.clear_log();
    tokio::time::sleep(Duration::from_millis(500)).await;
    round_trip(curator).await;
    let mut log = link.log();
    // Probes; and what it had made is deleted in the background.
    log.retain(|one| *one != Operation::Sync);
    assert!(matches!(log[..], [] | [Operation::Delete]), "{log:?}");
    within("the close", latch.close()).await.unwrap();
}

/// Curator: `TestLeaderAcls#testAclErrorWithLeader` (CURATOR-365).
#[tokio::test(start_paused = true)]
async fn a_latch_without_permission_ends_and_says_so() {
    let arena = Arena::new().await;
    let builder = arena.builder().auth("digest", b"ours:secret").acls(Acls::creator_all());
    let ours = arena.connect(builder).await;
    let (latch, _) = arena.leading(&ours).await;
    latch.close().await.unwrap();
    let (link, stranger) = arena.linked(arena.builder()).await;
    let second = format!("{}/second", arena.path);
    for path in [&arena.path, &second] {
        let creates = link.requests(Operation::Create);
        ends_refused(&link, &stranger, path).await;
        assert!(link.requests(Operation::Create) <= creates + 2, "{:?}", link.log());
    }
    assert!(arena.stat(&second).await.is_none());
    // A permitted client is not disturbed.
    let (latch, _) = arena.leading(&ours).await;
    latch.close().await.unwrap();
    // Nor may a stranger make its namespace, once there is a session.
    let namespace = format!("{}/namespace", arena.path);
    let (_link, refused, stranger) = arena.unconnected(arena.builder().namespace(&namespace)).await;
    let latch = stranger.leader_latch("/latch").unwrap();
    within("a refusal", refused.struck()).await;
    is_candidate(&latch);
    refused.heal();
    let error = within("the refusal", latch.leadership()).await.unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::PermissionDenied, Some(&*namespace)));
    within("the close", latch.close()).await.unwrap();
}

/// `zookeeper-async` keeps node and listener when the delete fails, and panics at the second stop.
#[tokio::test(start_paused = true)]
async fn a_close_that_may_not_delete_says_so_and_does_not_lead_any_more() {
    let arena = Arena::new().await;
    arena.restrict(Permission::CREATE | Permission::READ).await;
    let curator = arena.curator().await;
    let (latch, leads) = arena.leading(&curator).await;
    for _ in 0..2 {
        let error = within("the close", latch.close()).await.unwrap_err();
        let expected = (ErrorKind::PermissionDenied, Some(leads.node()));
        assert_eq!((error.kind(), error.path()), expected);
        assert!(!latch.is_leader() && !leads.is_held());
    }
    assert_eq!(is_over(&latch).await, ErrorKind::Closed);
    // It is still in the way of the next, and goes with the session at the latest.
    assert_eq!(arena.children().await.len(), 1);
    within("the end", curator.close()).await;
    arena.children_are(0).await;
}

/// Curator: `TestLeaderLatch#testSessionErrorPolicy`: a server that is gone for a moment. Only under the suspended policy,
/// Curator's standard one, is that a loss. Then it leads again by the same node and token, because no other can have led.
#[tokio::test(start_paused = true)]
async fn a_short_disconnection_is_an_event_only_under_the_suspended_policy() {
    let arena = Arena::own().await;
    for policy in [LossPolicy::Lease, LossPolicy::SessionExpired, LossPolicy::Suspended] {
        let curator = arena.connect(arena.patient_builder().loss_policy(policy)).await;
        let (latch, leads) = arena.leading(&curator).await;
        arena.server.stop().await.unwrap();
        until(&curator, ConnectionState::Suspended).await;
        let loses = policy == LossPolicy::Suspended;
        if loses {
            assert_eq!(within("the loss", leads.lost()).await, Loss::Suspended);
        }
        assert_eq!((latch.is_leader(), leads.is_held()), (!loses, !loses), "{policy:?}");
        arena.server.start_again().await.unwrap();
        until(&curator, ConnectionState::Reconnected).await;
        let again = leadership(&latch).await;
        round_trip(&curator).await;
        assert_eq!(again.node(), leads.node(), "the same child");
        assert_eq!(again.fencing_token(), leads.fencing_token());
        assert_eq!((again.is_held(), leads.is_held()), (true, !loses), "{policy:?}");
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
        let (curator, latch, leads) = inner.block_on(async {
            let curator = arena.short_lived_curator().await;
            let (latch, leads) = arena.leading(&curator).await;
            (curator, latch, leads)
        });
        // No task renews the lease, and the server expires the session.
        let rival = outer.block_on(async { arena.leading(&arena.curator().await).await.0 });
        is_candidate(&latch);
        assert!(!leads.is_held() && leads.loss().is_some());
        assert!(rival.is_leader());
        // It goes on.
        inner.block_on(async {
            arena.children_are(2).await;
            is_candidate(&latch);
        });
        outer.block_on(async { rival.close().await.unwrap() });
        inner.block_on(async {
            leadership(&latch).await;
            latch.close().await.unwrap();
            within("the end", curator.close()).await;
        });
        outer.block_on(async move { drop((rival, arena)) });
    }
}
