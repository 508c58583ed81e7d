//! One hold: asks all the time whether it holds, counts, and logs.

use std::net::SocketAddr;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::sleep;

use crate::Result;
use crate::held::Held;
use crate::log::{Counter, Log, Mode, Name, Outcome, What, now};
use crate::store::StoreClient;

/// Between two questions.
const STEP: Duration = Duration::from_millis(3);
/// The outside store is near; who waits longer for it than this has been stopped or the run is over.
const STORE_PATIENCE: Duration = Duration::from_secs(5);

/// Why a hold ended that was let go of by somebody else who had it as well.
pub(crate) const GIVEN_UP: &str = "given up from elsewhere";

/// What a hold is to do.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) steps: u32,
    /// How often it counts, each time in all counters that it may write.
    pub(crate) counts: u32,
    /// How it lets go, below ten.
    pub(crate) leave: u8,
}

/// How long, in steps: mostly short, sometimes longer than the session timeout.
pub(crate) fn plan(rng: &mut Rng, timeout: Duration) -> Plan {
    let long = u32::try_from(timeout.as_millis() / STEP.as_millis()).unwrap_or(1000);
    let steps = match rng.u8(..100) {
        0..70 => rng.u32(2..20),
        70..91 => rng.u32(20..130),
        91..96 => rng.u32(130..350),
        _ => long + long / 5,
    };
    Plan { steps, counts: rng.u32(..3), leave: rng.u8(..10) }
}

/// Logs the end of a hold when it is dropped, for its future can be dropped at any point.
struct Watched<'a, H: Held> {
    held: &'a H,
    log: &'a Log,
    /// Was told, or let go.
    ended: bool,
}

impl<H: Held> Watched<'_, H> {
    /// Asks, and logs the question with its answer.
    fn is_held(&mut self) -> Result<bool> {
        let hold = self.held.name();
        let before = now();
        if self.held.is_held() {
            let after = now();
            self.log.write(before, What::Yes { hold, after })?;
            return Ok(true);
        }
        self.log.write(before, What::No { hold })?;
        self.log.now(over(self.held))?;
        self.ended = true;
        Ok(false)
    }
}

/// The end of a hold that is over.
fn over(held: &impl Held) -> What {
    let (hold, how) = (held.name(), held.why());
    if how == GIVEN_UP { What::Releases { hold, how } } else { What::Lost { hold, how } }
}

impl<H: Held> Drop for Watched<'_, H> {
    fn drop(&mut self) {
        if !self.ended {
            let hold = self.held.name();
            let _ = self.log.now(match self.held.is_held() {
                true => What::Releases { hold, how: "dropped".to_owned() },
                false => over(self.held),
            });
        }
    }
}

/// To the end of the plan, or of the hold. Says whether it still held at the end.
pub(crate) async fn run<H: Held>(
    held: &H,
    plan: &Plan,
    log: &Log,
    store: SocketAddr,
) -> Result<bool> {
    let hold = held.name();
    let (session, nodes) = (held.session(), held.nodes());
    log.now(What::Holds { hold, session, nodes })?;
    let mut watched = Watched { held, log, ended: false };
    let mut work = std::pin::pin!(count(held, plan.counts, log, store));
    let mut counted = false;
    let mut lost = std::pin::pin!(held.lost());
    let mut told = false;
    let mut steps = 0;
    while steps < plan.steps || !counted {
        if !watched.is_held()? {
            // It never says yes again.
            sleep(STEP).await;
            watched.is_held()?;
            return Ok(false);
        }
        tokio::select! {
            () = sleep(STEP) => steps += 1,
            () = &mut lost, if !told => {
                told = true;
                // From here on a yes is a finding.
                log.now(over(held))?;
            }
            result = &mut work, if !counted => {
                result?;
                counted = true;
            }
        }
    }
    let held = watched.is_held()?;
    if held {
        watched.ended = true;
        log.now(What::Releases { hold, how: "worked".to_owned() })?;
    }
    Ok(held)
}

/// Increments the counters that it may write. After an outcome that is refused or unknown it does not go on.
async fn count<H: Held>(held: &H, times: u32, log: &Log, address: SocketAddr) -> Result<()> {
    let Name(mode, token) = held.name();
    if matches!(mode, Mode::Read | Mode::Beside) {
        return look(held, times, log).await;
    }
    for _ in 0..times {
        if held.counts_in(Counter::ZooKeeper)
            && let Ok((read, by)) = held.read_counter().await
        {
            let counter = Counter::ZooKeeper;
            log.now(What::Tries { counter, token, read, by })?;
            let outcome = held.write_counter(read + 1).await;
            log.now(What::Wrote { counter, token, outcome })?;
            if outcome != Outcome::Accepted {
                return Ok(());
            }
        }
        if held.counts_in(Counter::Store) {
            let stored = tokio::time::timeout(STORE_PATIENCE, store(token, log, address)).await;
            if !stored.unwrap_or(Ok(false))? {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Nobody writes while it reads, but the writer that it reads beside.
async fn look<H: Held>(held: &H, times: u32, log: &Log) -> Result<()> {
    for _ in 0..=times {
        if let Ok((read, by)) = held.read_counter().await {
            log.now(What::Sees { hold: held.name(), read, by })?;
        }
        sleep(STEP).await;
    }
    Ok(())
}

async fn store(token: i64, log: &Log, address: SocketAddr) -> Result<bool> {
    let counter = Counter::Store;
    let mut store = StoreClient::connect(address).await?;
    let Some((read, by)) = store.read(token).await? else { return Ok(false) };
    log.now(What::Tries { counter, token, read, by })?;
    let outcome = store.write(token, read + 1).await;
    log.now(What::Wrote { counter, token, outcome })?;
    Ok(outcome == Outcome::Accepted)
}
