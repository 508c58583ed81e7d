//! Retrying: [`RetryPolicy`] says how often and after which pauses, [`RetryLoop`] counts the retries of one operation, and
//! [`with_retry`] repeats a request over reconnects and sessions.

use std::fmt::{self, Debug};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

use super::session::Session;
use super::{Connection, NoSession};
use crate::client::{ClientError, Failed, Failure};
use crate::clock::BootInstant;
use crate::error::Error;
use crate::lock_path::LockPath;
use crate::metrics::{self, Operation};
use crate::random;

/// Curator's cap on one pause: `Integer.MAX_VALUE` milliseconds.
const LONGEST_PAUSE: Duration = Duration::from_millis(i32::MAX as u64);

/// A pause of zero would turn an outage into a busy loop.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// Chooses how often an operation is retried whose outcome is unknown, or that the server could not serve now.
///
/// The policies have Apache Curator's names. A policy never retries an operation that the server refused for good
/// (no permission, an invalid ACL), and a caller's deadline always ends the retries.
///
/// The default is Curator's usual one, [`exponential_backoff(1 s, 3)`](Self::exponential_backoff).
///
/// ```
/// # use std::time::Duration;
/// # use zookeeper_recipes::session::RetryPolicy;
/// let patient = RetryPolicy::forever(Duration::from_secs(1));
/// let repeatable = RetryPolicy::exponential_backoff(Duration::from_millis(100), 10).with_seed(7);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    first: Duration,
    longest: Duration,
    retries: usize,
    total: Option<Duration>,
    seed: Option<u64>,
}

impl RetryPolicy {
    /// Curator's `ExponentialBackoffRetry`: `retries` times; the n-th pause is random between
    /// `base * 2^(n-1)` and twice that. (Curator draws from a wider range with the same growth.)
    #[doc(alias = "ExponentialBackoffRetry")]
    pub fn exponential_backoff(base: Duration, retries: usize) -> Self {
        Self::bounded_exponential_backoff(base, LONGEST_PAUSE, retries)
    }

    /// Curator's `BoundedExponentialBackoffRetry`: as [`exponential_backoff`](Self::exponential_backoff), with no pause longer
    /// than `longest`.
    #[doc(alias = "BoundedExponentialBackoffRetry")]
    pub fn bounded_exponential_backoff(base: Duration, longest: Duration, retries: usize) -> Self {
        let longest = longest.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        let first = base.clamp(SHORTEST_PAUSE, longest);
        Self { first, longest, retries, total: None, seed: None }
    }

    /// Curator's `RetryNTimes`: `retries` times, each after `pause`.
    #[doc(alias = "RetryNTimes")]
    pub fn n_times(retries: usize, pause: Duration) -> Self {
        Self::bounded_exponential_backoff(pause, pause, retries)
    }

    /// Curator's `RetryOneTime`: once, after `pause`.
    #[doc(alias = "RetryOneTime")]
    pub fn one_time(pause: Duration) -> Self {
        Self::n_times(1, pause)
    }

    /// Curator's `RetryForever`: until it succeeds, the caller gives up or the session is closed.
    #[doc(alias = "RetryForever")]
    pub fn forever(pause: Duration) -> Self {
        Self::n_times(usize::MAX, pause)
    }

    /// Curator's `RetryUntilElapsed`: while less than `total` has passed since the first try, each after `pause`. (A pause
    /// that would end after `total` is not begun. Curator sleeps it in vain.)
    #[doc(alias = "RetryUntilElapsed")]
    pub fn until_elapsed(total: Duration, pause: Duration) -> Self {
        Self { total: Some(total), ..Self::forever(pause) }
    }

    /// Never retries.
    pub fn never() -> Self {
        Self::n_times(0, SHORTEST_PAUSE)
    }

    /// Retries until the work is done or no longer wanted, with pauses from 100 ms to 10 s.
    pub(crate) fn endless() -> Self {
        let shortest = Duration::from_millis(100);
        let longest = Duration::from_secs(10);
        Self::bounded_exponential_backoff(shortest, longest, usize::MAX)
    }

    /// Makes the random pauses repeatable.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Starts to count the retries of one operation.
    pub(crate) fn start(&self) -> Retry {
        let mut pauses = ExponentialBuilder::new()
            .with_min_delay(self.first)
            .with_max_delay(self.longest)
            .with_max_times(self.retries)
            .with_jitter();
        if let Some(seed) = self.seed.or_else(random::seed) {
            pauses = pauses.with_jitter_seed(seed);
        }
        Retry { pauses: pauses.build(), policy: self.clone() }
    }
}

