//! The mutex: Curator's names everywhere.

use std::sync::Arc;

use crate::matrix::{BREAKS, EXCLUDES, ONE_WAY, shown};
use crate::pair::{Side, Stage};
use crate::peer::Peer;
use crate::peers;
use crate::rules::{Finding, Rule};

/// Each kind of lock is at one path.
async fn excludes(one: (Arc<Peer>, &str), other: (Arc<Peer>, &str)) -> String {
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
    let stage = Stage::new().await;
    let mut sides = Vec::new();
    for peer in [peers::ours(), curator, kazoo] {
        sides.push(Side::alone(stage.lock(&peer, "mutex").await));
    }
    // First come, first served: each waits for the one before it.
    let [first, second, third] = [0, 1, 2].map(|i| &sides[i].lock);
    first.acquire().await;
    let second_waits = second.begin_acquire();
    stage.queues_behind(1).await;
    let third_waits = third.begin_acquire();
    stage.queues_behind(2).await;
    first.release().await;
    second_waits.await;
    assert!(!third_waits.is_there());
    second.release().await;
    third_waits.await;
    third.release().await;
    let holds = stage.in_peace(Rule::ReadersTogether, &sides).await;
    shown(("mutex", "ours, Curator and kazoo's subclass", EXCLUDES), holds);
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
async fn ours_and_kazoo_as_it_is_both_hold() {
    let Some(kazoo) = peers::kazoo() else { return };
    shown(("mutex", "ours, kazoo as it is", BREAKS), both_hold(peers::ours(), kazoo).await);
}

/// kazoo sees the others' names, and they do not see its: the pattern is half of it.
#[tokio::test]
async fn kazoo_with_a_pattern_waits_and_is_not_waited_for() {
    let (Some(curator), Some(kazoo)) = (peers::curator(), peers::kazoo()) else { return };
    for (peer, row) in [
        (curator, ("mutex", "Curator, kazoo with `extra_lock_patterns`", ONE_WAY)),
        (peers::ours(), ("mutex", "ours, kazoo with `extra_lock_patterns`", ONE_WAY)),
    ] {
        let stage = Stage::new().await;
        let one = stage.lock(&peer, "mutex").await;
        let plus = stage.lock(&kazoo, "plus").await;
        stage.keeps_out(&one, &plus).await;
        stage.lets_in(&plus, &one).await;
        shown(row, "");
    }
}
