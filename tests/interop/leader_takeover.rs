//! A leader that dies, is stopped or is cut off, and how it is with Curator's policies for errors of the connection.

use std::sync::Arc;

use nix::sys::signal::Signal;
use zookeeper_testkit::Direction;

use crate::faults::{curators_cut_off, is_caught, ours_cut_off};
use crate::harness::eventually;
use crate::lock::{Party, acquired};
use crate::matrix::{
    AFTER_IT_KNOWS, AFTER_ITS_NODE, AT_FIRST_LOOK, BREAKS, LEADS_AGAIN, STOPS_BEFORE, THEN_TOLD,
    shown,
};
use crate::ours::now;
use crate::pair::Stage;
use crate::peer::Peer;
use crate::peers;
use crate::rules::Nanos;
use crate::takeover::{
    SESSION, Succession, TakenOver, from_ours_that_is_cut_off,
    from_ours_that_is_stopped_and_killed, joined_by_a_proxy, knows_before,
};

/// Curator's leads, ours waits.
async fn from_curator(kind: &str, curator: &Arc<Peer>) -> Succession {
    let stage = Stage::new().await;
    let party = Party::join_for(curator, stage.servers(), SESSION).await;
    let holder = party.lock(kind, stage.path()).await;
    let heir = stage.lock(&peers::ours(), kind).await;
    Succession::new(stage, holder, heir).await
}

/// For how long it said that it leads, from when it ran again; nothing if it was told before it was asked.
async fn stopped_and_resumed(kind: &str, curator: &Arc<Peer>) -> Option<Nanos> {
    let succession = from_curator(kind, curator).await;
    curator.signal(Signal::SIGSTOP);
    let TakenOver { stage, holder, heir, at: _ } = succession.until_taken_over().await;
    // Its questions were there before it ran again.
    let (asked, lost) = (holder.begin_is_held(), holder.begin_lost());
    let resumed = now();
    curator.signal(Signal::SIGCONT);
    let said_yes = acquired(asked).await;
    let lost = lost.await;
    let (_, told) = lost.split_once(' ').unwrap();
    let told: Nanos = told.parse().unwrap();
    assert!(!holder.is_held().await);
    heir.release().await;
    if kind == "latch" {
        // It has entered again by itself.
        eventually("it leads again", async || holder.is_held().await).await;
    }
    holder.release().await;
    stage.nodes_are(0).await;
    said_yes.map(|_| told - resumed)
}

async fn from_curator_that_is_stopped_and_killed(kind: &'static str, recipe: &'static str) {
    let Some(curator) = peers::own_curator() else { return };
    let mut said_yes = None;
    // The question and the news of the loss come to two of its threads at the same time.
    for _ in 0..6 {
        said_yes = said_yes.or(stopped_and_resumed(kind, &curator).await);
        if said_yes.is_some() {
            break;
        }
    }
    let long = said_yes.expect("Curator has learned to look at the clock") / 1_000_000;
    shown((recipe, "Curator's leader is stopped, ours waits", AFTER_ITS_NODE), "");
    shown((recipe, "Curator's leader, resumed after that", THEN_TOLD), format!("{long} ms"));
    let succession = from_curator(kind, &curator).await;
    curator.signal(Signal::SIGKILL);
    let taken = succession.until_taken_over().await;
    taken.heir.release().await;
    shown((recipe, "Curator's leader is killed, ours waits", AFTER_ITS_NODE), "");
}

#[tokio::test]
async fn from_curators_latch_stopped_and_killed() {
    from_curator_that_is_stopped_and_killed("latch", "leader latch").await;
}

#[tokio::test]
async fn from_curators_selector_stopped_and_killed() {
    from_curator_that_is_stopped_and_killed("selector", "leader selector").await;
}

/// With its standard policy it steps down when it is cut off; how long before ours leads.
async fn from_curator_that_is_cut_off(kind: &'static str, recipe: &'static str) {
    let Some(curator) = peers::curator() else { return };
    let join = async |servers: &str| Party::join_for(&curator, servers, SESSION).await;
    let (succession, proxy) = joined_by_a_proxy(kind, join, (&peers::ours(), kind)).await;
    let (_, early) = knows_before(succession, &proxy).await;
    shown((recipe, "Curator's leader is cut off, ours waits", AFTER_IT_KNOWS), early);
}

#[tokio::test]
async fn from_curators_latch_cut_off() {
    from_curator_that_is_cut_off("latch", "leader latch").await;
}

#[tokio::test]
async fn from_curators_selector_cut_off() {
    from_curator_that_is_cut_off("selector", "leader selector").await;
}

/// With its session policy it begins to count when it is cut off, which it learns after two thirds of its session: it leads
/// for as much beside ours.
async fn from_curator_to_the_end(kind: &'static str, recipe: &'static str) {
    let Some(curator) = peers::curator() else { return };
    let join = async |servers: &str| Party::join_to_the_end(&curator, servers, SESSION).await;
    let (succession, proxy) = joined_by_a_proxy(kind, join, (&peers::ours(), kind)).await;
    let _fault = proxy.stall(Direction::Both);
    let taken = succession.until_taken_over().await;
    assert!(taken.holder.is_held().await, "Curator has learned when servers give a session up");
    let lost = taken.holder.begin_lost().await;
    let told: Nanos = lost.split_once(' ').unwrap().1.parse().unwrap();
    taken.heir.release().await;
    let row = (recipe, "Curator's with its session policy is cut off, ours waits", BREAKS);
    shown(row, format!("for {} ms", (told - taken.at) / 1_000_000));
}

#[tokio::test]
async fn from_curators_latch_with_the_session_policy() {
    from_curator_to_the_end("latch", "leader latch").await;
}

