//! The soak can fail: workers that are broken on purpose are caught.

use crate::checker::Kind;
use crate::report;
use crate::settings::{Recipe, Settings, WorkerSettings};

/// No test: a worker, when the soak calls it.
#[tokio::test]
async fn worker() {
    if let Some(settings) = WorkerSettings::from_environment().unwrap() {
        crate::worker::run(settings).await.unwrap();
    }
}

/// Runs until two hold at one moment. On a busy machine the few faults of a run may not come at the right moment.
#[tokio::test]
#[ignore = "make test-all"]
async fn a_worker_that_believes_until_it_releases_is_caught() {
    for seed in [604, 1604, 2604] {
        let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let worker_arguments = ["--exact", "tests::sabotaged::worker"].map(str::to_owned).to_vec();
        let settings = Settings {
            recipe: Recipe::Mutex,
            faults: 2,
            seed,
            ignores_lease: true,
            peers: Vec::new(),
            folder,
            worker_arguments,
        };
        let verdict = crate::run::run(&settings).await.unwrap();
        if verdict.count(Kind::Double) > 0 {
            return;
        }
        println!("not caught: {}", report::line(&settings, &verdict));
    }
    panic!("it was not caught, three times");
}
