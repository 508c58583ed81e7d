//! A latch or a selector that cannot enter the queue: it says so, tries again at growing intervals, sends nothing that does harm
//! meanwhile, and leads when the obstacle has passed.

use zookeeper_recipes_dev::Servers;

use crate::prelude::*;
use crate::support::latches::{awaited, gained, is_candidate, is_over, leadership};
use crate::support::selectors::{Led, failed};

/// The longest pause between two tries. A retry policy adds nothing to it.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The error of the next failed try.
async fn refusal(latch: &LeaderLatch) -> ErrorKind {
    is_over(latch).await
}

/// The number of children of a path that were ever created.
async fn creates(testbed: &Testbed, path: &str) -> u32 {
    let stat = testbed.stat(path).await.expect("a path");
    // Twice the number, without its first bit.
    stat.cversion.wrapping_add(stat.num_children).cast_unsigned() / 2
}

#[tokio::test(start_paused = true)]
async fn a_stray_node_while_sessions_end_costs_no_leader() {
    let (testbed, curator) = Testbed::with_curator().await;
    let (latch, leads) = testbed.leading_latch(&curator).await;
    let selector = curator.leader_selector(format!("{}/selector", testbed.path)).unwrap();
    let mut led = Led::stubborn(&selector.clone().auto_requeue());
    let term = led.leads().await;
    let stray = testbed.stranger().await;
    let of_selector = "_c_1b4e28ba-2fa1-41d2-883f-0016d3cca427-latch-0000000007";
    let of_selector = format!("{}/{of_selector}", selector.path());
    testbed.create(&of_selector, CreateMode::Persistent).await;
    testbed.kill_session(&curator).await;
    within("the loss", leads.lost()).await;
    assert_eq!(refusal(&latch).await, ErrorKind::UnusablePath);
    term.end();
    assert_eq!(failed(led.report().await).0, ErrorKind::Lost);
    assert_eq!(failed(led.report().await).0, ErrorKind::UnusablePath);
    testbed.delete(&[stray, of_selector]).await;
    let term = led.leads().await;
    assert!(leadership(&latch).await.fencing_token() > leads.fencing_token());
    assert!(term.leadership.is_held());
}

#[tokio::test(start_paused = true)]
async fn acls_that_were_wrong_for_a_while_cost_no_leader() {
    let testbed = Testbed::new().await;
    testbed.restrict(Permission::READ).await;
    let curator = testbed.curator().await;
    let latch = testbed.latch(&curator);
    let mut led = Led::obedient(&testbed.selector(&curator).auto_requeue());
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(30) {
        assert_eq!(refusal(&latch).await, ErrorKind::PermissionDenied);
        assert!(!latch.is_leader());
    }
    assert_eq!(failed(led.report().await).0, ErrorKind::PermissionDenied);
    led.close().await;
    testbed.open().await;
    leadership(&latch).await;
    latch.close().await.unwrap();
    // The selector was closed. Another one leads.
    Led::obedient(&testbed.selector(&curator)).leads().await;
    assert!(led.began().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_session_without_room_has_room_again() {
    let testbed = Testbed::new().await;
    let curator = testbed.connect(testbed.builder().ephemeral_limit(200)).await;
    let long = format!("{}{}", testbed.path, "/a-long-path".repeat(8));
    let guard = curator.mutex(long).unwrap().acquire().await.unwrap();
    let latch = testbed.latch(&curator);
    assert_eq!(refusal(&latch).await, ErrorKind::LimitReached);
    guard.release().await.unwrap();
    leadership(&latch).await;
}

/// By default each try retries for ever. With a policy of its own a try fails when that is used up. Waiting is no retry.
#[tokio::test(start_paused = true)]
async fn a_retry_policy_that_is_used_up_ends_no_latch() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let (leader, _) = testbed.leading_latch(&other).await;
    let patient = testbed.queued_latch(&curator).await;
    let latch = testbed.queued_latch(&curator.with_retry(RetryPolicy::never())).await;
    let waiting = [awaited(&latch), awaited(&patient)];
    round_trip(&curator).await;
    for participant in leader.participants().await.unwrap() {
        if participant.session_id == Some(curator.session_id().unwrap()) {
            testbed.remove(&participant.node).await;
        }
    }
    let [of_latch, of_patient] = waiting;
    let error = within("the refusal", of_latch).await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Unavailable, Some(&*testbed.path)));
    testbed.children_are(3).await;
    leader.close().await.unwrap();
    // Both have entered again, in either order.
    eventually("one leads", async || latch.is_leader() || patient.is_leader()).await;
    if latch.is_leader() {
        latch.close().await.unwrap();
        gained(of_patient).await;
    } else {
        gained(of_patient).await;
        patient.close().await.unwrap();
        leadership(&latch).await;
    }
}

