//! The task of a latch, and what it shares with the handles.

use std::sync::Arc;

use tokio::sync::watch;

use super::candidate::Candidate;
use super::closing::Closing;
use super::error::LeaderError;
use super::latch::CloseMode;
use super::leadership::Leadership;
use crate::error::{AcquireError, ReleaseError};

/// ```text
///   Latent --start--> Candidate <-----> Leader        (any) --close--> Closed
///                         |                           without a handle: Closed
///                         +--> Ended
/// ```
#[derive(Clone, Debug)]
pub(super) enum Status {
    Latent,
    Candidate,
    Leader(Leadership),
    Closed(CloseMode),
    /// It cannot take part any more.
    Ended(AcquireError),
}

impl Status {
    fn is_over(&self) -> bool {
        matches!(self, Self::Closed(_) | Self::Ended(_))
    }

    /// The term that lasts at this instant.
    pub(super) fn leadership(&self) -> Option<&Leadership> {
        match self {
            Self::Leader(leadership) if leadership.is_held() => Some(leadership),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    path: String,
    status: watch::Sender<Status>,
    closing: Closing,
}

impl Shared {
    pub(super) fn new(path: String) -> Self {
        Self { path, status: watch::Sender::new(Status::Latent), closing: Closing::default() }
    }

    pub(super) fn closing(&self) -> &Closing {
        &self.closing
    }

    pub(super) fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    pub(super) fn follow(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn leads(&self) -> bool {
        self.status.borrow().leadership().is_some()
    }

    /// The term that lasts at this instant.
    pub(super) fn leadership(&self) -> Option<Leadership> {
        self.status.borrow().leadership().cloned()
    }

    pub(super) async fn close(&self, mode: CloseMode) -> Result<(), ReleaseError> {
        if self.enter(Status::Closed(mode)) == Some(false) {
            // Nobody was started.
            self.closing.done();
        }
        self.closing.close().await
    }

    /// Unless it is over. Whether it was started; `None` if it is over.
    fn enter(&self, next: Status) -> Option<bool> {
        let mut started = None;
        self.status.send_if_modified(|status| {
            let goes_on = !status.is_over();
            if goes_on {
                started = Some(!matches!(status, Status::Latent));
                *status = next;
            }
            goes_on
        });
        started
    }
}

/// A latch that was started. Says that it is over, also when the runtime goes before the task was run.
#[derive(Debug)]
pub(super) struct Driving {
    shared: Arc<Shared>,
    mode: CloseMode,
}

impl Driving {
    pub(super) fn new(shared: &Arc<Shared>, mode: CloseMode) -> Result<Self, LeaderError> {
        let mut refused = None;
        shared.status.send_if_modified(|status| {
            let path = shared.path.clone();
            match status {
                Status::Latent => *status = Status::Candidate,
                Status::Candidate | Status::Leader(_) => {
                    refused = Some(LeaderError::AlreadyStarted { path });
                }
                Status::Closed(_) => refused = Some(LeaderError::Closed { path }),
                Status::Ended(error) => refused = Some(LeaderError::Ended(error.clone())),
            }
            refused.is_none()
        });
        refused.map_or_else(|| Ok(Self { shared: shared.clone(), mode }), Err)
    }
}

impl Drop for Driving {
    fn drop(&mut self) {
        self.shared.enter(Status::Closed(self.mode));
        self.shared.closing.done();
    }
}

/// Takes part, until the latch is closed or cannot any more.
pub(super) async fn drive(candidate: Candidate, driving: Driving) {
    let Driving { shared, mode } = &driving;
    let mut contending = candidate.enter();
    let outcome = loop {
        let held = tokio::select! {
            biased;
            () = shared.closing.asked().cancelled() => {
                shared.enter(Status::Closed(*mode));
                break candidate.withdraw(contending).await;
            }
            held = candidate.hold(&mut contending) => held,
        };
        let hold = match held {
            Ok(hold) => hold,
            Err(error) => {
                tracing::warn!(path = shared.path, %error, "takes part no more");
                shared.enter(Status::Ended(error));
                return;
            }
        };
        let leadership = Leadership::new(&hold, &candidate);
        tracing::info!(path = shared.path, node = leadership.node(), "leads");
        shared.enter(Status::Leader(leadership));
        tokio::select! {
            biased;
            () = shared.closing.asked().cancelled() => {
                // Before the node goes: first of all nobody may take it for the leader any more.
                shared.enter(Status::Closed(*mode));
                break hold.release().await;
            }
            () = hold.state().ended().cancelled() => {}
        }
        let loss = hold.state().end();
        tracing::info!(path = shared.path, ?loss, "leads no more");
        shared.enter(Status::Candidate);
        contending = candidate.enter_again(hold);
    };
    shared.closing.came_to(outcome);
}
