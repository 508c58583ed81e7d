//! Leaders: latches, selectors and elections. To lead is to hold.

use std::sync::Arc;

use crate::lock::{Lock, Party};
use crate::matrix::{
    EXCLUDES, LISTS_IDS, NAMES_US, REFUSED, REFUSED_AND_NOT, SHOWS_ITS_ADDRESS, shown,
};
use crate::mutex::{all_exclude, excludes};
use crate::pair::Stage;
use crate::peer::Peer;
use crate::peers;
use crate::who::Role;

/// With a space, as in Curator's own test; beyond ASCII, and beyond what one unit of UTF-16 holds.
const IDS: [&str; 3] = ["A is A", "größer ☃", "𝄞 clef"];

#[tokio::test]
async fn our_latch_and_curators() {
    let Some(curator) = peers::curator() else { return };
    let terms = excludes((peers::ours(), "latch"), (curator, "latch")).await;
    shown(("leader latch", "ours, Curator", EXCLUDES), terms);
}

/// In the order they came, whosever they are.
#[tokio::test]
async fn our_latches_and_curators_in_one_queue() {
    let Some(curator) = peers::curator() else { return };
    let kinds = [peers::ours(), curator, peers::ours()].map(|peer| (peer, "latch"));
    let terms = all_exclude(kinds).await;
    shown(("leader latch", "two of ours, one of Curator's", EXCLUDES), terms);
}

#[tokio::test]
async fn our_selector_and_curators() {
    let Some(curator) = peers::curator() else { return };
    let terms = excludes((peers::ours(), "selector"), (curator, "selector")).await;
    shown(("leader selector", "ours, Curator", EXCLUDES), terms);
}

/// A selector has the names of a mutex.
#[tokio::test]
async fn our_selector_and_curators_mutex() {
    let Some(curator) = peers::curator() else { return };
    let terms = excludes((peers::ours(), "selector"), (curator, "mutex")).await;
    shown(("leader selector, mutex", "our selector, Curator's mutex", EXCLUDES), terms);
}

#[tokio::test]
async fn our_selector_and_kazoos_election_with_the_subclass() {
    let (Some(curator), Some(kazoo)) = (peers::curator(), peers::kazoo()) else { return };
    let kinds = [(peers::ours(), "selector"), (curator, "selector"), (kazoo, "election")];
    let row = ("leader selector", "ours, Curator, kazoo's `Election` with the subclass", EXCLUDES);
    shown(row, all_exclude(kinds).await);
}

#[tokio::test]
async fn our_selector_by_kazoos_names_and_kazoos_election() {
    let Some(kazoo) = peers::kazoo() else { return };
    let terms = excludes((peers::ours(), "selector-kazoo"), (kazoo, "stock-election")).await;
    shown(("leader selector", "ours `Kazoo`, kazoo's `Election`", EXCLUDES), terms);
}

#[tokio::test]
async fn our_inclusive_selector_and_kazoos_election_with_a_pattern() {
    let Some(kazoo) = peers::kazoo() else { return };
    let terms = excludes((peers::ours(), "selector-inclusive"), (kazoo, "plus-election")).await;
    let who = "ours `Inclusive`, kazoo's `Election` with a pattern";
    shown(("leader selector", who, EXCLUDES), terms);
}

#[tokio::test]
async fn our_selector_is_refused_beside_kazoos_election() {
    let Some(kazoo) = peers::kazoo() else { return };
    let stage = Stage::new().await;
    let ours = stage.lock(&peers::ours(), "selector").await;
    let theirs = stage.lock(&kazoo, "stock-election").await;
    theirs.acquire().await;
    stage.refuses(&ours).await;
    theirs.release().await;
    stage.lets_in(&ours, &theirs).await;
    shown(("leader selector", "ours, kazoo's `Election`", REFUSED_AND_NOT), "");
}

/// Latches and mutexes have other names: they do not keep each other out, and selectors are as mutexes.
#[tokio::test]
async fn ours_is_refused_where_curator_has_the_other_recipe() {
    let Some(curator) = peers::curator() else { return };
    for (theirs, ours_kind) in [
        ("mutex", "latch"),
        ("selector", "latch"),
        ("write", "latch"),
        ("latch", "mutex"),
        ("latch", "selector"),
        ("latch", "write"),
    ] {
        let stage = Stage::new().await;
        let theirs = stage.lock(&curator, theirs).await;
        let ours = stage.lock(&peers::ours(), ours_kind).await;
        theirs.acquire().await;
        stage.refuses(&ours).await;
        if ours_kind == "latch" {
            let error = ours.begin_acquire().error().await;
            assert!(error.starts_with("Ended(OtherRecipe"), "{error}");
        }
        theirs.release().await;
        stage.nodes_are(0).await;
    }
    shown(("leader latch, any other", "ours of the one, Curator's of the other", REFUSED), "");
}

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
async fn ids_are_read_by_either_side() {
    let Some(curator) = peers::curator() else { return };
    let ours = &peers::ours();
    for order in [[ours, &curator, ours], [&curator, ours, &curator]] {
        lists("latch", order).await;
        lists("selector", order).await;
    }
    let who = "ours, Curator, of leaders, with spaces and beyond ASCII";
    shown(("participants", who, LISTS_IDS), "");
}

/// A selector that has no id says what its client says: Curator the address of its machine, ours its identity.
#[tokio::test]
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
    shown(("participants", "a selector of Curator's without an id", SHOWS_ITS_ADDRESS), "");
}

/// By kazoo's names and by Curator's.
async fn kazoo_names(ours: &str, kazoos: &str, kazoo: &Arc<Peer>) {
    let stage = Stage::new().await;
    let [first, second, third] = IDS;
    let leader = with_id(&stage, &peers::ours(), ours, first).await;
    let theirs = with_id(&stage, kazoo, kazoos, second).await;
    let last = with_id(&stage, &peers::ours(), ours, third).await;
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

async fn with_id(stage: &Stage, peer: &Arc<Peer>, kind: &str, id: &str) -> Lock {
    let party: Party = stage.party(peer).await;
    party.lock_with_id(kind, id, stage.path()).await
}

#[tokio::test]
async fn kazoos_election_shows_our_ids() {
    let Some(kazoo) = peers::kazoo() else { return };
    kazoo_names("selector-kazoo", "stock-election", &kazoo).await;
    kazoo_names("selector-inclusive", "plus-election", &kazoo).await;
    kazoo_names("selector", "election", &kazoo).await;
    shown(("leader selector", "kazoo's `Election.contenders()`, of ours", NAMES_US), "");
}
