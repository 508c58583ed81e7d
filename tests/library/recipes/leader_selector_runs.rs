//! `LeaderRun`: what its caller may do with it, in each of its states.

use std::sync::Arc;
use std::time::Duration;

use zookeeper_recipes::{LeaderError, Leadership, Loss, TermError};

use super::leading::{Ended, Led};
use crate::harness::{Arena, eventually, within};

/// Curator: `requeue` of a selector that is queued is false, of one that is closed an error.
#[tokio::test(start_paused = true)]
async fn who_is_queued_or_leads_is_not_queued_again() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let mut blocker = Led::obedient(&arena.selector(&other));
    let blocking = blocker.leads().await;
    let mut led = Led::stubborn(&arena.selector(&curator));
    assert!(!led.run.requeue().unwrap(), "on its way");
    arena.children_are(2).await;
    assert!(!led.run.requeue().unwrap(), "queued");
    blocking.end();
    let term = led.leads().await;
    assert!(!led.run.requeue().unwrap(), "leads");
    assert!(led.run.interrupt_leadership());
    assert!(!led.run.requeue().unwrap(), "its body has not ended");
    term.end();
    led.report().await.unwrap();
    eventually("it can be queued again", async || led.run.requeue().unwrap()).await;
    assert!(!led.run.requeue().unwrap(), "queued again");
    led.leads().await.end();
    led.report().await.unwrap();
    led.close().await;
    let refused = led.run.requeue();
    assert!(matches!(&refused, Err(LeaderError::Closed { path, .. }) if *path == arena.path));
    assert!(led.began().is_none(), "one requeue, one term");
    arena.children_are(0).await;
}

/// Curator: TestLeaderSelector#testInterruptLeadership and #testInterruption (CURATOR-468: no release fails).
#[tokio::test(start_paused = true)]
async fn who_does_not_lead_cannot_be_interrupted() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let leader = Led::obedient(&arena.selector(&curator));
    let (leader, term, mut next) = arena.with_next(leader, &arena.selector(&other)).await;
    assert!(!next.run.interrupt_leadership(), "it waits");
    assert_eq!(leader.run.leadership().unwrap().node(), term.leadership.node());
    term.end();
    leader.report().await.unwrap();
    assert!(!leader.run.has_leadership() && leader.run.leadership().is_none());
    // The interrupt in vain has not taken its place.
    let term = next.leads().await;
    assert!(!term.leadership.cancellation_token().is_cancelled());
    assert!(!leader.run.interrupt_leadership(), "it has led");
    leader.close().await;
    assert!(!leader.run.interrupt_leadership(), "it is closed");
    assert!(next.run.interrupt_leadership());
    assert_eq!(next.report().await.unwrap(), Ended::SteppedDown);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_awaited_leads_once_and_is_closed() {
    let (arena, curator) = Arena::with_curator().await;
    let selector = arena.selector(&curator);
    for selector in [selector.clone(), selector.clone().auto_requeue()] {
        let token = within("a term", async {
            selector.run(async |leadership: Leadership| leadership.fencing_token()).await
        });
        assert!(token.await.unwrap().value() > 0);
        assert_eq!(arena.children().await, [""; 0], "it is given up when the caller goes on");
    }
    let refused: Result<(), _> =
        within("a term", async { selector.run(async |_| panic!("as the test wants")).await }).await;
    assert!(matches!(refused, Err(TermError::Panicked { .. })), "{refused:?}");
    // Dropped while it leads: the body is told.
    let (began, mut terms) = tokio::sync::mpsc::unbounded_channel();
    let running = selector.run(move |leadership: Leadership| {
        began.send(leadership.clone()).unwrap();
        async move { leadership.cancellation_token().cancelled().await }
    });
    let running = tokio::spawn(running.into_future());
    let leadership = within("a term", terms.recv()).await.unwrap();
    running.abort();
    assert_eq!(within("the end", leadership.lost()).await, Loss::Released);
    arena.children_are(0).await;
}

/// The last 64.
#[tokio::test(start_paused = true)]
async fn reports_are_kept_until_they_are_read() {
    const TERMS: u64 = 70;
    let (arena, curator) = Arena::with_curator().await;
    let (mut term, go) = (0, Arc::new(tokio::sync::Semaphore::new(0)));
    let done = go.clone();
    let run = arena.selector(&curator).auto_requeue().run(move |_| {
        term += 1;
        let go = go.clone();
        async move {
            go.add_permits(1);
            if term > TERMS {
                std::future::pending::<()>().await;
            }
            term
        }
    });
    let all = done.acquire_many(u32::try_from(TERMS + 1).unwrap());
    drop(within("the terms", all).await.unwrap());
    for term in TERMS - 63..=TERMS {
        // Who gives up asking takes no report along.
        drop(run.next());
        let report = within("a report", run.next()).await.unwrap();
        assert_eq!(report.unwrap(), term);
    }
    let none = tokio::time::timeout(Duration::from_millis(50), run.next()).await;
    assert!(none.is_err(), "{none:?}");
}

/// Curator: TestLeaderSelector#testAutoRequeue. Also those that came before the run was closed, and the one of the close.
#[tokio::test(start_paused = true)]
async fn reports_outlive_the_close() {
    let (arena, curator) = Arena::with_curator().await;
    let mut led = Led::obedient(&arena.selector(&curator).auto_requeue());
    for _ in 0..3 {
        led.leads().await.end();
    }
    let last = led.leads().await;
    led.close().await;
    assert!(last.is_over());
    for expected in [Ended::Told, Ended::Told, Ended::Told, Ended::SteppedDown] {
        assert_eq!(led.report().await.unwrap(), expected);
    }
    assert!(within("no report", led.run.next()).await.is_none());
    assert!(within("nor later", led.run.next()).await.is_none());
}
