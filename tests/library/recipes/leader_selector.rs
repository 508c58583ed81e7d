//! `LeaderSelector` and `LeaderRun`: beside others on its path, where it is not allowed to take part, how it loses its place, and
//! what its caller may do in each state.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, timeout};
use zookeeper_recipes::interop::{ContenderFilter, LossPolicy};
use zookeeper_recipes::session::ConnectionState;
use zookeeper_recipes::zookeeper_client::{Acls, CreateMode, Permission};
use zookeeper_recipes::{ErrorKind, Hold, Loss};

use super::leading::{Ended, Led, Report, failed};
use crate::harness::{Arena, Operation, eventually, until, within};

/// As kazoo's election does, which sees our nodes then.
#[tokio::test(start_paused = true)]
async fn with_a_filter_its_nodes_are_kazoos() {
    let (arena, curator) = Arena::with_curator().await;
    arena.create(&arena.path, CreateMode::Persistent).await;
    let theirs = format!("{}/0123456789abcdef0123456789abcdef__lock__", arena.path);
    let acls = Acls::anyone_all();
    let theirs = arena.node(&theirs, b"kazoo", CreateMode::EphemeralSequential, &acls).await;
    let selector = arena.selector(&curator).with_filter(ContenderFilter::Kazoo).unwrap();
    let mut led = Led::obedient(&selector);
    arena.children_are(2).await;
    let all = selector.participants().await.unwrap();
    let first = all[0].identity.as_deref();
    assert_eq!((first, all[0].holds, all[1].holds), (Some("kazoo"), true, false));
    assert!(led.began().is_none());
    arena.admin.delete(&theirs, None).await.unwrap();
    let term = led.leads().await;
    assert!(term.leadership.node().contains("__lock__"));
}

fn no_auth(report: Report) {
    assert_eq!(failed(report), (ErrorKind::PermissionDenied, None, None));
}

/// And CURATOR-195, 16 and 73: the caller never saw the error.
#[tokio::test(start_paused = true)]
async fn curator_15_a_refused_selector_reports_it_and_can_try_again() {
    let arena = Arena::new().await;
    arena.restrict(Permission::READ).await;
    let curator = arena.curator().await;
    let mut led = Led::obedient(&arena.selector(&curator));
    for _ in 0..3 {
        no_auth(led.report().await);
        assert!(!led.run.is_leader() && !led.run.step_down());
        eventually("it can be queued again", async || led.run.requeue().unwrap()).await;
    }
    no_auth(led.report().await);
    arena.open().await;
    assert!(led.run.requeue().unwrap());
    led.leads().await;
}

/// Curator asked 738 times a second, and reported nothing.
#[tokio::test(start_paused = true)]
async fn a_refused_selector_that_requeues_by_itself_reports_it_and_does_not_spin() {
    let arena = Arena::new().await;
    arena.restrict(Permission::READ).await;
    let (link, curator) = arena.linked(arena.builder()).await;
    let before = link.requests(Operation::Any) - link.requests(Operation::Sync);
    let began = Instant::now();
    let mut led = Led::obedient(&arena.selector(&curator).auto_requeue());
    no_auth(led.report().await);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let requests = link.requests(Operation::Any) - link.requests(Operation::Sync) - before;
    println!("requests where it may not create: {requests}");
    // It begins with short pauses.
    let most = 20.0 * began.elapsed().as_secs_f64();
    assert!((requests as f64) < most, "{requests} in {:?}", began.elapsed());
    assert!(led.began().is_none());
    led.close().await;
}

