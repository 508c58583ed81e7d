//! Sessions that acquire and release without a pause: one lock, or each its own.

use super::{Measured, SESSION, Step};
use crate::Failure;

impl Step<'_> {
    pub(super) async fn clients(&self) -> Result<Measured, Failure> {
        let mut worker = self.worker(self.n, SESSION).await?;
        let long = self.long.as_millis() / 4;
        let mut measured = Vec::new();
        for (locks, rate, requests) in [
            ("one", "clients/one-rate", "clients/one-requests"),
            ("own", "clients/own-rate", "clients/own-requests"),
        ] {
            let before = self.servers.quiet(self.n).await?;
            let command = format!("contend {} {locks} {long}", self.path(locks));
            let (of_a_second, cycles) = worker.ask_both(&command).await?;
            let after = self.servers.quiet(self.n).await?;
            measured.push((rate, of_a_second));
            measured.push((requests, (after.requests - before.requests) / cycles));
        }
        worker.end().await?;
        Ok(measured)
    }
}
