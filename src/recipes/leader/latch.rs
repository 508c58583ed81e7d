//! [`LeaderLatch`]: leads until it is closed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::DropGuard;

use super::candidate::{Candidate, Stopped, next_pause};
use crate::clock::BootInstant;
use crate::curator::Curator;
use crate::error::{Error, Released};
use crate::metrics;
use crate::queue::rules::admission::Family;
use crate::queue::rules::node_name::Kind;
use crate::recipes::shared::hold::Hold;
use crate::recipes::shared::participants::Participant;
use crate::recipes::shared::task_state::{CloseOnDrop, Phase, TaskState};
use crate::session::retry::RetryPolicy;

/// Makes one of several processes the leader, until its latch is closed or its leadership is lost.
///
/// The znodes are those of Apache Curator's `LeaderLatch`, so JVM and Rust processes can stand for one election.
///
/// * **Fair**: the candidate that entered the queue first leads first.
/// * **Steps down before another process can lead**: [`is_leader`](Self::is_leader) compares the clock with the session
///   lease, so the answer is right even in a process that was paused.
/// * **Does not flap**: a disconnection that ends within the session lease changes nothing, nor does a rolling restart of the
///   servers. The latch keeps its node, and so its place, until the session ends, another client deletes the node, or a try fails.
///   If only the session lease ended, the latch leads again on the same node and with the same token. The token of any other leader
///   is larger.
/// * **Recovers**: after an expiry, or when its node was deleted, the latch is a candidate again, at the tail.
/// * **Never gives up**: a try to enter the queue fails if a server refuses it, another recipe's contender is on the path, this
///   session has no room for another node, or a [retry policy](Curator::with_retry) is used up. The error goes to each call that
///   waits in [`leadership`](Self::leadership), and the latch tries again after a pause that grows from 100 ms to 10 s. After a
///   failed try it lists the path before it creates a node. The latch ends with [`close`](Self::close), when the [`Curator`] is
///   closed, and when the servers refuse the credentials.
/// * **Not guaranteed**: that the process runs; see [`Hold`].
///
/// A latch is a handle that is cheap to clone. Dropping the last one closes the latch. To take part twice in one process,
/// create two latches.
///
/// ```no_run
/// # use zookeeper_recipes::{Curator, Error, ErrorKind};
/// # async fn serve() {}
/// # async fn example(curator: Curator) -> Result<(), Error> {
/// let latch = curator.leader_latch("/leader")?;
/// loop {
///     match latch.leadership().await {
///         Ok(term) => {
///             // Cancelled before another process can lead.
///             term.cancellation_token().run_until_cancelled(serve()).await;
///         }
///         Err(ended) if matches!(ended.kind(), ErrorKind::Closed | ErrorKind::AuthenticationFailed) => {
///             return Err(ended);
///         }
///         Err(refused) => eprintln!("does not lead yet: {refused}"),
///     }
/// }
/// # }
/// ```
#[derive(Clone)]
#[must_use = "it stops taking part when it is dropped"]
pub struct LeaderLatch {
    candidate: Candidate,
    state: Arc<TaskState>,
    /// Closes the latch with the last handle.
    _open: Arc<DropGuard>,
}

impl Curator {
    /// Returns a latch at `path`, under the namespace, with the options of this handle. The latch is a candidate from now on.
    /// While there is no connection, it waits for one.
    ///
    /// # Errors
    ///
    /// As for [`mutex`](Self::mutex).
    pub fn leader_latch(&self, path: impl AsRef<str>) -> Result<LeaderLatch, Error> {
        let recipe = metrics::Recipe::LEADER_LATCH;
        let candidate = Candidate::new(self, path.as_ref(), recipe, Family::Latches, Kind::Latch)?;
        let state = TaskState::new("candidate", &candidate.recipe.path);
        let _open = Arc::new(state.close.clone().drop_guard());
        self.connection().spawn(take_part(candidate.clone(), CloseOnDrop(state.clone())));
        Ok(LeaderLatch { candidate, state, _open })
    }
}

impl LeaderLatch {
    /// Returns true while this latch is the leader. Each call compares the clock with the session lease.
    #[must_use]
    #[doc(alias = "has_leadership")]
    #[doc(alias = "hasLeadership")]
    pub fn is_leader(&self) -> bool {
        self.state.phase.borrow().hold().is_some()
    }

