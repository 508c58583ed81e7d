//! `LeaderSelector` and `LeaderRun`: where it is not allowed to take part, how it loses its place, what its caller may do in each
//! state, and what its body may do: fail, panic, take its time, ignore its token, block its thread.

use std::panic::panic_any;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::{Semaphore, mpsc, watch};

use zookeeper_recipes::leader::LeaderSelector;

use crate::prelude::*;
use crate::support::selectors::{Ended, Led, Report, failed};

fn no_auth(report: Report) {
    assert_eq!(failed(report), (ErrorKind::PermissionDenied, None, None));
}

/// And CURATOR-195, 16 and 73: the caller never saw the error.
#[tokio::test(start_paused = true)]
async fn curator_15_a_refused_selector_reports_it_and_can_try_again() {
    let testbed = Testbed::new().await;
    testbed.restrict(Permission::READ).await;
    let curator = testbed.curator().await;
    let mut led = Led::obedient(&testbed.selector(&curator));
    for _ in 0..3 {
        no_auth(led.report().await);
        assert!(!led.run.is_leader() && !led.run.step_down());
        eventually("it can be queued again", async || led.run.requeue().unwrap()).await;
    }
    no_auth(led.report().await);
    testbed.open().await;
    assert!(led.run.requeue().unwrap());
    led.leads().await;
}

#[tokio::test(start_paused = true)]
async fn a_loss_while_the_body_runs_is_told_with_what_it_returns() {
    let testbed = Testbed::new().await;
    let curator = testbed.short_lived_curator().await;
    let mut led = Led::stubborn(&testbed.selector(&curator).auto_requeue());
    for loss in [Loss::NodeDeleted, Loss::SessionExpired] {
        let term = led.leads().await;
        if loss == Loss::NodeDeleted {
            testbed.admin.delete(term.leadership.node(), None).await.unwrap();
        } else {
            testbed.kill_session(&curator).await;
        }
        assert_eq!(within("the loss", term.leadership.lost()).await, loss);
        assert!(term.leadership.cancellation_token().is_cancelled());
        assert!(!term.is_over(), "it has the grace to tidy up");
        assert!(!led.run.is_leader() && led.run.leadership().is_none());
        assert!(led.began().is_none(), "one body at a time");
        term.end();
        let expected = (ErrorKind::Lost, Some(loss), Some(Ended::Told));
        assert_eq!(failed(led.report().await), expected);
    }
    led.leads().await;
}

/// Curator: `requeue` of a selector that is queued is false, of one that is closed an error.
#[tokio::test(start_paused = true)]
async fn a_candidate_or_a_leader_is_not_queued_again() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let mut blocker = Led::obedient(&testbed.selector(&other));
    let blocking = blocker.leads().await;
    let mut led = Led::stubborn(&testbed.selector(&curator));
    assert!(!led.run.requeue().unwrap(), "on its way");
    testbed.children_are(2).await;
    assert!(!led.run.requeue().unwrap(), "queued");
    blocking.end();
    let term = led.leads().await;
    assert!(!led.run.requeue().unwrap(), "leads");
    assert!(led.run.step_down());
    assert!(!led.run.requeue().unwrap(), "its body has not ended");
    term.end();
    led.report().await.unwrap();
    eventually("it can be queued again", async || led.run.requeue().unwrap()).await;
    assert!(!led.run.requeue().unwrap(), "queued again");
    led.leads().await.end();
    led.report().await.unwrap();
    led.close().await;
    let refused = led.run.requeue().unwrap_err();
    assert_eq!((refused.kind(), refused.path()), (ErrorKind::Closed, Some(&*testbed.path)));
    assert!(led.began().is_none(), "one requeue, one term");
    testbed.children_are(0).await;
}

