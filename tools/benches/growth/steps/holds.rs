//! Many locks that are held by few clients.

use tokio::time::{Duration, Instant, sleep};

use super::{Measured, Step};
use crate::Failure;
use crate::servers::float;

/// Our workers' `ephemeral_limit` lets a session have some more.
const BY_SESSION: usize = 10_000;

/// How many are acquired at a time, by as many of Curator's threads.
const WIDTH: usize = 16;

/// A probe of ours every 2 s.
const SESSION: u64 = 14_000;

/// Until each hold has seen a renewal of the lease, and set its watch if it sets one then.
const SETTLED: Duration = Duration::from_millis(SESSION / 6 + 700);

impl Step<'_> {
    pub(super) async fn holds(&self) -> Result<Measured, Failure> {
        let sessions = self.n.div_ceil(BY_SESSION);
        let path = self.path("h");
        // Before the cycles that warm up: the servers keep the last 500 transactions in memory.
        self.servers.make(&path, "", self.n).await?;
        let mut worker = self.worker(sessions, SESSION).await?;
        let before = self.servers.quiet(sessions).await?;
        let memory = self.look(&mut worker).await?;
        let watches = self.servers.watches().await?;

        let start = self.servers.counts().await?;
        let acquired = worker.ask(&format!("hold {path}/ {} {WIDTH}", self.n)).await?;
        let held = self.servers.counts().await?;
        let lacking = before.nodes + self.count() - held.nodes;
        if lacking > 0.0 {
            return Err(format!("{lacking} nodes are missing").into());
        }
        sleep(SETTLED).await;
        self.servers.quiet(sessions).await?;
        let (idle, began) = (self.servers.counts().await?, Instant::now());
        sleep(self.long).await;
        let asked = self.servers.counts().await?.requests - idle.requests;
        let asked = asked / began.elapsed().as_secs_f64();
        let set = self.servers.watches().await? - watches;
        let more_memory = self.look(&mut worker).await?;

        let released = worker.ask("release").await?;
        worker.end().await?;
        self.servers.remove(&path).await?;
        let names = ["holds/client-bytes", "holds/client-resident", "holds/server-bytes"];
        let mut measured = self.memory(names, memory, more_memory);
        measured.extend([
            ("holds/acquire-ms", 1e3 * acquired / self.count()),
            ("holds/acquire-requests", (held.requests - start.requests) / self.count()),
            ("holds/release-ms", 1e3 * released / self.count()),
            ("holds/idle-requests", asked / float(sessions as u64)),
            ("holds/server-watches", set / self.count()),
        ]);
        Ok(measured)
    }
}
