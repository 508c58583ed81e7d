//! What the watches of a leader latch tell, and when they end.

use std::sync::Arc;

use futures_util::StreamExt;
use tokio::task::JoinSet;
use zookeeper_recipes::{CloseMode, FencingToken, LeaderError, LeaderLatch, LeaderWatch, Loss};

use super::latches::{ceased, ended, gained, is_quiet, leadership};
use crate::harness::{Arena, round_trip, within};

/// Follows `latch` to the end of its watch. The first leadership is taken away, its node deleted; in the second it
/// closes. Gives how many gains and losses were told.
async fn leads_twice(arena: Arc<Arena>, latch: LeaderLatch) -> (usize, usize) {
    let mut watch = latch.watch();
    latch.start().unwrap();
    let (mut gains, mut losses) = (0, 0);
    while let Some(state) = watch.next().await {
        assert_eq!(state.is_leader(), gains == losses, "they alternate");
        let Some(leadership) = state.leadership() else {
            losses += 1;
            continue;
        };
        gains += 1;
        match gains {
            1 => arena.remove(leadership.node()).await,
            _ => latch.close().await.unwrap(),
        }
    }
    assert!(!latch.has_leadership());
    assert!(matches!(latch.start(), Err(LeaderError::Closed { .. })));
    (gains, losses)
}

/// Curator: `TestLeaderLatch#testCallbackSanity` and `#testCallbackNotifyLeader`: of ten that lead twice each, the first term
/// ends with a loss, and the second with a close, which is told as a loss by those that notify.
#[tokio::test(start_paused = true)]
async fn every_gain_and_every_loss_is_told_and_a_silent_close_is_not() {
    for notify in [0, 7] {
        let arena = Arc::new(Arena::new().await);
        let curators: [_; 2] = arena.curators().await;
        let mut tasks = JoinSet::new();
        for place in 0..10 {
            let mode = if place < notify { CloseMode::NotifyLeader } else { CloseMode::Silent };
            let latch = arena.latch(&curators[place % 2]).with_close_mode(mode);
            tasks.spawn(leads_twice(arena.clone(), latch));
        }
        let told = within("twenty terms", tasks.join_all()).await;
        let sums = told.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        assert_eq!(sums, (20, 10 + notify));
        arena.children_are(0).await;
    }
}

/// Curator: `TestLeaderLatch#testCallbackDontNotify`: who does not lead has nothing to be told, whatever its mode. A close may
/// choose another mode than the latch has; a drop goes by that of the latch.
#[tokio::test(start_paused = true)]
async fn a_close_is_told_to_a_leader_whose_mode_says_so() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    for (mode, close, told) in [
        (CloseMode::Silent, None, false),
        (CloseMode::NotifyLeader, None, true),
        (CloseMode::Silent, Some(CloseMode::NotifyLeader), true),
        (CloseMode::NotifyLeader, Some(CloseMode::Silent), false),
    ] {
        let latch = arena.latch(&curator).with_close_mode(mode);
        let waiter = arena.latch(&other).with_close_mode(CloseMode::NotifyLeader);
        let (mut watch, mut of_waiter) = (latch.watch(), waiter.watch());
        latch.start().unwrap();
        let leads = gained(&mut watch).await;
        waiter.start().unwrap();
        arena.children_are(2).await;
        waiter.close().await.unwrap();
        assert!(matches!(ended(&mut of_waiter).await, LeaderError::Closed { .. }));
        is_quiet(&mut watch).await;
        match close {
            Some(mode) => latch.close_with(mode).await.unwrap(),
            None => drop(latch),
        }
        if told {
            ceased(&mut watch).await;
        }
        let end = ended(&mut watch).await;
        assert!(matches!(end, LeaderError::Closed { .. }), "{mode:?}, {close:?}: {end:?}");
        // Who asks the leadership itself is told however it was closed.
        assert_eq!(within("its end", leads.lost()).await, Loss::Released);
        assert!(leads.cancellation_token().is_cancelled());
    }
}

async fn token(watch: &mut LeaderWatch) -> FencingToken {
    gained(watch).await.fencing_token()
}

/// Terms that began and ended while nobody looked are not told one by one: the last is, after the end of the one that
/// was told last.
#[tokio::test(start_paused = true)]
async fn what_a_slow_watch_misses_is_told_as_one_change() {
    let (arena, curator) = Arena::with_curator().await;
    let latch = arena.latch(&curator);
    let mut swift = latch.watch();
    let (mut slow, mut slower, mut behind) = (latch.watch(), latch.watch(), latch.watch());
    latch.start().unwrap();
    let first = token(&mut swift).await;
    assert_eq!(token(&mut slow).await, first);
    assert_eq!(token(&mut slower).await, first);
    let mut last = first;
    for _ in 0..3 {
        let leads = latch.leadership().unwrap();
        arena.remove(leads.node()).await;
        ceased(&mut swift).await;
        let next = token(&mut swift).await;
        assert!(next > last, "invariant 4");
        last = next;
    }
    // It was told of the first term, and leads now by the fourth.
    ceased(&mut slow).await;
    assert_eq!(token(&mut slow).await, last);
    is_quiet(&mut slow).await;
    // Nothing was told to this one: there is no end to tell.
    assert_eq!(token(&mut behind).await, last);
    is_quiet(&mut behind).await;
    // A clone knows what its origin was told.
    let mut clone = slower.clone();
    for watch in [&mut clone, &mut slower] {
        ceased(watch).await;
        assert_eq!(token(watch).await, last);
    }
    // Terms of others are nothing to a watch.
    let rival = arena.queued(&curator).await;
    round_trip(&curator).await;
    is_quiet(&mut swift).await;
    rival.close().await.unwrap();
    is_quiet(&mut swift).await;
    latch.close().await.unwrap();
}

/// A watch that was polled in vain, and then asked otherwise, tells nothing twice and misses nothing.
#[tokio::test(start_paused = true)]
async fn a_stream_and_its_watch_tell_the_same() {
    let (arena, curator) = Arena::with_curator().await;
    let latch = arena.latch(&curator);
    let mut watch = latch.watch();
    assert!(futures_util::poll!(watch.next()).is_pending());
    latch.start().unwrap();
    leadership(&latch).await;
    assert!(watch.state().is_leader());
    assert!(futures_util::poll!(watch.next()).is_pending(), "it was told by the state");
    let leads = latch.leadership().unwrap();
    arena.remove(leads.node()).await;
    let told = within("the loss", watch.next()).await.unwrap();
    assert!(!told.is_leader());
    gained(&mut watch).await;
    assert!(futures_util::poll!(watch.next()).is_pending());
    latch.close().await.unwrap();
    assert!(within("the end", watch.next()).await.is_none());
    assert!(within("the end", watch.next()).await.is_none(), "and so it stays");
    let mut late = latch.watch();
    assert!(!late.state().is_leader());
    assert!(matches!(ended(&mut late).await, LeaderError::Closed { .. }));
    assert!(matches!(ended(&mut watch).await, LeaderError::Closed { .. }));
}
