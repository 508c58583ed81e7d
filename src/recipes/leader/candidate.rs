//! [`Candidate`]: how a latch or a selector contends.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::curator::Curator;
use crate::error::{Error, Released};
use crate::metrics;
use crate::queue::rules::admission::Family;
use crate::queue::rules::node_name::Kind;
use crate::queue::{OwnedHold, QueuedFlag, Request};
use crate::recipes::shared::hold::Hold;
use crate::recipes::shared::recipe::Recipe;

#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) recipe: Recipe,
    pub(super) request: Arc<Request>,
}

/// Why a candidate does not come to lead.
pub(super) enum Stopped {
    /// The candidate was closed, with this outcome.
    Closed(Result<Released, Error>),
    Failed(Error),
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
        Ok(Self { recipe, request: Arc::new(request) })
    }

    /// A term of the leader.
    pub(super) fn leadership(&self, hold: &OwnedHold) -> Hold {
        Hold::new(hold.state(), &self.recipe).with_stop()
    }

    /// Queues up, and waits until the candidate holds or is closed. The node of a `lost` hold is used again, if it still
    /// exists.
    pub(super) async fn contend(
        &self,
        lost: Option<OwnedHold>,
        close: &CancellationToken,
    ) -> Result<OwnedHold, Stopped> {
        let queues = self.recipe.curator.queues();
        let request = self.request.clone();
        let mut contending = match lost {
            None => queues.contend(request, QueuedFlag::UNREAD),
            Some(lost) => queues.contend_again(request, QueuedFlag::UNREAD, lost),
        };
        tokio::select! {
            biased;
            () = close.cancelled() => {
                let patience = self.recipe.curator.connection().settings.connection_timeout;
                Err(Stopped::Closed(contending.withdraw(patience).await))
            }
            held = contending.answer() => held.map_err(Stopped::Failed),
        }
    }
}