/// Curator: TestLeaderSelector#testInterruptLeadership and #testInterruption (CURATOR-468: no release fails).
#[tokio::test(start_paused = true)]
async fn a_run_that_does_not_lead_cannot_be_asked_to_step_down() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let leader = Led::obedient(&testbed.selector(&curator));
    let (leader, term, mut next) = leader.with_next(&testbed, &testbed.selector(&other)).await;
    assert!(!next.run.step_down(), "it waits");
    assert_eq!(leader.run.leadership().unwrap().node(), term.leadership.node());
    term.end();
    leader.report().await.unwrap();
    assert!(!leader.run.is_leader() && leader.run.leadership().is_none());
    // The request in vain has no effect on its term.
    let term = next.leads().await;
    assert!(!term.leadership.cancellation_token().is_cancelled());
    assert!(!leader.run.step_down(), "it has led");
    leader.close().await;
    assert!(!leader.run.step_down(), "it is closed");
    assert!(next.run.step_down());
    assert_eq!(next.report().await.unwrap(), Ended::SteppedDown);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_awaited_leads_once_and_is_closed() {
    let (testbed, curator) = Testbed::with_curator().await;
    let selector = testbed.selector(&curator);
    for selector in [selector.clone(), selector.clone().auto_requeue()] {
        let token = within("a term", async {
            selector.run(async |leadership: Hold| leadership.fencing_token()).await
        });
        assert!(token.await.unwrap().value() > 0);
        assert_eq!(testbed.children().await, [""; 0], "it is given up when the caller goes on");
    }
    let report: Result<(), _> =
        within("a term", async { selector.run(async |_| panic!("as the test wants")).await }).await;
    assert_eq!(failed(report), (ErrorKind::BodyPanicked, None, None));
    // Dropped while it leads: the body is told.
    let (began, mut terms) = mpsc::unbounded_channel();
    let running = selector.run(async move |leadership: Hold| {
        began.send(leadership.view()).unwrap();
        leadership.cancellation_token().cancelled().await;
    });
    let running = tokio::spawn(running.into_future());
    let leadership = within("a term", terms.recv()).await.unwrap();
    running.abort();
    within("the end", leadership.cancellation_token().cancelled()).await;
    testbed.children_are(0).await;
    assert!(!leadership.is_held() && leadership.loss().is_none());
}

/// The last 64.
#[tokio::test(start_paused = true)]
async fn reports_are_kept_until_they_are_read() {
    const TERMS: u64 = 70;
    let (testbed, curator) = Testbed::with_curator().await;
    let (terms, go) = (Arc::new(AtomicU64::new(0)), Arc::new(Semaphore::new(0)));
    let (done, mut own) = (go.clone(), 0);
    let selector = testbed.selector(&curator).auto_requeue().with_requeue_pause(Duration::ZERO);
    let run = selector.run(async move |_| {
        own += 1;
        assert_eq!(own, 1, "each term runs a clone of the body");
        let term = 1 + terms.fetch_add(1, Ordering::Relaxed);
        go.add_permits(1);
        if term > TERMS {
            std::future::pending::<()>().await;
        }
        term
    });
    let all = done.acquire_many(u32::try_from(TERMS + 1).unwrap());
    drop(within("the terms", all).await.unwrap());
    for term in TERMS - 63..=TERMS {
        // A dropped future takes no report along.
        drop(run.next_report());
        let report = within("a report", run.next_report()).await.unwrap();
        assert_eq!(report.unwrap(), term);
    }
    let none = timeout(Duration::from_millis(50), run.next_report()).await;
    assert!(none.is_err(), "{none:?}");
}

/// Without a further term there is nothing to wait for.
#[tokio::test(start_paused = true)]
async fn a_run_is_awaited_whose_only_report_was_taken() {
    let (testbed, curator) = Testbed::with_curator().await;
    let run = testbed.selector(&curator).run(async |_| 7);
    assert_eq!(within("the report", run.next_report()).await.unwrap().unwrap(), 7);
    let error = within("the end", run.into_future()).await.unwrap_err().error;
    assert_eq!(error.kind(), ErrorKind::Closed);
    testbed.children_are(0).await;
}

/// Curator: TestLeaderSelector#testAutoRequeue. Also those that came before the run was closed, and the one of the close.
#[tokio::test(start_paused = true)]
async fn reports_outlive_the_close() {
    let (testbed, curator) = Testbed::with_curator().await;
    let mut led = Led::obedient(&testbed.selector(&curator).auto_requeue());
    for _ in 0..3 {
        led.leads().await.end();
    }
    let last = led.leads().await;
    led.close().await;
    assert!(last.is_over());
    for expected in [Ended::Told, Ended::Told, Ended::Told, Ended::SteppedDown] {
        assert_eq!(led.report().await.unwrap(), expected);
    }
    assert!(within("no report", led.run.next_report()).await.is_none());
    assert!(within("nor later", led.run.next_report()).await.is_none());
}

