//! A worker: one process with one `Curator`, that contends until it shall rest.

use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tools::Result;
use zookeeper_recipes::session::RetryPolicy;
use zookeeper_recipes::{Curator, Lock};

use crate::hold::{Held, STEP};
use crate::log::{Log, Mode, What};
use crate::settings::{LIMIT, LOCK, Recipe, WorkerSettings};

/// Before it asks again.
const PAUSE: Duration = Duration::from_millis(10);
/// Sometimes so long that the queue is short when it does: a worker right behind a holder is admitted by rules that the
/// others seldom meet.
const IDLE: Duration = Duration::from_millis(800);
/// More than any run takes.
const LONG: Duration = Duration::from_secs(3600);

/// The order of the orchestrator. The end of the input ends the worker.
pub(crate) const BE_QUIET: &str = "quiet";

struct Worker {
    settings: WorkerSettings,
    log: Log,
    quiet: Arc<AtomicBool>,
}

pub(crate) async fn run(settings: WorkerSettings) -> Result<()> {
    end_with_the_orchestrator()?;
    let log = Log::open(&settings.log())?;
    let quiet = Arc::<AtomicBool>::default();
    let ended = obey(quiet.clone());
    let worker = Worker { settings, log, quiet };
    tokio::select! {
        result = worker.contend() => result,
        _ = ended => Ok(()),
    }
}

/// Also if that is killed while we are stopped.
fn end_with_the_orchestrator() -> Result<()> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
    Ok(())
}

/// Reads the orders in a thread of its own, which does not keep the runtime from ending. The receiver fails at their end.
fn obey(quiet: Arc<AtomicBool>) -> oneshot::Receiver<()> {
    let (end, ended) = oneshot::channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(std::io::Result::ok) {
            quiet.fetch_or(line == BE_QUIET, Ordering::Relaxed);
        }
        drop(end);
    });
    ended
}

impl Worker {
    async fn connect(&self) -> Curator {
        loop {
            let builder = Curator::builder()
                .session_timeout(self.settings.timeout)
                .connection_timeout(Duration::from_secs(5))
                .retry(RetryPolicy::forever(Duration::from_millis(100)))
                .identity(self.settings.identity());
            match builder.connect(&self.settings.connect_string).await {
                Ok(curator) => return curator,
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    fn rng(&self) -> Rng {
        let WorkerSettings { row, generation, .. } = self.settings;
        Rng::with_seed(
            self.settings.run.seed ^ ((row as u64) << 32) ^ ((generation as u64) << 40) ^ 0x5eed,
        )
    }

    /// Until it shall be quiet; then it waits for its end.
    async fn contend(&self) -> Result<()> {
        let curator = self.connect().await;
        let locks: Vec<(Mode, Arc<dyn Lock>)> = match self.settings.run.recipe {
            Recipe::Mutex => vec![(Mode::Lock, curator.mutex(LOCK)?.into())],
            Recipe::Semaphore => vec![(Mode::Lease, curator.semaphore(LOCK, LIMIT)?.into())],
            Recipe::Rw => {
                let lock = curator.read_write_lock(LOCK)?;
                vec![(Mode::Read, lock.read_half()), (Mode::Write, lock.write_half())]
            }
        };
        let mut rng = self.rng();
        while !self.quiet.load(Ordering::Relaxed) {
            let (mode, lock) = &locks[rng.usize(..locks.len())];
            self.turn(&curator, *mode, &**lock, &mut rng).await?;
            let pause = if rng.u8(..3) == 0 { IDLE } else { PAUSE };
            sleep(pause.mul_f64(rng.f64())).await;
        }
        self.log.now(What::Quiet)?;
        std::future::pending().await
    }

    /// Takes the lock once, and sometimes gives up before that.
    async fn turn(
        &self,
        curator: &Curator,
        mode: Mode,
        lock: &dyn Lock,
        rng: &mut Rng,
    ) -> Result<()> {
        let limit = if rng.u8(..5) == 0 { Duration::from_millis(rng.u64(..2500)) } else { LONG };
        let gave_up = |why| Ok(self.log.now(What::GaveUp { why })?);
        self.log.now(What::Asks { how: format!("within {limit:?}") })?;
        let guard = match timeout(limit, lock.acquire()).await {
            Ok(Ok(guard)) => guard,
            Ok(Err(error)) => return gave_up(error.to_string()),
            Err(_) => return gave_up("its future was dropped".to_owned()),
        };
        let ignores_lease = self.settings.run.ignores_lease;
        let is_mixed = !self.settings.run.peers.is_empty();
        let held = Held { hold: &guard, mode, ignores_lease, is_mixed, curator, log: &self.log };
        held.run(self.steps(rng)).await?;
        if rng.bool() {
            // A loss is in the log.
            let _ = guard.release().await;
        }
        Ok(())
    }

    /// How long it holds: mostly short, sometimes longer than its session.
    fn steps(&self, rng: &mut Rng) -> u32 {
        if self.settings.run.ignores_lease {
            return rng.u32(100..200);
        }
        let session = self.settings.timeout.as_millis() / STEP.as_millis();
        let session = u32::try_from(session).unwrap_or(1000);
        match rng.u8(..100) {
            0..70 => rng.u32(2..20),
            70..91 => rng.u32(20..130),
            91..96 => rng.u32(130..350),
            _ => session + session / 5,
        }
    }
}
