//! The task of a [run](super::run): contends, leads, lets go, and begins again.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::task::task_tracker::TaskTrackerToken;

use super::candidate::Candidate;
use super::error::TermError;
use super::leadership::Leadership;
use super::run::{Phase, Shared};
use super::term::serve;
use crate::error::{AcquireError, ReleaseError};
use crate::queue::Hold;
use crate::retry::Retry;
use crate::session::clock::Moment;

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

/// Before who fails again and again is a candidate again.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How a term came out.
enum Term<T> {
    /// It ended, or it could not begin.
    Ended(Result<T, TermError<T>>, Result<(), ReleaseError>),
    /// It was closed before.
    Withdrawn(Result<(), ReleaseError>),
}

impl<T, F, Fut> Driver<T, F>
where
    T: Send + 'static,
    F: FnMut(Leadership) -> Fut + Send + 'static,
    Fut: Future<Output = T> + Send + 'static,
{
    pub(super) async fn run(mut self) {
        let shared = self.driving.0.clone();
        let mut troubles = None;
        loop {
            let began = Moment::now();
            let (report, released) = match self.term(&shared).await {
                Term::Ended(report, released) => (report, released),
                Term::Withdrawn(released) => {
                    return shared.closing.came_to(released);
                }
            };
            let session = self.candidate.recipe.curator.session().clone();
            // Who took part for so long has a new trouble, not more of the old one.
            let well = began.elapsed() > session.settings.session_timeout;
            let failed = matches!(report, Err(TermError::Acquire(_) | TermError::Panicked { .. }));
            if well || !failed {
                troubles = None;
            }
            let pause = if failed { self.next_pause(&mut troubles) } else { Duration::ZERO };
            let no_session =
                matches!(report, Err(TermError::Acquire(AcquireError::Session { .. })));
            let last = no_session || shared.once.load(Ordering::Relaxed);
            if last || shared.closing.asked().is_cancelled() {
                shared.closing.came_to(released);
                return shared.report(report, Phase::Over);
            }
            // What was lost has been reported; what is not confirmed is for who closes.
            let released =
                if matches!(released, Err(ReleaseError::Lost { .. })) { Ok(()) } else { released };
            if self.auto_requeue {
                shared.report(report, Phase::Candidate);
                tokio::select! {
                    biased;
                    () = shared.closing.asked().cancelled() => return shared.closing.came_to(released),
                    () = session.pause(pause) => {}
                    () = session.ended() => {}
                }
            } else {
                let mut phase = shared.phase.subscribe();
                shared.report(report, Phase::Between);
                let requeued = phase.wait_for(|phase| !matches!(phase, Phase::Between));
                tokio::select! {
                    biased;
                    () = shared.closing.asked().cancelled() => return shared.closing.came_to(released),
                    _ = requeued => {}
                    // The next term reports it.
                    () = session.ended() => {}
                }
            }
        }
    }

    /// By the retry policy, and when that is used up the longest: who queues again by itself never stops.
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
        shared.phase.send_replace(Phase::Leader(leadership.clone()));
        let serving = serve(
            &self.candidate,
            hold,
            leadership,
            shared.closing.asked(),
            self.grace,
            &mut self.body,
        );
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
) -> Result<(Hold, Leadership, TaskTrackerToken), Term<T>> {
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
                let leadership = Leadership::new(&hold, candidate);
                // Before it is asked whether it holds: who closes the session waits for this.
                let working = candidate.recipe.curator.session().working();
                if leadership.is_held() {
                    return Ok((hold, leadership, working));
                }
                // It came and went on the way here: the body must not begin.
                candidate.enter_again(hold)
            }
            Err(error) => {
                tracing::warn!(path = shared.path, %error, "does not come to lead");
                return Err(Term::Ended(Err(TermError::Acquire(error)), Ok(())));
            }
        };
    }
}