/// Long enough for a test to see a leader that comes before its time.
const GRACE: Duration = Duration::from_millis(700);

/// Wherever it panics, and whatever with.
#[tokio::test(start_paused = true)]
async fn a_body_that_panics_is_a_term_that_ended() {
    let (testbed, curator) = Testbed::with_curator().await;
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
    let run = testbed.selector(&curator).auto_requeue().run(body);
    for message in ["a text", "while it is made: term 2", "no text"] {
        let error = within("a report", run.next_report()).await.unwrap().unwrap_err().error;
        let expected = (ErrorKind::BodyPanicked, Some(&*testbed.path), None);
        assert_eq!((error.kind(), error.path(), error.loss()), expected);
        assert!(error.to_string().ends_with(&format!("panicked: {message}")), "{error}");
    }
    assert!(within("a report", run.next_report()).await.unwrap().unwrap().value() > 0);
    within("the end of a run", run.close()).await.unwrap();
    testbed.children_are(0).await;
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

/// A body that ignores its token is dropped after the grace. Until the body has ended no other candidate leads.
#[tokio::test(start_paused = true)]
async fn the_place_goes_when_the_body_has_ended_and_not_before() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let ways = ["asked to step down", "closed", "dropped"];
    for (way, ignores) in ways.into_iter().flat_map(|way| [(way, false), (way, true)]) {
        let grace = if ignores { GRACE } else { LONG };
        let leader = Led::stubborn(&testbed.selector(&curator).with_grace(grace));
        let (leader, term, mut next) = leader.with_next(&testbed, &testbed.selector(&other)).await;
        let (leadership, began) = (term.leadership.view(), Instant::now());
        let run = ends(way, leader);
        within("its token", leadership.cancellation_token().cancelled()).await;
        tokio::time::sleep(GRACE / 2).await;
        assert!(leadership.is_held(), "{way}: it works on under its place");
        assert!(next.began().is_none(), "{way}");
        assert_eq!(testbed.children().await.len(), 2, "{way}");
        let ignoring = if ignores {
            Some(term)
        } else {
            term.end();
            None
        };
        let second = next.leads().await;
        if let Some(term) = ignoring {
            assert!(term.is_over(), "{way}: two bodies at a time");
            assert!(began.elapsed() >= GRACE, "{way}: {:?}", began.elapsed());
        }
        assert!(!leadership.is_held() && leadership.loss().is_none(), "{way}");
        assert!(second.leadership.fencing_token() > leadership.fencing_token());
        if let Some((run, asking)) = run {
            within("the end", asking).await.unwrap();
            let report = within("a report", run.next_report()).await.unwrap();
            match ignores {
                true => assert_eq!(failed(report), (ErrorKind::BodyDropped, None, None), "{way}"),
                false => assert_eq!(report.unwrap(), Ended::Told, "{way}"),
            }
        }
        next.close().await;
        testbed.children_are(0).await;
    }
}

/// The next one does not lead beside it, however its `Curator` ends. The close returns in time all the same.
#[tokio::test(start_paused = true)]
async fn a_close_that_loses_patience_leaves_the_body_its_hold() {
    let testbed = Testbed::new().await;
    let other = testbed.curator().await;
    let builder = testbed.builder().connection_timeout(GRACE / 2);
    let curator = testbed.impatient(testbed.server.connect_string(), builder).await;
    let selector = testbed.selector(&curator).with_grace(LONG);
    let leader = Led::stubborn(&selector);
    let (leader, term, mut next) = leader.with_next(&testbed, &testbed.selector(&other)).await;
    let closing = curator.clone();
    let closing = tokio::spawn(async move { closing.close().await });
    within("the request", term.leadership.cancellation_token().cancelled()).await;
    let closed = within("the end of its patience", closing).await.unwrap();
    assert_eq!(closed, Released::Pending);
    assert!(next.began().is_none() && !term.is_over());
    assert!(term.leadership.is_held() && leader.run.is_leader());
    assert_eq!(testbed.children().await.len(), 2);
    let leadership = term.end();
    next.leads().await;
    assert_eq!(leader.report().await.unwrap(), Ended::Told);
    assert!(!leadership.is_held() && leadership.loss().is_none(), "it was released");
    eventually("the end", async || curator.close().await == Released::Confirmed).await;
    next.close().await;
    testbed.children_are(0).await;
}

