//! Shutdown in a given time: what is left goes on in the background, and no node is deleted under a body that runs.

use std::future::Future;

use crate::prelude::*;
use crate::support::latches::is_over;
use crate::support::selectors::{Ended, Led, failed};

const LIMIT: Duration = Duration::from_millis(700);

/// What a function with a limit returned, and whether it took the whole limit.
async fn timed<T>(call: impl Future<Output = T>) -> (T, bool) {
    let began = Instant::now();
    let returned = within("a function with a limit", call).await;
    let took = began.elapsed();
    assert!(took < LIMIT + lateness() + Duration::from_millis(10), "{took:?}");
    (returned, took >= LIMIT)
}

#[tokio::test(start_paused = true)]
async fn a_release_is_confirmed_in_its_time_or_goes_on() {
    let (testbed, link, curator) = Testbed::with_link(Testbed::builder).await;
    let guard = testbed.mutex(&curator).acquire().await.unwrap();
    let (released, late) = timed(guard.release_timeout(LIMIT)).await;
    assert_eq!((released.unwrap(), late), (Released::Confirmed, false));
    testbed.children_are(0).await;
    for limit in [LIMIT, Duration::ZERO] {
        let guard = testbed.mutex(&curator).acquire().await.unwrap();
        let view = guard.view();
        let held = link.hold(Message::reply(Operation::Delete));
        let (released, late) = timed(guard.release_timeout(limit)).await;
        assert_eq!((released.unwrap(), late), (Released::Pending, !limit.is_zero()));
        assert!(!view.is_held() && view.loss().is_none());
        held.heal();
        testbed.children_are(0).await;
    }
    let guard = testbed.mutex(&curator).acquire().await.unwrap();
    let nested = guard.reenter();
    assert_eq!(timed(nested.release_timeout(LIMIT)).await.0.unwrap(), Released::StillHeld);
    testbed.remove(guard.node()).await;
    within("the loss", guard.lost()).await;
    assert_eq!(lost_by(timed(guard.release_timeout(LIMIT)).await.0), Loss::NodeDeleted);
}