/// Two calls wait for the first try. Each later call waits for a later try.
#[tokio::test(start_paused = true)]
async fn each_call_that_waits_gets_a_refusal_once() {
    let testbed = Testbed::new().await;
    testbed.restrict(Permission::READ).await;
    let latch = testbed.latch(&testbed.curator().await);
    let waiting = [awaited(&latch), awaited(&latch)];
    for waiting in waiting {
        let error = within("the refusal", waiting).await.unwrap().unwrap_err();
        assert_eq!(
            (error.kind(), error.path()),
            (ErrorKind::PermissionDenied, Some(&*testbed.path))
        );
    }
    is_candidate(&latch);
    if is_real() {
        return does_not_apply(REAL_PAUSES);
    }
    let mut pauses = Vec::new();
    for _ in 0..30 {
        let before = Instant::now();
        assert_eq!(refusal(&latch).await, ErrorKind::PermissionDenied);
        pauses.push(before.elapsed());
    }
    assert!(pauses[0] < Duration::from_millis(300), "{pauses:?}");
    assert!(pauses[1..].iter().all(|pause| *pause > pauses[0]), "they grow: {pauses:?}");
    // And the time that a try takes.
    let longest = LONGEST_PAUSE + Duration::from_millis(500);
    assert!(pauses.iter().all(|pause| *pause < longest), "{pauses:?}");
    assert!(pauses[20..].iter().all(|pause| *pause >= LONGEST_PAUSE), "{pauses:?}");
    assert_eq!(within("the close", latch.close()).await.unwrap(), Released::Confirmed);
    assert_eq!(is_over(&latch).await, ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_pause_ends_with_the_latch_and_with_its_curator() {
    let testbed = Testbed::new().await;
    testbed.restrict(Permission::READ).await;
    let curator = testbed.curator().await;
    let (closed, kept) = (testbed.latch(&curator), testbed.latch(&curator));
    let led = Led::obedient(&testbed.selector(&curator).auto_requeue());
    // Until the pauses are the longest.
    tokio::time::sleep(10 * LONGEST_PAUSE).await;
    let began = Instant::now();
    within("the close", closed.close()).await.unwrap();
    let waiting = awaited(&kept);
    within("the end of the session", curator.close()).await;
    let error = within("the end", waiting).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    let mut last = None;
    while let Some(report) = within("a report", led.run.next_report()).await {
        last = Some(failed(report).0);
    }
    assert_eq!(last, Some(ErrorKind::Closed));
    assert!(began.elapsed() < lateness() + Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(is_over(&kept).await, ErrorKind::Closed);
}

/// A node that is created for each try would use up the sequence numbers, and fail the entries of the other recipe.
#[tokio::test(start_paused = true)]
async fn after_a_refusal_a_candidate_lists_and_creates_nothing_while_it_would_be_refused() {
    let (testbed, [curator, other, third]) = Testbed::with_curators().await;
    let of_selectors = format!("{}/selectors", testbed.path);
    let kazoo = |curator: &Curator, path: &str| {
        curator.mutex(path).unwrap().with_filter(ContenderFilter::Kazoo).unwrap()
    };
    let paths = [testbed.path.as_str(), of_selectors.as_str()];
    let holding = paths.map(|path| kazoo(&other, path));
    let holders = join_all(holding.iter().map(InterProcessMutex::acquire)).await;
    let kazoos = paths.map(|path| kazoo(&third, path));
    let latch = testbed.latch(&curator);
    let selector = curator.leader_selector(&of_selectors).unwrap();
    let mut led = Led::obedient(&selector.clone().auto_requeue());
    let mut by_hand = Led::obedient(&selector);
    for led in [&led, &by_hand] {
        assert_eq!(failed(led.report().await).0, ErrorKind::UnusablePath);
    }
    assert_eq!(refusal(&latch).await, ErrorKind::UnusablePath);
    round_trip(&curator).await;
    let mut before =
        [creates(&testbed, &testbed.path).await, creates(&testbed, &of_selectors).await];
    let time = if is_real() { LONGEST_PAUSE } else { 60 * LONGEST_PAUSE };
    let sessions = if is_real() { 1 } else { 3 };
    // Also in the sessions that follow.
    for _ in 0..sessions {
        tokio::time::sleep(time).await;
        testbed.kill_session(&curator).await;
        until(&curator, ConnectionState::Reconnected).await;
        assert!(by_hand.run.requeue().unwrap());
        assert_eq!(failed(by_hand.report().await).0, ErrorKind::UnusablePath);
        assert_eq!(refusal(&latch).await, ErrorKind::UnusablePath);
        // The other recipe does not see them.
        for (kazoo, before) in kazoos.iter().zip(&mut before) {
            let waited = within("a limit", kazoo.acquire_timeout(3 * LONGEST_PAUSE)).await;
            fails(waited, ErrorKind::Busy);
            *before += 1;
            assert_eq!(creates(&testbed, kazoo.path()).await, *before);
        }
    }
    for holder in holders {
        holder.unwrap().release().await.unwrap();
    }
    leadership(&latch).await;
    led.leads().await;
    assert!(by_hand.began().is_none());
}

#[tokio::test(start_paused = true)]
async fn candidates_do_not_use_up_the_last_sequence_numbers() {
    const LATCHES: u32 = 20;
    let (testbed, curator) = Testbed::with_curator().await;
    // A real server cannot be brought there in a test's time.
    let Servers::Simulated(ensemble) = &testbed.servers else { return };
    testbed.create(&testbed.path, CreateMode::Persistent).await;
    let last_safe = i32::MAX - (1 << 20);
    ensemble.set_creates(&testbed.path, last_safe);
    let (latch, leads) = testbed.leading_latch(&curator).await;
    assert!(leads.node().ends_with(&last_safe.to_string()), "{}", leads.node());
    latch.close().await.unwrap();
    let latches: Vec<_> = (0..LATCHES).map(|_| testbed.latch(&curator)).collect();
    for refused in join_all(latches.iter().map(LeaderLatch::leadership)).await {
        fails(refused, ErrorKind::UnusablePath);
    }
    testbed.children_are(0).await;
    let before = creates(&testbed, &testbed.path).await;
    assert_eq!(before, last_safe.cast_unsigned() + 1 + LATCHES);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    fails(latches[0].leadership().await, ErrorKind::UnusablePath);
    assert_eq!(creates(&testbed, &testbed.path).await, before);
    testbed.make_again().await;
    eventually("one leads", async || latches.iter().any(LeaderLatch::is_leader)).await;
}

/// The listing of a candidate that was refused has no answer when its session ends.
#[tokio::test(start_paused = true)]
async fn a_candidate_that_was_refused_lists_in_the_next_session_as_well() {
    let testbed = Testbed::with_parent().await;
    let (link, curator) = testbed.linked(testbed.builder()).await;
    let stray = testbed.stranger().await;
    let latch = testbed.latch(&curator);
    assert_eq!(refusal(&latch).await, ErrorKind::UnusablePath);
    round_trip(&curator).await;
    let before = creates(&testbed, &testbed.path).await;
    for _ in 0..5 {
        let listing = link.hold(Message::request(Operation::List));
        let waiting = awaited(&latch);
        within("a listing", listing.struck()).await;
        testbed.kill_session(&curator).await;
        link.cut(Cut::Reset);
        listing.heal();
        let error = within("the refusal", waiting).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnusablePath);
        round_trip(&curator).await;
        assert_eq!(creates(&testbed, &testbed.path).await, before);
    }
    testbed.remove(&stray).await;
    leadership(&latch).await;
}
