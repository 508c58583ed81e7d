//! [`LeaderRun`]: a selector that takes part.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::DropGuard;

use super::candidate::Candidate;
use super::closing::Closing;
use super::error::{LeaderError, TermError};
use super::leadership::Leadership;
use super::running::{Driver, Driving};
use crate::error::ReleaseError;
use crate::inter_process_lock::BoxFuture;

/// How many reports are kept for who does not ask for them.
const REPORTS: usize = 64;

/// A [`LeaderSelector`](crate::LeaderSelector) that takes part: a candidate, or the leader, or between two terms.
///
/// Dropping it closes it in the background: the body is asked to end, and when it has, the place is given up. To close it
/// from elsewhere, share it in an [`Arc`].
///
/// Awaited, it gives the report of its first term, and is closed: dropping that future closes it as well.
///
/// ```no_run
/// # use zookeeper_recipes::{LeaderSelector, TermError};
/// # async fn example(selector: LeaderSelector) {
/// let run = selector.auto_requeue().run(|leadership| async move {
///     println!("leads: {}", leadership.fencing_token());
///     leadership.cancellation_token().cancelled().await;
/// });
/// while let Some(term) = run.next().await {
///     match term {
///         Ok(()) => println!("stepped down"),
///         Err(TermError::Lost { loss, .. }) => println!("lost: {loss}"),
///         Err(error) => println!("{error}"),
///     }
/// }
/// # }
/// ```
#[must_use = "dropping it closes it"]
pub struct LeaderRun<T> {
    shared: Arc<Shared<T>>,
    _open: DropGuard,
}

impl<T: Send + 'static> LeaderRun<T> {
    pub(super) fn start<F, Fut>(
        candidate: Candidate,
        grace: Duration,
        auto_requeue: bool,
        body: F,
    ) -> Self
    where
        F: FnMut(Leadership) -> Fut + Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
    {
        let shared = Arc::new(Shared::new(candidate.path()));
        let _open = shared.closing.when_dropped();
        let session = candidate.recipe.curator.session().clone();
        let driving = Driving(shared.clone());
        let driver = Driver { candidate, grace, auto_requeue, body, driving };
        session.spawn(driver.run());
        Self { shared, _open }
    }

    /// Waits for the report of the next term that has ended: `Ok` if the body ended as the leader. `None` when it is
    /// closed and all was told. Also a term that could not begin is reported.
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
            let is_over = matches!(*phase.borrow_and_update(), Phase::Over);
            if let Some(report) = self.shared.reports().pop_front() {
                return Some(report);
            }
            // The sender lives in `self`.
            if is_over || phase.changed().await.is_err() {
                return None;
            }
        }
    }

    /// Whether it leads at this instant.
    pub fn has_leadership(&self) -> bool {
        self.shared.phase.borrow().leadership().is_some()
    }

    /// The present term, if it leads at this instant.
    pub fn leadership(&self) -> Option<Leadership> {
        self.shared.phase.borrow().leadership().cloned()
    }

    /// Is a candidate again, if a term has ended; `false` if it is one, or leads.
    ///
    /// # Errors
    ///
    /// [`LeaderError::Closed`].
    pub fn requeue(&self) -> Result<bool, LeaderError> {
        let closing = self.shared.closing.asked().is_cancelled();
        let mut refused = None;
        let queued = self.shared.phase.send_if_modified(|phase| {
            if closing || matches!(phase, Phase::Over) {
                refused = Some(LeaderError::Closed { path: self.shared.path.clone() });
                return false;
            }
            let between = matches!(phase, Phase::Between);
            if between {
                *phase = Phase::Candidate;
            }
            between
        });
        refused.map_or(Ok(queued), Err)
    }

    /// Asks the body to end, by its leadership's token; `false` if it does not lead at this instant.
    pub fn interrupt_leadership(&self) -> bool {
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
    /// * [`ReleaseError::Lost`]: the leadership was lost before the body had ended;
    /// * [`ReleaseError::Unconfirmed`]: no server answered in time; the session goes on deleting;
    /// * [`ReleaseError::NoAuth`]: the server does not let us delete the leader's node.
    pub async fn close(&self) -> Result<(), ReleaseError> {
        self.shared.closing.close().await
    }
}

impl<T: Send + 'static> IntoFuture for LeaderRun<T> {
    type Output = Result<T, TermError<T>>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        // Another term must not begin meanwhile.
        self.shared.once.store(true, Ordering::Relaxed);
        Box::pin(async move {
            let closed = || Err(TermError::Closed { path: self.shared.path.clone() });
            let first = self.next().await.unwrap_or_else(closed);
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

#[derive(Clone, Debug)]
pub(super) enum Phase {
    Candidate,
    Leader(Leadership),
    /// A term has ended, and nobody wants another.
    Between,
    Over,
}

impl Phase {
    /// The term that lasts at this instant.
    fn leadership(&self) -> Option<&Leadership> {
        match self {
            Self::Leader(leadership) if leadership.is_held() => Some(leadership),
            _ => None,
        }
    }
}

pub(super) struct Shared<T> {
    pub(super) path: String,
    /// Changes with each report.
    pub(super) phase: watch::Sender<Phase>,
    reports: Mutex<VecDeque<Result<T, TermError<T>>>>,
    pub(super) closing: Closing,
    /// It closes with its first term.
    pub(super) once: AtomicBool,
}

impl<T> Shared<T> {
    fn new(path: String) -> Self {
        Self {
            path,
            phase: watch::Sender::new(Phase::Candidate),
            reports: Mutex::default(),
            closing: Closing::default(),
            once: AtomicBool::new(false),
        }
    }

    fn reports(&self) -> std::sync::MutexGuard<'_, VecDeque<Result<T, TermError<T>>>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells how a term ended, and in the same moment what follows: who has the report finds that.
    pub(super) fn report(&self, report: Result<T, TermError<T>>, next: Phase) {
        let mut forgotten = None;
        self.phase.send_modify(|phase| {
            let mut reports = self.reports();
            reports.push_back(report);
            if reports.len() > REPORTS {
                forgotten = reports.pop_front();
            }
            *phase = next;
        });
        if forgotten.is_some() {
            tracing::debug!(path = self.path, "nobody asked for a report, which is forgotten");
        }
    }
}
