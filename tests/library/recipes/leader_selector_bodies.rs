//! What the body of a `LeaderSelector` may do: fail, panic, take its time, ignore its token, block its thread. The place
//! is not given up before it has ended.

use std::panic::panic_any;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use zookeeper_recipes::{LeaderRun, Leadership, Loss, SessionError, TermError};

use super::leading::{Ended, Led};
use crate::harness::{Arena, LONG, eventually, within};

/// Long enough for whoever comes before its time to be seen.
const GRACE: Duration = Duration::from_millis(700);

/// Wherever it panics, and whatever with.
#[tokio::test(start_paused = true)]
async fn a_body_that_panics_is_a_term_that_ended() {
    let (arena, curator) = Arena::with_curator().await;
    let mut terms = 0;
    let body = move |leadership: Leadership| {
        terms += 1;
        let term = terms;
        assert!(term != 2, "while it is made: term {term}");
        async move {
            match term {
                1 => panic!("a text"),
                3 => panic_any(3_u8),
                _ => leadership.fencing_token(),
            }
        }
    };
    let run = arena.selector(&curator).auto_requeue().run(body);
    let mut messages = Vec::new();
    for _ in 0..3 {
        match within("a report", run.next()).await.unwrap() {
            Err(TermError::Panicked { path, message, .. }) => {
                assert_eq!(path, arena.path);
                messages.push(message);
            }
            report => panic!("{report:?}"),
        }
    }
    assert_eq!(messages[..2], ["a text", "while it is made: term 2"]);
    assert!(within("a report", run.next()).await.unwrap().unwrap().value() > 0);
    within("the end of a run", run.close()).await.unwrap();
    arena.children_are(0).await;
}

/// Ends the term, in one of the ways that there are: what is left of the run, and a task that has asked for the end.
fn ends(way: &str, led: Led) -> Option<(Arc<LeaderRun<Ended>>, JoinHandle<()>)> {
    let run = Arc::new(led.run);
    let asking = run.clone();
    match way {
        "interrupted" => assert!(run.interrupt_leadership()),
        "closed" => {
            let closing = tokio::spawn(async move { asking.close().await.unwrap() });
            return Some((run, closing));
        }
        _ => return None,
    }
    Some((run, tokio::spawn(async {})))
}

#[tokio::test(start_paused = true)]
async fn the_place_goes_when_the_body_has_ended_and_not_before() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let selector = arena.selector(&curator).with_grace(LONG);
    for way in ["interrupted", "closed", "dropped"] {
        let leader = Led::stubborn(&selector);
        let (leader, term, mut next) = arena.with_next(leader, &arena.selector(&other)).await;
        let token = term.leadership.cancellation_token();
        let run = ends(way, leader);
        within("its token", token.cancelled()).await;
        tokio::time::sleep(GRACE / 2).await;
        assert!(term.leadership.is_held(), "{way}: it works on under its place");
        assert!(next.began().is_none(), "{way}");
        assert_eq!(arena.children().await.len(), 2, "{way}");
        let leadership = term.end();
        let second = next.leads().await;
        assert_eq!(leadership.loss(), Some(Loss::Released), "{way}");
        assert!(second.leadership.fencing_token() > leadership.fencing_token());
        if let Some((run, asking)) = run {
            within("the end", asking).await.unwrap();
            assert_eq!(within("a report", run.next()).await.unwrap().unwrap(), Ended::Told);
        }
        next.close().await;
        arena.children_are(0).await;
    }
}

/// And until then nobody else leads.
#[tokio::test(start_paused = true)]
async fn a_body_that_ignores_its_token_is_dropped_after_the_grace() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let selector = arena.selector(&curator).with_grace(GRACE);
    for way in ["interrupted", "closed", "dropped"] {
        let leader = Led::stubborn(&selector);
        let (leader, term, mut next) = arena.with_next(leader, &arena.selector(&other)).await;
        let began = Instant::now();
        let run = ends(way, leader);
        next.leads().await;
        assert!(term.is_over(), "{way}: two bodies at a time");
        assert!(began.elapsed() >= GRACE, "{way}: {:?}", began.elapsed());
        if let Some((run, _)) = run {
            match within("a report", run.next()).await.unwrap() {
                Err(TermError::Dropped { path, loss, .. }) => {
                    assert_eq!((path, loss), (arena.path.clone(), None), "{way}");
                }
                report => panic!("{way}: {report:?}"),
            }
        }
        next.close().await;
        arena.children_are(0).await;
    }
}

