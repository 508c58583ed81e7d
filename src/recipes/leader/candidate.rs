//! [`Candidate`]: how a latch or a selector contends, and how it tries again after a failed try.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::curator::Curator;
use crate::error::{Error, ErrorKind, Released};
use crate::metrics::{self, Operation};
use crate::queue::rules::admission::Family;
use crate::queue::rules::node_name::Kind;
use crate::queue::{Contending, OwnedHold, QueuedFlag, Request};
use crate::recipes::shared::hold::Hold;
use crate::recipes::shared::recipe::Recipe;
use crate::session::retry::Retry;

#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) recipe: Recipe,
    pub(super) request: Arc<Request>,
    /// The kind of the latest failure, until the candidate leads.
    failed: Option<ErrorKind>,
}

/// Why a candidate does not come to lead.
pub(super) enum Stopped {
    /// The candidate was closed, with this outcome.
    Closed(Result<Released, Error>),
    /// The try failed for a reason that may pass.
    Refused(Error),
    /// No further session will be opened.
    Ended(Error),
}

impl Candidate {
    pub(super) fn new(
        curator: &Curator,
        path: &str,
        recipe: metrics::Recipe,
        family: Family,
        kind: Kind,
    ) -> Result<Self, Error> {
        let retry = curator.endless_retry();
        let recipe = Recipe { retry, ..Recipe::new(curator, path, recipe)? };
        let mut request = recipe.request(family, kind);
        // Each candidate has a node of its own.
        request.waiter_mut().shares_queue = false;
        Ok(Self { recipe, request: Arc::new(request), failed: None })
    }

    /// A term of the leader.
    pub(super) fn leadership(&self, hold: &OwnedHold) -> Hold {
        Hold::new(hold.state(), &self.recipe).with_stop()
    }

    /// Queues up, and waits until the candidate holds or is closed. The node of a `lost` hold is used again, if it still
    /// exists. The first failure of each kind in a row is logged as a warning.
    pub(super) async fn contend(
        &mut self,
        lost: Option<OwnedHold>,
        close: &CancellationToken,
    ) -> Result<OwnedHold, Stopped> {
        let mut contending = self.enter(lost);
        let held = tokio::select! {
            biased;
            () = close.cancelled() => {
                let patience = self.recipe.curator.connection().settings.connection_timeout;
                return Err(Stopped::Closed(contending.withdraw(patience).await));
            }
            held = contending.answer() => held,
        };
        let error = match held {
            Ok(hold) => {
                self.failed = None;
                return Ok(hold);
            }
            Err(error) => error,
        };
        let path = &self.recipe.path;
        if matches!(error.kind(), ErrorKind::Closed | ErrorKind::AuthenticationFailed) {
            tracing::warn!(%path, %error, "takes part no more");
            return Err(Stopped::Ended(error));
        }
        if self.failed.replace(error.kind()) == Some(error.kind()) {
            tracing::debug!(%path, %error, "still does not come to lead");
        } else {
            tracing::warn!(%path, %error, "does not come to lead, and tries again");
        }
        Err(Stopped::Refused(error))
    }

    fn enter(&self, lost: Option<OwnedHold>) -> Contending {
        let queues = self.recipe.curator.queues();
        let mut request = self.request.clone();
        if self.failed.is_some() {
            metrics::retried(Operation::ENTER);
            // A try that creates a node uses up a sequence number, and fails the entries of another recipe on the path.
            Arc::make_mut(&mut request).check_first = true;
        }
        match lost {
            None => queues.contend(request, QueuedFlag::UNREAD),
            Some(lost) => queues.contend_again(request, QueuedFlag::UNREAD, lost),
        }
    }

    /// Pauses before the next try. Returns early when a server answers again, and when the connection closes or has ended.
    pub(super) async fn pause(&self, pause: Duration) {
        let connection = self.recipe.curator.connection();
        tokio::select! {
            biased;
            () = connection.closing().cancelled() => {}
            () = connection.pause_unless_ended(pause) => {}
        }
    }
}

/// Returns the pause after a failed try that took this time. A try that took longer than a session timeout had worked, so the pauses
/// start afresh.
pub(super) fn next_pause(
    failures: &mut Retry,
    took: Duration,
    session_timeout: Duration,
) -> Duration {
    if took > session_timeout {
        failures.restart();
    }
    failures.next_endless()
}
