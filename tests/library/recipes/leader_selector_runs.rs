//! `LeaderRun`: what its caller may do with it, in each of its states.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use zookeeper_recipes::{LeaderError, Leadership, Loss, TermError};

use super::leading::{Ended, Led};
use crate::harness::{Arena, eventually, within};

fn refused_as_closed(led: &Led, path: &str) {
    match led.run.requeue() {
        Err(LeaderError::Closed { path: of, .. }) => assert_eq!(of, path),
        other => panic!("{other:?}"),
    }
}

/// Curator: `requeue` of a selector that is queued is false, of one that is closed an error.
#[tokio::test(start_paused = true)]
async fn who_is_queued_or_leads_is_not_queued_again() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
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
    refused_as_closed(&led, &arena.path);
    assert!(led.began().is_none(), "one requeue, one term");
    arena.children_are(0).await;
}

#[tokio::test(start_paused = true)]
async fn who_does_not_lead_cannot_be_interrupted() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let selectors = [arena.selector(&curator), arena.selector(&other)];
    let (leader, term, mut next) = arena.leader_and_next([&selectors[0], &selectors[1]]).await;
    assert!(!next.run.interrupt_leadership(), "it waits");
    term.end();
    leader.report().await.unwrap();
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
async fn a_run_that_is_dropped_steps_down() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let selectors = [arena.selector(&curator), arena.selector(&other)];
    let (leader, term, mut next) = arena.leader_and_next([&selectors[0], &selectors[1]]).await;
    // The one behind who leads, first.
    let waits = Led::obedient(&selectors[0]);
    arena.children_are(3).await;
    drop(waits);
    arena.children_are(2).await;
    assert!(!term.leadership.cancellation_token().is_cancelled());
    drop(leader);
    term.over().await;
    assert!(term.leadership.cancellation_token().is_cancelled());
    next.leads().await;
    drop(next);
    arena.children_are(0).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_awaited_leads_once_and_is_closed() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
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

/// And what asks for reports at the time is told that there are no more.
#[tokio::test(start_paused = true)]
async fn another_task_closes_the_run() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    for leads in [true, false] {
        let mut blocker = Led::obedient(&arena.selector(&curator));
        let blocking = blocker.leads().await;
        let mut led = Led::obedient(&arena.selector(&curator));
        arena.children_are(2).await;
        let blocking = if leads {
            blocking.end();
            Err(led.leads().await)
        } else {
            Ok(blocking)
        };
        let run = Arc::new(led.run);
        let asking = tokio::spawn({
            let run = run.clone();
            async move { (run.next().await.map(|report| report.is_ok()), run.next().await.is_none()) }
        });
        let mut closing = JoinSet::new();
        for _ in 0..3 {
            let run = run.clone();
            closing.spawn(async move { run.close().await.unwrap() });
        }
        within("all of them", closing.join_all()).await;
        assert_eq!(arena.children().await.len(), usize::from(!leads));
        let (report, no_more) = within("the reports", asking).await.unwrap();
        assert!(no_more);
        if leads {
            assert_eq!(report, Some(true));
        } else {
            assert_ne!(report, Some(true), "it never led");
        }
        within("once more", run.close()).await.unwrap();
        drop((blocking, blocker));
        arena.children_are(0).await;
    }
}

/// The last 64.
#[tokio::test(start_paused = true)]
async fn reports_are_kept_until_they_are_read() {
    const TERMS: u64 = 70;
    let arena = Arena::new().await;
    let curator = arena.curator().await;
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
    let arena = Arena::new().await;
    let curator = arena.curator().await;
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
