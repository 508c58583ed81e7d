//! What the watches of a leader latch tell, and when they end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use tokio::task::JoinSet;
use zookeeper_recipes::{
    CloseMode, FencingToken, LeaderError, LeaderLatch, LeaderState, LeaderWatch, Loss,
};

use super::latches::{ceased, ended, gained, is_quiet, leadership};
use crate::harness::{Arena, eventually, round_trip, within};

#[derive(Default)]
struct Tally {
    gains: AtomicUsize,
    losses: AtomicUsize,
}

impl Tally {
    fn both(&self) -> (usize, usize) {
        (self.gains.load(Ordering::SeqCst), self.losses.load(Ordering::SeqCst))
    }
}

/// Follows `latch` to the end of its watch. The first leadership is taken away, its node deleted; in the second it
/// closes. Gives how often the states alternated.
async fn leads_twice(arena: Arc<Arena>, latch: LeaderLatch, tally: Arc<Tally>) {
    let mut watch = latch.watch();
    latch.start().unwrap();
    let (mut gains, mut leads) = (0, false);
    while let Some(state) = watch.next().await {
        assert_ne!(state.is_leader(), leads, "they alternate");
        leads = state.is_leader();
        let Some(leadership) = state.leadership() else {
            tally.losses.fetch_add(1, Ordering::SeqCst);
            continue;
        };
        tally.gains.fetch_add(1, Ordering::SeqCst);
        gains += 1;
        match gains {
            1 => arena.remove(leadership.node()).await,
            _ => latch.close().await.unwrap(),
        }
    }
    assert!(!latch.has_leadership());
    assert!(matches!(latch.start(), Err(LeaderError::Closed { .. })));
}

/// Ten latches that lead twice each, by how they close.
async fn all_lead_twice(notify: usize) -> (usize, usize) {
    let arena = Arc::new(Arena::new().await);
    let curators = arena.curators(2).await;
    let tally = Arc::new(Tally::default());
    let mut tasks = JoinSet::new();
    for place in 0..10 {
        let mode = if place < notify { CloseMode::NotifyLeader } else { CloseMode::Silent };
        let latch = arena.latch(&curators[place % 2]).with_close_mode(mode);
        tasks.spawn(leads_twice(arena.clone(), latch, tally.clone()));
    }
    within("twenty terms", tasks.join_all()).await;
    arena.children_are(0).await;
    tally.both()
}

/// Curator: `TestLeaderLatch#testCallbackSanity`: of ten that lead twice each, the first term of each ends with a loss, and the second
/// with a silent close.
#[tokio::test(start_paused = true)]
async fn every_gain_and_every_loss_is_told_and_a_silent_close_is_not() {
    assert_eq!(all_lead_twice(0).await, (20, 10));
}

/// Curator: `TestLeaderLatch#testCallbackNotifyLeader`: the same, three of them silent; the close of a leader that notifies is a loss,
/// too.
#[tokio::test(start_paused = true)]
async fn a_close_that_notifies_is_told_as_a_loss() {
    assert_eq!(all_lead_twice(7).await, (20, 17));
}

/// Curator: `TestLeaderLatch#testCallbackDontNotify`: who does not lead has nothing to be told, whatever its mode; and a
/// close can be told another mode than the latch has.
#[tokio::test(start_paused = true)]
async fn only_a_leader_is_told_of_its_close_and_the_close_may_choose() {
    let arena = Arena::new().await;
    let curators = arena.curators(2).await;
    let leader = arena.latch(&curators[0]).with_close_mode(CloseMode::Silent);
    let waiter = arena.latch(&curators[1]).with_close_mode(CloseMode::NotifyLeader);
    let (mut of_leader, mut of_waiter) = (leader.watch(), waiter.watch());
    leader.start().unwrap();
    gained(&mut of_leader).await;
    waiter.start().unwrap();
    arena.children_are(2).await;
    waiter.close().await.unwrap();
    assert!(matches!(ended(&mut of_waiter).await, LeaderError::Closed { .. }));
    is_quiet(&mut of_leader).await;
    leader.close_with(CloseMode::NotifyLeader).await.unwrap();
    ceased(&mut of_leader).await;
    assert!(matches!(ended(&mut of_leader).await, LeaderError::Closed { .. }));
    // The reverse: a latch that would notify, closed in silence.
    let latch = arena.latch(&curators[0]).with_close_mode(CloseMode::NotifyLeader);
    let mut watch = latch.watch();
    latch.start().unwrap();
    let leads = gained(&mut watch).await;
    latch.close_with(CloseMode::Silent).await.unwrap();
    assert!(matches!(ended(&mut watch).await, LeaderError::Closed { .. }));
    // Who asks the leadership itself is told however it was closed.
    assert_eq!(within("its end", leads.lost()).await, Loss::Released);
    assert!(leads.cancellation_token().is_cancelled());
}

