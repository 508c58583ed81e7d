//! Tasks that acquire and release in a loop, and what they measure.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tokio::task::JoinSet;
use tools::verdict::Summary;
use tools::{Failure, now};

/// The pause between two writes of [`Recipe::Readers`].
const WRITES_EACH: Duration = Duration::from_secs(1);

/// What is acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    Mutex,
    /// A mutex that retains its node. Curator's is a plain one.
    Retained,
    Read,
    Write,
    /// Every tenth cycle writes.
    ReadWrite,
    /// Reads that retain their nodes, beside a writer in a session of its own that writes once a second.
    Readers,
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
            Recipe::Retained => f.write_str("retained"),
            Recipe::Mutex => f.write_str("mutex"),
            Recipe::Read => f.write_str("read"),
            Recipe::Write => f.write_str("write"),
            Recipe::ReadWrite => f.write_str("read-write"),
            Recipe::Readers => f.write_str("readers"),
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
    /// From a call of release to the next acquisition, where there is one lock; of [`Recipe::Readers`], how long the writer waits;
    /// the median.
    pub(crate) hand_over: Duration,
}

impl Lap {
    /// The holds of each process.
    pub(crate) fn of(processes: &[Vec<Held>], elapsed: Duration) -> Self {
        let cycles = processes.iter().map(Vec::len).sum();
        Self { cycles, elapsed, hand_over: hand_over(processes) }
    }

    /// Mean time of a cycle, of a single task.
    pub(crate) fn cycle(&self) -> Duration {
        self.elapsed.div_f64(self.cycles.max(1) as f64)
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.cycles as f64 / self.elapsed.as_secs_f64()
    }
}

/// When a hold began, and when its release was called, by `now`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) acquired: Duration,
    pub(crate) released: Duration,
}

/// One task's way to acquire and release.
pub(crate) trait Contender: Send + Sync + 'static {
    fn cycle(&self, hold: Duration) -> impl Future<Output = Result<Held, Failure>> + Send;
}

/// The holds of one turn, by tasks of the runtime, as a service has them.
pub(crate) async fn holds<C: Contender>(
    contenders: Vec<C>,
    hold: Duration,
    turn: Duration,
) -> Result<Vec<Held>, Failure> {
    let mut tasks = JoinSet::new();
    let began = now();
    for contender in contenders {
        tasks.spawn(async move {
            let mut holds = Vec::new();
            while now() - began < turn {
                holds.push(contender.cycle(hold).await?);
            }
            Ok::<_, Failure>(holds)
        });
    }
    let mut holds = Vec::new();
    while let Some(done) = tasks.join_next().await {
        holds.extend(done??);
    }
    Ok(holds)
}

/// What came of that.
pub(crate) async fn turn<C: Contender>(
    contenders: Vec<C>,
    hold: Duration,
    turn: Duration,
) -> Result<Lap, Failure> {
    let began = now();
    let holds = holds(contenders, hold, turn).await?;
    Ok(Lap::of(&[holds], now() - began))
}

/// Holds of one lock do not overlap, so their order in time is the order of the queue. With several processes, from one
/// to another only.
fn hand_over(processes: &[Vec<Held>]) -> Duration {
    let all = processes.iter().enumerate();
    let mut holds: Vec<_> =
        all.flat_map(|(process, holds)| holds.iter().map(move |held| (held, process))).collect();
    holds.sort_by_key(|(held, _)| held.acquired);
    let pairs = holds.windows(2).filter(|pair| processes.len() == 1 || pair[0].1 != pair[1].1);
    let each: Vec<_> = pairs
        .map(|pair| pair[1].0.acquired.saturating_sub(pair[0].0.released).as_secs_f64())
        .collect();
    Duration::from_secs_f64(Summary::of(&each).map_or(0.0, |summary| summary.median))
}

/// What came of the reads beside a writer, which waits a second before each write.
pub(crate) async fn turn_beside<R: Contender, W: Contender>(
    readers: Vec<R>,
    writer: W,
    load: Load,
) -> Result<Lap, Failure> {
    let waits = tokio::spawn(async move {
        let began = now();
        let mut waits = Vec::new();
        while now() - began + WRITES_EACH < load.turn {
            tokio::time::sleep(WRITES_EACH).await;
            let asked = now();
            let held = writer.cycle(Duration::ZERO).await?;
            waits.push((held.acquired - asked).as_secs_f64());
        }
        Ok::<_, Failure>(waits)
    });
    let lap = turn(readers, load.hold, load.turn).await?;
    let waits = waits.await??;
    let median = Summary::of(&waits).map_or(0.0, |summary| summary.median);
    Ok(Lap { hand_over: Duration::from_secs_f64(median), ..lap })
}

/// Waits as a holder that works.
pub(crate) async fn work(hold: Duration) {
    if !hold.is_zero() {
        tokio::time::sleep(hold).await;
    }
}
