//! A latch's or a selector's contender, and the others of its election.

use crate::curator::Curator;
use crate::error::{Error, ErrorKind, Released};
use crate::metrics;
use crate::queue::rules::admission::Family;
use crate::queue::rules::node_name::Kind;
use crate::queue::{self, Contending, Queued, Request};
use crate::recipes::shared::hold::Hold;
use crate::recipes::shared::recipe::{Patience, Recipe};

#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) recipe: Recipe,
    pub(super) family: Family,
    pub(super) kind: Kind,
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

    pub(super) fn path(&self) -> String {
        self.recipe.path.to_string()
    }

    /// A term of the leader.
    pub(super) fn leadership(&self, hold: &queue::Hold) -> Hold {
        Hold::new(hold.state(), &self.recipe).with_stop()
    }

    pub(super) fn closed(&self) -> Error {
        closed(&self.path())
    }

    /// Queues up.
    pub(super) fn enter(&self) -> Contending {
        self.recipe.curator.queues().contend(self.request(), Queued::default())
    }

    /// Queues up with what a lost hold has left, if it has.
    pub(super) fn enter_again(&self, lost: queue::Hold) -> Contending {
        self.recipe.curator.queues().contend_again(self.request(), Queued::default(), lost)
    }

    /// Waits until it holds. May be dropped and begun again.
    pub(super) async fn hold(&self, contending: &mut Contending) -> Result<queue::Hold, Error> {
        loop {
            if let Some(hold) = contending.answer().await? {
                return Ok(hold);
            }
            // A contender that waits without a limit never gets busy.
            *contending = self.enter();
        }
    }

    /// Leaves the queue, and gives up what it came to meanwhile.
    pub(super) async fn withdraw(&self, contending: Contending) -> Result<Released, Error> {
        let patience = self.recipe.curator.session().settings.connection_timeout;
        contending.withdraw(patience).await
    }

    fn request(&self) -> Request {
        let Self { recipe, family, kind } = self;
        let request = recipe.request(&recipe.path, family.clone(), *kind, Patience::Forever);
        // Each has a node of its own.
        Request { takes_turns: false, ..request }
    }
}

pub(super) fn closed(path: &str) -> Error {
    let text = format!("closed: it is no candidate at {path} any more");
    Error::new(ErrorKind::Closed, text).at(path)
}
