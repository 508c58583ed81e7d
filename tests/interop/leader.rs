//! Whom leaders of either side list, and what our observer sees of them. It takes no part, and so is in the test's own process.

use std::sync::Arc;

use zookeeper_recipes::{ContenderFilter, Curator, LeaderObserver, LeaderSelector};

use crate::harness::within;
use crate::pair::Stage;
use crate::peer::Peer;
use crate::peers;
use crate::rows::{NAMES_US, OBSERVES, shown};
use crate::who::Role;

/// With a space, as in Curator's own test; beyond ASCII, and beyond what one unit of UTF-16 holds.
const IDS: [&str; 3] = ["A is A", "größer ☃", "𝄞 clef"];

/// One leads and two wait; each side reads the same, in the same order.
async fn lists(kind: &str, order: [&Arc<Peer>; 3]) {
    let stage = Stage::new().await;
    let mut locks = Vec::new();
    for (peer, id) in order.into_iter().zip(IDS) {
        locks.push(stage.party(peer).await.lock_with_id(kind, id, stage.path()).await);
    }
    for lock in &locks {
        assert_eq!((lock.leader().await, lock.ids().await), (None, vec![]));
    }
    locks[0].acquire().await;
    let mut waiting = Vec::new();
    for (before, lock) in [(1, &locks[1]), (2, &locks[2])] {
        waiting.push(lock.begin_acquire());
        stage.queues_behind(before).await;
    }
    let roles = [Role::Leads, Role::Waits, Role::Waits];
    let all: Vec<_> = roles.into_iter().zip(IDS.map(str::to_owned)).collect();
    for lock in &locks {
        assert_eq!(lock.leader().await, Some(all[0].clone()), "by {}", lock.whose());
        assert_eq!(lock.ids().await, all, "by {}", lock.whose());
    }
    locks[0].release().await;
    for (waits, lock) in waiting.into_iter().zip(&locks[1..]) {
        waits.await;
        lock.release().await;
    }
    stage.nodes_are(0).await;
}

/// As Curator's TestLeaderSelectorParticipants#testId and #testBasic, on both sides.
#[tokio::test]
#[ignore = "make test-all"]
async fn ids_are_read_by_either_side() {
    let Some(curator) = peers::curator() else { return };
    let ours = &peers::ours();
    for order in [[ours, &curator, ours], [&curator, ours, &curator]] {
        lists("latch", order).await;
        lists("selector", order).await;
    }
    let who = "ours, Curator, of leaders, with spaces and beyond ASCII";
    shown("participants", who, "both list the same ids, the leader first", "");
}

/// A selector that has no id says what its client says: Curator the address of its machine, ours its identity.
#[tokio::test]
#[ignore = "make test-all"]
async fn selectors_without_an_id() {
    let Some(curator) = peers::curator() else { return };
    let stage = Stage::new().await;
    let party = stage.party(&peers::ours()).await;
    let ours = party.lock("selector", stage.path()).await;
    let theirs = stage.lock(&curator, "selector").await;
    theirs.acquire().await;
    let waiting = ours.begin_acquire();
    stage.queues_behind(1).await;
    let told = ours.ids().await;
    assert_eq!(told, theirs.ids().await);
    assert!(told[0].1.parse::<std::net::IpAddr>().is_ok(), "{told:?}");
    assert_eq!(told[1].1, party.session);
    theirs.release().await;
    waiting.await;
    ours.release().await;
    stage.nodes_are(0).await;
    let result = "both show the address of its machine";
    shown("participants", "a selector of Curator's without an id", result, "");
}

