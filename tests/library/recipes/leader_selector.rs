//! `LeaderSelector`: beside others on its path, where it is not allowed to take part, and how it loses its place.

use std::time::Duration;

use tokio::time::Instant;
use zookeeper_recipes::zookeeper_client::{Acls, CreateMode, Permission};
use zookeeper_recipes::{
    AcquireError, ConnectionState, ContenderFilter, LeaderSelector, Loss, LossPolicy, TermError,
};

use super::leading::{Ended, Led, Report};
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
    assert_eq!((all[0].id().as_ref(), all[0].holds, all[1].holds), ("kazoo", true, false));
    assert!(led.began().is_none());
    arena.admin.delete(&theirs, None).await.unwrap();
    let term = led.leads().await;
    assert!(term.leadership.node().contains("__lock__"));
}

fn no_auth(report: Report) {
    match report {
        Err(TermError::Acquire(AcquireError::NoAuth { .. })) => {}
        report => panic!("{report:?}"),
    }
}

/// And CURATOR-195, 16 and 73: the error went where nobody reads it, and the selector was silent.
#[tokio::test(start_paused = true)]
async fn curator_15_who_cannot_take_part_is_told_and_can_try_again() {
    let arena = Arena::new().await;
    arena.restrict(Permission::READ).await;
    let curator = arena.curator().await;
    let mut led = Led::obedient(&arena.selector(&curator));
    for _ in 0..3 {
        no_auth(led.report().await);
        assert!(!led.run.has_leadership() && !led.run.interrupt_leadership());
        eventually("it can be queued again", async || led.run.requeue().unwrap()).await;
    }
    no_auth(led.report().await);
    arena.open().await;
    assert!(led.run.requeue().unwrap());
    led.leads().await;
}

/// Curator asked 738 times a second, and told nobody.
#[tokio::test(start_paused = true)]
async fn who_queues_up_by_itself_where_it_may_not_is_told_and_does_not_spin() {
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

/// How the place was lost, and what the body returned.
fn lost(report: Report) -> (Loss, Ended) {
    match report {
        Err(TermError::Lost { loss, value, .. }) => (loss, value),
        report => panic!("{report:?}"),
    }
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
        let selector = LeaderSelector::new(&curator, &path).unwrap().with_loss_policy(policy);
        let mut led = Led::obedient(&selector);
        let term = led.leads().await;
        all.push((led, term));
    }
    arena.server.stop().await.unwrap();
    let [suspended, lease, session] = &all[..] else { unreachable!() };
    let loss = within("suspended", suspended.1.leadership.lost()).await;
    assert_eq!(loss, Loss::Suspended);
    assert_eq!(within("the lease", lease.1.leadership.lost()).await, Loss::LeaseEnded);
    assert!(session.1.leadership.is_held() && session.0.run.has_leadership());
    let loss = within("the session", session.1.leadership.lost()).await;
    assert_eq!(loss, Loss::SessionExpired);
    until(&curator, ConnectionState::Lost).await;
    for (led, term) in &all {
        term.over().await;
        assert!(!led.run.has_leadership() && led.run.leadership().is_none());
    }
    arena.server.start_again().await.unwrap();
    let losses = [Loss::Suspended, Loss::LeaseEnded, Loss::SessionExpired];
    for ((mut led, term), expected) in all.into_iter().zip(losses) {
        assert_eq!(lost(led.report().await), (expected, Ended::SteppedDown));
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
        assert!(!led.run.has_leadership() && led.run.leadership().is_none());
        assert!(led.began().is_none(), "one body at a time");
        term.end();
        assert_eq!(lost(led.report().await), (loss, Ended::Told));
    }
    led.leads().await;
}
