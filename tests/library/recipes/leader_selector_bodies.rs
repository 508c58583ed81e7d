//! What the body of a `LeaderSelector` may do: fail, panic, take its time, ignore its token, block its thread. The place
//! is not given up before it has ended.

use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use zookeeper_recipes::leader::LeaderRun;
use zookeeper_recipes::{ErrorKind, Hold, Loss, Released};

use super::leading::{Ended, Led, failed};
use crate::harness::{Arena, LONG, eventually, within};

/// Long enough for a test to see a leader that comes before its time.
const GRACE: Duration = Duration::from_millis(700);

/// Wherever it panics, and whatever with.
#[tokio::test(start_paused = true)]
async fn a_body_that_panics_is_a_term_that_ended() {
    let (arena, curator) = Arena::with_curator().await;
    let terms = Arc::new(AtomicUsize::new(0));
    let body = move |leadership: Hold| {
        let term = 1 + terms.fetch_add(1, Ordering::Relaxed);
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
    for message in ["a text", "while it is made: term 2", "no text"] {
        let error = within("a report", run.next()).await.unwrap().unwrap_err().error;
        let expected = (ErrorKind::BodyPanicked, Some(&*arena.path), None);
        assert_eq!((error.kind(), error.path(), error.loss()), expected);
        assert!(error.to_string().ends_with(&format!("panicked: {message}")), "{error}");
    }
    assert!(within("a report", run.next()).await.unwrap().unwrap().value() > 0);
    within("the end of a run", run.close()).await.unwrap();
    arena.children_are(0).await;
}

/// Ends the term, in one of the ways that there are: what is left of the run, and a task that has asked for the end.
fn ends(way: &str, led: Led) -> Option<(Arc<LeaderRun<Ended>>, JoinHandle<()>)> {
    let run = Arc::new(led.run);
    let asking = run.clone();
    match way {
        "asked to step down" => assert!(run.step_down()),
        "closed" => {
            let closing = tokio::spawn(async move { asking.close().await.map(drop).unwrap() });
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
    for way in ["asked to step down", "closed", "dropped"] {
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
        assert!(!leadership.is_held() && leadership.loss().is_none(), "{way}");
        assert!(second.leadership.fencing_token() > leadership.fencing_token());
        if let Some((run, asking)) = run {
            within("the end", asking).await.unwrap();
            assert_eq!(within("a report", run.next()).await.unwrap().unwrap(), Ended::Told);
        }
        next.close().await;
        arena.children_are(0).await;
    }
}

/// And until then no other candidate leads.
#[tokio::test(start_paused = true)]
async fn a_body_that_ignores_its_token_is_dropped_after_the_grace() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let selector = arena.selector(&curator).with_grace(GRACE);
    for way in ["asked to step down", "closed", "dropped"] {
        let leader = Led::stubborn(&selector);
        let (leader, term, mut next) = arena.with_next(leader, &arena.selector(&other)).await;
        let began = Instant::now();
        let run = ends(way, leader);
        next.leads().await;
        assert!(term.is_over(), "{way}: two bodies at a time");
        assert!(began.elapsed() >= GRACE, "{way}: {:?}", began.elapsed());
        if let Some((run, _)) = run {
            let report = within("a report", run.next()).await.unwrap();
            assert_eq!(failed(report), (ErrorKind::BodyDropped, None, None), "{way}");
        }
        next.close().await;
        arena.children_are(0).await;
    }
}

/// The next one does not lead beside it, however its `Curator` ends. The close returns in time all the same.
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
            None => {
                let closed = within("the end of the session", closing).await.unwrap();
                assert_eq!(closed, Released::Confirmed);
            }
            Some(closed) => assert_eq!(closed, Released::Pending),
        }
        next.leads().await;
        let expected = (ErrorKind::Lost, Some(Loss::Closed), Some(Ended::Told));
        assert_eq!(failed(leader.report().await), expected);
        next.close().await;
        arena.children_are(0).await;
    }
}

/// It waits for itself, as long as it may.
#[tokio::test(start_paused = true)]
async fn a_body_that_closes_its_own_run_does_not_hang() {
    let (arena, curator) = Arena::with_curator().await;
    let (send, mut receive) = watch::channel(None::<Arc<LeaderRun<()>>>);
    let run = arena.selector(&curator).with_grace(GRACE).run(async move |_| {
        let run = receive.wait_for(Option::is_some).await.unwrap().clone().unwrap();
        let _ = run.close().await;
    });
    let run = Arc::new(run);
    send.send_replace(Some(run.clone()));
    let report = within("a report", run.next()).await.unwrap();
    assert_eq!(failed(report), (ErrorKind::BodyDropped, None, None));
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
        let going = Arc::new(Mutex::new(going));
        let grace = Duration::from_millis(10);
        let run = arena.selector(&curator).with_grace(grace).run(async move |_| {
            going.lock().unwrap().recv().expect("the test's word");
            // Where it could be dropped.
            tokio::task::yield_now().await;
        });
        eventually("it leads", async || run.is_leader()).await;
        let mut next = Led::obedient(&arena.selector(&other));
        arena.children_are(2).await;
        assert!(run.step_down());
        tokio::time::sleep(GRACE).await;
        assert!(next.began().is_none());
        assert_eq!(arena.children().await.len(), 2);
        go.send(()).unwrap();
        next.leads().await;
        if let Err(ended) = within("a report", run.next()).await.unwrap() {
            assert_eq!(failed(Err(ended)), (ErrorKind::BodyDropped, None, None));
        }
    }
}
