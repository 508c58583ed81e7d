//! Bugs of Apache Curator's `LeaderSelector`, by their ids, and candidates that are not allowed to take part.

use std::time::Duration;

use tokio::time::Instant;

use zookeeper_recipes::zookeeper_client::{Acl, Acls, AuthId, CreateMode, Permission};
use zookeeper_recipes::{AcquireError, RetryPolicy, TermError};

use super::leading::{Led, Report};
use crate::harness::{Arena, Message, Operation, eventually, within};

/// The path is there, and what anybody may do with it is this. Who knows the password may do all.
async fn parent(arena: &Arena, permission: Permission) {
    arena.admin.auth("ours:secret").await;
    let acls =
        [Acl::new(permission, AuthId::anyone()), Acl::new(Permission::ALL, AuthId::authed())];
    arena.admin.create(&arena.path, &[], CreateMode::Persistent, &acls).await.unwrap();
}

async fn open(arena: &Arena) {
    arena.admin.set_acl(&arena.path, &Acls::anyone_all()).await.unwrap();
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

/// Curator asked 738 times a second, and told nobody.
#[tokio::test(start_paused = true)]
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
#[tokio::test(start_paused = true)]
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