#[tokio::test]
async fn from_curators_selector_with_the_session_policy() {
    from_curator_to_the_end("selector", "leader selector").await;
}

/// Curator can but interrupt a body, and says that it leads as long as that goes on.
#[tokio::test]
async fn from_curators_selector_whose_body_goes_on() {
    let Some(curator) = peers::curator() else { return };
    let join = async |servers: &str| Party::join_for(&curator, servers, SESSION).await;
    let ours = (&peers::ours(), "selector");
    let (succession, proxy) = joined_by_a_proxy("selector-deaf", join, ours).await;
    let _fault = proxy.stall(Direction::Both);
    let taken = succession.until_taken_over().await;
    assert!(taken.holder.is_held().await, "Curator has learned to tell who asks");
    taken.holder.release().await;
    taken.heir.release().await;
    let who = "Curator's whose body goes on when it is interrupted is cut off, ours waits";
    shown(("leader selector", who, BREAKS), "");
}

async fn from_ours(kind: &'static str, recipe: &'static str) {
    let Some(curator) = peers::curator() else { return };
    let rows = [
        (recipe, "our leader is stopped, Curator's waits", AFTER_ITS_NODE),
        (recipe, "our leader, resumed after that", AT_FIRST_LOOK),
        (recipe, "our leader is killed, Curator's waits", AFTER_ITS_NODE),
    ];
    from_ours_that_is_stopped_and_killed(kind, &curator, rows).await;
}

#[tokio::test]
async fn from_our_latch_stopped_and_killed() {
    from_ours("latch", "leader latch").await;
}

#[tokio::test]
async fn from_our_selector_stopped_and_killed() {
    from_ours("selector", "leader selector").await;
}

#[tokio::test]
async fn from_our_latch_cut_off() {
    let Some(curator) = peers::curator() else { return };
    let early = from_ours_that_is_cut_off("latch", &curator).await;
    shown(("leader latch", "our leader is cut off, Curator's waits", AFTER_IT_KNOWS), early);
}

#[tokio::test]
async fn from_our_selector_cut_off() {
    let Some(curator) = peers::curator() else { return };
    let early = from_ours_that_is_cut_off("selector", &curator).await;
    shown(("leader selector", "our leader is cut off, Curator's waits", AFTER_IT_KNOWS), early);
}

/// Its lease ends and its session does not: the place is its own still. False where the machine was too busy, and its session
/// was over.
async fn leads_again(curator: &Arc<Peer>) -> bool {
    let join = async |servers: &str| Party::join_for(&peers::ours(), servers, SESSION).await;
    let (succession, proxy) = joined_by_a_proxy("latch", join, (curator, "latch")).await;
    let Succession { stage, holder, heir, heir_waits, node } = succession;
    let lost = holder.begin_lost();
    let fault = proxy.stall(Direction::Both);
    lost.await;
    assert!(!holder.is_held().await);
    fault.heal();
    let decided = async || heir_waits.is_there() || holder.is_held().await;
    eventually("somebody leads", decided).await;
    let again = !heir_waits.is_there();
    if again {
        assert!(stage.arena.stat(&node).await.is_some());
        assert!(holder.is_held().await && !heir_waits.is_there());
    }
    holder.release().await;
    heir_waits.await;
    heir.release().await;
    stage.nodes_are(0).await;
    again
}

#[tokio::test]
async fn our_latch_leads_again_by_its_node() {
    let Some(curator) = peers::curator() else { return };
    for _ in 0..3 {
        if leads_again(&curator).await {
            let who = "our leader is cut off for less than its session, Curator's waits";
            return shown(("leader latch", who, LEADS_AGAIN), "");
        }
    }
    panic!("it never led again");
}

async fn ours_again_and_again(kind: &'static str, recipe: &'static str) {
    let Some(curator) = peers::curator() else { return };
    let (findings, terms) = ours_cut_off(kind, kind, &curator).await;
    assert_eq!(findings, [], "of {terms}");
    shown((recipe, "ours is cut off again and again, Curator's is not", STOPS_BEFORE), terms);
}

#[tokio::test]
async fn our_latch_again_and_again() {
    ours_again_and_again("latch", "leader latch").await;
}

#[tokio::test]
async fn our_selector_again_and_again() {
    ours_again_and_again("selector", "leader selector").await;
}

/// Who waits for the client's word that the session is over has it after the server's: it is caught.
#[tokio::test]
async fn our_latch_that_waits_for_the_sessions_end_is_caught() {
    let Some(curator) = peers::curator() else { return };
    let terms = is_caught("latch-to-the-end", "latch", &curator).await;
    shown(("leader latch", "the same with `LossPolicy::SessionExpired`", BREAKS), terms);
}

/// With its standard policy. It has no lease: on a machine that is so busy that its threads do not run, it says for longer that
/// it leads.
async fn curators_again_and_again(kind: &'static str, recipe: &'static str) {
    let Some(curator) = peers::curator() else { return };
    let mut all_findings = Vec::new();
    for _ in 0..3 {
        let (findings, terms) = curators_cut_off(kind, &curator).await;
        if findings.is_empty() {
            let row = (recipe, "Curator's is cut off again and again, ours is not", STOPS_BEFORE);
            return shown(row, terms);
        }
        all_findings.push((findings, terms));
    }
    panic!("two lead each time: {all_findings:?}");
}

#[tokio::test]
async fn curators_latch_again_and_again() {
    curators_again_and_again("latch", "leader latch").await;
}

#[tokio::test]
async fn curators_selector_again_and_again() {
    curators_again_and_again("selector", "leader selector").await;
}