/// The limit that ends the retries.
impl fmt::Display for RetryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.total, self.retries) {
            (Some(total), _) => write!(f, "the retry policy allows retries for {total:?}"),
            (None, 0) => f.write_str("the retry policy allows no retry"),
            (None, 1) => f.write_str("the retry policy allows one retry"),
            (None, retries) => write!(f, "the retry policy allows {retries} retries"),
        }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::exponential_backoff(Duration::from_secs(1), 3)
    }
}

/// The state of one operation's retries.
#[derive(Debug)]
pub(crate) struct Retry {
    pauses: <ExponentialBuilder as BackoffBuilder>::Backoff,
    policy: RetryPolicy,
}

impl Retry {
    /// Returns the pause before the next try, or `None` when the policy is used up. `elapsed` counts from the first try.
    pub(crate) fn next_pause(&mut self, elapsed: Duration) -> Option<Duration> {
        // The jitter is added above the bound. If the first pause is the longest, this makes all pauses equal.
        let pause = self.pauses.next()?.min(self.policy.longest);
        let ends = elapsed.saturating_add(pause);
        self.policy.total.is_none_or(|total| ends < total).then_some(pause)
    }

    /// Returns the next pause of a policy that allows retries without an end.
    pub(crate) fn next_endless(&mut self) -> Duration {
        self.next_pause(Duration::ZERO).unwrap_or(self.policy.longest)
    }

    /// Begins with the first pause again.
    pub(crate) fn restart(&mut self) {
        *self = self.policy.start();
    }
}

/// The retries of one operation, counted from the first try: logs each, adds it to the metrics, and pauses.
#[derive(Debug)]
pub(crate) struct RetryLoop {
    started: BootInstant,
    retry: Retry,
    operation: Operation,
}

impl RetryLoop {
    pub(crate) fn new(policy: &RetryPolicy, operation: Operation) -> Self {
        let started = BootInstant::now();
        let retry = policy.start();
        Self { started, retry, operation }
    }

    /// Counts from the next failure again.
    pub(crate) fn restart(&mut self) {
        self.started = BootInstant::now();
        self.retry.restart();
    }

    /// Returns the pause before the next try, or `None` if the policy allows no further one.
    pub(crate) fn next_pause(&mut self, failure: &impl Debug) -> Option<Duration> {
        let pause = self.retry.next_pause(self.started.elapsed())?;
        tracing::debug!(operation = self.operation.name(), ?failure, ?pause, "trying again");
        metrics::retried(self.operation);
        Some(pause)
    }

    /// Pauses before the next try, and ends the pause early when a server answers again. Returns false at once if the policy
    /// allows no further try.
    pub(crate) async fn backoff(
        &mut self,
        connection: &Connection,
        failure: &(impl Debug + Sync),
    ) -> bool {
        let Some(pause) = self.next_pause(failure) else {
            return false;
        };
        connection.pause(pause).await;
        true
    }
}

/// Chooses what the failures of a repeated request mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idempotent {
    /// Repeating the request has no further effect. A missing node may be created later, so that is retried as well.
    Yes,
    /// A write. Once an answer is missing, no later refusal proves that nothing was written.
    No,
}

