//! A process with 16 tasks and another process that follows the same recipe are served in the order in which they came.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use zookeeper_recipes::simulation::{Ensemble, Logged, Operation};
use zookeeper_recipes::{Curator, InterProcessMutex};
use zookeeper_recipes_dev::{eventually, within};

const TASKS: usize = 16;
const VISITS: usize = 1_000;
const HOLD: Duration = Duration::from_millis(10);

/// Longer than the news of a node takes in a simulation.
const NEWS: Duration = Duration::from_millis(20);

#[derive(Default)]
struct Seen {
    /// Of each node: whose it is, and since when it is there.
    nodes: BTreeMap<String, (i64, Instant)>,
    holds: usize,
    /// Holds of tasks that asked after the news of the stranger, and began before the stranger's.
    overtook: usize,
}

fn locked(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn takes_turns(mutex: InterProcessMutex, stranger: i64, seen: Arc<Mutex<Seen>>) {
    loop {
        let asked = Instant::now();
        let guard = mutex.acquire().await.unwrap();
        {
            let mut seen = locked(&seen);
            let overtaken =
                |(owner, since): &&(i64, Instant)| *owner == stranger && asked > *since + NEWS;
            let overtook = seen.nodes.values().any(|node| overtaken(&node));
            seen.overtook += usize::from(overtook);
            seen.holds += 1;
        }
        sleep(HOLD).await;
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_stranger_that_comes_back_at_once_has_its_turns_and_passing_resumes_when_it_stays_away() {
    let ensemble = Ensemble::start(17);
    let seen = Arc::<Mutex<Seen>>::default();
    let log = seen.clone();
    ensemble.observe(move |entry| match &entry.effect {
        Logged::Created(path, owner) if *owner != 0 => {
            locked(&log).nodes.insert(path.clone(), (*owner, Instant::now()));
        }
        Logged::Deleted(path) => drop(locked(&log).nodes.remove(path)),
        _ => {}
    });
    let (link, stranger) = (ensemble.link(), ensemble.curator().await);
    let ours = Curator::connect(link.connect_string()).await.unwrap();
    let session = stranger.session_id().unwrap();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| tokio::spawn(takes_turns(ours.mutex("/lock").unwrap(), session, seen.clone())))
        .collect();
    sleep(10 * HOLD).await;
    let (before, mutex) = (locked(&seen).holds, stranger.mutex("/lock").unwrap());
    for _ in 0..VISITS {
        let guard = within("a turn", mutex.acquire()).await.unwrap();
        sleep(HOLD).await;
        guard.release().await.unwrap();
    }
    let holds = locked(&seen).holds;
    let share = VISITS as f64 / (VISITS + holds - before) as f64;
    assert_eq!(locked(&seen).overtook, 0);
    let fair = 1.0 / (TASKS + 1) as f64;
    assert!((0.8 * fair..1.2 * fair).contains(&share), "{share} of the holds, of {fair}");
    let held = async |more| eventually("holds", async || locked(&seen).holds >= holds + more).await;
    held(20).await;
    link.clear_log();
    held(120).await;
    let requests =
        link.log().into_iter().filter(|one| !matches!(one, Operation::Sync | Operation::Ping));
    assert_eq!(requests.collect::<Vec<_>>(), [], "the lock passes without requests");
    tasks.iter().for_each(|task| task.abort());
}
