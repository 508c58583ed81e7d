//! The retries of an entry. A failure counts against the retry policy of each caller that waits, not only of the first.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use super::driver::QueueDriver;
use super::local_queue::Ticket;
use super::request::{EntryAborted, Request};
use crate::client::Failure;
use crate::clock::BootInstant;
use crate::metrics::{self, Operation};
use crate::session::Connection;
use crate::session::retry::{Retry, RetryPolicy};

/// The failures of one operation, as they count for each caller that waits.
#[derive(Debug)]
pub(super) struct Retries {
    started: BootInstant,
    by_caller: BTreeMap<Ticket, Retry>,
}

impl Retries {
    pub(super) fn start() -> Self {
        Self { started: BootInstant::now(), by_caller: BTreeMap::new() }
    }

    /// Forgets the callers that wait no longer.
    pub(super) fn keep(&mut self, waits: impl Fn(Ticket) -> bool) {
        self.by_caller.retain(|caller, _| waits(*caller));
    }

    /// Counts a failure for a caller that has waited since `joined`. Returns the caller's pause, or `None` if its policy allows no
    /// further try.
    pub(super) fn next_pause(
        &mut self,
        caller: Ticket,
        joined: BootInstant,
        policy: &RetryPolicy,
    ) -> Option<Duration> {
        let retry = self.by_caller.entry(caller).or_insert_with(|| policy.start());
        retry.next_pause(self.started.max(joined).elapsed())
    }
}

/// The callers for which a request is repeated.
#[derive(Clone, Copy)]
pub(super) enum Callers<'a> {
    /// All that wait in a local queue.
    Waiting(&'a QueueDriver),
    /// The one of a request.
    One(&'a Connection, &'a Request),
}

impl Callers<'_> {
    /// Repeats `operation` while it fails for a reason that may pass, and a caller's policy allows it.
    pub(super) async fn retried<T, F>(
        self,
        mut operation: impl FnMut() -> F + Send,
    ) -> Result<Result<T, Failure>, EntryAborted>
    where
        T: Send,
        F: Future<Output = Result<T, Failure>> + Send,
    {
        match self {
            Callers::Waiting(queue) => {
                let mut retries = Retries::start();
                loop {
                    let cause = match operation().await {
                        Err(Failure::Unknown(cause) | Failure::NotNow(cause)) => cause,
                        settled => return Ok(settled),
                    };
                    let pause = queue.next_pause(&mut retries, Some(cause)).await?;
                    metrics::retried(Operation::REQUEST);
                    queue.connection().pause(pause).await;
                }
            }
            Callers::One(connection, request) => {
                match connection.retried(&request.retry, operation).await {
                    Err(Failure::Unknown(cause) | Failure::NotNow(cause)) => {
                        Err(EntryAborted::Failed(request.exhausted(Some(cause))))
                    }
                    settled => Ok(settled),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_that_waits_no_longer_is_forgotten() {
        let mut retries = Retries::start();
        let policy = RetryPolicy::default();
        for caller in 0..9 {
            retries.keep(|ticket| ticket + 2 > caller);
            assert!(retries.next_pause(caller, BootInstant::now(), &policy).is_some());
        }
        assert_eq!(retries.by_caller.len(), 2);
    }
}
