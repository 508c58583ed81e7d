//! The task of a [run](super::run): contends, runs the body while it leads, gives the place up, and begins again.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::candidate::{Candidate, Driving, Phase, Stopped};
use super::run::Reports;
use super::term::TermError;
use crate::clock::BootInstant;
use crate::error::{Error, ErrorKind, Released};
use crate::recipes::shared::hold::Hold;
use crate::session::NoSession;
use crate::session::retry::Retry;

pub(super) struct Driver<T, F> {
    pub(super) candidate: Candidate,
    pub(super) grace: Duration,
    pub(super) auto_requeue: bool,
    pub(super) body: F,
    pub(super) reports: Arc<Reports<T>>,
    pub(super) driving: Driving,
}

/// Longest pause before a run that fails repeatedly is a candidate again.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How many reports are kept for a caller that does not ask for them.
const REPORTS: usize = 64;

impl<T, F, Fut> Driver<T, F>
where
    T: Send + 'static,
    F: FnOnce(Hold) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = T> + Send + 'static,
{
    pub(super) async fn run(mut self) {
        let shared = self.driving.0.clone();
        let connection = self.candidate.recipe.curator.connection().clone();
        let mut troubles = None;
        loop {
            let began = BootInstant::now();
            let (report, released, failed) = match self.term().await {
                Ok((report, released)) => {
                    let panicked =
                        |ended: &TermError<T>| ended.error.kind() == ErrorKind::BodyPanicked;
                    let failed = report.as_ref().is_err_and(panicked);
                    (report, released, failed)
                }
                Err(Stopped::Closed(released)) => return shared.came_to(released),
                Err(Stopped::Failed(error)) => {
                    tracing::warn!(path = shared.path, %error, "does not come to lead");
                    (Err(error.into()), Ok(Released::Confirmed), true)
                }
            };
            // A run that took part for so long has a new trouble, not more of the old one.
            if !failed || began.elapsed() > connection.settings.session_timeout {
                troubles = None;
            }
            let pause = if failed { self.next_pause(&mut troubles) } else { Duration::ZERO };
            let over = matches!(connection.current_session(), Err(NoSession::Closed(_)));
            let last = (failed && over) || self.reports.once.load(Ordering::Relaxed);
            if last || shared.close.is_cancelled() {
                self.report(report, Phase::Closed);
                return shared.came_to(released);
            }
            // A loss has been reported. A release that is not confirmed is for the caller that closes.
            let released = match released {
                Err(error) if error.kind() == ErrorKind::Lost => Ok(Released::Confirmed),
                released => released,
            };
            let mut phase = shared.phase.subscribe();
            self.report(report, if self.auto_requeue { Phase::Candidate } else { Phase::Between });
            let again = async {
                if self.auto_requeue {
                    connection.pause(pause).await;
                } else {
                    let _ = phase.wait_for(|phase| !matches!(phase, Phase::Between)).await;
                }
            };
            tokio::select! {
                biased;
                () = shared.close.cancelled() => return shared.came_to(released),
                () = again => {}
                // The next term reports it.
                () = connection.ended() => {}
            }
        }
    }

    /// By the retry policy, and when that is used up the longest: a run that queues again by itself never stops.
    fn next_pause(&self, troubles: &mut Option<(BootInstant, Retry)>) -> Duration {
        let begin = || (BootInstant::now(), self.candidate.recipe.retry.start());
        let (since, retry) = troubles.get_or_insert_with(begin);
        retry.next_pause(since.elapsed()).unwrap_or(LONGEST_PAUSE)
    }

    /// Reports how a term ended, and enters the next phase in the same moment: a caller that has the report finds that phase.
    fn report(&self, report: Result<T, TermError<T>>, next: Phase) {
        let (shared, mut forgotten) = (&self.driving.0, None);
        shared.phase.send_modify(|phase| {
            let mut reports = self.reports.kept.lock();
            reports.push_back(report);
            if reports.len() > REPORTS {
                forgotten = reports.pop_front();
            }
            *phase = next;
        });
        if forgotten.is_some() {
            tracing::debug!(path = shared.path, "a report was not asked for, and is forgotten");
        }
    }

    /// Contends, leads, and gives the place up. Returns the outcome of the release as well.
    async fn term(
        &mut self,
    ) -> Result<(Result<T, TermError<T>>, Result<Released, Error>), Stopped> {
        let (shared, candidate) = (&self.driving.0, &self.candidate);
        let connection = candidate.recipe.curator.connection();
        let mut lost = None;
        let (hold, leadership, working) = loop {
            let hold = candidate.contend(lost, &shared.close).await?;
            let leadership = candidate.leadership(&hold);
            // Before it is asked whether it holds: the close of the session waits for this.
            let working = connection.working();
            if leadership.is_held() {
                break (hold, leadership, working);
            }
            // The hold was lost on the way here: the body must not begin.
            lost = Some(hold);
        };
        tracing::info!(path = shared.path, node = leadership.node(), "leads");
        shared.enter(Phase::Leader(leadership.view()));
        let (stop, body) = (leadership.stop().clone(), self.body.clone());
        // Within the task, where a panic of the function itself is caught as well.
        let running = connection.spawn(async move { body(leadership).await });
        let ended = ended(running, &stop, &shared.close, self.grace).await;
        // The release ends the hold as it is called, and tells how that had ended before.
        let released = hold.release().await;
        drop(working);
        tracing::info!(path = shared.path, "leads no more");
        let lost = released.as_ref().err().filter(|error| error.kind() == ErrorKind::Lost);
        Ok((report(ended, lost, &shared.path), released))
    }
}

/// Waits until the body has ended, and drops it if it does not end in time.
async fn ended<T>(
    mut running: JoinHandle<T>,
    stop: &CancellationToken,
    close: &CancellationToken,
    grace: Duration,
) -> Result<T, JoinError> {
    tokio::select! {
        biased;
        joined = &mut running => return joined,
        () = stop.cancelled() => {}
        () = close.cancelled() => stop.cancel(),
    }
    if let Ok(joined) = timeout(grace, &mut running).await {
        return joined;
    }
    running.abort();
    // It is dropped where it awaits; before, it may not have ended.
    running.await
}

fn report<T>(
    ended: Result<T, JoinError>,
    lost: Option<&Error>,
    path: &str,
) -> Result<T, TermError<T>> {
    let loss = lost.and_then(Error::loss);
    let error = match ended.map_err(JoinError::try_into_panic) {
        Ok(value) => match lost {
            None => return Ok(value),
            Some(lost) => return Err(TermError { error: lost.clone(), value: Some(value) }),
        },
        Err(Ok(panic)) => {
            let message = message(&*panic);
            tracing::error!(path, message, "a leader's body panicked");
            let text = format!("the body under {path} panicked: {message}");
            Error::new(ErrorKind::BodyPanicked, text)
        }
        Err(Err(_)) => {
            tracing::warn!(path, ?loss, "a leader's body did not end in time, and was dropped");
            let text =
                format!("the body under {path} did not end within its grace, and was dropped");
            Error::new(ErrorKind::BodyDropped, text)
        }
    };
    Err(error.at(path).by(loss).into())
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}
