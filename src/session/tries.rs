//! A request that is tried again: over reconnects as the retry policy allows, and over sessions.

use std::future::Future;
use std::sync::Arc;

use super::retry::RetryPolicy;
use super::session::Session;
use super::{Connection, NoSession};
pub(crate) use crate::client::Failed;
use crate::client::{ClientError, Failure};
use crate::clock::BootInstant;
use crate::error::Error;
use crate::lock_path::LockPath;
use crate::metrics::{self, Operation};

/// What matters when a request is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Idempotent. A node that is not there may be there later.
    Harmless,
    /// Once an answer is missing, no later refusal says that nothing was written.
    Write,
}

/// Tries `attempt` in the present session and in the next ones, until it is answered. It gets whether an
/// earlier try may have written.
pub(crate) async fn tried<T, F>(
    connection: &Connection,
    path: &LockPath,
    policy: &RetryPolicy,
    effect: Effect,
    mut attempt: impl FnMut(Arc<Session>, bool) -> F + Send,
) -> Result<T, Error>
where
    T: Send,
    F: Future<Output = Result<T, Failed>> + Send,
{
    let patience = connection.settings.connection_timeout;
    let (began, mut retry) = (BootInstant::now(), policy.start());
    // The first request that no server answered.
    let mut lost: Option<ClientError> = None;
    let error = loop {
        let failed = match connection.session(patience).await {
            Err(NoSession::Closed(error)) => break error.while_doing(path).at(path),
            Err(NoSession::NotConnected) => None,
            Ok(session) => {
                let attempted = tokio::select! {
                    biased;
                    () = session.ended().cancelled() => {
                        Err(Failed::at(path, "reach", Failure::session_over()))
                    }
                    attempted = attempt(session.clone(), lost.is_some()) => attempted,
                };
                let failed = match attempted {
                    Ok(answer) => return Ok(answer),
                    Err(failed) => failed,
                };
                if let Failure::Unknown(error) | Failure::SessionOver(error) = &failed.failure
                    && effect == Effect::Write
                {
                    lost.get_or_insert_with(|| error.clone());
                    metrics::unknown(Operation::WRITE);
                }
                match failed.failure {
                    Failure::SessionOver(_) => {
                        // The supervisor is about to end it; the next session is asked in its place.
                        session.ended().cancelled().await;
                        continue;
                    }
                    Failure::NodeExists | Failure::Refused(_) => break failed.into_error(),
                    Failure::NoNode if effect == Effect::Write => break failed.into_error(),
                    failure => Some(failure),
                }
            }
        };
        let Some(pause) = retry.next_pause(began.elapsed()) else {
            break Error::unavailable(path, None).because(failed.and_then(Failure::into_source));
        };
        tracing::debug!(%path, ?failed, ?pause, "tries again");
        metrics::retried(Operation::REQUEST);
        connection.pause(pause).await;
    };
    // A refusal says nothing of an earlier try.
    Err(if lost.is_some() { Error::unknown(path).because(lost) } else { error })
}
