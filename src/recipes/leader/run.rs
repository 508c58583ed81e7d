//! [`LeaderRun`]: a selector that takes part.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::DropGuard;

use super::candidate::{Phase, Shared};
use super::term::TermError;
use crate::error::{Error, Released};
use crate::recipes::shared::hold::Hold;
use crate::sync::Mutex;

/// A [`LeaderSelector`](super::LeaderSelector) that takes part: a candidate, or the leader, or between two terms.
///
/// Dropping it closes it in the background: the body is asked to end, and when it has, the place is given up. To close it
/// from elsewhere, share it in an [`Arc`].
///
/// Awaited, it gives the report of its first term, and is closed: dropping that future closes it as well.
///
/// ```no_run
/// # use zookeeper_recipes::leader::LeaderSelector;
/// # async fn example(selector: LeaderSelector) {
/// let run = selector.auto_requeue().run(async |term| {
///     println!("leads: {}", term.fencing_token());
///     term.cancellation_token().cancelled().await;
/// });
/// while let Some(term) = run.next().await {
///     match term {
///         Ok(()) => println!("stepped down"),
///         Err(ended) => println!("{ended}"),
///     }
/// }
/// # }
/// ```
#[must_use = "it stops taking part when it is dropped"]
pub struct LeaderRun<T> {
    pub(super) shared: Arc<Shared>,
    pub(super) reports: Arc<Reports<T>>,
    pub(super) _open: DropGuard,
}

/// What the task tells of its terms.
pub(super) struct Reports<T> {
    /// The oldest first. Each change of the phase may have added one.
    pub(super) kept: Mutex<VecDeque<Result<T, TermError<T>>>>,
    /// The run is closed with its first term.
    pub(super) once: AtomicBool,
}

impl<T: Send + 'static> LeaderRun<T> {
    /// Waits for the report of the next term that has ended: `Ok` if the body ended as the leader. `None` when it is
    /// closed and all terms were reported. A term that could not begin is reported, too.
    ///
    /// Reports are kept, the last 64 of them.
    ///
    /// # Cancel safety
    ///
    /// No report is missed by dropping the future.
    ///
    /// # Errors
    ///
    /// Within: how the term ended otherwise, or why it did not begin.
    pub async fn next(&self) -> Option<Result<T, TermError<T>>> {
        let mut phase = self.shared.phase.subscribe();
        loop {
            // Before the reports: none follows it.
            let is_over = phase.borrow_and_update().is_over();
            let report = self.reports.kept.lock().pop_front();
            if report.is_some() {
                return report;
            }
            // The sender lives in `self`.
            if is_over || phase.changed().await.is_err() {
                return None;
            }
        }
    }

    /// Whether it leads at this instant.
    pub fn is_leader(&self) -> bool {
        self.shared.phase.borrow().leadership().is_some()
    }

    /// The present term, if it leads at this instant.
    pub fn leadership(&self) -> Option<Hold> {
        self.shared.phase.borrow().leadership().map(Hold::view)
    }

    /// Is a candidate again, if a term has ended; `false` if it is one, or leads.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed).
    pub fn requeue(&self) -> Result<bool, Error> {
        let mut refused = self.shared.close.is_cancelled();
        let queued = self.shared.phase.send_if_modified(|phase| {
            refused |= phase.is_over();
            let between = !refused && matches!(phase, Phase::Between);
            if between {
                *phase = Phase::Candidate;
            }
            between
        });
        if refused { Err(self.shared.closed()) } else { Ok(queued) }
    }

    /// Asks the body to end, by its [token](Hold::cancellation_token); `false` if it does not lead at this instant. It leads
    /// until the body has ended.
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
    /// confirm it, at most for [`CuratorBuilder::connection_timeout`](crate::CuratorBuilder::connection_timeout). Closing
    /// again gives the same outcome.
    ///
    /// # Cancel safety
    ///
    /// Once it was polled, dropping the future does not stop the closing.
    ///
    /// # Errors
    ///
    /// * [`ErrorKind::Lost`](crate::ErrorKind::Lost): the leadership was lost before the body had ended;
    /// * [`ErrorKind::PermissionDenied`](crate::ErrorKind::PermissionDenied): the server does not let us delete the node.
    pub async fn close(&self) -> Result<Released, Error> {
        self.shared.close().await
    }
}

impl<T: Send + 'static> IntoFuture for LeaderRun<T> {
    type Output = Result<T, TermError<T>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        // Another term must not begin meanwhile.
        self.reports.once.store(true, Ordering::Relaxed);
        Box::pin(async move {
            let before = || Err(TermError::from(self.shared.closed()));
            let first = self.next().await.unwrap_or_else(before);
            // What the body gave counts, whatever becomes of the node.
            let _ = self.close().await;
            first
        })
    }
}

impl<T> fmt::Debug for LeaderRun<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderRun")
            .field("path", &self.shared.path)
            .field("phase", &*self.shared.phase.borrow())
            .finish_non_exhaustive()
    }
}
