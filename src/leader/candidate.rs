//! What a latch and a selector contend with, and who else does.

use std::borrow::Cow;

use crate::admission::Family;
use crate::contender_filter::ContenderFilter;
use crate::contender_name::Kind;
use crate::curator::Curator;
use crate::error::{AcquireError, ConfigError, ReleaseError};
use crate::metrics;
use crate::participants::Participant;
use crate::queue::{Contending, Hold, Queued, Request};
use crate::recipe::{Patience, Recipe};
use crate::retry::RetryPolicy;

#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) recipe: Recipe,
    pub(super) family: Family,
    pub(super) kind: Kind,
}

impl Candidate {
    fn new(
        curator: &Curator,
        path: &str,
        of: metrics::Recipe,
        family: Family,
        kind: Kind,
    ) -> Result<Self, ConfigError> {
        let mut recipe = Recipe::new(curator, path, of)?;
        recipe.retry = RetryPolicy::endless();
        Ok(Self { recipe, family, kind })
    }

    pub(super) fn of_latch(curator: &Curator, path: &str) -> Result<Self, ConfigError> {
        Self::new(curator, path, metrics::Recipe::LeaderLatch, Family::Latches, Kind::Latch)
    }

    pub(super) fn of_selector(curator: &Curator, path: &str) -> Result<Self, ConfigError> {
        let filter = ContenderFilter::default();
        let kind = filter.kind();
        Self::new(curator, path, metrics::Recipe::LeaderSelector, Family::Exclusive(filter), kind)
    }

    pub(super) fn path(&self) -> String {
        self.recipe.path.to_string()
    }

    pub(super) fn id(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.recipe.data)
    }

    /// Queues up.
    pub(super) fn enter(&self) -> Contending {
        self.recipe.curator.queues().contend(self.request(), Queued::default())
    }

    /// Queues up with what a lost hold has left, if it has.
    pub(super) fn enter_again(&self, lost: Hold) -> Contending {
        self.recipe.curator.queues().contend_again(self.request(), Queued::default(), lost)
    }

    /// Waits until it holds. May be dropped and begun again.
    pub(super) async fn hold(&self, contending: &mut Contending) -> Result<Hold, AcquireError> {
        loop {
            if let Some(hold) = contending.answer().await? {
                return Ok(hold);
            }
            // Nobody who waits without a limit is told that it is busy.
            *contending = self.enter();
        }
    }

    /// Leaves the queue, and gives up what it came to meanwhile.
    pub(super) async fn withdraw(&self, contending: Contending) -> Result<(), ReleaseError> {
        let patience = self.recipe.curator.session().settings.connection_timeout;
        match contending.withdraw(patience).await? {
            Some(hold) => hold.release().await,
            None => Ok(()),
        }
    }

    fn request(&self) -> Request {
        let Self { recipe, family, kind } = self;
        let request = recipe.request(&recipe.path, family.clone(), *kind, Patience::Forever);
        // Each has a node of its own.
        Request { takes_turns: false, ..request }
    }

    pub(super) async fn participants(&self) -> Result<Vec<Participant>, AcquireError> {
        self.recipe.participants(&self.family, None).await
    }

    pub(super) async fn leader(&self) -> Result<Option<Participant>, AcquireError> {
        self.recipe.holder(&self.family).await
    }
}
