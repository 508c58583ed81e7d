//! Many who wait for one lock.

use tokio::time::Instant;

use super::{Measured, SESSION, Step};
use crate::Failure;
use crate::peer::Worker;
use crate::servers::float;

/// Over how many sessions they are spread at least; as many as there are waiters, if these are fewer.
const SESSIONS: usize = 20;

/// Of one session, with paths as short as here, so many have room for all of their watches.
const BY_SESSION: usize = 250;

/// The time of a hand-over among 10,000 is seen after a sample of so many.
const SAMPLE: usize = 1_000;

/// Of few, one round tells little: the medians of so many.
const ROUNDS: usize = 5;
const FEW: usize = 100;

const MEMORY: [&str; 3] =
    ["waiters/client-bytes", "waiters/client-resident", "waiters/server-bytes"];

impl Step<'_> {
    pub(super) async fn waiters(&self) -> Result<Measured, Failure> {
        let mut worker = self.worker(self.sessions(), SESSION).await?;
        let rounds = if self.n <= FEW { ROUNDS } else { 1 };
        let mut measured: Vec<Measured> = Vec::new();
        for _ in 0..rounds {
            measured.push(self.round(&mut worker).await?);
        }
        worker.end().await?;
        Ok(medians(&measured))
    }

    fn sessions(&self) -> usize {
        self.n.min(SESSIONS.max(self.n / BY_SESSION))
    }

    /// All enter the queue, and leave it one after the other.
    async fn round(&self, worker: &mut Worker) -> Result<Measured, Failure> {
        let (path, servers) = (self.path("w"), &self.servers.connect_string);
        worker.ask(&format!("gate {path} {servers} {SESSION}")).await?;
        let before = self.servers.quiet(self.sessions()).await?;
        let (memory, watches) = (self.look(worker).await?, self.servers.watches().await?);

        let began = Instant::now();
        worker.ask(&format!("enqueue {path} {}", self.n)).await?;
        self.servers.nodes_are(before.nodes + self.count()).await?;
        let enqueued = began.elapsed().as_secs_f64();
        let queued = self.servers.quiet(self.sessions()).await?;
        let set = self.servers.watches().await? - watches;
        let mut measured = self.memory(MEMORY, memory, self.look(worker).await?);

        let between = self.servers.counts().await?;
        let sample = self.n.min(SAMPLE);
        let drained = worker.ask(&format!("drain {sample}")).await?;
        let after = self.servers.quiet(self.sessions()).await?;

        let releases = float(sample as u64);
        let requests = after.requests - between.requests;
        let events = after.messages - between.messages - requests;
        measured.extend([
            ("waiters/enqueue-ms", 1e3 * enqueued / self.count()),
            ("waiters/enqueue-requests", (queued.requests - before.requests) / self.count()),
            ("waiters/hand-over-ms", 1e3 * drained / releases),
            ("waiters/hand-over-requests", requests / releases),
            ("waiters/events", events / releases),
            ("waiters/server-watches", set / self.count()),
        ]);
        Ok(measured)
    }
}

/// Of each quantity; all rounds have the same.
fn medians(rounds: &[Measured]) -> Measured {
    let quantities = rounds.first().map_or(0, Vec::len);
    let median = |index: usize| {
        let mut values: Vec<_> = rounds.iter().map(|round| round[index].1).collect();
        values.sort_by(f64::total_cmp);
        (rounds[0][index].0, values[values.len() / 2])
    };
    (0..quantities).map(median).collect()
}
