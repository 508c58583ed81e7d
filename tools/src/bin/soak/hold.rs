//! One hold: asks all the time whether it holds, counts, and logs.

use std::net::SocketAddr;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::{sleep, timeout};
use tools::Result;
use zookeeper_recipes::{Curator, ErrorKind, Hold};

use crate::candidate::Candidate;
use crate::checker::Value;
use crate::log::{Counter, Log, Mode, Name, Outcome, What, now, sequence_number};
use crate::settings::COUNTER;
use crate::store::StoreClient;

/// Between two questions.
const STEP: Duration = Duration::from_millis(3);
/// The outside store is near: a worker that waits longer was stopped, or the run is over.
const STORE_PATIENCE: Duration = Duration::from_secs(5);

/// What a hold is to do.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) steps: u32,
    /// How often it counts, each time in all counters that it may write.
    pub(crate) counts: u32,
    /// How it is released, below ten.
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

/// A hold, and what the worker takes it for.
pub(crate) struct Held<'a> {
    pub(crate) hold: &'a Hold,
    pub(crate) mode: Mode,
    /// Of a term: the worker asks the candidate as well.
    pub(crate) candidate: Option<&'a Candidate>,
    pub(crate) ignores_lease: bool,
    /// Other libraries contend as well.
    pub(crate) is_mixed: bool,
    pub(crate) curator: &'a Curator,
    pub(crate) log: &'a Log,
    pub(crate) store: SocketAddr,
}

/// Logs the end of a hold when it is dropped, for its future can be dropped at any point.
struct Watched<'a> {
    held: &'a Held<'a>,
    /// The end is logged.
    ended: bool,
}

impl Watched<'_> {
    /// Asks, and logs the question with its answer.
    fn is_held(&mut self) -> Result<bool> {
        let (hold, log, before) = (self.held.name(), self.held.log, now());
        if self.held.is_held() {
            let after = now();
            log.write(before, What::Yes { hold, after })?;
            return Ok(true);
        }
        log.write(before, What::No { hold })?;
        log.now(self.held.over())?;
        self.ended = true;
        Ok(false)
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let hold = self.held.name();
            let _ = self.held.log.now(match self.held.is_held() {
                true => What::Releases { hold, how: "dropped".to_owned() },
                false => self.held.over(),
            });
        }
    }
}

impl Held<'_> {
    fn name(&self) -> Name {
        Name(self.mode, self.hold.fencing_token().value())
    }

    pub(crate) fn is_held(&self) -> bool {
        let leads = self.candidate.is_none_or(Candidate::is_leader);
        self.ignores_lease || (leads && self.hold.is_held())
    }

    async fn lost(&self) {
        if self.ignores_lease {
            std::future::pending::<()>().await;
        }
        if self.candidate.is_none() {
            self.hold.lost().await;
            return;
        }
        // Also when it is closed from elsewhere, and not when it is only asked to step down.
        self.hold.cancellation_token().cancelled().await;
        while self.hold.is_held() {
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// The end of a hold that is over.
    fn over(&self) -> What {
        let hold = self.name();
        match self.hold.loss() {
            None if self.candidate.is_some() => {
                What::Releases { hold, how: "closed from elsewhere".to_owned() }
            }
            loss => {
                What::Lost { hold, how: loss.map_or_else(String::new, |loss| format!("{loss:?}")) }
            }
        }
    }

    /// To the end of the plan, or of the hold. Says whether it still held at the end.
    pub(crate) async fn run(&self, plan: &Plan) -> Result<bool> {
        let hold = self.name();
        // If the hold says yes after this, then no epoch began in between, and this session is the hold's.
        let session = self.curator.session_id().unwrap_or_default();
        self.log.now(What::Holds { hold, session, node: self.hold.node().to_owned() })?;
        let mut watched = Watched { held: self, ended: false };
        if self.is_mixed {
            tokio::select! {
                nodes = self.nodes_before() => self.log.now(What::Behind { hold, nodes: nodes? })?,
                _ = self.hold.lost() => {}
            }
        }
        let mut work = std::pin::pin!(self.count(plan.counts));
        let mut counted = false;
        let mut lost = std::pin::pin!(self.lost());
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
                    self.log.now(self.over())?;
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
            self.log.now(What::Releases { hold, how: "worked".to_owned() })?;
        }
        Ok(held)
    }

    /// The nodes with a smaller number than the hold's own, when a server answers.
    async fn nodes_before(&self) -> Result<Vec<String>> {
        let own = sequence_number(self.hold.node()).ok_or("a node without a number")?;
        let (parent, _) = self.hold.node().rsplit_once('/').ok_or("a node without a parent")?;
        loop {
            if let Ok(client) = self.curator.client()
                && let Ok(mut names) = client.list_children(parent).await
            {
                names.retain(|name| sequence_number(name).is_some_and(|number| number < own));
                return Ok(names.iter().map(|name| format!("{parent}/{name}")).collect());
            }
            sleep(STEP).await;
        }
    }

    /// Increments the counters that it may write. After an outcome that is refused or unknown it does not go on.
    async fn count(&self, times: u32) -> Result<()> {
        match self.mode {
            Mode::Read | Mode::Beside => return self.look(times).await,
            // It excludes none of the others that would write.
            Mode::Lease => return Ok(()),
            Mode::Lock | Mode::Write | Mode::Leader => {}
        }
        let Name(_, token) = self.name();
        for _ in 0..times {
            if let Ok((read, by)) = self.read_counter().await {
                let counter = Counter::ZooKeeper;
                self.log.now(What::Tries { counter, token, read, by })?;
                let outcome = self.write_counter(read + 1, token).await;
                self.log.now(What::Wrote { counter, token, outcome })?;
                if outcome != Outcome::Accepted {
                    return Ok(());
                }
            }
            let stored = timeout(STORE_PATIENCE, self.count_in_store(token)).await;
            if !stored.unwrap_or(Ok(false))? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// While it reads only the writer that it reads beside may write.
    async fn look(&self, times: u32) -> Result<()> {
        for _ in 0..=times {
            if let Ok((read, by)) = self.read_counter().await {
                self.log.now(What::Sees { hold: self.name(), read, by })?;
            }
            sleep(STEP).await;
        }
        Ok(())
    }

    async fn read_counter(&self) -> Result<Value> {
        // No `sync` is needed. Our admission came to us over this session, and every write of those before us is older than
        // what admitted us; a session never sees the past again, whatever member it moves to.
        let (data, _) = self.curator.client()?.get_data(COUNTER).await?;
        decode(&data)
    }

    async fn write_counter(&self, number: u64, token: i64) -> Outcome {
        match self.hold.fenced().set(COUNTER, format!("{number} {token}").as_bytes()).await {
            Ok(()) => Outcome::Accepted,
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => Outcome::Unknown,
            Err(_) => Outcome::Refused,
        }
    }

    async fn count_in_store(&self, token: i64) -> Result<bool> {
        let counter = Counter::Store;
        let mut store = StoreClient::connect(self.store).await?;
        let Some((read, by)) = store.read(token).await? else { return Ok(false) };
        self.log.now(What::Tries { counter, token, read, by })?;
        let outcome = store.write(token, read + 1).await;
        self.log.now(What::Wrote { counter, token, outcome })?;
        Ok(outcome == Outcome::Accepted)
    }
}

/// Of an empty node: never written.
pub(crate) fn decode(data: &[u8]) -> Result<Value> {
    let text = str::from_utf8(data)?;
    let Some((number, token)) = text.split_once(' ') else { return Ok((0, 0)) };
    Ok((number.parse()?, token.parse()?))
}
