//! [`LeaderSelector`]: runs a function while it leads.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::candidate::Candidate;
use super::handle::{LeaderRun, Reports};
use super::observer::LeaderObserver;
use super::task::SelectorTask;
use crate::curator::Curator;
use crate::error::Error;
use crate::metrics;
use crate::queue::rules::admission::Family;
use crate::queue::rules::filter::ContenderFilter;
use crate::recipes::shared::hold::Hold;
use crate::recipes::shared::participants::Participant;
use crate::recipes::shared::task_state::{CloseOnDrop, TaskState};
use crate::session::tasks::Spawner;
use crate::sync::Mutex;

/// The default time for which a body may keep running after it was asked to end.
const GRACE: Duration = Duration::from_secs(10);

/// The default of the longest pause after a short term.
const REQUEUE_PAUSE: Duration = Duration::from_secs(1);

/// Runs your async function while this process is the leader, and lets the next candidate lead when it ends.
///
/// The znodes are those of Apache Curator's `LeaderSelector`, which are those of an
/// [`InterProcessMutex`](crate::InterProcessMutex), so JVM and Rust processes can stand for one election.
///
/// * **Fair**: first come, first served. When the function ends, the next candidate leads.
/// * **One at a time**: the function is asked to end, by its [token](Hold::cancellation_token), when the leadership is lost,
///   when [`step_down`](LeaderRun::step_down) is called, and when the run or the [`Curator`] is closed. The run waits for the function
///   to end before it gives the place up, at most for the [grace](Self::with_grace). Then it drops the function. A function that blocks
///   its thread cannot be dropped, and keeps its place as long as the session lives. When the *session* is lost, the servers give
///   the place away whatever the function does: usually a third of the session timeout after the cancellation, a twenty-fourth of
///   it at the worst, and with [`LossPolicy::SessionExpired`](crate::interop::LossPolicy::SessionExpired) before the cancellation.
///   The function must end the tasks that it has started.
/// * **Never silent**: [`LeaderRun::next_report`] returns how each term ended: the function's value, its panic, a lost
///   leadership, or why the candidate could not enter.
///
/// A selector is a cheap handle, and each [run](Self::run) of it is a candidate of its own.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use zookeeper_recipes::{Curator, Error, Hold};
/// # struct State;
/// # impl State { async fn serve(&self, term: &Hold) {} }
/// # async fn example(curator: Curator, state: Arc<State>) -> Result<(), Error> {
/// let selector = curator.leader_selector("/leader")?;
/// let run = selector.auto_requeue().run(async move |term| {
///     let stop = term.cancellation_token();
///     stop.run_until_cancelled(state.serve(&term)).await;
/// });
/// // … until the service stops …
/// run.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "it takes no part until `run`"]
pub struct LeaderSelector {
    candidate: Candidate,
    grace: Duration,
    auto_requeue: bool,
    requeue_pause: Duration,
}

impl Curator {
    /// Returns a selector at `path`, under the namespace, with the options of this handle.
    ///
    /// # Errors
    ///
    /// As for [`mutex`](Self::mutex).
    pub fn leader_selector(&self, path: impl AsRef<str>) -> Result<LeaderSelector, Error> {
        let recipe = metrics::Recipe::LEADER_SELECTOR;
        let filter = ContenderFilter::default();
        let kind = filter.kind();
        let family = Family::Exclusive(filter);
        let mut candidate = Candidate::new(self, path.as_ref(), recipe, family, kind)?;
        // The body works under the hold until it has ended.
        Arc::make_mut(&mut candidate.request).waiter_mut().term.outlasts_closing = true;
        let requeue_pause = REQUEUE_PAUSE;
        Ok(LeaderSelector { candidate, grace: GRACE, auto_requeue: false, requeue_pause })
    }
}

