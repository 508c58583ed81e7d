//! How a leader latch begins and ends: starts, closes, drops, whoever waits meanwhile, and the end of what it stands on.

use std::time::Duration;

use zookeeper_recipes::zookeeper_client::Acls;
use zookeeper_recipes::{AcquireError, CloseMode, LeaderError, Loss, LossPolicy, RetryPolicy};

use super::latches::{ended, gained, is_quiet, leadership, told};
use crate::harness::{Arena, LONG, round_trip, within};

#[tokio::test(start_paused = true)]
async fn a_latch_takes_part_from_its_start_on_and_starts_once() {
    let (arena, curator) = Arena::with_curator().await;
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
    let (arena, curator) = Arena::with_curator().await;
    let (latch, leads) = arena.leading(&curator).await;
    let closes = (latch.close(), latch.clone());
    let (one, two) = tokio::join!(closes.0, closes.1.close_with(CloseMode::NotifyLeader));
    one.unwrap();
    two.unwrap();
    assert_eq!(arena.children().await.len(), 0, "confirmed");
    latch.close().await.unwrap();
    assert_eq!(leads.loss(), Some(Loss::Released));
    // Also of one that was never started.
    let never = arena.latch(&curator);
    let mut watch = never.watch();
    never.close().await.unwrap();
    assert!(matches!(ended(&mut watch).await, LeaderError::Closed { .. }));
    assert!(matches!(never.start(), Err(LeaderError::Closed { .. })));
    assert!(matches!(never.await_leadership().await, Err(LeaderError::Closed { .. })));
}

/// An option gives a latch of its own, which is not started, whatever the other one is.
#[tokio::test(start_paused = true)]
async fn an_option_makes_another_latch() {
    let (arena, curator) = Arena::with_curator().await;
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
    let (arena, curators) = Arena::with_curators::<2>().await;
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
    drop(rival);
    arena.children_are(0).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_told_that_it_was_closed() {
    let (arena, curator) = Arena::with_curator().await;
    let (leader, _) = arena.leading(&curator).await;
    let latch = arena.queued(&curator).await;
    let waiting = latch.clone();
    let waiting = tokio::spawn(async move {
        tokio::join!(waiting.await_leadership(), waiting.await_leadership_timeout(LONG))
    });
    let mut watch = latch.watch();
    is_quiet(&mut watch).await;
    round_trip(&curator).await;
    latch.close().await.unwrap();
    let (one, other) = within("the end", waiting).await.unwrap();
    for error in [one.unwrap_err(), other.unwrap_err(), ended(&mut watch).await] {
        assert!(matches!(error, LeaderError::Closed { .. }), "{error:?}");
    }
    assert!(!latch.has_leadership());
    leader.close().await.unwrap();
}

/// By default it tries for ever; with a policy of its own it ends with that, and says so. To be a candidate for long is no
/// trouble, and uses nothing up.
#[tokio::test(start_paused = true)]
async fn a_latch_whose_retries_are_used_up_ends_and_says_so() {
    let (arena, [curator, other]) = Arena::with_curators().await;
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
