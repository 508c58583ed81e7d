//! The mutex: Curator's names everywhere.

use std::sync::Arc;

use crate::matrix::{
    BREAKS, EXCLUDES, ONE_WAY, READS, REFUSED, REFUSED_AND_NOT, WAITS_AND_REFUSED, shown,
};
use crate::pair::{Side, Stage};
use crate::peer::Peer;
use crate::peers;
use crate::rules::{Finding, Rule};

/// Each kind of lock is at one path.
pub(crate) async fn excludes(one: (Arc<Peer>, &str), other: (Arc<Peer>, &str)) -> String {
    let stage = Stage::new().await;
    let one = stage.lock(&one.0, one.1).await;
    let other = stage.lock(&other.0, other.1).await;
    stage.keeps_out(&one, &other).await;
    stage.keeps_out(&other, &one).await;
    let sides = [Side::alone(one), Side::alone(other)];
    stage.in_peace(Rule::ReadersTogether, &sides).await
}

#[tokio::test]
async fn ours_and_curators() {
    let Some(curator) = peers::curator() else { return };
    let holds = excludes((peers::ours(), "mutex"), (curator, "mutex")).await;
    shown(("mutex", "ours, Curator", EXCLUDES), holds);
}

/// Curator's leader selector has the names of its mutex.
#[tokio::test]
async fn ours_and_curators_leader_selector() {
    let Some(curator) = peers::curator() else { return };
    let holds = excludes((peers::ours(), "mutex"), (curator, "selector")).await;
    shown(("mutex", "ours, Curator's `LeaderSelector`", EXCLUDES), holds);
}

#[tokio::test]
async fn ours_and_kazoos_subclass() {
    let Some(kazoo) = peers::kazoo() else { return };
    let holds = excludes((peers::ours(), "mutex"), (kazoo, "mutex")).await;
    shown(("mutex", "ours, kazoo's subclass", EXCLUDES), holds);
}

#[tokio::test]
async fn curators_and_kazoos_subclass() {
    let (Some(curator), Some(kazoo)) = (peers::curator(), peers::kazoo()) else { return };
    let holds = excludes((curator, "mutex"), (kazoo, "mutex")).await;
    shown(("mutex", "Curator, kazoo's subclass", EXCLUDES), holds);
}

/// Two safe pairs do not make a safe three: they are tried together.
#[tokio::test]
async fn all_three_together() {
    let (Some(curator), Some(kazoo)) = (peers::curator(), peers::kazoo()) else { return };
    let holds = all_exclude([peers::ours(), curator, kazoo].map(|peer| (peer, "mutex"))).await;
    shown(("mutex", "ours, Curator and kazoo's subclass", EXCLUDES), holds);
}

pub(crate) async fn all_exclude(kinds: [(Arc<Peer>, &str); 3]) -> String {
    let stage = Stage::new().await;
    let mut sides = Vec::new();
    for (peer, kind) in kinds {
        sides.push(Side::alone(stage.lock(&peer, kind).await));
    }
    // First come, first served: each waits for the one before it.
    let [first, second, third] = [0, 1, 2].map(|i| &sides[i].lock);
    for [first, second, third] in [[first, second, third], [third, second, first]] {
        first.acquire().await;
        let second_waits = second.begin_acquire();
        stage.queues_behind(1).await;
        let third_waits = third.begin_acquire();
        stage.queues_behind(2).await;
        assert!(!second_waits.is_there());
        first.release().await;
        second_waits.await;
        assert!(!third_waits.is_there());
        second.release().await;
        third_waits.await;
        third.release().await;
        stage.nodes_are(0).await;
    }
    stage.in_peace(Rule::ReadersTogether, &sides).await
}

/// Neither sees the other's names: both hold, and the checker of the other tests says so.
async fn both_hold(one: Arc<Peer>, kazoo: Arc<Peer>) -> String {
    let stage = Stage::new().await;
    let one = stage.lock(&one, "mutex").await;
    let other = stage.lock(&kazoo, "stock").await;
    stage.lets_in(&one, &other).await;
    stage.lets_in(&other, &one).await;
    let sides = [Side::alone(one), Side::alone(other)];
    let (findings, counts) = stage.at_random(Rule::ReadersTogether, &sides).await;
    let overlaps = findings.iter().filter(|one| matches!(one, Finding::Overlap(..))).count();
    assert!(overlaps > 0 && overlaps == findings.len(), "{counts}: {findings:?}");
    format!("{counts}, {overlaps} overlaps")
}

#[tokio::test]
async fn curators_and_kazoo_as_it_is_both_hold() {
    let (Some(curator), Some(kazoo)) = (peers::curator(), peers::kazoo()) else { return };
    shown(("mutex", "Curator, kazoo as it is", BREAKS), both_hold(curator, kazoo).await);
}