impl LeaderSelector {
    /// Becomes a candidate, and runs `body` in a task of its own whenever this process leads; see [`LeaderRun`]. Each term runs
    /// a clone of the body. While there is no connection, the candidate waits for one. The body runs on the tokio runtime on which
    /// this is called.
    ///
    /// `self.run(body).await` runs the body once, and returns its value.
    #[doc(alias = "takeLeadership")]
    #[doc(alias = "LeaderSelectorListener")]
    #[doc(alias = "LeaderSelectorListenerAdapter")]
    pub fn run<T, F, Fut>(&self, body: F) -> LeaderRun<T>
    where
        T: Send + 'static,
        F: FnOnce(Hold) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
    {
        let Self { candidate, grace, auto_requeue, requeue_pause } = self.clone();
        let connection = candidate.recipe.curator.connection().clone();
        let state = TaskState::new("candidate", &candidate.recipe.path);
        let reports =
            Arc::new(Reports { kept: Mutex::default(), close_after_first: AtomicBool::new(false) });
        let _open = state.close.clone().drop_guard();
        let run = LeaderRun { state: state.clone(), reports: reports.clone(), _open };
        let state = CloseOnDrop(state);
        // A body that blocks must not block the session's tasks, if these have a runtime of their own.
        let bodies = Spawner::current();
        let task = SelectorTask {
            candidate,
            grace,
            auto_requeue,
            requeue_pause,
            body,
            bodies,
            reports,
            state,
        };
        connection.spawn(task.run());
        run
    }

    /// Enters the queue again after each term, at the tail. Without this option, [`LeaderRun::requeue`] does so.
    ///
    /// A run that cannot enter, or whose body panicked, pauses first, from 100 ms to 10 s and longer each time. After a failed try it
    /// lists the path before it creates a node, with this option and without.
    #[doc(alias = "autoRequeue")]
    pub fn auto_requeue(mut self) -> Self {
        self.auto_requeue = true;
        self
    }

    /// Sets the longest pause after a short term, for a run that [enters again](Self::auto_requeue) by itself. Defaults to 1 s; zero
    /// means no pause.
    ///
    /// A term is short if its function returned by itself within a second. Each such term costs two writes of the servers' quorum. So
    /// after each the run pauses, from 10 ms up to this time, and longer each time. The pauses start afresh after a term that was
    /// longer, and when another candidate has entered in between. A lost term, a term that was [asked to end](LeaderRun::step_down) and a close
    /// are followed by no such pause. The first pause of a run is a warning in the log.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use zookeeper_recipes::{Curator, Error};
    /// # async fn next_job() {}
    /// # async fn example(curator: Curator) -> Result<(), Error> {
    /// // A term for each job, as fast as jobs come.
    /// let selector = curator.leader_selector("/worker")?.auto_requeue();
    /// let run = selector.with_requeue_pause(Duration::ZERO).run(async |_term| next_job().await);
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_requeue_pause(mut self, longest: Duration) -> Self {
        self.requeue_pause = longest;
        self
    }

    /// Sets how long the function may keep running after it was asked to end. Then it is dropped. Defaults to 10 s. If the
    /// leadership was lost, the next leader does not wait for that.
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets which children count as candidates, for a path that clients other than Curator use, such as kazoo's `Election`.
    /// Defaults to [`ContenderFilter::Curator`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the identity is not text, which kazoo decodes.
    pub fn with_filter(mut self, filter: ContenderFilter) -> Result<Self, Error> {
        if filter.needs_text() {
            self.candidate.recipe.check_text()?;
        }
        let request = Arc::make_mut(&mut self.candidate.request);
        request.kind = filter.kind();
        request.family = Family::Exclusive(filter);
        Ok(self)
    }

    /// Follows the leader, in whatever process, by the selector's filter. See [`Curator::observe_leader`].
    pub fn observe(&self) -> LeaderObserver {
        LeaderObserver::new(self.candidate.recipe.clone(), self.candidate.request.family.clone())
    }

    /// Lists all candidates, the leader first. The answer is that of the connected server, which may lag behind the others. Nodes
    /// that are deleted meanwhile are left out.
    ///
    /// # Cancel safety
    ///
    /// The future only reads.
    ///
    /// # Errors
    ///
    /// As for [`InterProcessMutex::participants`](crate::InterProcessMutex::participants).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    #[doc(alias = "getParticipants")]
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        self.candidate.recipe.participants(&self.candidate.request.family).await
    }

    /// Returns the leader, as [`participants`](Self::participants) lists it.
    ///
    /// # Cancel safety
    ///
    /// The future only reads.
    ///
    /// # Errors
    ///
    /// As for [`participants`](Self::participants).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    #[doc(alias = "getLeader")]
    pub async fn leader(&self) -> Result<Option<Participant>, Error> {
        self.candidate.recipe.holder(&self.candidate.request.family).await
    }

    /// Returns the path, under the namespace.
    pub fn path(&self) -> &str {
        self.candidate.recipe.path.as_str()
    }
}
