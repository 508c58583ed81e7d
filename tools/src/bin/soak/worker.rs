//! A worker: one process with one `Curator`, that contends until it is told to rest.

use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tools::Result;
use zookeeper_recipes::Curator;
use zookeeper_recipes::session::RetryPolicy;
use zookeeper_testkit::{TestkitError, kill_session};

use crate::hand::Hand;
use crate::log::{Log, What, identity, now};
use crate::settings::WorkerSettings;
use crate::turns::Locks;

/// Before it asks again.
const PAUSE: Duration = Duration::from_millis(10);
/// Sometimes so long that the queue is short when it does: who comes right behind a holder is let in by rules that the
/// others seldom meet.
const IDLE: Duration = Duration::from_millis(800);
/// So long that now and then no other worker contends, which is when a node is retained.
const LONG_IDLE: Duration = Duration::from_secs(12);

/// What the orchestrator says, a line each. The end of the input ends the worker.
pub(crate) const BE_QUIET: &str = "quiet";
pub(crate) const KILL_SESSION: &str = "kill-session";

struct Worker {
    settings: WorkerSettings,
    log: Log,
    quiet: Arc<AtomicBool>,
}

pub(crate) async fn run(settings: WorkerSettings) -> Result<()> {
    end_with_the_orchestrator()?;
    let log = Log::open(&settings.log())?;
    let timeout = u64::try_from(settings.timeout.as_millis())?;
    log.now(What::Starts { timeout })?;
    let quiet = Arc::<AtomicBool>::default();
    let mut orders = orders();
    let worker = Worker { settings, log, quiet };
    let curator = tokio::select! {
        curator = worker.connect() => curator,
        () = worker.obey(None, &mut orders) => return Ok(()),
    };
    tokio::select! {
        result = worker.contend(&curator) => result?,
        () = worker.obey(Some(&curator), &mut orders) => {}
    }
    curator.close().await;
    Ok(())
}

/// Also if that is killed while we are stopped.
fn end_with_the_orchestrator() -> Result<()> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
    Ok(())
}

/// A thread of its own, which does not keep the runtime from ending.
fn orders() -> UnboundedReceiver<String> {
    let (sender, orders) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(std::io::Result::ok) {
            let _ = sender.send(line);
        }
    });
    orders
}

impl Worker {
    async fn obey(&self, curator: Option<&Curator>, orders: &mut UnboundedReceiver<String>) {
        let mut kills = JoinSet::new();
        while let Some(order) = orders.recv().await {
            match (order.as_str(), curator) {
                (BE_QUIET, _) => self.quiet.store(true, Ordering::Relaxed),
                (KILL_SESSION, Some(curator)) => {
                    let direct = self.settings.direct.clone();
                    kills.spawn(kill(curator.clone(), direct, self.log.clone()));
                }
                _ => {}
            }
        }
    }

    async fn connect(&self) -> Curator {
        loop {
            let builder = Curator::builder()
                .session_timeout(self.settings.timeout)
                .connection_timeout(Duration::from_secs(5))
                .retry(RetryPolicy::forever(Duration::from_millis(100)))
                .identity(identity(self.settings.row, self.settings.generation));
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
    async fn contend(&self, curator: &Curator) -> Result<()> {
        let locks = Locks::new(&self.settings.run, curator)?;
        let mut hand = Hand { settings: &self.settings, log: &self.log, curator, rng: self.rng() };
        while !self.quiet.load(Ordering::Relaxed) {
            locks.turn(&mut hand).await?;
            let idle = if self.settings.run.retains { LONG_IDLE } else { IDLE };
            let pause = if hand.rng.u8(..3) == 0 { idle } else { PAUSE };
            sleep(pause.mul_f64(hand.rng.f64())).await;
        }
        self.log.now(What::Quiet)?;
        std::future::pending().await
    }
}

/// Closes our present session at the servers, as nobody else can: only we have its password.
async fn kill(curator: Curator, direct: String, log: Log) -> Result<()> {
    let Ok(client) = curator.client() else { return Ok(()) };
    let info = client.session().clone();
    drop(client);
    let session = info.id().0;
    log.write(now(), What::Kills { session })?;
    let killed = kill_session(&direct, &info).await;
    // Over already is over as well.
    let known = matches!(killed, Ok(()) | Err(TestkitError::KillSession { .. }));
    Ok(log.now(What::Killed { session, known })?)
}
