//! One hold: asks all the time whether it holds, counts, and logs.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::sleep;
use tools::Result;
use zookeeper_recipes::{Curator, ErrorKind};

use crate::checker::Value;
use crate::guards::Holding;
use crate::log::{Counter, Log, Mode, Name, Node, Outcome, What, now};
use crate::settings::COUNTER;
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

/// What the worker asks of a lock that it holds, whichever lock that is.
pub(crate) trait Held {
    fn name(&self) -> Name;
    fn nodes(&self) -> Vec<Node>;
    /// Of the hold's nodes.
    fn session(&self) -> i64;
    fn is_held(&self) -> bool;
    /// Why it is not.
    fn why(&self) -> String;
    /// Resolves at the loss.
    fn lost(&self) -> impl Future<Output = ()>;
    /// Whether the hold entitles to write there.
    fn counts_in(&self, counter: Counter) -> bool;
    fn read_counter(&self) -> impl Future<Output = Result<Value>>;
    fn write_counter(&self, number: u64) -> impl Future<Output = Outcome>;
}

/// The crate's.
pub(crate) struct Real<'a, G> {
    pub(crate) guard: &'a G,
    /// What the worker takes it for.
    pub(crate) mode: Mode,
    pub(crate) curator: &'a Curator,
    pub(crate) ignores_lease: bool,
}

impl<G: Holding> Held for Real<'_, G> {
    fn name(&self) -> Name {
        Name(self.mode, self.guard.nodes().first().map_or(0, |node| node.token))
    }

    fn nodes(&self) -> Vec<Node> {
        self.guard.nodes()
    }

    fn session(&self) -> i64 {
        // If the guard says yes after this, then no epoch began in between, and this is the hold's.
        self.curator.session_id().unwrap_or_default()
    }

    fn is_held(&self) -> bool {
        self.ignores_lease || self.guard.is_held()
    }

    fn why(&self) -> String {
        self.guard.why()
    }

    async fn lost(&self) {
        if self.ignores_lease {
            std::future::pending::<()>().await;
        }
        self.guard.lost().await;
    }

    fn counts_in(&self, counter: Counter) -> bool {
        self.mode.is_exclusive() && self.guard.counts_in(counter)
    }

    async fn read_counter(&self) -> Result<Value> {
        // No `sync` is needed. Our admission came to us over this session, and every write of those before us is older than
        // what admitted us; a session never sees the past again, whatever member it moves to.
        let (data, _) = self.curator.client()?.get_data(COUNTER).await?;
        decode(&data)
    }

    async fn write_counter(&self, number: u64) -> Outcome {
        let Some(fenced) = self.guard.fenced() else { return Outcome::Refused };
        let Name(_, token) = self.name();
        match fenced.set(COUNTER, &encode(number, token)).await {
            Ok(()) => Outcome::Accepted,
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => Outcome::Unknown,
            Err(_) => Outcome::Refused,
        }
    }
}

pub(crate) fn encode(number: u64, token: i64) -> Vec<u8> {
    format!("{number} {token}").into_bytes()
}

/// Of an empty node: never written.
pub(crate) fn decode(data: &[u8]) -> Result<Value> {
    let text = str::from_utf8(data)?;
    let Some((number, token)) = text.split_once(' ') else { return Ok((0, 0)) };
    Ok((number.parse()?, token.parse()?))
}
