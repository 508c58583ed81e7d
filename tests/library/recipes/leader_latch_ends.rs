//! How a leader latch begins and ends: starts, closes, drops, and whoever waits meanwhile.

use std::time::Duration;

use zookeeper_recipes::zookeeper_client::Acls;
use zookeeper_recipes::{AcquireError, CloseMode, LeaderError, Loss, LossPolicy, RetryPolicy};

use super::latches::{ended, gained, leadership, told};
use crate::harness::{Arena, LONG, round_trip, within};

#[tokio::test(start_paused = true)]
async fn a_latch_takes_part_from_its_start_on_and_starts_once() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let latch = arena.latch(&curator);
    assert!(!latch.has_leadership());
    assert!(latch.await_leadership_timeout(Duration::from_millis(50)).await.unwrap().is_none());
    assert_eq!(arena.children().await.len(), 0);
    latch.start().unwrap();
    let leads = leadership(&latch).await;
    match latch.clone().start().unwrap_err() {
        LeaderError::AlreadyStarted { path, .. } => assert_eq!(path, arena.path),
        other => panic!("{other:?}"),
    }
    assert!(leads.is_held() && latch.has_leadership());
    assert_eq!(arena.children().await.len(), 1);
    latch.close().await.unwrap();
    match latch.start().unwrap_err() {
        LeaderError::Closed { path, .. } => assert_eq!(path, arena.path),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_latch_closes_once_whoever_asks_and_however_often() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let (latch, leads) = arena.leading(&curator).await;
    let closes = (latch.close(), latch.clone());
    let (one, two) = tokio::join!(closes.0, closes.1.close_with(CloseMode::NotifyLeader));
    one.unwrap();
    two.unwrap();
    assert_eq!(arena.children().await.len(), 0, "confirmed");
    latch.close().await.unwrap();
    assert_eq!(leads.loss(), Some(Loss::Released));
    // Also of one that waits, and of one that was never started.
    let (leader, _) = arena.leading(&curator).await;
    let waits = arena.queued(&curator).await;
    waits.close().await.unwrap();
    assert_eq!(arena.children().await.len(), 1, "confirmed");
    waits.close().await.unwrap();
    let never = arena.latch(&curator);
    never.close().await.unwrap();
    assert!(matches!(never.start(), Err(LeaderError::Closed { .. })));
    assert!(matches!(never.await_leadership().await, Err(LeaderError::Closed { .. })));
    leader.close().await.unwrap();
}

/// An option gives a latch of its own, which is not started, whatever the other one is.
#[tokio::test(start_paused = true)]
async fn an_option_makes_another_latch() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let (first, leads) = arena.leading(&curator).await;
    let changed = [
        first.clone().with_id("other").unwrap(),
        first.clone().with_retry(RetryPolicy::never()),
        first.clone().with_loss_policy(LossPolicy::Suspended),
        first.clone().with_close_mode(CloseMode::NotifyLeader),
        first.clone().with_acls(Acls::anyone_all()).unwrap(),
    ];
    for (behind, latch) in changed.iter().enumerate() {
        assert!(!latch.has_leadership());
        latch.start().unwrap();
        arena.children_are(behind + 2).await;
    }
    assert!(leads.is_held());
    assert_eq!(first.participants().await.unwrap()[1].id(), "other");
    for latch in &changed {
        latch.close().await.unwrap();
    }
    assert!(first.has_leadership());
    // Of the only handle, it ends what that one had begun.
    let second = first.with_id("second").unwrap();
    arena.children_are(0).await;
    second.start().unwrap();
    leadership(&second).await;
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_closes() {
    let arena = Arena::new().await;
    let curators = arena.curators(2).await;
    let (latch, leads) = arena.leading(&curators[0]).await;
    let rival = arena.queued(&curators[1]).await;
    let (mut watch, clone) = (told(&latch), latch.clone());
    drop(latch);
    round_trip(&curators[0]).await;
    assert!(leads.is_held() && clone.has_leadership(), "a clone is left");
    drop(clone);
    let next = leadership(&rival).await;
    // Neither a watch nor a leadership keeps it open; and it goes in silence.
    assert!(matches!(ended(&mut watch).await, LeaderError::Closed { .. }));
    assert_eq!(within("its end", leads.lost()).await, Loss::Released);
    assert!(next.fencing_token() > leads.fencing_token());
    // Also of one that waits; and of one that was never started nothing is left to tell.
    let waits = arena.queued(&curators[0]).await;
    drop(waits);
    arena.children_are(1).await;
    let never = arena.latch(&curators[0]);
    let mut watch = never.watch();
    drop(never);
    assert!(matches!(ended(&mut watch).await, LeaderError::Closed { .. }));
    drop(rival);
    arena.children_are(0).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_told_that_it_was_closed() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let (leader, _) = arena.leading(&curator).await;
    let latch = arena.queued(&curator).await;
    let waiting = tokio::spawn({
        let latch = latch.clone();
        async move { latch.await_leadership().await.map(drop) }
    });
    let (mut watch, limit) = (latch.watch(), LONG);
    let limited = tokio::spawn({
        let latch = latch.clone();
        async move { latch.await_leadership_timeout(limit).await.map(drop) }
    });
    assert!(futures_util::poll!(std::pin::pin!(watch.changed())).is_pending());
    latch.close().await.unwrap();
    for waiting in [waiting, limited] {
        let told = within("the end", waiting).await.unwrap();
        assert!(matches!(told, Err(LeaderError::Closed { .. })), "{told:?}");
    }
    ended(&mut watch).await;
    assert!(!latch.has_leadership());
    leader.close().await.unwrap();
}

/// By default it tries for ever; with a policy of its own it ends with that, and says so. To be a candidate for long is no
/// trouble, and uses nothing up.
#[tokio::test(start_paused = true)]
async fn a_latch_whose_retries_are_used_up_ends_and_says_so() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let (leader, _) = arena.leading(&other).await;
    let patient = arena.queued(&curator).await;
    let latch = arena.latch(&curator).with_retry(RetryPolicy::never());
    latch.start().unwrap();
    arena.children_are(3).await;
    let (mut watch, mut of_patient) = (latch.watch(), patient.watch());
    for participant in leader.participants().await.unwrap() {
        if participant.session == curator.session_id().unwrap() {
            arena.remove(&participant.path).await;
        }
    }
    let error = ended(&mut watch).await;
    let used_up = matches!(error, LeaderError::Ended(AcquireError::RetriesExhausted { .. }));
    assert!(used_up, "{error:?}");
    arena.children_are(2).await;
    leader.close().await.unwrap();
    gained(&mut of_patient).await;
    within("the close", latch.close()).await.unwrap();
}
