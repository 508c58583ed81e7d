//! `LeaderSelector`: one of several runs its body, in the order in which they came.

use zookeeper_recipes::zookeeper_client::{Acls, CreateMode};
use zookeeper_recipes::{ContenderFilter, LeaderSelector};

use super::leading::{Ended, Led};
use crate::harness::{Arena, within};

/// Curator: TestLeaderSelector#testInterruptLeadership and #testInterruption (CURATOR-468: no release fails).
#[tokio::test(start_paused = true)]
async fn an_interrupted_body_ends_and_the_place_goes() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let selectors = [arena.selector(&curator), arena.selector(&other)];
    let (leader, term, mut next) = arena.leader_and_next([&selectors[0], &selectors[1]]).await;
    assert!(leader.run.has_leadership() && term.leadership.is_held());
    assert_eq!(leader.run.leadership().unwrap().node(), term.leadership.node());
    assert!(leader.run.interrupt_leadership());
    assert_eq!(leader.report().await.unwrap(), Ended::SteppedDown);
    assert!(!leader.run.has_leadership() && leader.run.leadership().is_none());
    assert!(!term.leadership.is_held());
    let second = next.leads().await;
    assert!(second.leadership.fencing_token() > term.leadership.fencing_token(), "invariant 4");
    arena.children_are(1).await;
    second.end();
    assert_eq!(next.report().await.unwrap(), Ended::Told);
    arena.children_are(0).await;
}

/// And each waits for the other.
#[tokio::test(start_paused = true)]
async fn its_nodes_are_those_of_a_mutex() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let acls = Acls::anyone_all();
    let selector = arena.selector(&curator).with_id("me").unwrap().with_acls(acls).unwrap();
    let mut led = Led::obedient(&selector);
    let term = led.leads().await;
    assert_eq!(term.leadership.path(), arena.path);
    let name = term.leadership.node().strip_prefix(&arena.path).unwrap();
    assert!(name.starts_with("/_c_") && name[40..].starts_with("-lock-00"), "{name}");
    let (data, stat) = arena.admin.get_data(term.leadership.node()).await.unwrap();
    assert_eq!(data, b"me");
    assert_eq!(stat.ephemeral_owner, curator.session_id().unwrap());
    assert_eq!(term.leadership.fencing_token().value(), stat.czxid);
    assert!(arena.mutex(&other).try_acquire().await.unwrap().is_none());
    let mutex = arena.mutex(&other);
    let waiting = tokio::spawn(async move { mutex.acquire().await });
    arena.children_are(2).await;
    term.end();
    led.report().await.unwrap();
    let guard = within("the mutex", waiting).await.unwrap().unwrap();
    assert!(led.run.requeue().unwrap());
    arena.children_are(2).await;
    assert!(!led.run.has_leadership() && led.began().is_none());
    guard.release().await.unwrap();
    led.leads().await;
}

/// As kazoo's election does, which sees our nodes then.
#[tokio::test(start_paused = true)]
async fn with_a_filter_its_nodes_are_kazoos() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    arena.create(&arena.path, CreateMode::Persistent).await;
    let theirs = format!("{}/0123456789abcdef0123456789abcdef__lock__", arena.path);
    let theirs = arena
        .admin
        .create(&theirs, b"kazoo", CreateMode::EphemeralSequential, &Acls::anyone_all())
        .await
        .unwrap();
    let selector = arena.selector(&curator).with_filter(ContenderFilter::Kazoo).unwrap();
    let mut led = Led::obedient(&selector);
    arena.children_are(2).await;
    let all = selector.participants().await.unwrap();
    assert_eq!((all[0].id().as_ref(), all[0].holds, all[1].holds), ("kazoo", true, false));
    assert!(led.began().is_none());
    arena.admin.delete(&theirs, None).await.unwrap();
    let term = led.leads().await;
    assert!(term.leadership.node().contains("__lock__"));
    // What kazoo could not decode.
    let selector = LeaderSelector::new(&curator, &arena.path).unwrap();
    let selector = selector.with_filter(ContenderFilter::Kazoo).unwrap();
    selector.with_id([0xff]).unwrap_err();
}
