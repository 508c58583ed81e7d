//! [`SelectorTask`]: the task of a [run](super::handle). It contends, runs the body while it leads, gives the place up, and
//! begins again.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::candidate::{Candidate, Stopped, next_pause};
use super::handle::{Reports, TermError};
use crate::clock::BootInstant;
use crate::error::{Error, ErrorKind, Released};
use crate::recipes::shared::hold::Hold;
use crate::recipes::shared::task_state::{CloseOnDrop, Phase};
use crate::session::retry::{Retry, RetryPolicy};
use crate::session::tasks::Spawner;

pub(super) struct SelectorTask<T, F> {
    pub(super) candidate: Candidate,
    pub(super) grace: Duration,
    pub(super) auto_requeue: bool,
    /// The longest pause after a short term. Zero: there is none.
    pub(super) requeue_pause: Duration,
    pub(super) body: F,
    /// Where the bodies run.
    pub(super) bodies: Spawner,
    pub(super) reports: Arc<Reports<T>>,
    pub(super) state: CloseOnDrop,
}

/// A term that ended, or that could not begin.
struct Term<T> {
    report: Result<T, TermError<T>>,
    released: Result<Released, Error>,
    ending: Ending,
}

/// The end of a term, which decides the pause before the next one.
enum Ending {
    /// The term was long, or its end was asked for, or it was lost: no pause may slow a fail-over.
    Plain,
    /// The term did not begin, or its body panicked.
    Failed,
    /// The body returned by itself within [`SHORT_TERM`]. The node had this sequence number.
    Short { sequence: i64 },
}

/// A body that returns by itself before this time is too fast for an election: each term costs two writes of the quorum.
const SHORT_TERM: Duration = Duration::from_secs(1);

/// The first pause after a short term.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The number of reports that are kept for a caller that does not ask for them.
const REPORTS: usize = 64;

impl<T, F, Fut> SelectorTask<T, F>
where
    T: Send + 'static,
    F: FnOnce(Hold) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = T> + Send + 'static,
{
    pub(super) async fn run(mut self) {
        let state = self.state.0.clone();
        let connection = self.candidate.recipe.curator.connection().clone();
        let mut pacing = Pacing::new(connection.settings.session_timeout, self.requeue_pause);
        loop {
            let began = BootInstant::now();
            let term = match self.term().await {
                Ok(term) => term,
                Err(Stopped::Closed(released)) => return state.set_outcome(released),
                Err(Stopped::Ended(error)) => {
                    return self.report(Err(error.clone().into()), Phase::Ended(error));
                }
                Err(Stopped::Refused(error)) => Term {
                    report: Err(error.into()),
                    released: Ok(Released::Confirmed),
                    ending: Ending::Failed,
                },
            };
            let Term { report, released, ending } = term;
            let is_last = self.reports.close_after_first.load(Ordering::Relaxed);
            if is_last || state.close.is_cancelled() {
                self.report(report, Phase::Closed);
                return state.set_outcome(released);
            }
            // A loss has been reported. A release that is not confirmed is reported to the caller that closes.
            let released = match released {
                Err(error) if error.kind() == ErrorKind::Lost => Ok(Released::Confirmed),
                released => released,
            };
            let mut phase = state.phase.subscribe();
            self.report(report, if self.auto_requeue { Phase::Waiting } else { Phase::Idle });
            let again = async {
                if self.auto_requeue {
                    let pause = pacing.pause(ending, began.elapsed(), &state.path);
                    self.candidate.pause(pause).await;
                } else {
                    let requeued = phase.wait_for(|phase| !matches!(phase, Phase::Idle));
                    tokio::select! {
                        biased;
                        _ = requeued => {}
                        // The next term reports it.
                        () = connection.ended() => {}
                    }
                }
            };
            tokio::select! {
                biased;
                () = state.close.cancelled() => return state.set_outcome(released),
                () = again => {}
            }
        }
    }

    /// Reports how a term ended and enters the next phase, in one step: a caller that has the report sees that phase.
    fn report(&self, report: Result<T, TermError<T>>, next: Phase) {
        let state = &self.state.0;
        let mut dropped = None;
        state.phase.send_modify(|phase| {
            let mut reports = self.reports.kept.lock();
            reports.push_back(report);
            if reports.len() > REPORTS {
                dropped = reports.pop_front();
            }
            *phase = next;
        });
        if dropped.is_some() {
            tracing::debug!(path = state.path, "a report was not asked for, and is forgotten");
        }
    }

    /// Contends, leads, and gives the place up.
    async fn term(&mut self) -> Result<Term<T>, Stopped> {
        let state = &self.state.0;
        let candidate = &mut self.candidate;
        let connection = candidate.recipe.curator.connection().clone();
        let mut lost = None;
        let (hold, leadership, working) = loop {
            let hold = candidate.contend(lost, &state.close).await?;
            let leadership = candidate.leadership(&hold);
            // Before the checks: the close of the session waits for this.
            let working = connection.working();
            if leadership.is_held() && !connection.closing().is_cancelled() {
                break (hold, leadership, working);
            }
            // The hold was lost before this task saw it, or the connection is to be closed, so the body must not begin.
            lost = Some(hold);
        };
        let began = BootInstant::now();
        let sequence = hold.state().sequence();
        tracing::info!(path = state.path, node = leadership.node(), "leads");
        state.enter(Phase::Holding(leadership.view()));
        let stop = leadership.stop().clone();
        let body = self.body.clone();
        // The body is called within the task, so that a panic of the call itself is caught as well.
        let running = connection.spawn_by(&self.bodies, async move { body(leadership).await });
        let asked = async {
            tokio::select! {
                biased;
                () = state.close.cancelled() => {}
                () = connection.closing().cancelled() => {}
            }
        };
        let joined = await_body(running, &stop, asked, self.grace).await;
        // The token is cancelled by a loss and by the release as well.
        let by_itself = !stop.is_cancelled();
        if by_itself && joined.as_ref().is_err_and(JoinError::is_cancelled) {
            // The runtime of the bodies has ended, so no further term can have one.
            drop(hold.release().await);
            return Err(Stopped::Ended(Error::closed().at(&state.path)));
        }
        let is_short = began.elapsed() < SHORT_TERM;
        // The release ends the hold as it is called, and reports how the hold had ended before.
        let released = hold.release().await;
        drop(working);
        tracing::info!(path = state.path, "leads no more");
        let lost = released.as_ref().err().filter(|error| error.kind() == ErrorKind::Lost);
        let report = make_report(joined, lost, &state.path);
        let ending = match &report {
            Ok(_) if by_itself && is_short => Ending::Short { sequence },
            Err(ended) if ended.error.kind() == ErrorKind::BodyPanicked => Ending::Failed,
            _ => Ending::Plain,
        };
        Ok(Term { report, released, ending })
    }
}

