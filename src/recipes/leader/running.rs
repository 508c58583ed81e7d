//! The task of a [run](super::run): contends, leads, lets go, and begins again.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::task::task_tracker::TaskTrackerToken;

use super::candidate::Candidate;
use super::phase::{Phase, Shared};
use super::term::{TermError, serve};
use crate::clock::Moment;
use crate::error::{Error, ErrorKind, Released};
use crate::queue;
use crate::recipes::shared::hold::Hold;
use crate::session::NoEpoch;
use crate::session::retry::Retry;

/// A run that was started. Says that it is over, also when the runtime goes before the task was run.
pub(super) struct Driving<T>(pub(super) Arc<Shared<T>>);

impl<T> Drop for Driving<T> {
    fn drop(&mut self) {
        self.0.phase.send_replace(Phase::Over);
        self.0.closing.done();
    }
}

pub(super) struct Driver<T, F> {
    pub(super) candidate: Candidate,
    pub(super) grace: Duration,
    pub(super) auto_requeue: bool,
    pub(super) body: F,
    pub(super) driving: Driving<T>,
}

/// Before a run that fails again and again is a candidate again.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How a term came out.
enum Term<T> {
    Ended(Result<T, TermError<T>>, Result<Released, Error>),
    /// It could not begin.
    Failed(Error),
    /// It was closed before.
    Withdrawn(Result<Released, Error>),
}

impl<T, F, Fut> Driver<T, F>
where
    T: Send + 'static,
    F: FnOnce(Hold) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = T> + Send + 'static,
{
    pub(super) async fn run(mut self) {
        let shared = self.driving.0.clone();
        let session = self.candidate.recipe.curator.session().clone();
        let mut troubles = None;
        loop {
            let began = Moment::now();
            let (report, released, failed) = match self.term(&shared).await {
                Term::Ended(report, released) => {
                    let panicked =
                        |ended: &TermError<T>| ended.error.kind() == ErrorKind::BodyPanicked;
                    let failed = report.as_ref().is_err_and(panicked);
                    (report, released, failed)
                }
                Term::Failed(error) => (Err(error.into()), Ok(Released::Confirmed), true),
                Term::Withdrawn(released) => return shared.closing.came_to(released),
            };
            // A run that took part for so long has a new trouble, not more of the old one.
            if !failed || began.elapsed() > session.settings.session_timeout {
                troubles = None;
            }
            let pause = if failed { self.next_pause(&mut troubles) } else { Duration::ZERO };
            let over = matches!(session.present_epoch(), Err(NoEpoch::Over(_)));
            let last = (failed && over) || shared.once.load(Ordering::Relaxed);
            if last || shared.closing.asked().is_cancelled() {
                shared.closing.came_to(released);
                return shared.report(report, Phase::Over);
            }
            // What was lost has been reported; what is not confirmed is for the one that closes.
            let released = match released {
                Err(error) if error.kind() == ErrorKind::Lost => Ok(Released::Confirmed),
                released => released,
            };
            let mut phase = shared.phase.subscribe();
            let next = if self.auto_requeue { Phase::Candidate } else { Phase::Between };
            shared.report(report, next);
            let again = async {
                if self.auto_requeue {
                    session.pause(pause).await;
                } else {
                    let _ = phase.wait_for(|phase| !matches!(phase, Phase::Between)).await;
                }
            };
            tokio::select! {
                biased;
                () = shared.closing.asked().cancelled() => return shared.closing.came_to(released),
                () = again => {}
                // The next term reports it.
                () = session.ended() => {}
            }
        }
    }

    /// By the retry policy, and when that is used up the longest: a run that queues again by itself never stops.
    fn next_pause(&self, troubles: &mut Option<(Moment, Retry)>) -> Duration {
        let begin = || (Moment::now(), self.candidate.recipe.retry.start());
        let (since, retry) = troubles.get_or_insert_with(begin);
        retry.next_pause(since.elapsed()).unwrap_or(LONGEST_PAUSE)
    }

    /// Contends, leads and lets go.
    async fn term(&mut self, shared: &Shared<T>) -> Term<T> {
        let (hold, leadership, working) = match lead(&self.candidate, shared).await {
            Ok(leads) => leads,
            Err(term) => return term,
        };
        tracing::info!(path = shared.path, node = leadership.node(), "leads");
        shared.phase.send_replace(Phase::Leader(leadership.view()));
        let (closing, body) = (shared.closing.asked(), self.body.clone());
        let serving = serve(&self.candidate, hold, leadership, closing, self.grace, body);
        let (report, released) = serving.await;
        drop(working);
        tracing::info!(path = shared.path, "leads no more");
        Term::Ended(report, released)
    }
}

/// Contends until it leads.
async fn lead<T>(
    candidate: &Candidate,
    shared: &Shared<T>,
) -> Result<(queue::Hold, Hold, TaskTrackerToken), Term<T>> {
    let mut contending = candidate.enter();
    loop {
        let held = tokio::select! {
            biased;
            () = shared.closing.asked().cancelled() => {
                return Err(Term::Withdrawn(candidate.withdraw(contending).await));
            }
            held = candidate.hold(&mut contending) => held,
        };
        contending = match held {
            Ok(hold) => {
                let leadership = candidate.leadership(&hold);
                // Before it is asked whether it holds: the close of the session waits for this.
                let working = candidate.recipe.curator.session().working();
                if leadership.is_held() {
                    return Ok((hold, leadership, working));
                }
                // It came and went on the way here: the body must not begin.
                candidate.enter_again(hold)
            }
            Err(error) => {
                tracing::warn!(path = shared.path, %error, "does not come to lead");
                return Err(Term::Failed(error));
            }
        };
    }
}
