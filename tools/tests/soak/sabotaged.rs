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

/// Until it is caught, which a run may miss where the machine is too busy for its few faults to come at the right moment.
async fn run_until(
    is_caught: impl Fn(&Verdict) -> bool,
    (recipe, sabotage, seed, faults): (Recipe, Sabotage, u64, usize),
) -> Verdict {
    // Of leaders the seed's last digit says which candidates they are.
    for seed in [seed, seed + 1000, seed + 2000] {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let worker_arguments = ["--exact", "sabotaged::worker"].map(str::to_owned).to_vec();
        let settings = Settings { recipe, faults, seed, sabotage, folder, worker_arguments };
        let verdict = crate::run::run(&settings).await.unwrap();
        let line = report::line(&settings, &verdict);
        assert!(line.contains(&format!("faults={faults} ")), "{line}");
        if is_caught(&verdict) {
            return verdict;
        }
        println!("not caught: {line}: {:?}", verdict.findings);
    }
    panic!("it was not caught, three times");
}

/// By two holders at one moment.
async fn run(recipe: Recipe, sabotage: Sabotage, seed: u64, faults: usize) -> Verdict {
    let is_caught = |verdict: &Verdict| verdict.count(Kind::Double) > 0;
    run_until(is_caught, (recipe, sabotage, seed, faults)).await
}

#[tokio::test]
async fn a_lock_that_takes_a_dead_sessions_node_for_its_own_is_caught() {
    run(Recipe::Mutex, Sabotage::NoOwnerCheck, 604, 2).await;
}

#[tokio::test]
async fn a_worker_that_ignores_its_lease_is_caught() {
    let verdict = run(Recipe::Mutex, Sabotage::IgnoresLease, 605, 2).await;
    // It believes to hold, but what it writes is fenced.
    assert_eq!(verdict.count(Kind::StaleWrite), 0, "{:?}", verdict.findings);
}

#[tokio::test]
async fn a_worker_that_writes_under_the_read_lock_is_caught() {
    run(Recipe::ReadWrite, Sabotage::WritesAsReader, 606, 1).await;
}

#[tokio::test]
async fn workers_with_a_greater_limit_are_caught() {
    run(Recipe::Semaphore, Sabotage::GreaterLimit, 607, 1).await;
}

#[tokio::test]
async fn a_worker_that_asks_only_the_first_member_is_caught() {
    run(Recipe::Multi, Sabotage::IgnoresMembers, 608, 1).await;
}

#[tokio::test]
async fn a_leader_that_takes_a_dead_sessions_node_for_its_own_is_caught() {
    run(Recipe::Leader, Sabotage::NoOwnerCheck, 610, 2).await;
}

#[tokio::test]
async fn a_latch_that_is_not_asked_whether_it_leads_is_caught() {
    let verdict = run(Recipe::Leader, Sabotage::IgnoresLease, 612, 2).await;
    assert_eq!(verdict.count(Kind::StaleWrite), 0, "{:?}", verdict.findings);
}

#[tokio::test]
async fn a_selector_that_is_not_asked_whether_it_leads_is_caught() {
    let verdict = run(Recipe::Leader, Sabotage::IgnoresLease, 613, 2).await;
    assert_eq!(verdict.count(Kind::StaleWrite), 0, "{:?}", verdict.findings);
}

#[tokio::test]
async fn an_observer_that_believes_members_that_lag_is_caught() {
    let older = |text: &str| text.starts_with("the observer was told of token ");
    let is_caught = |verdict: &Verdict| verdict.findings.iter().any(|one| older(&one.text));
    let run = (Recipe::Leader, Sabotage::BelievesLaggards, 614, 2);
    let verdict = run_until(is_caught, run).await;
    // It is the observer alone.
    assert_eq!(verdict.count(Kind::StaleWrite), 0, "{:?}", verdict.findings);
}