/// Curator: TestLeaderSelector#testErrorPolicies, and #testServerDying, which asserts less. (There a listener has to
/// ask for it, else the leader goes on.) TestLeaderSelectorCluster#testLostRestart (CURATOR-671: it could not queue up again).
#[tokio::test(start_paused = true)]
async fn each_policy_says_when_a_leader_has_to_stop() {
    let arena = Arena::own().await;
    let builder = arena.short_lived_builder();
    let curator = arena.connect(builder).await;
    let policies = [LossPolicy::Suspended, LossPolicy::Lease, LossPolicy::SessionExpired];
    let mut all = Vec::new();
    for policy in policies {
        let path = format!("{}-{policy:?}", arena.path);
        let curator = curator.with_loss_policy(policy);
        let mut led = Led::obedient(&curator.leader_selector(&path).unwrap());
        let term = led.leads().await;
        all.push((led, term));
    }
    arena.server.stop().await.unwrap();
    let [suspended, lease, session] = &all[..] else { unreachable!() };
    let loss = within("suspended", suspended.1.leadership.lost()).await;
    assert_eq!(loss, Loss::Suspended);
    assert_eq!(within("the lease", lease.1.leadership.lost()).await, Loss::LeaseEnded);
    assert!(session.1.leadership.is_held() && session.0.run.is_leader());
    let loss = within("the session", session.1.leadership.lost()).await;
    assert_eq!(loss, Loss::SessionExpired);
    until(&curator, ConnectionState::Lost).await;
    for (led, term) in &all {
        term.over().await;
        assert!(!led.run.is_leader() && led.run.leadership().is_none());
    }
    arena.server.start_again().await.unwrap();
    let losses = [Loss::Suspended, Loss::LeaseEnded, Loss::SessionExpired];
    for ((mut led, term), expected) in all.into_iter().zip(losses) {
        let expected = (ErrorKind::Lost, Some(expected), Some(Ended::SteppedDown));
        assert_eq!(failed(led.report().await), expected);
        assert!(led.run.requeue().unwrap());
        let again = led.leads().await.leadership;
        assert!(again.is_held() && again.fencing_token() > term.leadership.fencing_token());
    }
}

#[tokio::test(start_paused = true)]
async fn a_loss_while_the_body_runs_is_told_with_what_it_returns() {
    let arena = Arena::new().await;
    let curator = arena.short_lived_curator().await;
    let mut led = Led::stubborn(&arena.selector(&curator).auto_requeue());
    for loss in [Loss::NodeDeleted, Loss::SessionExpired] {
        let term = led.leads().await;
        if loss == Loss::NodeDeleted {
            arena.admin.delete(term.leadership.node(), None).await.unwrap();
        } else {
            arena.kill_session(&curator).await;
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
    assert_eq!((refused.kind(), refused.path()), (ErrorKind::Closed, Some(&*arena.path)));
    assert!(led.began().is_none(), "one requeue, one term");
    arena.children_are(0).await;
}

/// Curator: TestLeaderSelector#testInterruptLeadership and #testInterruption (CURATOR-468: no release fails).
#[tokio::test(start_paused = true)]
async fn a_run_that_does_not_lead_cannot_be_asked_to_step_down() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let leader = Led::obedient(&arena.selector(&curator));
    let (leader, term, mut next) = arena.with_next(leader, &arena.selector(&other)).await;
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
    let (arena, curator) = Arena::with_curator().await;
    let selector = arena.selector(&curator);
    for selector in [selector.clone(), selector.clone().auto_requeue()] {
        let token = within("a term", async {
            selector.run(async |leadership: Hold| leadership.fencing_token()).await
        });
        assert!(token.await.unwrap().value() > 0);
        assert_eq!(arena.children().await, [""; 0], "it is given up when the caller goes on");
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
    arena.children_are(0).await;
    assert!(!leadership.is_held() && leadership.loss().is_none());
}

/// The last 64.
#[tokio::test(start_paused = true)]
async fn reports_are_kept_until_they_are_read() {
    const TERMS: u64 = 70;
    let (arena, curator) = Arena::with_curator().await;
    let (terms, go) = (Arc::new(AtomicU64::new(0)), Arc::new(Semaphore::new(0)));
    let (done, mut own) = (go.clone(), 0);
    let run = arena.selector(&curator).auto_requeue().run(async move |_| {
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
        drop(run.next());
        let report = within("a report", run.next()).await.unwrap();
        assert_eq!(report.unwrap(), term);
    }
    let none = timeout(Duration::from_millis(50), run.next()).await;
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
