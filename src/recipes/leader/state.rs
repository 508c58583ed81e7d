//! [`LeaderState`]: the state that the task of a latch or a selector shares with its handles.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{SetOnce, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorKind, Released};
use crate::lock_path::LockPath;
use crate::recipes::shared::hold::Hold;

/// ```text
///   Candidate <-----> Leader        (any) --close--> Closed
///     |    ^            |           without a handle: Closed
///     |    +--- Idle <--+           a selector, until it queues again
///     +--> Ended                    no further session will be opened
/// ```
#[derive(Debug)]
pub(super) enum Phase {
    Candidate,
    Leader(Hold),
    /// A term has ended, and the caller wants no further one yet.
    Idle,
    Closed,
    /// No further session will be opened, for this reason.
    Ended(Error),
}

impl Phase {
    /// The current term, if it lasts.
    pub(super) fn leadership(&self) -> Option<&Hold> {
        match self {
            Self::Leader(leadership) if leadership.is_held() => Some(leadership),
            _ => None,
        }
    }

    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Closed | Self::Ended(_))
    }
}

#[derive(Debug)]
pub(super) struct LeaderState {
    pub(super) path: String,
    pub(super) phase: watch::Sender<Phase>,
    /// Cancelled when the candidate is to be closed.
    pub(super) close: CancellationToken,
    /// The error of the latest failed try.
    refusal: watch::Sender<Option<Error>>,
    outcome: SetOnce<Result<Released, Error>>,
}

impl LeaderState {
    pub(super) fn new(path: &LockPath) -> Arc<Self> {
        Arc::new(Self {
            path: path.to_string(),
            phase: watch::Sender::new(Phase::Candidate),
            close: CancellationToken::new(),
            refusal: watch::Sender::new(None),
            outcome: SetOnce::new(),
        })
    }

    /// Changes the phase, unless the present one is final.
    pub(super) fn enter(&self, next: Phase) {
        self.phase.send_if_modified(|phase| {
            if phase.is_final() {
                return false;
            }
            *phase = next;
            true
        });
    }

    /// Waits until the candidate leads. The error of a try that fails meanwhile goes to each call that waits.
    pub(super) async fn leadership(&self) -> Result<Hold, Error> {
        // `subscribe` marks the failure before this call as seen.
        let mut refusal = self.refusal.subscribe();
        let mut phase = self.phase.subscribe();
        let settled = |phase: &Phase| phase.is_final() || phase.leadership().is_some();
        let settled = tokio::select! {
            biased;
            settled = phase.wait_for(settled) => settled.ok(),
            // The sender lives in `self`.
            _ = refusal.changed() => {
                let error = refusal.borrow().clone();
                return Err(error.unwrap_or_else(|| self.closed_error()));
            }
        };
        match settled.as_deref() {
            Some(Phase::Leader(leadership)) => Ok(leadership.view()),
            Some(Phase::Ended(error)) => Err(error.clone()),
            _ => Err(self.closed_error()),
        }
    }

    /// Reports a failed try to the calls that wait for the leadership.
    pub(super) fn refuse(&self, error: Error) {
        self.refusal.send_replace(Some(error));
    }

    /// Records the outcome of the last release. Only the first outcome counts.
    pub(super) fn set_outcome(&self, outcome: Result<Released, Error>) {
        let _ = self.outcome.set(outcome);
    }

    /// Closes the candidate, and waits until its place is given up.
    pub(super) async fn close(&self) -> Result<Released, Error> {
        self.close.cancel();
        self.outcome.wait().await.clone()
    }

    /// As [`close`](Self::close), at most for `limit`.
    pub(super) async fn close_within(&self, limit: Duration) -> Result<Released, Error> {
        timeout(limit, self.close()).await.unwrap_or(Ok(Released::Pending))
    }

    pub(super) fn closed_error(&self) -> Error {
        let path = &self.path;
        let text = format!("closed: it is no candidate at {path} any more");
        Error::new(ErrorKind::Closed, text).at(path)
    }
}

/// Owned by the task. Dropping it closes the candidate, even if the runtime ended before the task ran.
#[derive(Debug)]
pub(super) struct CloseOnDrop(pub(super) Arc<LeaderState>);

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
