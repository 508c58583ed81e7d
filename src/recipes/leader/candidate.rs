//! A latch's or a selector's contender, and what the task that drives it shares with its handles.

use std::sync::Arc;

use tokio::sync::{SetOnce, watch};
use tokio_util::sync::CancellationToken;

use crate::curator::Curator;
use crate::error::{Error, ErrorKind, Released};
use crate::metrics;
use crate::queue::rules::admission::Family;
use crate::queue::rules::node_name::Kind;
use crate::queue::{self, Contending, QueuedFlag, Request};
use crate::recipes::shared::hold::Hold;
use crate::recipes::shared::recipe::{Patience, Recipe};

#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) recipe: Recipe,
    pub(super) family: Family,
    pub(super) kind: Kind,
}

/// Why a candidate does not come to lead.
pub(super) enum Stopped {
    /// It was closed, with this outcome.
    Closed(Result<Released, Error>),
    Failed(Error),
}

impl Candidate {
    pub(super) fn new(
        curator: &Curator,
        path: &str,
        of: metrics::Recipe,
        family: Family,
        kind: Kind,
    ) -> Result<Self, Error> {
        let retry = curator.endless_retry();
        let recipe = Recipe { retry, ..Recipe::new(curator, path, of)? };
        Ok(Self { recipe, family, kind })
    }

    /// A term of the leader.
    pub(super) fn leadership(&self, hold: &queue::OwnedHold) -> Hold {
        Hold::new(hold.state(), &self.recipe).with_stop()
    }

    /// Queues up, and waits until it holds or is closed.
    pub(super) async fn contend(
        &self,
        lost: Option<queue::OwnedHold>,
        close: &CancellationToken,
    ) -> Result<queue::OwnedHold, Stopped> {
        let mut contending = self.enter(lost);
        loop {
            let held = tokio::select! {
                biased;
                () = close.cancelled() => {
                    let patience = self.recipe.curator.connection().settings.connection_timeout;
                    return Err(Stopped::Closed(contending.withdraw(patience).await));
                }
                held = contending.answer() => held,
            };
            match held {
                Ok(Some(hold)) => return Ok(hold),
                // A contender that waits without a limit never gets busy.
                Ok(None) => contending = self.enter(None),
                Err(error) => return Err(Stopped::Failed(error)),
            }
        }
    }

    /// Queues up; with the node of a lost hold, if that is still there.
    fn enter(&self, lost: Option<queue::OwnedHold>) -> Contending {
        let Self { recipe, family, kind } = self;
        let request = recipe.request(family.clone(), *kind, Patience::Forever);
        // Each candidate has a node of its own.
        let request = Request { shares_queue: false, ..request };
        let queues = recipe.curator.queues();
        match lost {
            None => queues.contend(request, QueuedFlag::default()),
            Some(lost) => queues.contend_again(request, QueuedFlag::default(), lost),
        }
    }
}

/// ```text
///   Candidate <-----> Leader        (any) --close--> Closed
///     |    ^            |           without a handle: Closed
///     |    +- Between <-+           a selector's, until it queues again
///     +--> Ended                    a latch's
/// ```
#[derive(Debug)]
pub(super) enum Phase {
    Candidate,
    Leader(Hold),
    /// A term has ended, and no other is wanted.
    Between,
    Closed,
    /// It cannot take part any more.
    Ended(Error),
}

impl Phase {
    /// The term that lasts at this instant.
    pub(super) fn leadership(&self) -> Option<&Hold> {
        match self {
            Self::Leader(leadership) if leadership.is_held() => Some(leadership),
            _ => None,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Closed | Self::Ended(_))
    }
}

/// What the task that drives a candidate shares with its handles.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) path: String,
    pub(super) phase: watch::Sender<Phase>,
    /// Cancelled when the candidate is to be closed.
    pub(super) close: CancellationToken,
    outcome: SetOnce<Result<Released, Error>>,
}

impl Shared {
    pub(super) fn new(candidate: &Candidate) -> Arc<Self> {
        Arc::new(Self {
            path: candidate.recipe.path.to_string(),
            phase: watch::Sender::new(Phase::Candidate),
            close: CancellationToken::new(),
            outcome: SetOnce::new(),
        })
    }

    /// Changes the phase, unless the candidate is closed or has ended.
    pub(super) fn enter(&self, next: Phase) {
        self.phase.send_if_modified(|phase| {
            let goes_on = !phase.is_over();
            if goes_on {
                *phase = next;
            }
            goes_on
        });
    }

    /// Notes the outcome of the last release. Only the first outcome counts.
    pub(super) fn came_to(&self, outcome: Result<Released, Error>) {
        let _ = self.outcome.set(outcome);
    }

    /// Closes the candidate, and waits until its place is given up.
    pub(super) async fn close(&self) -> Result<Released, Error> {
        self.close.cancel();
        self.outcome.wait().await.clone()
    }

    pub(super) fn closed(&self) -> Error {
        let path = &self.path;
        let text = format!("closed: it is no candidate at {path} any more");
        Error::new(ErrorKind::Closed, text).at(path)
    }
}

/// Owned by the task. Closes the candidate, also when the runtime ends before the task was run.
#[derive(Debug)]
pub(super) struct Driving(pub(super) Arc<Shared>);

impl Drop for Driving {
    fn drop(&mut self) {
        self.0.enter(Phase::Closed);
        self.0.came_to(Ok(Released::Confirmed));
    }
}
