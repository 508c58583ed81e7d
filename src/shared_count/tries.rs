//! A request that is tried again: over reconnects as the retry policy allows, and over sessions.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::error::SharedCountError;
use crate::client::{ClientError, Failure};
use crate::lock_path::LockPath;
use crate::metrics::{self, Operation};
use crate::session::clock::Moment;
use crate::session::epoch::Epoch;
use crate::session::{NoEpoch, Session};

/// A request that failed.
#[derive(Debug)]
pub(super) struct Failed {
    /// What it was about: the count's path or one above it.
    pub(super) path: String,
    pub(super) operation: &'static str,
    pub(super) failure: Failure,
}

impl Failed {
    pub(super) fn at(path: &LockPath, operation: &'static str, failure: Failure) -> Self {
        Self { path: path.to_string(), operation, failure }
    }
}

/// What matters when a request is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// None that matters if it comes twice. A node that is not there may be there later.
    Harmless,
    /// Once an answer is missing, no later refusal says that nothing was written.
    Write,
}

/// Tries `attempt` in the present session and in the next ones, until it is answered. It is told whether an
/// earlier try may have written.
pub(super) async fn tried<T, F>(
    session: &Session,
    path: &LockPath,
    effect: Effect,
    mut attempt: impl FnMut(Arc<Epoch>, bool) -> F + Send,
) -> Result<T, SharedCountError>
where
    T: Send,
    F: Future<Output = Result<T, Failed>> + Send,
{
    let patience = session.settings.connection_timeout;
    let (began, mut retry) = (Moment::now(), session.settings.retry.start());
    // The first request that nobody answered.
    let mut lost: Option<ClientError> = None;
    loop {
        let epoch = match session.epoch(patience).await {
            Ok(epoch) => epoch,
            Err(none) => return Err(unless_lost(lost, path, no_session(path, patience, none))),
        };
        let attempted = tokio::select! {
            biased;
            () = epoch.over().cancelled() => {
                Err(Failed::at(path, "reach", Failure::session_over()))
            }
            attempted = attempt(epoch.clone(), lost.is_some()) => attempted,
        };
        let failed = match attempted {
            Ok(answer) => return Ok(answer),
            Err(failed) => failed,
        };
        if let Failure::Unknown(error) | Failure::SessionOver(error) = &failed.failure
            && effect == Effect::Write
        {
            lost.get_or_insert_with(|| error.clone());
            metrics::unknown(Operation::Count);
        }
        let pause = match &failed.failure {
            Failure::SessionOver(_) => {
                // The supervisor is about to end it; the next epoch is asked in its place.
                epoch.over().cancelled().await;
                continue;
            }
            Failure::Unknown(_) | Failure::NotNow(_) => retry.next_pause(began.elapsed()),
            Failure::NoNode if effect == Effect::Harmless => retry.next_pause(began.elapsed()),
            Failure::NoNode | Failure::NodeExists | Failure::Refused(_) => {
                return Err(unless_lost(lost, path, refusal(failed)));
            }
        };
        let Some(pause) = pause else {
            let source = failed.failure.into_source();
            let exhausted = SharedCountError::RetriesExhausted { path: path.to_string(), source };
            return Err(unless_lost(lost, path, exhausted));
        };
        tracing::debug!(%path, failure = ?failed.failure, ?pause, "tries again");
        metrics::retried(Operation::Count);
        session.pause(pause).await;
    }
}

fn no_session(path: &LockPath, waited: Duration, none: NoEpoch) -> SharedCountError {
    let path = path.to_string();
    match none {
        NoEpoch::NotNow => SharedCountError::TimedOut { path, waited },
        NoEpoch::Over(source) => SharedCountError::Session { path, source },
    }
}

/// A refusal says nothing of an earlier try.
fn unless_lost(
    lost: Option<ClientError>,
    path: &LockPath,
    error: SharedCountError,
) -> SharedCountError {
    match lost {
        Some(source) => SharedCountError::Unknown { path: path.to_string(), source },
        None => error,
    }
}

fn refusal(Failed { path, operation, failure }: Failed) -> SharedCountError {
    match failure {
        Failure::NoNode => SharedCountError::NoNode { path },
        Failure::Refused(source) if source.is_no_auth() => {
            SharedCountError::NoAuth { path, operation }
        }
        Failure::Refused(source) => SharedCountError::Refused { path, operation, source },
        failure => SharedCountError::RetriesExhausted { path, source: failure.into_source() },
    }
}