/// The body of a selector that is asked to end writes under its hold.
#[tokio::test(start_paused = true)]
async fn a_body_can_write_its_last_words_however_it_is_asked_to_end() {
    let testbed = Testbed::with_parent().await;
    let curator = testbed.curator().await;
    for way in ["stepped down", "closed", "dropped", "curator closed"] {
        let path = format!("{}/{way}", testbed.path);
        let written = path.clone();
        let selector = curator.leader_selector(format!("{}-leader", testbed.path)).unwrap();
        let run = selector.run(async move |term: Hold| {
            term.cancellation_token().cancelled().await;
            term.fenced().create(&written, b"").await.unwrap();
        });
        eventually("it leads", async || run.is_leader()).await;
        match way {
            "stepped down" => assert!(run.step_down()),
            "closed" => drop(within("the close", run.close()).await.unwrap()),
            "dropped" => drop(run),
            _ => drop(within("the end", curator.close()).await),
        }
        eventually(way, async || testbed.stat(&path).await.is_some()).await;
        testbed.remove(&path).await;
    }
}

/// While the body of a selector works on: its lease is renewed, nothing else holds or begins, and the servers may disconnect.
#[tokio::test(start_paused = true)]
async fn while_a_curator_closes_only_bodies_go_on() {
    let testbed = Testbed::new().await;
    let other = testbed.curator().await;
    let (link, curator) =
        testbed.linked(testbed.short_lived_builder().connection_timeout(10 * SHORT)).await;
    let selector = testbed.selector(&curator).with_grace(10 * SHORT);
    let leader = Led::stubborn(&selector.auto_requeue());
    let (mut leader, term, mut next) = leader.with_next(&testbed, &testbed.selector(&other)).await;
    let path = |name: &str| format!("{}-{name}", testbed.path);
    let lost = curator.mutex(path("held")).unwrap().acquire().await.unwrap();
    let latch = curator.leader_latch(path("latch")).unwrap();
    let lost_term = latch.leadership().await.unwrap();
    let taken = other.mutex(path("taken")).unwrap().acquire().await.unwrap();
    let waiter = curator.mutex(path("taken")).unwrap();
    let waiting = tokio::spawn(async move { waiter.acquire().await });
    let mut candidate =
        Led::obedient(&curator.leader_selector(path("taken")).unwrap().auto_requeue());
    eventually("both wait", async || children(&testbed.admin, &path("taken")).await.len() == 3)
        .await;
    let closing = curator.clone();
    let closing = tokio::spawn(async move { closing.close().await });
    // All other holds are lost before the body has ended, and no waiter is served.
    assert_eq!(within("the loss", lost.lost()).await, Loss::Closed);
    assert_eq!(within("the loss", lost_term.lost()).await, Loss::Closed);
    assert!(!term.is_over() && term.leadership.is_held());
    for error in [
        within("the end", waiting).await.unwrap().unwrap_err(),
        within("the end", latch.leadership()).await.unwrap_err(),
        within("an answer", curator.mutex(path("new")).unwrap().acquire()).await.unwrap_err(),
        failed_to_begin(candidate.report().await),
    ] {
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    }
    taken.release().await.unwrap();
    drop((lost, latch));
    for way in 0..4 {
        tokio::time::sleep(SHORT).await;
        assert!(term.leadership.is_held(), "{:?}", term.leadership.loss());
        assert!(!closing.is_finished() && next.began().is_none());
        if way == 1 {
            zookeeper_recipes_dev::flap(&link, way).await;
        }
    }
    assert!(candidate.began().is_none() && leader.began().is_none());
    term.leadership.fenced().create(&path("written"), b"").await.unwrap();
    testbed.remove(&path("written")).await;
    term.end();
    next.leads().await;
    assert_eq!(within("the end", closing).await.unwrap(), Released::Confirmed);
    assert_eq!(leader.report().await.unwrap(), Ended::Told);
    for name in ["held", "latch", "taken", "new"] {
        assert_eq!(children(&testbed.admin, &path(name)).await, [""; 0], "{name}");
    }
}

fn failed_to_begin(report: Report) -> Error {
    report.expect_err("a term that did not begin").error
}

