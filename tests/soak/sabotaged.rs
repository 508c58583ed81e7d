//! The soak can fail: locks that are broken on purpose are caught.

use std::path::PathBuf;

use crate::checker::{Kind, Verdict};
use crate::report;
use crate::settings::{Recipe, Sabotage, Settings, WorkerSettings};

/// No test: a worker, when the soak calls it.
#[tokio::test]
async fn worker() {
    if let Some(settings) = WorkerSettings::from_environment().unwrap() {
        crate::worker::run(settings).await.unwrap();
    }
}

async fn run(recipe: Recipe, sabotage: Sabotage, seed: u64, faults: usize) -> Verdict {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let worker_arguments = ["--exact", "sabotaged::worker"].map(str::to_owned).to_vec();
    let settings = Settings { recipe, faults, seed, sabotage, folder, worker_arguments };
    let verdict = crate::run::run(&settings).await.unwrap();
    let line = report::line(&settings, &verdict);
    assert!(line.contains(&format!("faults={faults} ")), "{line}");
    assert!(!verdict.is_clean(), "{line}");
    verdict
}

#[tokio::test]
async fn a_lock_that_takes_a_dead_sessions_node_for_its_own_is_caught() {
    let verdict = run(Recipe::Mutex, Sabotage::NoOwnerCheck, 604, 2).await;
    assert!(verdict.count(Kind::Double) > 0, "{:?}", verdict.findings);
}

#[tokio::test]
async fn a_worker_that_ignores_its_lease_is_caught() {
    let verdict = run(Recipe::Mutex, Sabotage::IgnoresLease, 605, 2).await;
    assert!(verdict.count(Kind::Double) > 0, "{:?}", verdict.findings);
    // It believes to hold, but what it writes is fenced.
    assert_eq!(verdict.count(Kind::StaleWrite), 0, "{:?}", verdict.findings);
}

#[tokio::test]
async fn a_worker_that_writes_under_the_read_lock_is_caught() {
    let verdict = run(Recipe::ReadWrite, Sabotage::WritesAsReader, 606, 1).await;
    assert!(verdict.count(Kind::Double) > 0, "{:?}", verdict.findings);
}

#[tokio::test]
async fn workers_with_a_greater_limit_are_caught() {
    let verdict = run(Recipe::Semaphore, Sabotage::GreaterLimit, 607, 1).await;
    assert!(verdict.count(Kind::Double) > 0, "{:?}", verdict.findings);
}

#[tokio::test]
async fn a_worker_that_asks_only_the_first_member_is_caught() {
    let verdict = run(Recipe::Multi, Sabotage::IgnoresMembers, 608, 1).await;
    assert!(verdict.count(Kind::Double) > 0, "{:?}", verdict.findings);
}

#[tokio::test]
async fn a_leader_that_takes_a_dead_sessions_node_for_its_own_is_caught() {
    let verdict = run(Recipe::Leader, Sabotage::NoOwnerCheck, 610, 2).await;
    assert!(verdict.count(Kind::Double) > 0, "{:?}", verdict.findings);
}

#[tokio::test]
async fn a_latch_that_is_not_asked_whether_it_leads_is_caught() {
    let verdict = run(Recipe::Leader, Sabotage::IgnoresLease, 612, 2).await;
    assert!(verdict.count(Kind::Double) > 0, "{:?}", verdict.findings);
    assert_eq!(verdict.count(Kind::StaleWrite), 0, "{:?}", verdict.findings);
}

#[tokio::test]
async fn a_selector_that_is_not_asked_whether_it_leads_is_caught() {
    let verdict = run(Recipe::Leader, Sabotage::IgnoresLease, 613, 2).await;
    assert!(verdict.count(Kind::Double) > 0, "{:?}", verdict.findings);
    assert_eq!(verdict.count(Kind::StaleWrite), 0, "{:?}", verdict.findings);
}

#[tokio::test]
async fn an_observer_that_believes_members_that_lag_is_caught() {
    let verdict = run(Recipe::Leader, Sabotage::BelievesLaggards, 614, 2).await;
    let older = |text: &str| text.starts_with("the observer was told of token ");
    assert!(verdict.findings.iter().any(|finding| older(&finding.text)), "{:?}", verdict.findings);
    // It is the observer alone.
    assert_eq!(verdict.count(Kind::StaleWrite), 0, "{:?}", verdict.findings);
}
