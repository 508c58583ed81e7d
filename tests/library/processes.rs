//! What belongs to a process, and what one seed decides.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use zookeeper_recipes::simulation::{Ensemble, in_this_process};

use crate::prelude::{Curator, Duration};

/// Counts what a task does each 10 ms.
#[derive(Clone, Default)]
struct Steps(Arc<AtomicU64>);

impl Steps {
    async fn work(self) {
        loop {
            self.0.fetch_add(1, Ordering::SeqCst);
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Number of steps within a second.
    async fn in_a_second(&self) -> u64 {
        let count = || self.0.load(Ordering::SeqCst);
        let before = count();
        sleep(Duration::from_secs(1)).await;
        count() - before
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_in_a_process_is_paused_resumed_and_killed_with_it() {
    let ensemble = Ensemble::start(1);
    let process = ensemble.process();
    let steps: [Steps; 4] = Default::default();
    let [first, second, nested, tracked] = steps.clone();
    process.spawn(async move {
        let tracker = TaskTracker::new();
        let mut workers = JoinSet::new();
        workers.spawn(in_this_process(first.work()));
        workers.spawn(in_this_process(async move {
            let mut below = JoinSet::new();
            below.spawn(in_this_process(nested.work()));
            second.work().await;
        }));
        workers.spawn(tracker.track_future(in_this_process(tracked.work())));
        workers.join_next().await;
    });
    for (step, expected) in [("start", 100), ("pause", 0), ("resume", 100), ("kill", 0)] {
        match step {
            "pause" => process.pause(),
            "resume" => process.resume(),
            "kill" => process.kill(),
            _ => {}
        }
        for steps in &steps {
            let count = steps.in_a_second().await;
            assert!(count.abs_diff(expected) <= 1, "{count} steps after {step}");
        }
    }
    assert_eq!(process.strays(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_task_of_a_process_that_is_started_without_it_works_on_and_is_counted() {
    let ensemble = Ensemble::start(1);
    let process = ensemble.process();
    let steps = Steps::default();
    let stray = steps.clone();
    process.spawn(async move {
        #[allow(clippy::disallowed_methods)] // it is the stray
        tokio::spawn(stray.work());
    });
    let servers = ensemble.connect_string().to_owned();
    process.spawn(async move {
        // The tasks of this crate are no strays.
        let curator = Curator::connect(&servers).await.unwrap();
        let guard = curator.mutex("/lock").unwrap().acquire().await.unwrap();
        guard.lost().await;
    });
    sleep(Duration::from_secs(1)).await;
    assert_eq!(process.strays(), 1);
    process.pause();
    assert!(steps.in_a_second().await >= 99);
    process.kill();
    assert!(steps.in_a_second().await >= 99);
}

#[tokio::test(start_paused = true)]
async fn outside_a_process_a_future_stays_as_it_is() {
    let mut tasks = JoinSet::new();
    tasks.spawn(in_this_process(async { 1 }));
    let ensemble = Ensemble::start(1);
    let process = ensemble.process();
    process.pause();
    tasks.spawn(in_this_process(async { 2 }));
    assert_eq!(tasks.join_all().await.iter().sum::<i32>(), 3);
}
