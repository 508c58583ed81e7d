//! What every recipe starts from: a [`Curator`] with its options, and a path.

use std::time::Duration;

use super::participants::{Participant, holder, participants};
use crate::client::check_contender;
use crate::curator::Curator;
use crate::error::Error;
use crate::lock_path::LockPath;
use crate::metrics::{self, Lock};
use crate::queue::Request;
use crate::queue::rules::admission::Family;
use crate::queue::rules::node_name::Kind;
use crate::session::retry::RetryPolicy;

/// How long a caller waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// Not for other holders.
    OnlyIfFree,
    For(Duration),
    Forever,
}

impl Patience {
    /// Without any time, whether the answer comes first would be chance.
    pub(crate) fn within(limit: Duration) -> Self {
        if limit.is_zero() { Self::OnlyIfFree } else { Self::For(limit) }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) curator: Curator,
    pub(crate) path: LockPath,
    pub(crate) retry: RetryPolicy,
    /// What it is counted as.
    pub(crate) counted: Lock,
}

impl Recipe {
    pub(crate) fn new(
        curator: &Curator,
        path: &str,
        recipe: metrics::Recipe,
    ) -> Result<Self, Error> {
        let path = LockPath::parse("lock path", path)?;
        let absolute = curator.session().absolute(&path);
        check_contender(&absolute, curator.identity(), curator.acls())
            .map_err(|error| error.at(&path))?;
        let (retry, label) = (curator.retry().clone(), &curator.session().settings.path_label);
        let counted = Lock::new(recipe, label, path.as_str());
        Ok(Self { curator: curator.clone(), path, retry, counted })
    }

    /// For nodes whose data other clients decode.
    pub(crate) fn check_text(&self) -> Result<(), Error> {
        let identity = self.curator.identity();
        if std::str::from_utf8(identity).is_ok() {
            return Ok(());
        }
        let value = format_args!("of {} bytes for {}", identity.len(), self.path);
        let reason = "kazoo decodes it, so with this filter it must be UTF-8";
        Err(Error::invalid("identity", value, reason).at(&self.path))
    }

    pub(crate) fn request(
        &self,
        path: &LockPath,
        family: Family,
        kind: Kind,
        patience: Patience,
    ) -> Request {
        let only_if_free = matches!(patience, Patience::OnlyIfFree);
        Request {
            path: path.clone(),
            takes_turns: matches!(family, Family::Exclusive(_)),
            node_per_hold: false,
            retention: Duration::ZERO,
            family,
            kind,
            beside: None,
            data: self.curator.identity().clone(),
            acls: self.curator.acls().clone(),
            retry: self.retry.clone(),
            loss_policy: self.curator.loss_policy(),
            only_if_free,
            looks_first: only_if_free,
            counted: self.counted.clone(),
        }
    }

    pub(crate) async fn participants(&self, family: &Family) -> Result<Vec<Participant>, Error> {
        participants(self.curator.session(), &self.path, family, &self.retry).await
    }

    /// The exclusive holder of a family.
    pub(crate) async fn holder(&self, family: &Family) -> Result<Option<Participant>, Error> {
        holder(self.curator.session(), &self.path, family, &self.retry).await
    }
}