/// By kazoo's names and by Curator's.
async fn kazoo_names(ours: &str, kazoos: &str, kazoo: &Arc<Peer>) {
    let stage = Stage::new().await;
    let [first, second, third] = IDS;
    let with_id = async |peer: &Arc<Peer>, kind: &str, id: &str| {
        stage.party(peer).await.lock_with_id(kind, id, stage.path()).await
    };
    let leader = with_id(&peers::ours(), ours, first).await;
    let theirs = with_id(kazoo, kazoos, second).await;
    let last = with_id(&peers::ours(), ours, third).await;
    leader.acquire().await;
    let theirs_waits = theirs.begin_acquire();
    stage.queues_behind(1).await;
    let last_waits = last.begin_acquire();
    stage.queues_behind(2).await;
    let contenders: Vec<_> = theirs.ids().await.into_iter().map(|(_, id)| id).collect();
    assert_eq!(contenders, IDS);
    let ids: Vec<_> = leader.ids().await.into_iter().map(|(_, id)| id).collect();
    assert_eq!(ids, IDS);
    leader.release().await;
    theirs_waits.await;
    assert_eq!(leader.leader().await, Some((Role::Leads, second.to_owned())));
    theirs.release().await;
    last_waits.await;
    last.release().await;
    stage.nodes_are(0).await;
}

#[tokio::test]
#[ignore = "make test-all"]
async fn kazoos_election_shows_our_ids() {
    let Some(kazoo) = peers::kazoo() else { return };
    kazoo_names("selector-kazoo", "stock-election", &kazoo).await;
    kazoo_names("selector-inclusive", "plus-election", &kazoo).await;
    kazoo_names("selector", "election", &kazoo).await;
    shown("leader selector", "kazoo's `Election.contenders()`, of ours", NAMES_US, "");
}

/// Who is told next; no text is nobody.
async fn next(observer: &mut LeaderObserver) -> String {
    let told = within("somebody or nobody leads", observer.changed()).await.unwrap();
    told.map(|leader| leader.id().into_owned()).unwrap_or_default()
}

/// One after the other, with another in between who waits.
async fn observes(
    theirs: (&Arc<Peer>, &str),
    ours: &str,
    observer: impl FnOnce(&Curator, &str) -> LeaderObserver,
) {
    let stage = Stage::new().await;
    let mut observer = observer(&stage.arena.curator().await, stage.path());
    assert_eq!(next(&mut observer).await, "");
    let mut candidates = Vec::new();
    for (peer, kind, id) in [
        (theirs.0, theirs.1, "first of theirs"),
        (&peers::ours(), ours, "one of ours"),
        (theirs.0, theirs.1, "last of theirs"),
    ] {
        let party = stage.party(peer).await;
        candidates.push((party.lock_with_id(kind, id, stage.path()).await, id));
    }
    let [(first, _), others @ ..] = &candidates[..] else { unreachable!() };
    first.acquire().await;
    assert_eq!(next(&mut observer).await, candidates[0].1);
    let mut waiting = Vec::new();
    for (place, (other, _)) in others.iter().enumerate() {
        waiting.push(other.begin_acquire());
        stage.queues_behind(place + 1).await;
    }
    first.release().await;
    for (waits, (other, id)) in waiting.into_iter().zip(others) {
        waits.await;
        assert_eq!(next(&mut observer).await, *id);
        assert_eq!(observer.leader().unwrap().id(), *id);
        other.release().await;
    }
    assert_eq!(next(&mut observer).await, "");
    stage.nodes_are(0).await;
}

#[tokio::test]
#[ignore = "make test-all"]
async fn of_curators_leaders() {
    let Some(theirs) = peers::curator() else { return };
    observes((&theirs, "latch"), "latch", |curator, path| {
        LeaderObserver::of_latch(curator, path).unwrap()
    })
    .await;
    observes((&theirs, "selector"), "selector", |curator, path| {
        LeaderObserver::of_selector(curator, path).unwrap()
    })
    .await;
    shown("observer", "ours, of Curator's latches and selectors", OBSERVES, "");
}

#[tokio::test]
#[ignore = "make test-all"]
async fn of_kazoos_leaders() {
    let Some(theirs) = peers::kazoo() else { return };
    let observer = |curator: &Curator, path: &str| {
        let selector = LeaderSelector::new(curator, path).unwrap();
        selector.with_filter(ContenderFilter::Kazoo).unwrap().observe()
    };
    observes((&theirs, "stock-election"), "selector-kazoo", observer).await;
    shown("observer", "ours by a selector's filter, of kazoo's `Election`", OBSERVES, "");
}
