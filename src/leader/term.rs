//! One term of a selector: its body runs, and the place is given up when that has ended.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::candidate::Candidate;
use super::error::TermError;
use super::leadership::Leadership;
use crate::error::{Loss, ReleaseError};
use crate::queue::Hold;

/// How a body ended.
enum End<T> {
    Returned(T),
    Panicked(String),
    Dropped,
}

/// Runs `body`, and releases when it has ended. What became of the release is told besides.
pub(super) async fn serve<T, Fut>(
    candidate: &Candidate,
    hold: Hold,
    leadership: Leadership,
    closing: &CancellationToken,
    grace: Duration,
    body: impl FnOnce(Leadership) -> Fut + Send,
) -> (Result<T, TermError<T>>, Result<(), ReleaseError>)
where
    T: Send + 'static,
    Fut: Future<Output = T> + Send + 'static,
{
    let stop = leadership.stop().clone();
    let session = candidate.recipe.curator.session();
    let end = match catch_unwind(AssertUnwindSafe(|| body(leadership))) {
        Ok(running) => ended(session.spawn(running), &stop, closing, grace).await,
        Err(panic) => End::Panicked(message(&*panic)),
    };
    // It ends the hold as it is called, and tells how that had ended before.
    let released = hold.release().await;
    let loss = match &released {
        Err(ReleaseError::Lost { loss, .. }) => Some(*loss),
        _ => None,
    };
    (report(end, loss, candidate.path()), released)
}

fn report<T>(end: End<T>, loss: Option<Loss>, path: String) -> Result<T, TermError<T>> {
    match (end, loss) {
        (End::Returned(value), None) => Ok(value),
        (End::Returned(value), Some(loss)) => Err(TermError::Lost { path, loss, value }),
        (End::Dropped, loss) => {
            tracing::warn!(path, ?loss, "a leader's body did not end in time, and was dropped");
            Err(TermError::Dropped { path, loss })
        }
        (End::Panicked(message), loss) => {
            tracing::error!(path, message, "a leader's body panicked");
            Err(TermError::Panicked { path, message, loss })
        }
    }
}

/// Waits until the body has ended, and has it dropped if it does not in time.
async fn ended<T>(
    mut running: JoinHandle<T>,
    stop: &CancellationToken,
    closing: &CancellationToken,
    grace: Duration,
) -> End<T> {
    let asked = async {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = closing.cancelled() => stop.cancel(),
        }
    };
    let joined = tokio::select! {
        biased;
        joined = &mut running => joined,
        () = asked => match timeout(grace, &mut running).await {
            Ok(joined) => joined,
            Err(_) => {
                running.abort();
                // It is dropped where it awaits; before, it may not have ended.
                running.await
            }
        },
    };
    match joined.map_err(JoinError::try_into_panic) {
        Ok(value) => End::Returned(value),
        Err(Ok(panic)) => End::Panicked(message(&*panic)),
        Err(Err(_)) => End::Dropped,
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned())
}
