//! Ours is cut off again and again while it holds, Curator's is not: no two hold, for ours stops before Curator's is let in.

use std::time::Duration;

use zookeeper_testkit::{Direction, FaultProxy};

use crate::harness::eventually;
use crate::lock::Party;
use crate::pair::{LONGEST_HOLD, Stage};
use crate::peers;
use crate::rows::shown;
use crate::rules::{Finding, Mode, Rule, judge};

const SESSION: Duration = Duration::from_secs(2);
/// Room for some faults, each of which lasts as long as the session. It goes on until one hold was lost.
const TIME: Duration = Duration::from_secs(10);
/// Much longer than it takes to lose it: most are lost.
const OUR_LONGEST_HOLD: Duration = Duration::from_secs(6);

/// What the checker says, and how often each held; nothing where Curator is missing.
async fn cut_off_again_and_again(ours: &str, theirs: &str) -> Option<(Vec<Finding>, String)> {
    let curator = peers::curator()?;
    let stage = Stage::new().await;
    let proxy = FaultProxy::start(stage.servers()).await.unwrap();
    let party = Party::join_for(&peers::ours(), proxy.connect_string(), SESSION).await;
    let unlucky = party.lock(ours, stage.path()).await;
    let lucky = stage.lock(&curator, theirs).await;
    let log = unlucky.begin_holds_under_faults(TIME, OUR_LONGEST_HOLD);
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
    let counts = format!("ours {}, {lost} lost + Curator {}", log.len(), lucky_log.len());
    assert!(lost > 0, "nothing was lost: {counts}");
    stage.nodes_are(0).await;
    Some((judge(Rule::ReadersTogether, &[log, lucky_log]), counts))
}

/// A test for each recipe.
macro_rules! again_and_again {
    ($($name:ident: $kind:literal, $recipe:literal, $who:literal;)+) => {$(
        #[tokio::test]
        #[ignore = "make test-all"]
        async fn $name() {
            let Some((findings, holds)) = cut_off_again_and_again($kind, $kind).await else { return };
            assert_eq!(findings, [], "of {holds}");
            let who = concat!($who, " is cut off again and again, Curator's is not");
            shown($recipe, who, "no two hold", &holds);
        }
    )+};
}

again_and_again! {
    our_mutex: "mutex", "mutex", "ours";
    our_writer: "write", "read-write lock", "our writer";
    our_latch: "latch", "leader latch", "ours";
    our_selector: "selector", "leader selector", "ours";
}

/// Whoever waits for the client's word that the session is over has it after the server's: two hold. It is not so where the
/// machine was too busy: Curator came to hold only when ours had heard of the end.
#[tokio::test]
#[ignore = "make test-all"]
async fn one_that_waits_for_the_sessions_end_is_caught() {
    for (ours, theirs, recipe) in
        [("mutex-to-the-end", "mutex", "mutex"), ("latch-to-the-end", "latch", "leader latch")]
    {
        let mut all_holds = Vec::new();
        while all_holds.len() < 3 {
            let Some((findings, holds)) = cut_off_again_and_again(ours, theirs).await else {
                return;
            };
            if !findings.is_empty() {
                let who = "the same with `LossPolicy::SessionExpired`";
                shown(
                    recipe,
                    who,
                    "**both hold**",
                    &format!("{holds}, {} overlaps", findings.len()),
                );
                all_holds.clear();
                break;
            }
            all_holds.push(holds);
        }
        assert!(all_holds.is_empty(), "no two held: {all_holds:?}");
    }
}
