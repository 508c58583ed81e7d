//! [`TaskState`]: the state that the task of a latch, a selector or a persistent node shares with its handles.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{SetOnce, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::hold::Hold;
use crate::error::{Error, ErrorKind, Released};
use crate::lock_path::LockPath;

/// ```text
///   Waiting <------> Holding        (any) --close--> Closed
///     |    ^            |           without a handle: Closed
///     |    +--- Idle <--+           a selector, until it queues again
///     +--> Ended                    no further session will be opened
/// ```
#[derive(Debug)]
pub(crate) enum Phase {
    Waiting,
    /// A leader's term, or the time in which a persistent node is there and ours.
    Holding(Hold),
    /// A term has ended, and the caller wants no further one yet.
    Idle,
    Closed,
    /// No further session will be opened, for this reason.
    Ended(Error),
}

impl Phase {
    /// The current hold, if it lasts.
    pub(crate) fn hold(&self) -> Option<&Hold> {
        match self {
            Self::Holding(hold) if hold.is_held() => Some(hold),
            _ => None,
        }
    }

    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Closed | Self::Ended(_))
    }
}

#[derive(Debug)]
pub(crate) struct TaskState {
    pub(crate) path: String,
    /// The word of the users for the recipe.
    role: &'static str,
    pub(crate) phase: watch::Sender<Phase>,
    /// Cancelled when the task is to give up its place and end.
    pub(crate) close: CancellationToken,
    /// The error of the latest failed try.
    refusal: watch::Sender<Option<Error>>,
    outcome: SetOnce<Result<Released, Error>>,
}

impl TaskState {
    pub(crate) fn new(role: &'static str, path: &LockPath) -> Arc<Self> {
        Arc::new(Self {
            path: path.to_string(),
            role,
            phase: watch::Sender::new(Phase::Waiting),
            close: CancellationToken::new(),
            refusal: watch::Sender::new(None),
            outcome: SetOnce::new(),
        })
    }

    /// Changes the phase, unless the present one is final.
    pub(crate) fn enter(&self, next: Phase) {
        self.phase.send_if_modified(|phase| {
            if phase.is_final() {
                return false;
            }
            *phase = next;
            true
        });
    }

    /// Waits until the task holds. The error of a try that fails meanwhile goes to each call that waits.
    pub(crate) async fn hold(&self) -> Result<Hold, Error> {
        let mut phase = self.phase.subscribe();
        let held = async {
            let phase = phase.wait_for(|phase| phase.hold().is_some()).await;
            // The sender lives in `self`.
            // The hold may end in this instant, and the caller asks it again.
            phase.ok().and_then(|phase| match &*phase {
                Phase::Holding(hold) => Some(hold.view()),
                _ => None,
            })
        };
        tokio::select! {
            biased;
            held = held => held.ok_or_else(|| self.closed_error()),
            error = self.failed() => Err(error),
        }
    }

    /// Waits for the next failed try, or for the end of the task.
    pub(crate) async fn failed(&self) -> Error {
        // `subscribe` marks the failure before this call as seen.
        let mut refusal = self.refusal.subscribe();
        let mut phase = self.phase.subscribe();
        let ended = async {
            match phase.wait_for(Phase::is_final).await.as_deref() {
                Ok(Phase::Ended(error)) => error.clone(),
                _ => self.closed_error(),
            }
        };
        tokio::select! {
            biased;
            error = ended => error,
            // The sender lives in `self`.
            _ = refusal.changed() => {
                let error = refusal.borrow().clone();
                error.unwrap_or_else(|| self.closed_error())
            }
        }
    }

    /// Reports a failed try to the calls that wait for the hold.
    pub(crate) fn refuse(&self, error: Error) {
        self.refusal.send_replace(Some(error));
    }

    /// Records the outcome of the last release. Only the first outcome counts.
    pub(crate) fn set_outcome(&self, outcome: Result<Released, Error>) {
        let _ = self.outcome.set(outcome);
    }

    /// Ends the task, and waits until its place is given up.
    pub(crate) async fn close(&self) -> Result<Released, Error> {
        self.close.cancel();
        self.outcome.wait().await.clone()
    }

    /// As [`close`](Self::close), at most for `limit`.
    pub(crate) async fn close_within(&self, limit: Duration) -> Result<Released, Error> {
        timeout(limit, self.close()).await.unwrap_or(Ok(Released::Pending))
    }

    pub(crate) fn closed_error(&self) -> Error {
        let Self { path, role, .. } = self;
        let text = format!("closed: it is no {role} at {path} any more");
        Error::new(ErrorKind::Closed, text).at(path)
    }
}

/// Owned by the task. Dropping it ends the state, even if the runtime ended before the task ran.
#[derive(Debug)]
pub(crate) struct CloseOnDrop(pub(crate) Arc<TaskState>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        let state = &self.0;
        state.enter(match state.close.is_cancelled() {
            true => Phase::Closed,
            false => Phase::Ended(state.closed_error()),
        });
        self.0.set_outcome(Ok(Released::Confirmed));
    }
}