#[tokio::test(start_paused = true)]
async fn a_latch_is_closed_in_its_time_or_goes_on() {
    let (testbed, link, curator) = Testbed::with_link(Testbed::builder).await;
    let (latch, _) = testbed.leading_latch(&curator).await;
    let (closed, late) = timed(latch.close_timeout(LIMIT)).await;
    assert_eq!((closed.unwrap(), late), (Released::Confirmed, false));
    for limit in [LIMIT, Duration::ZERO] {
        let (latch, leads) = testbed.leading_latch(&curator).await;
        let held = link.hold(Message::reply(Operation::Delete));
        let (closed, late) = timed(latch.close_timeout(limit)).await;
        assert_eq!((closed.unwrap(), late), (Released::Pending, !limit.is_zero()));
        assert!(!latch.is_leader());
        assert_eq!(is_over(&latch).await, ErrorKind::Closed);
        held.heal();
        // The first outcome is that of the whole close.
        assert_eq!(within("the close", latch.close()).await.unwrap(), Released::Confirmed);
        assert!(!leads.is_held());
        testbed.children_are(0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_is_closed_in_its_time_or_goes_on_until_its_body_has_ended() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let mut led = Led::obedient(&testbed.selector(&curator));
    led.leads().await;
    let (closed, late) = timed(led.run.close_timeout(LIMIT)).await;
    assert_eq!((closed.unwrap(), late), (Released::Confirmed, false));
    let leader = Led::stubborn(&testbed.selector(&curator).with_grace(3 * LIMIT));
    let (leader, term, mut next) = leader.with_next(&testbed, &testbed.selector(&other)).await;
    let began = Instant::now();
    for way in 0..2 {
        let (closed, late) = timed(leader.run.close_timeout(LIMIT)).await;
        assert_eq!((closed.unwrap(), late), (Released::Pending, true), "{way}");
        assert!(term.leadership.is_held() && leader.run.is_leader() && !term.is_over());
        assert!(next.began().is_none());
    }
    next.leads().await;
    assert!(term.is_over() && began.elapsed() >= 3 * LIMIT, "{:?}", began.elapsed());
    assert_eq!(failed(leader.report().await), (ErrorKind::BodyDropped, None, None));
    let closed = timed(leader.run.close_timeout(LIMIT)).await;
    assert_eq!((closed.0.unwrap(), closed.1), (Released::Confirmed, false));
}

/// The limit may be shorter or longer than the connection timeout, for which `close` waits.
#[tokio::test(start_paused = true)]
async fn a_curator_is_closed_in_its_time_or_goes_on_until_its_bodies_have_ended() {
    let testbed = Testbed::new().await;
    let other = testbed.curator().await;
    for (connection_timeout, in_time) in [(LONG, false), (LIMIT / 7, false), (LIMIT / 7, true)] {
        let builder = testbed.builder().connection_timeout(connection_timeout);
        let curator = testbed.impatient(testbed.server.connect_string(), builder).await;
        let leader = Led::stubborn(&testbed.selector(&curator).with_grace(LONG));
        let (leader, term, mut next) = leader.with_next(&testbed, &testbed.selector(&other)).await;
        let lost = curator.mutex(format!("{}-held", testbed.path)).unwrap();
        let lost = lost.acquire().await.unwrap();
        let closing = curator.clone();
        let closing = tokio::spawn(async move { timed(closing.close_timeout(LIMIT)).await });
        assert_eq!(within("the loss", lost.lost()).await, Loss::Closed);
        within("the request", term.leadership.cancellation_token().cancelled()).await;
        if in_time {
            tokio::time::sleep(LIMIT / 2).await;
            assert!(!closing.is_finished() && term.leadership.is_held());
            term.end();
            let closed = within("the close", closing).await.unwrap();
            assert_eq!(closed, (Released::Confirmed, false));
        } else {
            let closed = within("the close", closing).await.unwrap();
            assert_eq!(closed, (Released::Pending, true));
            // It goes on in the background.
            tokio::time::sleep(LIMIT).await;
            assert!(next.began().is_none() && term.leadership.is_held() && !term.is_over());
            assert_ne!(curator.state(), ConnectionState::Closed);
            term.end();
        }
        next.leads().await;
        assert_eq!(leader.report().await.unwrap(), Ended::Told);
        let closed = within("the end", curator.close_timeout(LONG)).await;
        assert_eq!((closed, curator.state()), (Released::Confirmed, ConnectionState::Closed));
        next.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_that_no_server_confirms_returns_in_its_time() {
    let (testbed, link, curator) = Testbed::with_link(Testbed::builder).await;
    let guard = testbed.mutex(&curator).acquire().await.unwrap();
    let stalled = link.stall(Direction::ToClient);
    assert_eq!(timed(curator.close_timeout(LIMIT)).await, (Released::Pending, true));
    assert_eq!(guard.loss(), Some(Loss::Closed));
    assert_eq!(timed(curator.close_timeout(Duration::ZERO)).await.0, Released::Pending);
    stalled.heal();
    testbed.children_are(0).await;
}

/// With the reason. Lost terms, refusals and terms that ended do not finish a run.
#[tokio::test(start_paused = true)]
async fn a_run_is_finished_when_it_takes_part_no_more() {
    let testbed = Testbed::new().await;
    let curator = testbed.curator().await;
    for requeues in [true, false] {
        let selector = testbed.selector(&curator);
        let selector = if requeues { selector.auto_requeue() } else { selector };
        let mut led = Led::obedient(&selector);
        for loses in [true, false] {
            let term = led.leads().await;
            if loses {
                testbed.remove(term.leadership.node()).await;
                assert_eq!(failed(led.report().await).0, ErrorKind::Lost);
            } else {
                term.end();
                led.report().await.unwrap();
            }
            let finished = timeout(LIMIT, led.run.finished()).await;
            assert!(finished.is_err(), "{finished:?}");
            assert!(requeues || led.run.requeue().unwrap());
        }
        let (finished, closed) =
            within("the end", async { tokio::join!(led.run.finished(), led.run.close()) }).await;
        finished.unwrap();
        closed.unwrap();
        within("it stays finished", led.run.finished()).await.unwrap();
    }
    // A refusal that passes.
    let stray = format!("{}/__lock__0000000007", testbed.path);
    testbed.create(&stray, CreateMode::Persistent).await;
    let led = Led::obedient(&testbed.selector(&curator).auto_requeue());
    assert_eq!(failed(led.report().await).0, ErrorKind::UnusablePath);
    assert!(timeout(LONG, led.run.finished()).await.is_err());
    within("the end", curator.close()).await;
    let error = within("it is finished", led.run.finished()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    while within("the rest", led.run.next_report()).await.is_some() {}
}

/// No server is needed to see it.
#[test]
fn a_run_whose_runtime_has_ended_is_finished_and_a_latch_is_over() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    };
    let (run, latch) = runtime().block_on(async {
        let curator = Curator::builder().connect_lazy("127.0.0.1:1").unwrap();
        let run = curator.leader_selector("/leader").unwrap().run(async |_| ());
        (run, curator.leader_latch("/leader").unwrap())
    });
    runtime().block_on(async {
        let error = within("it is finished", run.finished()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
        assert_eq!(is_over(&latch).await, ErrorKind::Closed);
    });
}

/// The session's runtime goes on, so each term would lead without a body.
#[tokio::test(start_paused = true)]
async fn a_run_whose_bodies_have_no_runtime_any_more_is_finished() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let bodies = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let run = {
        let _entered = bodies.enter();
        testbed.selector(&curator).auto_requeue().run(async |_| ())
    };
    bodies.shutdown_background();
    let error = within("the end", run.finished()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    testbed.children_are(0).await;
    let next = testbed.selector(&other).run(async |_| ());
    within("the next leader", async { next.await }).await.unwrap();
}