/// Each body has the grace of its own selector.
#[tokio::test(start_paused = true)]
async fn a_body_that_ignores_the_close_of_its_curator_is_dropped_after_its_grace() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let mut all = Vec::new();
    for nth in 1..=3 {
        let path = format!("{}/{nth}", testbed.path);
        let mut led =
            Led::stubborn(&curator.leader_selector(&path).unwrap().with_grace(nth * GRACE));
        let term = led.leads().await;
        all.push((path, led, term));
    }
    let began = Instant::now();
    let closing = curator.clone();
    let closing = tokio::spawn(async move { closing.close().await });
    for (nth, (path, led, term)) in (1..).zip(all) {
        assert!(term.leadership.is_held() && !term.is_over());
        let mut next = Led::obedient(&other.leader_selector(&path).unwrap());
        next.leads().await;
        assert!(began.elapsed() >= nth * GRACE, "{:?}", began.elapsed());
        assert!(began.elapsed() < nth * GRACE + GRACE / 2 + lateness(), "{:?}", began.elapsed());
        assert!(term.is_over());
        assert_eq!(failed(led.report().await), (ErrorKind::BodyDropped, None, None));
        next.close().await;
    }
    assert_eq!(within("the end", closing).await.unwrap(), Released::Confirmed);
}

/// The servers may give the place away then, so the body is asked to end once more, as ever.
#[tokio::test(start_paused = true)]
async fn a_session_that_ends_while_its_curator_closes_is_a_loss() {
    let testbed = Testbed::new().await;
    let curator = testbed.short_lived_curator().await;
    let mut leader = Led::stubborn(&testbed.selector(&curator).with_grace(LONG));
    let term = leader.leads().await;
    let closing = curator.clone();
    let closing = tokio::spawn(async move { closing.close().await });
    within("the request", term.leadership.cancellation_token().cancelled()).await;
    testbed.kill_session(&curator).await;
    assert_eq!(within("the loss", term.leadership.lost()).await, Loss::SessionExpired);
    term.end();
    let expected = (ErrorKind::Lost, Some(Loss::SessionExpired), Some(Ended::Told));
    assert_eq!(failed(leader.report().await), expected);
    within("the end", closing).await.unwrap();
    testbed.children_are(0).await;
}

/// Counts the terms of a body that returns at once.
fn at_once(selector: &LeaderSelector) -> (LeaderRun<()>, Arc<AtomicUsize>) {
    let terms = Arc::new(AtomicUsize::new(0));
    let counted = terms.clone();
    let run = selector.clone().auto_requeue().run(async move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    (run, terms)
}

/// Without the pause there were 1,200 terms in 10 s.
#[tokio::test(start_paused = true)]
async fn a_body_that_returns_at_once_is_paused_longer_each_time() {
    if is_real() {
        return does_not_apply(REAL_PAUSES);
    }
    let (testbed, curator) = Testbed::with_curator().await;
    let selector = testbed.selector(&curator);
    for (longest, terms_in_a_minute) in [
        (None, 60..75),
        (Some(Duration::from_millis(100)), 500..620),
        (Some(10 * GRACE), 14..24),
        (Some(Duration::ZERO), 5000..usize::MAX),
    ] {
        let selector = match longest {
            None => selector.clone(),
            Some(longest) => selector.clone().with_requeue_pause(longest),
        };
        let (run, terms) = at_once(&selector);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let terms = terms.load(Ordering::Relaxed);
        assert!(terms_in_a_minute.contains(&terms), "{terms} with {longest:?}");
        // A pause ends with the run.
        let before = Instant::now();
        within("the close", run.close()).await.unwrap();
        assert!(before.elapsed() < Duration::from_millis(100), "{:?}", before.elapsed());
    }
    let (_run, _) = at_once(&selector.with_requeue_pause(LONG));
    tokio::time::sleep(LONG).await;
    let before = Instant::now();
    within("the end", curator.close()).await;
    assert!(before.elapsed() < Duration::from_millis(100), "{:?}", before.elapsed());
}

/// However short it was.
#[tokio::test(start_paused = true)]
async fn a_term_that_was_lost_or_asked_to_end_is_followed_by_no_pause() {
    let (testbed, curator) = Testbed::with_curator().await;
    let selector = testbed.selector(&curator).auto_requeue().with_requeue_pause(LONG);
    let mut led = Led::obedient(&selector);
    let soon = Duration::from_millis(100) + lateness();
    for way in ["asked", "lost", "lost, and it returns a value", "long", "session over"] {
        // The next pause of short terms would be longer than `soon`.
        for _ in 0..6 {
            led.leads().await.end();
            led.report().await.unwrap();
        }
        let term = led.leads().await;
        let before = match way {
            "asked" => {
                assert!(led.run.step_down());
                Instant::now()
            }
            "long" => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                term.end();
                Instant::now()
            }
            "session over" => {
                testbed.kill_session(&curator).await;
                within("the loss", term.leadership.lost()).await;
                Instant::now()
            }
            _ => {
                testbed.remove(term.leadership.node()).await;
                within("the loss", term.leadership.lost()).await;
                if way == "lost, and it returns a value" {
                    term.end();
                }
                Instant::now()
            }
        };
        let next = led.leads().await;
        // A new session takes a little longer.
        assert!(before.elapsed() < soon, "{way}: {:?}", before.elapsed());
        drop(led.report().await);
        // The pauses begin afresh.
        let before = Instant::now();
        next.end();
        led.report().await.unwrap();
        let next = led.leads().await;
        let paused = before.elapsed();
        assert!(paused >= Duration::from_millis(10) && paused < soon, "{way}: {paused:?}");
        next.end();
        led.report().await.unwrap();
    }
}

