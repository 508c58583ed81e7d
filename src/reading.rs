//! Reading what is at the servers, in whichever epoch there is.

use std::future::Future;
use std::sync::Arc;

use crate::client::Failure;
use crate::error::AcquireError;
use crate::lock_path::LockPath;
use crate::metrics::{self, Operation};
use crate::queue::refusal;
use crate::retry::RetryPolicy;
use crate::session::clock::Moment;
use crate::session::epoch::Epoch;
use crate::session::{NoEpoch, Session};

/// Repeats `read` under `retry`, and in the next epoch when one ends.
pub(crate) async fn reading<T, F>(
    session: &Arc<Session>,
    path: &LockPath,
    retry: &RetryPolicy,
    read: impl Fn(Arc<Epoch>) -> F + Send + Sync,
) -> Result<T, AcquireError>
where
    T: Send,
    F: Future<Output = Result<T, Failure>> + Send,
{
    let patience = session.settings.connection_timeout;
    let text = || path.to_string();
    let (began, mut tries) = (Moment::now(), retry.start());
    loop {
        let epoch = match session.epoch(patience).await {
            Ok(epoch) => epoch,
            Err(NoEpoch::Over(source)) => {
                return Err(AcquireError::Session { path: text(), source });
            }
            Err(NoEpoch::NotNow) => match tries.next_pause(began.elapsed()) {
                Some(pause) => {
                    metrics::retried(Operation::Request);
                    session.pause(pause).await;
                    continue;
                }
                None => return Err(AcquireError::RetriesExhausted { path: text(), source: None }),
            },
        };
        let reading = session.retried(retry, || read(epoch.clone()));
        let read = tokio::select! {
            biased;
            // The next epoch is asked in its place.
            () = epoch.over().cancelled() => continue,
            read = reading => read,
        };
        return match read {
            Ok(read) => Ok(read),
            Err(Failure::SessionOver(_)) => {
                // The supervisor is about to end it.
                epoch.over().cancelled().await;
                continue;
            }
            Err(Failure::Refused(error)) => Err(refusal(path.as_str(), "read", error)),
            Err(failure) => {
                let (path, source) = (text(), failure.into_source());
                Err(AcquireError::RetriesExhausted { path, source })
            }
        };
    }
}