    /// Waits until this latch leads. A loop gets one term after the other, each when the work of the previous term has ended: see
    /// the example above.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing: the latch stays a candidate, or the leader.
    ///
    /// # Errors
    ///
    /// * [`ErrorKind::Closed`](crate::ErrorKind::Closed): the latch or its [`Curator`] is closed;
    ///   [`ErrorKind::AuthenticationFailed`](crate::ErrorKind::AuthenticationFailed): the servers refuse the credentials. Each later
    ///   call fails as well.
    /// * Any other kind: a try to enter the queue failed while this call waited. The latch tries again, and a later call waits for
    ///   that try. [`ErrorKind::PermissionDenied`](crate::ErrorKind::PermissionDenied),
    ///   [`ErrorKind::Refused`](crate::ErrorKind::Refused): a server refuses;
    ///   [`ErrorKind::UnusablePath`](crate::ErrorKind::UnusablePath): another recipe is on the path, or its sequence numbers are used
    ///   up; [`ErrorKind::LimitReached`](crate::ErrorKind::LimitReached);
    ///   [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable): the [retry policy](Curator::with_retry) is used up.
    #[doc(alias = "await_leadership")]
    #[doc(alias = "await")]
    #[doc(alias = "LeaderLatchListener")]
    pub async fn leadership(&self) -> Result<Hold, Error> {
        self.state.hold().await
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

    /// Gives the place up, and waits until the servers confirm it, at most for
    /// [`CuratorBuilder::connection_timeout`](crate::CuratorBuilder::connection_timeout). From the first poll on the latch does
    /// not lead. Closing again returns the same outcome.
    ///
    /// # Cancel safety
    ///
    /// Once the future was polled, dropping it does not stop the closing.
    ///
    /// # Errors
    ///
    /// * [`ErrorKind::Lost`](crate::ErrorKind::Lost): the leadership had been lost;
    /// * [`ErrorKind::PermissionDenied`](crate::ErrorKind::PermissionDenied): the server does not let us delete the node.
    pub async fn close(&self) -> Result<Released, Error> {
        self.state.enter(Phase::Closed);
        self.state.close().await
    }

    /// As [`close`](Self::close), and returns after `limit` at the latest: then with [`Released::Pending`], and the closing continues
    /// in the background.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use zookeeper_recipes::{Error, leader::LeaderLatch};
    /// # async fn example(latch: LeaderLatch) -> Result<(), Error> {
    /// let released = latch.close_timeout(Duration::from_secs(5)).await?;
    /// println!("the place is given up: {released:?}");
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
        self.state.enter(Phase::Closed);
        self.state.close_within(limit).await
    }

    /// Returns the path, under the namespace.
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

/// The task of a latch: takes part until the latch is closed, or no further session will be opened.
async fn take_part(mut candidate: Candidate, state: CloseOnDrop) {
    let state = &state.0;
    let path = &state.path;
    let session_timeout = candidate.recipe.curator.connection().settings.session_timeout;
    // Whatever the policy of the requests: a candidate never gives up.
    let mut failures = RetryPolicy::endless().start();
    let mut lost = None;
    let outcome = loop {
        let began = BootInstant::now();
        let hold = match candidate.contend(lost.take(), &state.close).await {
            Ok(hold) => hold,
            Err(Stopped::Closed(outcome)) => break outcome,
            Err(Stopped::Ended(error)) => return state.enter(Phase::Ended(error)),
            Err(Stopped::Refused(error)) => {
                state.refuse(error);
                let pause = next_pause(&mut failures, began.elapsed(), session_timeout);
                let pause = candidate.pause(pause);
                tokio::select! {
                    biased;
                    () = state.close.cancelled() => break Ok(Released::Confirmed),
                    () = pause => continue,
                }
            }
        };
        failures.restart();
        let leadership = candidate.leadership(&hold);
        tracing::info!(path, node = leadership.node(), "leads");
        state.enter(Phase::Holding(leadership));
        tokio::select! {
            biased;
            // `close` has changed the phase already, so no caller takes this latch for the leader.
            () = state.close.cancelled() => break hold.release().await,
            () = hold.state().ended().cancelled() => {}
        }
        let end = hold.state().end();
        tracing::info!(path, ?end, "leads no more");
        state.enter(Phase::Waiting);
        lost = Some(hold);
    };
    state.set_outcome(outcome);
}