#[tokio::test]
async fn ours_is_refused_beside_kazoo_as_it_is() {
    let Some(kazoo) = peers::kazoo() else { return };
    let stage = Stage::new().await;
    let ours = stage.lock(&peers::ours(), "mutex").await;
    let theirs = stage.lock(&kazoo, "stock").await;
    theirs.acquire().await;
    stage.refuses(&ours).await;
    theirs.release().await;
    // Who comes later is not seen, and sees nobody.
    stage.lets_in(&ours, &theirs).await;
    shown(("mutex", "ours, kazoo as it is", REFUSED_AND_NOT), "");
}

/// kazoo sees the others' names, and they do not see its: the pattern is half of it.
#[tokio::test]
async fn kazoo_with_a_pattern_waits_and_is_not_waited_for() {
    let (Some(curator), Some(kazoo)) = (peers::curator(), peers::kazoo()) else { return };
    let stage = Stage::new().await;
    let one = stage.lock(&curator, "mutex").await;
    let plus = stage.lock(&kazoo, "plus").await;
    stage.keeps_out(&one, &plus).await;
    stage.lets_in(&plus, &one).await;
    shown(("mutex", "Curator, kazoo with a pattern", ONE_WAY), "");
}

#[tokio::test]
async fn ours_is_refused_beside_kazoo_with_a_pattern() {
    let Some(kazoo) = peers::kazoo() else { return };
    let stage = Stage::new().await;
    let ours = stage.lock(&peers::ours(), "mutex").await;
    let plus = stage.lock(&kazoo, "plus").await;
    stage.keeps_out(&ours, &plus).await;
    plus.acquire().await;
    stage.refuses(&ours).await;
    plus.release().await;
    stage.nodes_are(0).await;
    shown(("mutex", "ours, kazoo with a pattern", WAITS_AND_REFUSED), "");
}

#[tokio::test]
async fn ours_by_kazoos_names_and_kazoo_as_it_is() {
    let Some(kazoo) = peers::kazoo() else { return };
    let holds = excludes((peers::ours(), "kazoo"), (kazoo, "stock")).await;
    shown(("mutex", "ours `Kazoo`, kazoo as it is", EXCLUDES), holds);
}

/// kazoo's read lock waits for its write locks, and ours is as one.
#[tokio::test]
async fn ours_by_kazoos_names_and_kazoos_read_write_lock() {
    let Some(kazoo) = peers::kazoo() else { return };
    let stage = Stage::new().await;
    let mut locks = Vec::new();
    for (peer, kind) in [
        (&peers::ours(), "kazoo"),
        (&kazoo, "stock-write"),
        (&kazoo, "stock-read"),
        (&kazoo, "stock-read"),
    ] {
        locks.push(stage.lock(peer, kind).await);
    }
    let [ours, write, read, other_read] = locks.try_into().ok().unwrap();
    for theirs in [&write, &read] {
        stage.keeps_out(&ours, theirs).await;
        stage.keeps_out(theirs, &ours).await;
    }
    stage.lets_in(&read, &other_read).await;
    let sides =
        [Side::alone(ours), Side::alone(write), Side::reader(read), Side::reader(other_read)];
    let holds = stage.in_peace(Rule::ReadersTogether, &sides).await;
    shown(("mutex", "ours `Kazoo`, kazoo's `ReadLock` and `WriteLock`", READS), holds);
}

#[tokio::test]
async fn ours_inclusive_and_kazoo_with_a_pattern() {
    let Some(kazoo) = peers::kazoo() else { return };
    let holds = excludes((peers::ours(), "inclusive"), (kazoo, "plus")).await;
    shown(("mutex", "ours `Inclusive`, kazoo with a pattern", EXCLUDES), holds);
}

#[tokio::test]
async fn all_three_with_a_pattern_and_a_driver() {
    let (Some(curator), Some(kazoo)) = (peers::curator(), peers::kazoo()) else { return };
    let row = ("mutex", "ours `Inclusive`, Curator with a driver, kazoo with a pattern", EXCLUDES);
    let kinds = [(peers::ours(), "inclusive"), (curator, "driver"), (kazoo, "plus")];
    shown(row, all_exclude(kinds).await);
}

/// Names of two recipes on one path do not keep each other out.
#[tokio::test]
async fn ours_is_refused_where_curator_has_another_recipe() {
    let Some(curator) = peers::curator() else { return };
    let stage = Stage::new().await;
    for (theirs, ours) in
        [("write", "mutex"), ("read", "mutex"), ("mutex", "write"), ("mutex", "read")]
    {
        let theirs = stage.lock(&curator, theirs).await;
        let ours = stage.lock(&peers::ours(), ours).await;
        theirs.acquire().await;
        stage.refuses(&ours).await;
        theirs.release().await;
        stage.nodes_are(0).await;
    }
    shown(("mutex, read-write lock", "ours of the one, Curator's of the other", REFUSED), "");
}
