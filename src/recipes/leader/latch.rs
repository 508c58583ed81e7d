//! [`LeaderLatch`]: leads until it is closed.

use std::fmt;
use std::sync::Arc;

use tokio_util::sync::DropGuard;

use super::candidate::{Candidate, Stopped};
use super::state::{CloseOnDrop, LeaderState, Phase};
use crate::curator::Curator;
use crate::error::{Error, Released};
use crate::metrics;
use crate::queue::rules::admission::Family;
use crate::queue::rules::node_name::Kind;
use crate::recipes::shared::hold::Hold;
use crate::recipes::shared::participants::Participant;

/// Makes one of several processes the leader, until its latch is closed or its leadership is lost.
///
/// It has the znodes of Apache Curator's `LeaderLatch`, so JVM and Rust processes can stand for one election.
///
/// * **Fair**: the candidate that entered the queue first leads first.
/// * **Steps down before another process can lead**: [`is_leader`](Self::is_leader) compares the clock with the session
///   lease, so that it is right also in a process that was paused.
/// * **Does not flap**: a disconnection that ends within the session lease changes nothing, nor does a rolling restart of the
///   servers. The node, and the place with it, is kept over everything but the end of the session and its deletion by
///   another client: a latch whose lease had ended leads again on the same node, if it is still there. Its token is the
///   same then; that of any other leader is larger.
/// * **Recovers**: after an expiry, or when its node was deleted, it is a candidate again, at the tail. It needs no
///   connection to be made.
/// * **Ends** only where trying again would not help: when the [`Curator`] is closed; and when it enters, or has to enter
///   anew, and the server says that it may not, another recipe's contender is on the path, this session has no room for
///   another node, or a [retry policy](Curator::with_retry) that ends is used up.
/// * **Not guaranteed**: that the process runs; see [`Hold`].
///
/// A latch is a cheap handle to clone; with the last one it is closed. To take part twice in one process, make two.
///
/// ```no_run
/// # use zookeeper_recipes::{Curator, Error};
/// # async fn serve() {}
/// # async fn example(curator: Curator) -> Result<(), Error> {
/// let latch = curator.leader_latch("/leader")?;
/// loop {
///     let term = latch.leadership().await?;
///     // Cancelled before another process can lead.
///     term.cancellation_token().run_until_cancelled(serve()).await;
/// }
/// # }
/// ```
#[derive(Clone)]
#[must_use = "it stops taking part when it is dropped"]
pub struct LeaderLatch {
    candidate: Candidate,
    state: Arc<LeaderState>,
    /// Closes the latch with the last handle.
    _open: Arc<DropGuard>,
}

impl Curator {
    /// A latch at `path`, under the namespace, with the options of this handle. It is a candidate from now on, and needs no
    /// connection: while there is none, it waits for one.
    ///
    /// # Errors
    ///
    /// As for [`mutex`](Self::mutex).
    pub fn leader_latch(&self, path: impl AsRef<str>) -> Result<LeaderLatch, Error> {
        let recipe = metrics::Recipe::LEADER_LATCH;
        let candidate = Candidate::new(self, path.as_ref(), recipe, Family::Latches, Kind::Latch)?;
        let state = LeaderState::new(&candidate.recipe.path);
        let _open = Arc::new(state.close.clone().drop_guard());
        self.connection().spawn(take_part(candidate.clone(), CloseOnDrop(state.clone())));
        Ok(LeaderLatch { candidate, state, _open })
    }
}

impl LeaderLatch {
    /// Whether it leads at this instant. It looks at the clock.
    #[must_use]
    #[doc(alias = "has_leadership")]
    #[doc(alias = "hasLeadership")]
    pub fn is_leader(&self) -> bool {
        self.state.phase.borrow().leadership().is_some()
    }

    /// Waits until it leads. In a loop it gives one term after the other, once the work of the term before has ended:
    /// see the example above.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing: the latch stays a candidate, or the leader.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed); why the latch cannot take part any more.
    #[doc(alias = "await_leadership")]
    #[doc(alias = "await")]
    pub async fn leadership(&self) -> Result<Hold, Error> {
        let mut phase = self.state.phase.subscribe();
        let settled = |phase: &Phase| phase.is_final() || phase.leadership().is_some();
        match phase.wait_for(settled).await.as_deref() {
            Ok(Phase::Leader(leadership)) => Ok(leadership.view()),
            Ok(Phase::Ended(error)) => Err(error.clone()),
            _ => Err(self.state.closed_error()),
        }
    }

    /// All candidates, the leader first, as the server that we are connected to tells it: of an ensemble it may be one that
    /// has not yet heard of the latest. Nodes that vanish meanwhile are left out.
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    ///
    /// # Errors
    ///
    /// As for [`InterProcessMutex::participants`](crate::InterProcessMutex::participants).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        self.candidate.recipe.participants(&self.candidate.request.family).await
    }

    /// The leader, as [`participants`](Self::participants) lists it.
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    ///
    /// # Errors
    ///
    /// As for [`participants`](Self::participants).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn leader(&self) -> Result<Option<Participant>, Error> {
        self.candidate.recipe.holder(&self.candidate.request.family).await
    }

    /// Gives the place up, and waits until the servers confirm it, at most for
    /// [`CuratorBuilder::connection_timeout`](crate::CuratorBuilder::connection_timeout). From the first poll on it does
    /// not lead. Closing again gives the same outcome.
    ///
    /// # Cancel safety
    ///
    /// Once it was polled, dropping the future does not stop the closing.
    ///
    /// # Errors
    ///
    /// * [`ErrorKind::Lost`](crate::ErrorKind::Lost): the leadership had been lost;
    /// * [`ErrorKind::PermissionDenied`](crate::ErrorKind::PermissionDenied): the server does not let us delete the node.
    pub async fn close(&self) -> Result<Released, Error> {
        self.state.enter(Phase::Closed);
        self.state.close().await
    }

    /// The path, under the namespace.
    pub fn path(&self) -> &str {
        &self.state.path
    }
}

impl fmt::Debug for LeaderLatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderLatch")
            .field("path", &self.path())
            .field("status", &*self.state.phase.borrow())
            .finish_non_exhaustive()
    }
}

/// The task of a latch: takes part until the latch is closed or fails.
async fn take_part(candidate: Candidate, state: CloseOnDrop) {
    let state = &state.0;
    let path = &state.path;
    let mut lost = None;
    let outcome = loop {
        let hold = match candidate.contend(lost, &state.close).await {
            Ok(hold) => hold,
            Err(Stopped::Closed(outcome)) => break outcome,
            Err(Stopped::Failed(error)) => {
                tracing::warn!(path, %error, "takes part no more");
                return state.enter(Phase::Ended(error));
            }
        };
        let leadership = candidate.leadership(&hold);
        tracing::info!(path, node = leadership.node(), "leads");
        state.enter(Phase::Leader(leadership));
        tokio::select! {
            biased;
            // `close` has changed the phase already, so no caller takes this latch for the leader.
            () = state.close.cancelled() => break hold.release().await,
            () = hold.state().ended().cancelled() => {}
        }
        let end = hold.state().end();
        tracing::info!(path, ?end, "leads no more");
        state.enter(Phase::Candidate);
        lost = Some(hold);
    };
    state.set_outcome(outcome);
}