/// Two candidates that take turns are not slowed down.
#[tokio::test(start_paused = true)]
async fn the_pauses_start_afresh_after_a_term_of_another_candidate() {
    let (testbed, curators) = Testbed::with_curators::<2>().await;
    let runs = curators.each_ref().map(|curator| at_once(&testbed.selector(curator)));
    tokio::time::sleep(Duration::from_secs(10)).await;
    for (_, terms) in &runs {
        let terms = terms.load(Ordering::Relaxed);
        assert!(terms > 100, "{terms}");
    }
    let [(run, terms), (alone, _)] = runs;
    within("the close", alone.close()).await.unwrap();
    let before = terms.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let terms = terms.load(Ordering::Relaxed) - before;
    assert!(terms < 25, "{terms}");
    within("the close", run.close()).await.unwrap();
}

/// It waits for itself, as long as it may.
#[tokio::test(start_paused = true)]
async fn a_body_that_closes_its_own_run_does_not_hang() {
    let (testbed, curator) = Testbed::with_curator().await;
    let (send, mut receive) = watch::channel(None::<Arc<LeaderRun<()>>>);
    let run = testbed.selector(&curator).with_grace(GRACE).run(async move |_| {
        let run = receive.wait_for(Option::is_some).await.unwrap().clone().unwrap();
        let _ = run.close().await;
    });
    let run = Arc::new(run);
    send.send_replace(Some(run.clone()));
    let report = within("a report", run.next_report()).await.unwrap();
    assert_eq!(failed(report), (ErrorKind::BodyDropped, None, None));
    assert!(within("no report", run.next_report()).await.is_none());
    testbed.children_are(0).await;
}

mod real {
    use super::*;

    /// Its hold outlasts the session lease as it was at the close, because the session is kept.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_body_that_blocks_its_thread_keeps_the_session_of_a_closed_curator() {
        let testbed = Testbed::real().await;
        let builder = testbed.short_lived_builder().connection_timeout(GRACE);
        let curator = testbed.impatient(testbed.server.connect_string(), builder).await;
        let (go, going) = std::sync::mpsc::channel::<()>();
        let going = Arc::new(Mutex::new(going));
        let grace = Duration::from_millis(10);
        let run = testbed.selector(&curator).with_grace(grace).run(async move |_| {
            going.lock().unwrap().recv().expect("the test's word");
            // Where it could be dropped.
            tokio::task::yield_now().await;
        });
        eventually("it leads", async || run.is_leader()).await;
        let term = run.leadership().unwrap();
        let mut next = Led::obedient(&testbed.selector(&testbed.curator().await));
        testbed.children_are(2).await;
        assert_eq!(within("the close", curator.close()).await, Released::Pending);
        tokio::time::sleep(SHORT).await;
        assert!(term.is_held() && next.began().is_none());
        assert_eq!(testbed.children().await.len(), 2);
        go.send(()).unwrap();
        next.leads().await;
        assert!(!term.is_held());
        eventually("the end", async || curator.close().await == Released::Confirmed).await;
    }
}
