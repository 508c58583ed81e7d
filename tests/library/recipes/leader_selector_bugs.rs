//! Bugs of Apache Curator's `LeaderSelector`, by their ids, and candidates that are not allowed to take part.

use std::time::{Duration, Instant};

use zookeeper_recipes::zookeeper_client::{Acl, Acls, AuthId, CreateMode, Permission};
use zookeeper_recipes::{AcquireError, LeaderSelector, RetryPolicy, TermError};
use zookeeper_testkit::{Message, Operation};

use super::leading::{Led, Report};
use crate::harness::{Arena, eventually, within};

/// The path is there, and what anybody may do with it is this. Who knows the password may do all.
async fn parent(arena: &Arena, permission: Permission) {
    arena.admin.auth("digest", b"ours:secret").await.unwrap();
    let acls =
        [Acl::new(permission, AuthId::anyone()), Acl::new(Permission::ALL, AuthId::authed())];
    let options = CreateMode::Persistent.with_acls(Acls::new(&acls));
    arena.admin.create(&arena.path, &[], &options).await.unwrap();
}

async fn open(arena: &Arena) {
    arena.admin.set_acl(&arena.path, &Acls::anyone_all(), None).await.unwrap();
}

fn no_auth(report: Report) {
    match report {
        Err(TermError::Acquire(AcquireError::NoAuth { .. })) => {}
        report => panic!("{report:?}"),
    }
}

/// Curator: TestLeaderSelectorEdges#flappingTest (CURATOR-45: the create that "failed" took effect, and nobody leads any
/// more); #createProtectedNodeInBackgroundTest and …NoRetry, which look at the same in Curator's framework.
#[tokio::test(flavor = "multi_thread")]
async fn curator_45_a_create_of_unknown_outcome_is_removed_when_the_retries_ran_out() {
    let arena = Arena::new().await;
    // It is given up with its session.
    let (link, curator) = arena.linked(arena.short_lived_builder()).await;
    for retry in [RetryPolicy::never(), RetryPolicy::one_time(Duration::from_millis(50))] {
        let created = link.lose(Message::reply(Operation::Create));
        // And the link does not come back: nobody learns whether the create took effect.
        let refused = link.refuse();
        let selector = arena.selector(&curator).with_retry(retry);
        let mut led = Led::obedient(&selector);
        within("the create", created.struck()).await;
        match led.report().await {
            Err(TermError::Acquire(AcquireError::RetriesExhausted { path, .. })) => {
                assert_eq!(path, arena.path);
            }
            report => panic!("{report:?}"),
        }
        assert!(led.began().is_none() && !led.run.has_leadership());
        refused.heal();
        arena.children_are(0).await;
        let other = arena.curator().await;
        Led::obedient(&arena.selector(&other)).leads().await;
        arena.children_are(0).await;
        // Who gave up can be told to try again.
        assert!(led.run.requeue().unwrap());
        led.leads().await.end();
        led.close().await;
    }
}

/// And CURATOR-195, 16 and 73: the error went where nobody reads it, and the selector was silent.
#[tokio::test(flavor = "multi_thread")]
async fn curator_15_who_cannot_take_part_is_told_and_can_try_again() {
    let arena = Arena::new().await;
    parent(&arena, Permission::READ).await;
    let curator = arena.curator().await;
    let mut led = Led::obedient(&arena.selector(&curator));
    for _ in 0..3 {
        no_auth(led.report().await);
        assert!(!led.run.has_leadership() && !led.run.interrupt_leadership());
        eventually("it can be queued again", async || led.run.requeue().unwrap()).await;
    }
    no_auth(led.report().await);
    open(&arena).await;
    assert!(led.run.requeue().unwrap());
    led.leads().await;
}

/// Curator: TestLeaderAcls#testAclErrorWithLeader (CURATOR-365: an endless loop).
#[tokio::test(flavor = "multi_thread")]
async fn curator_365_without_permission_on_the_parent_the_error_comes_out() {
    let arena = Arena::new().await;
    let builder = arena.builder().auth("digest", b"ours:secret").acls(Acls::creator_all());
    let authorised = arena.connect(builder).await;
    let below = format!("{}/second", arena.path);
    let mut led = Led::obedient(&LeaderSelector::new(&authorised, &below).unwrap());
    led.leads().await;
    let stranger = arena.curator().await;
    for path in [below, format!("{}/third", arena.path)] {
        let run = LeaderSelector::new(&stranger, &path).unwrap().run(async |_| ());
        match within("a report", async { run.await }).await {
            Err(TermError::Acquire(AcquireError::NoAuth { operation, .. })) => {
                assert_eq!(operation, "create");
            }
            report => panic!("{report:?}"),
        }
    }
}

/// Curator asked 738 times a second, and told nobody.
#[tokio::test(flavor = "multi_thread")]
async fn who_queues_up_by_itself_where_it_may_not_is_told_and_does_not_spin() {
    let arena = Arena::new().await;
    parent(&arena, Permission::READ).await;
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

/// The same while each of its creates is lost. It pauses, and has not stopped when the link is good again.
#[tokio::test(flavor = "multi_thread")]
async fn who_queues_up_by_itself_in_vain_does_not_spin() {
    const LOST: usize = 4;
    let arena = Arena::new().await;
    let (link, curator) = arena.linked(arena.builder()).await;
    let retry = RetryPolicy::n_times(2 * LOST, Duration::from_millis(200));
    let selector = arena.selector(&curator).with_retry(retry).auto_requeue();
    let began = Instant::now();
    // Each connection counts its own.
    let mut lost = link.lose(Message::request(Operation::Create));
    let mut led = Led::obedient(&selector);
    for _ in 1..LOST {
        within("a create", lost.struck()).await;
        lost = link.lose(Message::request(Operation::Create));
    }
    within("a create", lost.struck()).await;
    assert!(began.elapsed() >= Duration::from_millis(200) * (LOST as u32 - 1));
    led.leads().await;
    led.close().await;
    arena.children_are(0).await;
}