/// Repeats `attempt` in the present session and in the next ones until a server answers, as `policy` allows. The second
/// argument of `attempt` is true if an earlier one may have written.
pub(crate) async fn with_retry<T, F>(
    connection: &Connection,
    path: &LockPath,
    policy: &RetryPolicy,
    idempotent: Idempotent,
    mut attempt: impl FnMut(Arc<Session>, bool) -> F + Send,
) -> Result<T, Error>
where
    T: Send,
    F: Future<Output = Result<T, Failed>> + Send,
{
    let patience = connection.settings.connection_timeout;
    let mut retry = RetryLoop::new(policy, Operation::REQUEST);
    // The error of the first write that no server answered.
    let mut unanswered: Option<ClientError> = None;
    let error = loop {
        let failure = match connection.session(patience).await {
            Err(NoSession::Closed(error)) => break error.while_doing(path).at(path),
            Err(NoSession::NotConnected) => None,
            Ok(session) => {
                let attempted = tokio::select! {
                    biased;
                    () = session.ended().cancelled() => {
                        Err(Failed::at(path, "reach", Failure::session_over()))
                    }
                    attempted = attempt(session.clone(), unanswered.is_some()) => attempted,
                };
                let failed = match attempted {
                    Ok(answer) => return Ok(answer),
                    Err(failed) => failed,
                };
                if let Failure::Unknown(error) | Failure::SessionOver(error) = &failed.failure
                    && idempotent == Idempotent::No
                {
                    unanswered.get_or_insert_with(|| error.clone());
                    metrics::unknown(Operation::WRITE);
                }
                match failed.failure {
                    Failure::SessionOver(_) => {
                        // The supervisor is about to end the session. The next try is in the one that follows.
                        session.ended().cancelled().await;
                        continue;
                    }
                    Failure::NodeExists | Failure::Refused(_) => break failed.into_error(),
                    Failure::NoNode if idempotent == Idempotent::No => break failed.into_error(),
                    failure => Some(failure),
                }
            }
        };
        let pause = match &failure {
            Some(failure) => retry.next_pause(&format_args!("{path}: {failure:?}")),
            None => retry.next_pause(&format_args!("{path}: no session")),
        };
        let Some(pause) = pause else {
            break Error::gave_up(path, policy).because(failure.and_then(Failure::into_source));
        };
        connection.pause_unless_ended(pause).await;
    };
    // An error of this try proves nothing about an earlier one that was not answered.
    match unanswered {
        Some(cause) => Err(Error::unknown(path).because(Some(cause))),
        None => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn pauses(policy: &RetryPolicy, at_most: usize) -> Vec<Duration> {
        let mut retry = policy.start();
        std::iter::from_fn(|| retry.next_pause(Duration::ZERO)).take(at_most).collect()
    }

    #[test]
    fn how_often_each_policy_retries() {
        let table = [
            (RetryPolicy::default(), Some(3)),
            (RetryPolicy::exponential_backoff(S, 7), Some(7)),
            (RetryPolicy::bounded_exponential_backoff(S, 2 * S, 5), Some(5)),
            (RetryPolicy::n_times(4, S), Some(4)),
            (RetryPolicy::one_time(S), Some(1)),
            (RetryPolicy::never(), Some(0)),
            (RetryPolicy::forever(S), None),
            (RetryPolicy::until_elapsed(S, S / 10), None),
        ];
        for (policy, retries) in table {
            assert_eq!(pauses(&policy, 50).len(), retries.unwrap_or(50), "{policy:?}");
        }
    }

    #[test]
    fn exponential_pauses_double_within_their_range() {
        for (n, pause) in pauses(&RetryPolicy::exponential_backoff(S, 6), 6).into_iter().enumerate()
        {
            let floor = S * 2_u32.pow(n.try_into().unwrap());
            assert!((floor..=2 * floor).contains(&pause), "{n}: {pause:?}");
        }
    }

    #[test]
    fn no_pause_exceeds_the_bound_and_no_count_overflows() {
        let bounded = RetryPolicy::bounded_exponential_backoff(S, 3 * S, usize::MAX);
        assert!(pauses(&bounded, 10_000).iter().all(|pause| *pause <= 3 * S));
        let endless = RetryPolicy::exponential_backoff(Duration::MAX, usize::MAX);
        assert!(pauses(&endless, 10_000).iter().all(|pause| *pause <= LONGEST_PAUSE));
        let many = RetryPolicy::exponential_backoff(S, usize::MAX);
        assert!(pauses(&many, 10_000).iter().all(|pause| *pause <= LONGEST_PAUSE));
    }

    #[test]
    fn the_same_seed_gives_the_same_pauses() {
        let policy = RetryPolicy::exponential_backoff(S, 20);
        let seeded = policy.clone().with_seed(42);
        assert_eq!(pauses(&seeded, 20), pauses(&seeded, 20));
        assert_ne!(pauses(&seeded, 20), pauses(&policy.with_seed(43), 20));
    }

    #[test]
    fn until_elapsed_stops_when_the_time_is_up() {
        let mut retry = RetryPolicy::until_elapsed(S, S / 4).start();
        assert_eq!(retry.next_pause(Duration::ZERO), Some(S / 4));
        assert_eq!(retry.next_pause(S / 2), Some(S / 4));
        assert_eq!(retry.next_pause(S * 3 / 4), None);
    }

    #[test]
    fn a_pause_of_zero_is_lengthened() {
        for policy in [
            RetryPolicy::forever(Duration::ZERO),
            RetryPolicy::exponential_backoff(Duration::ZERO, 1),
        ] {
            assert!(pauses(&policy, 1)[0] >= SHORTEST_PAUSE, "{policy:?}");
        }
    }
}