/// The last handle goes as a close does.
#[tokio::test(start_paused = true)]
async fn a_latch_that_is_dropped_tells_what_its_mode_says() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    for mode in [CloseMode::NotifyLeader, CloseMode::Silent] {
        let latch = arena.latch(&curator).with_close_mode(mode);
        let mut watch = latch.watch();
        latch.start().unwrap();
        gained(&mut watch).await;
        drop(latch);
        if mode == CloseMode::NotifyLeader {
            ceased(&mut watch).await;
        }
        assert!(matches!(ended(&mut watch).await, LeaderError::Closed { .. }));
    }
}

/// A watch that was told nothing counts as told that it does not lead.
#[tokio::test(start_paused = true)]
async fn a_watch_tells_changes_and_the_present_state_is_asked() {
    let arena = Arena::new().await;
    let curators = arena.curators(2).await;
    let (latch, leads) = arena.leading(&curators[0]).await;
    let mut watch = latch.watch();
    assert_eq!(gained(&mut watch).await.node(), leads.node());
    is_quiet(&mut watch).await;
    let mut watch = latch.watch();
    let state = watch.state();
    assert_eq!(state.leadership().map(|now| now.node().to_owned()).as_deref(), Some(leads.node()));
    is_quiet(&mut watch).await;
    let second = arena.queued(&curators[1]).await;
    let mut watch = second.watch();
    assert!(!watch.state().is_leader());
    latch.close().await.unwrap();
    leadership(&second).await;
    // A look at the state is being told.
    assert!(watch.state().is_leader());
    is_quiet(&mut watch).await;
    second.close().await.unwrap();
    assert!(!watch.state().is_leader());
}

async fn token(watch: &mut LeaderWatch) -> FencingToken {
    gained(watch).await.fencing_token()
}

/// Terms that began and ended while nobody looked are not told one by one: the last is, after the end of the one that
/// was told last.
#[tokio::test(start_paused = true)]
async fn what_a_slow_watch_misses_is_told_as_one_change() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
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
    let arena = Arena::new().await;
    let curator = arena.curator().await;
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
    assert!(matches!(ended(&mut watch).await, LeaderError::Closed { .. }));
}

/// Every watch is told the end, those made after it at once, and those that outlive their latch.
#[tokio::test(start_paused = true)]
async fn watches_end_with_their_latch() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let latch = arena.latch(&curator);
    let watch = latch.watch();
    let collecting = tokio::spawn(watch.collect::<Vec<LeaderState>>());
    let mut waiting = latch.watch();
    latch.start().unwrap();
    leadership(&latch).await;
    eventually("the stream is told", async || waiting.state().is_leader()).await;
    latch.close_with(CloseMode::NotifyLeader).await.unwrap();
    let mut late = latch.watch();
    assert!(!late.state().is_leader());
    assert!(matches!(ended(&mut late).await, LeaderError::Closed { .. }));
    ceased(&mut waiting).await;
    drop(latch);
    assert!(matches!(ended(&mut waiting).await, LeaderError::Closed { .. }));
    let told = within("the stream", collecting).await.unwrap();
    let leads: Vec<_> = told.iter().map(LeaderState::is_leader).collect();
    // A stream that is slow may have missed the only term, and with it its end.
    assert!(leads.is_empty() || leads == [true, false], "{told:?}");
}
