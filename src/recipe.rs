//! What every recipe starts from: a `Curator`, a path, and options that are the `Curator`'s unless they are set.

use std::sync::Arc;
use std::time::Duration;

use crate::admission::Family;
use crate::client::{Acl, Acls, check_frame};
use crate::contender_name::Kind;
use crate::curator::{Curator, some_acls};
use crate::error::{AcquireError, ConfigError};
use crate::lock_path::LockPath;
use crate::metrics::{self, Lock};
use crate::participants::{Participant, holder, participants};
use crate::queue::Request;
use crate::retry::RetryPolicy;
use crate::session::lease::LossPolicy;

#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) curator: Curator,
    pub(crate) path: LockPath,
    pub(crate) data: Arc<[u8]>,
    pub(crate) acls: Arc<[Acl]>,
    pub(crate) retry: RetryPolicy,
    pub(crate) loss_policy: LossPolicy,
    /// What it is counted as.
    pub(crate) counted: Lock,
    /// Whether others decode the identity.
    text: bool,
}

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

impl Recipe {
    pub(crate) fn new(
        curator: &Curator,
        path: &str,
        recipe: metrics::Recipe,
    ) -> Result<Self, ConfigError> {
        let path = LockPath::parse("lock path", path)?;
        let settings = &curator.session().settings;
        let (data, acls) = (settings.identity.clone(), settings.acls.clone());
        let (retry, loss_policy) = (settings.retry.clone(), settings.loss_policy);
        let counted = Lock::new(recipe, &settings.path_label, path.as_str());
        let (curator, text) = (curator.clone(), false);
        let options = Self { curator, path, data, acls, retry, loss_policy, counted, text };
        options.checked()
    }

    pub(crate) fn with_identity(self, identity: &[u8]) -> Result<Self, ConfigError> {
        Self { data: identity.into(), ..self }.checked()
    }

    pub(crate) fn with_acls(self, acls: Acls<'_>) -> Result<Self, ConfigError> {
        Self { acls: some_acls(acls)?, ..self }.checked()
    }

    pub(crate) fn with_text(self, text: bool) -> Result<Self, ConfigError> {
        Self { text, ..self }.checked()
    }

    fn checked(self) -> Result<Self, ConfigError> {
        let path = self.curator.session().absolute(&self.path);
        check_frame("identity", &path, self.data.len(), &self.acls)?;
        if self.text && std::str::from_utf8(&self.data).is_err() {
            return Err(ConfigError::InvalidOption {
                option: "identity",
                value: format!("of {} bytes for {}", self.data.len(), self.path),
                reason: "kazoo decodes it, so with this filter it must be UTF-8",
            });
        }
        Ok(self)
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
            data: self.data.clone(),
            acls: self.acls.clone(),
            retry: self.retry.clone(),
            loss_policy: self.loss_policy,
            only_if_free,
            looks_first: only_if_free,
            counted: self.counted.clone(),
        }
    }

    /// Of all kinds in the family, or of one.
    pub(crate) async fn participants(
        &self,
        family: &Family,
        kind: Option<Kind>,
    ) -> Result<Vec<Participant>, AcquireError> {
        let all = participants(self.curator.session(), &self.path, family, &self.retry).await?;
        let wanted = |participant: &Participant| kind.is_none_or(|_| participant.kind() == kind);
        Ok(all.into_iter().filter(wanted).collect())
    }

    /// Who of a family holds alone.
    pub(crate) async fn holder(
        &self,
        family: &Family,
    ) -> Result<Option<Participant>, AcquireError> {
        holder(self.curator.session(), &self.path, family, &self.retry).await
    }
}
