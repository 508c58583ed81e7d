//! [`LeaderRun`]: the handle of a selector that takes part. [`TermError`]: how a term ended, if not well.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::DropGuard;

use crate::error::{Error, Released};
use crate::recipes::shared::hold::Hold;
use crate::recipes::shared::task_state::{Phase, TaskState};
use crate::sync::Mutex;

/// The handle of a [`LeaderSelector`](super::LeaderSelector) that takes part: it is a candidate, the leader, or idle between two
/// terms.
///
/// Dropping the handle closes the run in the background: the body is asked to end, and then the place is given up. To close
/// the run from elsewhere, share the handle in an [`Arc`].
///
/// Awaiting the handle returns the report of the first term and closes the run. Dropping that future closes the run as well.
///
/// ```no_run
/// # use zookeeper_recipes::leader::LeaderSelector;
/// # async fn example(selector: LeaderSelector) {
/// let run = selector.auto_requeue().run(async |term| {
///     println!("leads: {}", term.fencing_token());
///     term.cancellation_token().cancelled().await;
/// });
/// while let Some(term) = run.next_report().await {
///     match term {
///         Ok(()) => println!("stepped down"),
///         Err(ended) => println!("{ended}"),
///     }
/// }
/// # }
/// ```
#[must_use = "it stops taking part when it is dropped"]
pub struct LeaderRun<T> {
    pub(super) state: Arc<TaskState>,
    pub(super) reports: Arc<Reports<T>>,
    pub(super) _open: DropGuard,
}

/// The reports of the task on its terms.
pub(super) struct Reports<T> {
    /// The oldest report first. Each change of the phase may have added one.
    pub(super) kept: Mutex<VecDeque<Result<T, TermError<T>>>>,
    /// True if the run closes after its first term.
    pub(super) close_after_first: AtomicBool,
}

