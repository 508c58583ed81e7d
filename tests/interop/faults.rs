//! Ours is cut off again and again while it holds, Curator's is not: no two hold, for ours stops before Curator is let in.

use std::sync::Arc;
use std::time::Duration;

use zookeeper_recipes::testkit::{Direction, FaultProxy};

use crate::harness::eventually;
use crate::lock::Party;
use crate::matrix::{BREAKS, STOPS_BEFORE, shown};
use crate::pair::{LONGEST_HOLD, Stage};
use crate::peer::Peer;
use crate::peers;
use crate::rules::{Finding, Mode, Rule, judge};

const SESSION: Duration = Duration::from_secs(1);
/// Room for some faults, each of which lasts as long as the session.
const TIME: Duration = Duration::from_secs(8);
/// Much longer than it takes to lose it: most are lost.
const OUR_LONGEST_HOLD: Duration = Duration::from_secs(6);

/// What the checker says, how often each held, and how many of our holds were lost.
async fn cut_off_again_and_again(
    ours: &str,
    theirs: &str,
    curator: &Arc<Peer>,
) -> (Vec<Finding>, String) {
    let stage = Stage::new().await;
    let proxy = FaultProxy::start(stage.servers()).await.unwrap();
    let party = Party::join_for(&peers::ours(), proxy.connect_string(), SESSION).await;
    let ours = party.lock(ours, stage.path()).await;
    let theirs = stage.lock(curator, theirs).await;
    let our_log = ours.begin_holds_under_faults(TIME, OUR_LONGEST_HOLD);
    let faults = async {
        while !our_log.is_there() {
            eventually("ours holds", async || our_log.is_there() || ours.is_held().await).await;
            let nodes = stage.nodes().await;
            let Some(first) = nodes.iter().min_by_key(|node| &node[node.len() - 10..]) else {
                continue;
            };
            let fault = proxy.stall(Direction::Both);
            let is_gone = async || stage.arena.stat(first).await.is_none();
            eventually("its node goes", is_gone).await;
            fault.heal();
        }
    };
    let (their_log, ()) = tokio::join!(theirs.holds(Mode::Write, TIME, LONGEST_HOLD), faults);
    let (our_log, lost) = ours.logged(Mode::Write, &our_log.await);
    let counts = format!("ours {}, {lost} lost + Curator {}", our_log.len(), their_log.len());
    assert!(lost > 0, "nothing was lost: {counts}");
    stage.nodes_are(0).await;
    (judge(Rule::ReadersTogether, &[our_log, their_log]), counts)
}

#[tokio::test]
async fn our_mutex() {
    let Some(curator) = peers::curator() else { return };
    let (findings, holds) = cut_off_again_and_again("mutex", "mutex", &curator).await;
    assert_eq!(findings, [], "of {holds}");
    shown(("mutex", "ours is cut off again and again, Curator's is not", STOPS_BEFORE), holds);
}

#[tokio::test]
async fn our_writer() {
    let Some(curator) = peers::curator() else { return };
    let (findings, holds) = cut_off_again_and_again("write", "write", &curator).await;
    assert_eq!(findings, [], "of {holds}");
    let who = "our writer is cut off again and again, Curator's is not";
    shown(("read-write lock", who, STOPS_BEFORE), holds);
}

/// Who waits for the client's word that the session is over has it after the server's: it is caught.
#[tokio::test]
async fn our_mutex_that_waits_for_the_sessions_end_is_caught() {
    let Some(curator) = peers::curator() else { return };
    let (findings, holds) = cut_off_again_and_again("mutex-to-the-end", "mutex", &curator).await;
    assert!(!findings.is_empty(), "of {holds}");
    let row = ("mutex", "the same with `LossPolicy::SessionExpired`", BREAKS);
    shown(row, format!("{holds}, {} overlaps", findings.len()));
}