/// The pauses of a run between two terms.
struct Pacing {
    session_timeout: Duration,
    failures: Retry,
    /// `None`: short terms are followed by no pause.
    short_terms: Option<Retry>,
    /// The sequence number of the last term, if it was short.
    last_short: Option<i64>,
    warned: bool,
}

impl Pacing {
    fn new(session_timeout: Duration, requeue_pause: Duration) -> Self {
        let short_terms = || {
            RetryPolicy::bounded_exponential_backoff(FIRST_PAUSE, requeue_pause, usize::MAX).start()
        };
        Self {
            session_timeout,
            // Whatever the policy of the requests: a run never gives up.
            failures: RetryPolicy::endless().start(),
            short_terms: (!requeue_pause.is_zero()).then(short_terms),
            last_short: None,
            warned: false,
        }
    }

    /// Returns the pause after a term that took this time, the wait for it included.
    fn pause(&mut self, ending: Ending, took: Duration, path: &str) -> Duration {
        let last_short = self.last_short.take();
        let sequence = match ending {
            Ending::Failed => return next_pause(&mut self.failures, took, self.session_timeout),
            Ending::Plain => None,
            Ending::Short { sequence } => Some(sequence),
        };
        self.failures.restart();
        let (Some(sequence), Some(short_terms)) = (sequence, &mut self.short_terms) else {
            return Duration::ZERO;
        };
        // The numbers follow each other if no other contender has led since the last term.
        if last_short.is_none_or(|last| sequence != last + 1) {
            short_terms.restart();
        }
        self.last_short = Some(sequence);
        let pause = short_terms.next_endless();
        if !self.warned {
            self.warned = true;
            tracing::warn!(
                path,
                ?pause,
                "a term ended by itself within a second: the run pauses after such terms"
            );
        }
        pause
    }
}

/// Waits until the body has ended. The body is asked to end by `stop`, or when `asked` resolves. If it does not end in time, it is
/// dropped.
async fn await_body<T>(
    mut running: JoinHandle<T>,
    stop: &CancellationToken,
    asked: impl Future<Output = ()>,
    grace: Duration,
) -> Result<T, JoinError> {
    tokio::select! {
        biased;
        joined = &mut running => return joined,
        () = stop.cancelled() => {}
        () = asked => stop.cancel(),
    }
    if let Ok(joined) = timeout(grace, &mut running).await {
        return joined;
    }
    running.abort();
    // The body is dropped at its next `await`. Until then it may still run.
    running.await
}

fn make_report<T>(
    joined: Result<T, JoinError>,
    lost: Option<&Error>,
    path: &str,
) -> Result<T, TermError<T>> {
    let loss = lost.and_then(Error::loss);
    let error = match joined.map_err(JoinError::try_into_panic) {
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