/// The next one does not lead beside it, however its `Curator` ends; but who closes that is told in time.
#[tokio::test(start_paused = true)]
async fn closing_the_curator_waits_for_the_body() {
    let arena = Arena::new().await;
    let other = arena.curator().await;
    for (patience, in_time) in [(LONG, true), (GRACE / 2, false)] {
        let builder = arena.builder().connection_timeout(patience);
        let curator = arena.impatient(arena.server.connect_string(), builder).await;
        let selector = arena.selector(&curator).with_grace(LONG);
        let leader = Led::stubborn(&selector);
        let (leader, term, mut next) = arena.with_next(leader, &arena.selector(&other)).await;
        let closing = curator.clone();
        let mut closing = tokio::spawn(async move { closing.close().await });
        assert_eq!(within("the end", term.leadership.lost()).await, Loss::Closed);
        let closed = if in_time {
            tokio::time::sleep(GRACE).await;
            assert!(!closing.is_finished());
            None
        } else {
            Some(within("the end of its patience", &mut closing).await.unwrap())
        };
        assert!(next.began().is_none() && !term.is_over());
        assert_eq!(arena.children().await.len(), 2);
        term.end();
        match closed {
            None => within("the end of the session", closing).await.unwrap().unwrap(),
            Some(Err(SessionError::CloseUnconfirmed { .. })) => {}
            Some(other) => panic!("{other:?}"),
        }
        next.leads().await;
        match leader.report().await {
            Err(TermError::Lost { loss: Loss::Closed, value: Ended::Told, .. }) => {}
            report => panic!("{report:?}"),
        }
        next.close().await;
        arena.children_are(0).await;
    }
}

/// It waits for itself, as long as it may.
#[tokio::test(start_paused = true)]
async fn a_body_that_closes_its_own_run_does_not_hang() {
    let (arena, curator) = Arena::with_curator().await;
    let (send, receive) = tokio::sync::oneshot::channel::<Arc<zookeeper_recipes::LeaderRun<()>>>();
    let mut receive = Some(receive);
    let run = arena.selector(&curator).with_grace(GRACE).run(move |_| {
        let receive = receive.take().expect("one term");
        async move {
            if let Ok(run) = receive.await {
                let _ = run.close().await;
            }
        }
    });
    let run = Arc::new(run);
    send.send(run.clone()).unwrap();
    match within("a report", run.next()).await.unwrap() {
        Err(TermError::Dropped { loss: None, .. }) => {}
        report => panic!("{report:?}"),
    }
    assert!(within("no report", run.next()).await.is_none());
    arena.children_are(0).await;
}

mod real {
    use super::*;

    /// What does not return cannot be dropped.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_body_that_blocks_its_thread_keeps_its_place() {
        let arena = Arena::real().await;
        let [curator, other] = arena.curators().await;
        let (go, going) = mpsc::channel::<()>();
        let mut going = Some(going);
        let grace = Duration::from_millis(10);
        let run = arena.selector(&curator).with_grace(grace).run(move |_| {
            let going = going.take().expect("one term");
            async move {
                going.recv().expect("the test's word");
                // Where it could be dropped.
                tokio::task::yield_now().await;
            }
        });
        eventually("it leads", async || run.has_leadership()).await;
        let mut next = Led::obedient(&arena.selector(&other));
        arena.children_are(2).await;
        assert!(run.interrupt_leadership());
        tokio::time::sleep(GRACE).await;
        assert!(next.began().is_none());
        assert_eq!(arena.children().await.len(), 2);
        go.send(()).unwrap();
        next.leads().await;
        match within("a report", run.next()).await.unwrap() {
            Ok(()) | Err(TermError::Dropped { loss: None, .. }) => {}
            report => panic!("{report:?}"),
        }
    }
}
