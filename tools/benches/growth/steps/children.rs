//! A lock path that has other children than contenders.

use super::{Measured, SESSION, Step};
use crate::Failure;
use crate::servers::float;

/// New sessions, one after the other: the median of their first acquires is what counts.
const FIRSTS: usize = 5;

/// Cycles before and during the measurement.
const TRIAL: usize = 5;
const MOST: f64 = 1_000.0;

impl Step<'_> {
    pub(super) async fn children(&self) -> Result<Measured, Failure> {
        let path = self.path("c");
        self.servers.make(&path, "f", self.n).await?;
        let mut worker = self.worker(1, SESSION).await?;
        let mut firsts = Vec::new();
        for _ in 0..FIRSTS {
            let servers = &self.servers.connect_string;
            firsts.push(worker.ask(&format!("first {path} {servers} {SESSION}")).await?);
        }
        firsts.sort_by(f64::total_cmp);
        let trial = worker.ask(&format!("cycles {path} {TRIAL}")).await?;
        let one = trial / float(TRIAL as u64);
        let cycles = (self.long.as_secs_f64() / 8.0 / one).clamp(3.0, MOST).round();
        let before = self.servers.quiet(1).await?;
        let seconds = worker.ask(&format!("cycles {path} {cycles}")).await?;
        let after = self.servers.quiet(1).await?;
        worker.end().await?;
        self.servers.remove(&path).await?;
        Ok(vec![
            ("children/first-ms", 1e3 * firsts[FIRSTS / 2]),
            ("children/cycle-ms", 1e3 * seconds / cycles),
            ("children/cycle-requests", (after.requests - before.requests) / cycles),
        ])
    }
}
