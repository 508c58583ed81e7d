//! The soak can fail: locks that are broken on purpose are caught.

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

/// Until two hold at one moment. On a busy machine the few faults of a run may not come at the right moment.
async fn caught(recipe: Recipe, sabotage: Sabotage, seed: u64, faults: usize) -> Verdict {
    // Of leaders the parity of the seed says which candidates they are.
    for seed in [seed, seed + 1000, seed + 2000] {
        let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let worker_arguments = ["--exact", "tests::sabotaged::worker"].map(str::to_owned).to_vec();
        let settings = Settings {
            recipe,
            faults,
            seed,
            sabotage,
            retains: false,
            peers: Vec::new(),
            folder,
            worker_arguments,
        };
        let verdict = crate::run::run(&settings).await.unwrap();
        if verdict.count(Kind::Double) > 0 {
            return verdict;
        }
        println!("not caught: {}", report::line(&settings, &verdict));
    }
    panic!("it was not caught, three times");
}

#[tokio::test]
#[ignore = "make test-all"]
async fn a_worker_that_believes_until_it_releases_is_caught() {
    caught(Recipe::Mutex, Sabotage::IgnoresLease, 604, 2).await;
}

#[tokio::test]
#[ignore = "make test-all"]
async fn a_worker_that_writes_under_the_read_lock_is_caught() {
    caught(Recipe::Rw, Sabotage::WritesAsReader, 606, 1).await;
}

#[tokio::test]
#[ignore = "make test-all"]
async fn a_latch_that_is_not_asked_whether_it_leads_is_caught() {
    let verdict = caught(Recipe::Leader, Sabotage::IgnoresLease, 612, 2).await;
    // It believes to lead, but what it writes is fenced.
    assert_eq!(verdict.count(Kind::StaleWrite), 0, "{:?}", verdict.findings);
}
