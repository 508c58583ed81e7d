//! `RECIPE=threads SECONDS=300`. Only this shows the whole library on several threads. Tasks of one process hammer a few locks on four
//! threads, with drops, limits, retention, closes, stalls and cuts, beside a stranger. Each hold is checked as it begins and ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tools::Result;
use zookeeper_recipes::session::RetryPolicy;
use zookeeper_recipes::{Curator, Error, ErrorKind, Guard, Hold, InterProcessMutex};
use zookeeper_testkit::{Cut, Direction, FaultProxy, TestServer};

const THREADS: usize = 4;
const TASKS: usize = 32;
const STRANGERS: usize = 2;
const PATHS: [&str; 3] = ["/locks/a", "/locks/b", "/locks/c"];
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);

/// Longer than any wait at the end: for the expiry of a session that was lost, and a new one.
const REST: Duration = Duration::from_secs(60);

/// What went wrong, and how much was done.
#[derive(Debug, Default)]
struct Tally {
    holds: usize,
    losses: usize,
    closes: usize,
    faults: usize,
    violations: Vec<String>,
}

/// The holds of each path, as all tasks saw them.
#[derive(Default)]
struct Witness {
    last: Mutex<BTreeMap<&'static str, Hold>>,
    tally: Mutex<Tally>,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Witness {
    fn tally(&self, change: impl FnOnce(&mut Tally)) {
        change(&mut locked(&self.tally));
    }

    /// Two are held at one instant if the earlier one is held after the later one began.
    fn begins(&self, path: &'static str, hold: Hold) {
        let mut last = locked(&self.last);
        if let Some(earlier) = last.get(path) {
            let overlaps = earlier.is_held() && hold.is_held();
            let falls = hold.is_held() && hold.fencing_token() < earlier.fencing_token();
            if overlaps || falls {
                let what = if overlaps { "two holders" } else { "a falling token" };
                self.tally(|tally| tally.violations.push(format!("{what}: {earlier:?}, {hold:?}")));
            }
        }
        last.insert(path, hold);
        self.tally(|tally| tally.holds += 1);
    }

    fn ends(&self, hold: &Hold) {
        self.tally(|tally| tally.losses += usize::from(!hold.is_held()));
    }
}

/// The present handle of the process, which the hammer closes now and then.
type Shared = Arc<RwLock<Curator>>;

fn current(shared: &Shared) -> Curator {
    shared.read().unwrap_or_else(PoisonError::into_inner).clone()
}

async fn connect(servers: &str) -> Result<Curator> {
    let builder = Curator::builder().session_timeout(SESSION_TIMEOUT);
    let builder = builder.retry(RetryPolicy::forever(Duration::from_millis(50)));
    Ok(builder.connect(servers).await?)
}

fn mutex(curator: &Curator, path: &str) -> Result<InterProcessMutex, Error> {
    let curator = match fastrand::usize(..8) {
        0 => curator.with_identity("another"),
        _ => curator.clone(),
    };
    let mutex = curator.mutex(path)?;
    Ok(match fastrand::usize(..6) {
        0 => mutex.with_retention(Duration::from_millis(fastrand::u64(1..2000))),
        1 => mutex.with_node_per_hold(),
        _ => mutex,
    })
}

async fn acquire(mutex: &InterProcessMutex) -> Result<Option<Guard>, Error> {
    let soon = Duration::from_millis(fastrand::u64(0..50));
    match fastrand::usize(..8) {
        0 => Ok(timeout(soon, mutex.acquire()).await.ok().transpose()?),
        1 => mutex.try_acquire().await.map(Some),
        2 => mutex.acquire_timeout(soon).await.map(Some),
        _ => mutex.acquire().await.map(Some),
    }
}

async fn hammer(shared: Shared, witness: Arc<Witness>, until: Instant) -> Result<()> {
    while Instant::now() < until {
        let path = PATHS[fastrand::usize(..PATHS.len())];
        let mutex = mutex(&current(&shared), path)?;
        let guard = match acquire(&mutex).await {
            Ok(Some(guard)) => guard,
            Ok(None) => continue,
            Err(error) if error.is_busy() => continue,
            Err(error) => {
                let may_be = matches!(
                    error.kind(),
                    ErrorKind::Closed | ErrorKind::Lost | ErrorKind::Unavailable
                );
                if !may_be {
                    witness.tally(|tally| tally.violations.push(format!("an error: {error:?}")));
                }
                // Until there is another handle.
                sleep(Duration::from_millis(5)).await;
                continue;
            }
        };
        witness.begins(path, guard.view());
        match fastrand::usize(..4) {
            0 => tokio::task::yield_now().await,
            1 => sleep(Duration::from_millis(fastrand::u64(0..4))).await,
            _ => {}
        }
        witness.ends(&guard);
        match fastrand::usize(..3) {
            0 => drop(guard.release()), // not polled
            1 => drop(guard.release().await),
            _ => drop(guard),
        }
    }
    Ok(())
}

/// Cuts, stalls and closes. A stall outlasts the session now and then. Nobody deletes a node or ends a session from elsewhere, which
/// would excuse an overlap.
async fn trouble(
    proxy: &FaultProxy,
    shared: &Shared,
    witness: &Witness,
    until: Instant,
) -> Result<()> {
    while Instant::now() < until {
        sleep(Duration::from_millis(fastrand::u64(200..2500))).await;
        witness.tally(|tally| tally.faults += 1);
        match fastrand::usize(..10) {
            0 => {
                let stall = proxy.stall(Direction::Both);
                sleep(Duration::from_millis(fastrand::u64(100..9000))).await;
                stall.heal();
            }
            1..=3 => {
                let next = connect(proxy.connect_string()).await?;
                let closed = {
                    let mut shared = shared.write().unwrap_or_else(PoisonError::into_inner);
                    std::mem::replace(&mut *shared, next)
                };
                closed.close().await;
                witness.tally(|tally| tally.closes += 1);
            }
            4 => drop(proxy.cut(Cut::Finish)),
            _ => drop(proxy.cut(Cut::Reset)),
        }
    }
    Ok(())
}

async fn hammered(seconds: u64) -> Result<Tally> {
    let server = TestServer::start().await?;
    let proxy = FaultProxy::start(server.connect_string()).await?;
    let until = Instant::now() + Duration::from_secs(seconds);
    let witness = Arc::new(Witness::default());
    let shared: Shared = Arc::new(RwLock::new(connect(proxy.connect_string()).await?));
    let stranger: Shared = Arc::new(RwLock::new(connect(server.connect_string()).await?));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS + STRANGERS {
        let shared = if task < TASKS { &shared } else { &stranger };
        tasks.spawn(hammer(shared.clone(), witness.clone(), until));
    }
    trouble(&proxy, &shared, &witness, until).await?;
    let ended = timeout(REST, async {
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        Ok::<_, tools::Failure>(())
    });
    match ended.await {
        Ok(ended) => ended?,
        Err(_) => witness.tally(|tally| tally.violations.push(format!("{} hang", tasks.len()))),
    }
    locked(&witness.last).clear();
    current(&shared).close().await;
    // Retained nodes of the stranger last for two seconds, and those of sessions that were lost until they expire.
    let admin = current(&stranger).client()?;
    let began = Instant::now();
    for path in PATHS {
        loop {
            let left = admin.list_children(path).await?;
            if left.is_empty() {
                break;
            }
            if began.elapsed() > REST {
                witness.tally(|tally| tally.violations.push(format!("orphans: {left:?}")));
                break;
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
    current(&stranger).close().await;
    Ok(std::mem::take(&mut *locked(&witness.tally)))
}

/// Runs the hammer, and prints what it found. Returns true if nothing is wrong.
pub(crate) fn run(seconds: u64) -> Result<bool> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(THREADS).enable_all().build()?;
    let Tally { holds, losses, closes, faults, violations } =
        runtime.block_on(hammered(seconds))?;
    println!(
        "soak: recipe=threads seconds={seconds} tasks={TASKS} threads={THREADS} holds={holds} lost={losses} closes={closes} faults={faults} violations={}",
        violations.len()
    );
    for violation in violations.iter().take(10) {
        println!("  {violation}");
    }
    Ok(violations.is_empty() && holds > 0)
}
