//! Tasks that acquire and release in a loop, and what they measure.

use std::fmt;
use std::future::Future;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tools::Failure;

use crate::statistics::Summary;

/// What is acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    Mutex,
    Read,
    Write,
    /// Every tenth cycle writes.
    ReadWrite,
    /// With so many leases.
    Semaphore(usize),
    /// Of so many mutexes.
    Multi(usize),
    /// A candidate of its own for each cycle; holding is leading.
    Latch,
    Selector,
}

/// As Curator's side of it is told.
impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Recipe::Mutex => f.write_str("mutex"),
            Recipe::Read => f.write_str("read"),
            Recipe::Write => f.write_str("write"),
            Recipe::ReadWrite => f.write_str("read-write"),
            Recipe::Semaphore(leases) => write!(f, "semaphore-{leases}"),
            Recipe::Multi(members) => write!(f, "multi-{members}"),
            Recipe::Latch => f.write_str("latch"),
            Recipe::Selector => f.write_str("selector"),
        }
    }
}

/// Who does how much, for one turn. Task `i` uses lock `i % locks` and session `i % sessions`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) recipe: Recipe,
    pub(crate) tasks: usize,
    pub(crate) locks: usize,
    pub(crate) sessions: usize,
    /// How long each hold lasts.
    pub(crate) hold: Duration,
    /// Nobody begins another cycle after that.
    pub(crate) turn: Duration,
}

/// What came of a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lap {
    pub(crate) cycles: usize,
    /// From the start until the last task was done.
    pub(crate) elapsed: Duration,
    /// From a call of release to the next acquisition, where there is one lock; the median.
    pub(crate) hand_over: Duration,
}

impl Lap {
    /// Mean time of a cycle, of a single task.
    pub(crate) fn cycle(&self) -> Duration {
        self.elapsed.div_f64(self.cycles.max(1) as f64)
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.cycles as f64 / self.elapsed.as_secs_f64()
    }
}

/// When a hold began, and when its release was called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) acquired: Instant,
    pub(crate) released: Instant,
}

/// One task's way to acquire and release.
pub(crate) trait Contender: Send + Sync + 'static {
    fn cycle(&self, hold: Duration) -> impl Future<Output = Result<Held, Failure>> + Send;
}

/// A turn of tasks of the runtime, as a service has them.
pub(crate) async fn turn<C: Contender>(
    contenders: Vec<C>,
    hold: Duration,
    turn: Duration,
) -> Result<Lap, Failure> {
    let mut tasks = JoinSet::new();
    let began = Instant::now();
    for contender in contenders {
        tasks.spawn(async move {
            let mut holds = Vec::new();
            while began.elapsed() < turn {
                holds.push(contender.cycle(hold).await?);
            }
            Ok::<_, Failure>(holds)
        });
    }
    let mut holds = Vec::new();
    while let Some(done) = tasks.join_next().await {
        holds.extend(done??);
    }
    let elapsed = began.elapsed();
    Ok(Lap { cycles: holds.len(), elapsed, hand_over: hand_over(holds) })
}

/// Holds of one lock do not overlap, so their order in time is the order of the queue.
fn hand_over(mut holds: Vec<Held>) -> Duration {
    holds.sort_by_key(|held| held.acquired);
    let each: Vec<_> = holds
        .windows(2)
        .map(|pair| pair[1].acquired.saturating_duration_since(pair[0].released).as_secs_f64())
        .collect();
    Duration::from_secs_f64(Summary::of(&each).map_or(0.0, |summary| summary.median))
}

/// Waits as a holder that works.
pub(crate) async fn work(hold: Duration) {
    if !hold.is_zero() {
        tokio::time::sleep(hold).await;
    }
}
