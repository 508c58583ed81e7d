//! One term of a selector: its body runs, and the place is given up when that has ended.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::candidate::Candidate;
use crate::error::{Error, ErrorKind, Released};
use crate::queue;
use crate::recipes::shared::hold::Hold;

/// A term of a [`LeaderSelector`](super::LeaderSelector) that did not come to its end as the leader, or did not begin. `T` is
/// what the body gives.
///
/// The kind of the error is [`Lost`](ErrorKind::Lost), [`BodyPanicked`](ErrorKind::BodyPanicked) or
/// [`BodyDropped`](ErrorKind::BodyDropped) of a body that ran, [`Closed`](ErrorKind::Closed) of a run that was closed before,
/// and else why the candidate did not come to lead.
///
/// ```no_run
/// # use zookeeper_recipes::ErrorKind;
/// # use zookeeper_recipes::leader::LeaderSelector;
/// # async fn example(selector: LeaderSelector) {
/// if let Err(ended) = selector.run(async |_term| 7).await {
///     match (ended.error.kind(), ended.value) {
///         (ErrorKind::Lost, Some(value)) => println!("{value}, and it may not have been alone"),
///         _ => println!("{}", ended.error),
///     }
/// }
/// # }
/// ```
#[non_exhaustive]
pub struct TermError<T> {
    /// How the term ended, or why it did not begin.
    pub error: Error,
    /// What the body gave, if it ended after the loss.
    pub value: Option<T>,
}

impl<T> From<Error> for TermError<T> {
    fn from(error: Error) -> Self {
        Self { error, value: None }
    }
}

impl<T> From<TermError<T>> for Error {
    fn from(ended: TermError<T>) -> Self {
        ended.error
    }
}

/// Without what the body gave, which may not be made to be shown.
impl<T> fmt::Debug for TermError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TermError").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for TermError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T> std::error::Error for TermError<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.error)
    }
}

/// How a body ended.
enum End<T> {
    Returned(T),
    Panicked(String),
    Dropped,
}

/// Runs `body`, and releases when it has ended. Returns the outcome of the release as well.
pub(super) async fn serve<T, Fut>(
    candidate: &Candidate,
    hold: queue::Hold,
    leadership: Hold,
    closing: &CancellationToken,
    grace: Duration,
    body: impl FnOnce(Hold) -> Fut + Send,
) -> (Result<T, TermError<T>>, Result<Released, Error>)
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
    let lost = released.as_ref().err().filter(|error| error.kind() == ErrorKind::Lost);
    (report(end, lost, &candidate.path()), released)
}

fn report<T>(end: End<T>, lost: Option<&Error>, path: &str) -> Result<T, TermError<T>> {
    let loss = lost.and_then(Error::loss);
    let error = match (end, lost) {
        (End::Returned(value), None) => return Ok(value),
        (End::Returned(value), Some(error)) => {
            return Err(TermError { error: error.clone(), value: Some(value) });
        }
        (End::Dropped, _) => {
            tracing::warn!(path, ?loss, "a leader's body did not end in time, and was dropped");
            let text =
                format!("the body under {path} did not end within its grace, and was dropped");
            Error::new(ErrorKind::BodyDropped, text)
        }
        (End::Panicked(message), _) => {
            tracing::error!(path, message, "a leader's body panicked");
            let text = format!("the body under {path} panicked: {message}");
            Error::new(ErrorKind::BodyPanicked, text)
        }
    };
    Err(error.at(path).by(loss).into())
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
