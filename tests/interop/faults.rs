//! One is cut off again and again while it holds, the other is not: no two hold where it is ours that is cut off, for it
//! stops before Curator is let in.

use std::sync::Arc;
use std::time::Duration;

use zookeeper_testkit::{Direction, FaultProxy};

use crate::harness::eventually;
use crate::lock::Party;
use crate::matrix::{BREAKS, STOPS_BEFORE, shown};
use crate::pair::{LONGEST_HOLD, Stage};
use crate::peer::Peer;
use crate::peers;
use crate::rules::{Finding, Mode, Rule, judge};

const OUR_SESSION: Duration = Duration::from_secs(2);
/// Curator's leaders have a third of it to step down, and nothing that tells them the time if the machine is busy.
const ITS_SESSION: Duration = Duration::from_secs(3);
/// Room for some faults, each of which lasts as long as the session. It goes on until one hold was lost.
const TIME: Duration = Duration::from_secs(10);
/// Much longer than it takes to lose it: most are lost.
const OUR_LONGEST_HOLD: Duration = Duration::from_secs(6);
/// All are lost: there is time for few.
const ITS_LONGEST_HOLD: Duration = Duration::from_secs(3600);

/// Who is cut off: whose, what it takes part with, how long servers keep its session, and how long it holds.
struct CutOff<'a> {
    peer: &'a Arc<Peer>,
    kind: &'a str,
    session: Duration,
    longest_hold: Duration,
}

/// What the checker says, how often each held, and how many holds were lost.
async fn cut_off_again_and_again(
    cut_off: CutOff<'_>,
    (other, kind): (&Arc<Peer>, &str),
) -> (Vec<Finding>, String) {
    let stage = Stage::new().await;
    let proxy = FaultProxy::start(stage.servers()).await.unwrap();
    let party = Party::join_for(cut_off.peer, proxy.connect_string(), cut_off.session).await;
    let unlucky = party.lock(cut_off.kind, stage.path()).await;
    let lucky = stage.lock(other, kind).await;
    let log = unlucky.begin_holds_under_faults(TIME, cut_off.longest_hold);
    let faults = async {
        while !log.is_there() {
            eventually("it holds", async || log.is_there() || unlucky.is_held().await).await;
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
    let (lucky_log, ()) = tokio::join!(lucky.holds(Mode::Write, TIME, LONGEST_HOLD), faults);
    let (log, lost) = unlucky.logged(Mode::Write, &log.await);
    let (unlucky, lucky) = (unlucky.whose(), lucky.whose());
    let counts = format!("{unlucky} {}, {lost} lost + {lucky} {}", log.len(), lucky_log.len());
    assert!(lost > 0, "nothing was lost: {counts}");
    stage.nodes_are(0).await;
    (judge(Rule::ReadersTogether, &[log, lucky_log]), counts)
}

/// Curator's is, by its leaders' word.
pub(crate) async fn curators_cut_off(kind: &str, curator: &Arc<Peer>) -> (Vec<Finding>, String) {
    let cut_off =
        CutOff { peer: curator, kind, session: ITS_SESSION, longest_hold: ITS_LONGEST_HOLD };
    cut_off_again_and_again(cut_off, (&peers::ours(), kind)).await
}

/// Ours is cut off.
pub(crate) async fn ours_cut_off(
    ours: &str,
    theirs: &str,
    curator: &Arc<Peer>,
) -> (Vec<Finding>, String) {
    let cut_off = CutOff {
        peer: &peers::ours(),
        kind: ours,
        session: OUR_SESSION,
        longest_hold: OUR_LONGEST_HOLD,
    };
    cut_off_again_and_again(cut_off, (curator, theirs)).await
}

/// Two hold. It is not so where the machine was too busy: Curator came to hold only when ours had heard of the end.
pub(crate) async fn is_caught(ours: &str, theirs: &str, curator: &Arc<Peer>) -> String {
    let mut all_holds = Vec::new();
    for _ in 0..3 {
        let (findings, holds) = ours_cut_off(ours, theirs, curator).await;
        if !findings.is_empty() {
            return format!("{holds}, {} overlaps", findings.len());
        }
        all_holds.push(holds);
    }
    panic!("no two held: {all_holds:?}");
}

#[tokio::test]
async fn our_mutex() {
    let Some(curator) = peers::curator() else { return };
    let (findings, holds) = ours_cut_off("mutex", "mutex", &curator).await;
    assert_eq!(findings, [], "of {holds}");
    shown(("mutex", "ours is cut off again and again, Curator's is not", STOPS_BEFORE), holds);
}

#[tokio::test]
async fn our_writer() {
    let Some(curator) = peers::curator() else { return };
    let (findings, holds) = ours_cut_off("write", "write", &curator).await;
    assert_eq!(findings, [], "of {holds}");
    let who = "our writer is cut off again and again, Curator's is not";
    shown(("read-write lock", who, STOPS_BEFORE), holds);
}

/// Who waits for the client's word that the session is over has it after the server's: it is caught.
#[tokio::test]
async fn our_mutex_that_waits_for_the_sessions_end_is_caught() {
    let Some(curator) = peers::curator() else { return };
    let holds = is_caught("mutex-to-the-end", "mutex", &curator).await;
    shown(("mutex", "the same with `LossPolicy::SessionExpired`", BREAKS), holds);
}