impl<T: Send + 'static> LeaderRun<T> {
    /// Waits for the next term to end and returns its report: `Ok` if the body ended as the leader. `None` when the run is
    /// [finished](Self::finished) and all terms were reported. A term that could not begin is reported, too.
    ///
    /// A term that was lost is routine in a long run: count it, and go on. [`finished`](Self::finished) says when the run is over.
    ///
    /// The last 64 reports are kept.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future misses no report.
    ///
    /// # Errors
    ///
    /// Inside the `Option`: how the term ended otherwise, or why the term did not begin.
    pub async fn next_report(&self) -> Option<Result<T, TermError<T>>> {
        let mut phase = self.state.phase.subscribe();
        loop {
            // Read before the reports, because no report follows a final phase.
            let is_final = phase.borrow_and_update().is_final();
            let report = self.reports.kept.lock().pop_front();
            if report.is_some() {
                return report;
            }
            // The sender lives in `self`.
            if is_final || phase.changed().await.is_err() {
                return None;
            }
        }
    }

    /// Returns true while this run is the leader. Each call compares the clock with the session lease.
    #[doc(alias = "hasLeadership")]
    pub fn is_leader(&self) -> bool {
        self.state.phase.borrow().hold().is_some()
    }

    /// Returns the current term, if this run is the leader.
    pub fn leadership(&self) -> Option<Hold> {
        self.state.phase.borrow().hold().map(Hold::view)
    }

    /// Enters the queue again after a term has ended. Returns `false` if the run is a candidate or the leader already.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed).
    pub fn requeue(&self) -> Result<bool, Error> {
        let mut refused = self.state.close.is_cancelled();
        let queued = self.state.phase.send_if_modified(|phase| {
            refused |= phase.is_final();
            let is_idle = !refused && matches!(phase, Phase::Idle);
            if is_idle {
                *phase = Phase::Waiting;
            }
            is_idle
        });
        if refused { Err(self.state.closed_error()) } else { Ok(queued) }
    }

    /// Asks the body to end, by its [token](Hold::cancellation_token). Returns `false` if this run is not the leader. The
    /// run stays the leader until the body has ended.
    #[doc(alias = "interrupt_leadership")]
    #[doc(alias = "interruptLeadership")]
    pub fn step_down(&self) -> bool {
        let leadership = self.leadership();
        if let Some(leadership) = &leadership {
            leadership.stop().cancel();
        }
        leadership.is_some()
    }

    /// Asks the body to end, waits until it has, gives the place up, and waits until the servers
    /// confirm this, at most for [`CuratorBuilder::connection_timeout`](crate::CuratorBuilder::connection_timeout). Closing
    /// again returns the same outcome.
    ///
    /// # Cancel safety
    ///
    /// Once the future was polled, dropping it does not stop the closing.
    ///
    /// # Errors
    ///
    /// * [`ErrorKind::Lost`](crate::ErrorKind::Lost): the leadership was lost before the body had ended;
    /// * [`ErrorKind::PermissionDenied`](crate::ErrorKind::PermissionDenied): the server does not let us delete the node.
    pub async fn close(&self) -> Result<Released, Error> {
        self.state.close().await
    }

    /// As [`close`](Self::close), and returns after `limit` at the latest. The limit covers the
    /// [grace](super::LeaderSelector::with_grace) of the body and the confirmation of the servers.
    ///
    /// Returns [`Released::Pending`] when the time is up. The closing continues in the background: the run stays the leader until its
    /// body has ended, and only then its node is deleted.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use zookeeper_recipes::{Error, Released, leader::LeaderRun};
    /// # async fn example(run: LeaderRun<()>) -> Result<(), Error> {
    /// if run.close_timeout(Duration::from_secs(5)).await? == Released::Pending {
    ///     eprintln!("the body has not ended, or no server has confirmed the release");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// As for [`close`](Self::close).
    ///
    /// # Errors
    ///
    /// As for [`close`](Self::close).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn close_timeout(&self, limit: Duration) -> Result<Released, Error> {
        self.state.close_within(limit).await
    }

    /// Waits until this run takes part no more, and returns why: `Ok` after a [`close`](Self::close), when the place is given up.
    ///
    /// A lost term is routine and does not finish a run: [`next_report`](Self::next_report) returns the loss, and the run enters again.
    /// Nor does a refusal of the servers, or a term of a run without [`auto_requeue`](super::LeaderSelector::auto_requeue), which can
    /// be [queued again](Self::requeue).
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use zookeeper_recipes::{Error, leader::LeaderRun};
    /// # async fn shutdown() {}
    /// # async fn example(run: LeaderRun<()>) -> Result<(), Error> {
    /// tokio::select! {
    ///     finished = run.finished() => finished, // this process can never lead again: end it
    ///     () = shutdown() => run.close_timeout(Duration::from_secs(5)).await.map(drop),
    /// }
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    ///
    /// * [`ErrorKind::Closed`](crate::ErrorKind::Closed): the [`Curator`](crate::Curator) is closed, or its runtime has ended;
    /// * [`ErrorKind::AuthenticationFailed`](crate::ErrorKind::AuthenticationFailed): the servers refuse the credentials.
    pub async fn finished(&self) -> Result<(), Error> {
        let mut phase = self.state.phase.subscribe();
        match phase.wait_for(Phase::is_final).await.as_deref() {
            Ok(Phase::Ended(error)) => Err(error.clone()),
            _ => Ok(()),
        }
    }
}

impl<T: Send + 'static> IntoFuture for LeaderRun<T> {
    type Output = Result<T, TermError<T>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        // No further term may begin.
        self.reports.close_after_first.store(true, Ordering::Relaxed);
        Box::pin(async move {
            // A run that stands no more, and whose report was taken, has no further report.
            let is_over = {
                let phase = self.state.phase.borrow();
                matches!(*phase, Phase::Idle) && self.reports.kept.lock().is_empty()
            };
            if is_over {
                self.state.close.cancel();
            }
            let first = self.next_report().await;
            // The body's value counts, whatever happens to the node.
            let _ = self.close().await;
            first.unwrap_or_else(|| Err(self.state.closed_error().into()))
        })
    }
}

impl<T> fmt::Debug for LeaderRun<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderRun")
            .field("path", &self.state.path)
            .field("phase", &*self.state.phase.borrow())
            .finish_non_exhaustive()
    }
}

/// A term of a [`LeaderSelector`](super::LeaderSelector) that did not end as the leader, or did not begin. `T` is the type of
/// the body's value.
///
/// If the body ran, the kind of the error is [`Lost`](crate::ErrorKind::Lost),
/// [`BodyPanicked`](crate::ErrorKind::BodyPanicked) or [`BodyDropped`](crate::ErrorKind::BodyDropped). If the run was closed
/// before, the kind is [`Closed`](crate::ErrorKind::Closed). Any other kind says why the candidate did not come to lead.
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
    /// The reason why the term ended or did not begin.
    pub error: Error,
    /// The body's value, if the body ended after the loss.
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

/// Without the value, which may not implement `Debug`.
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
