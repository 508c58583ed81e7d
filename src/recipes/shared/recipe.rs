//! [`Recipe`]: the base of every recipe, which is a [`Curator`] with its options, and a path.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;

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
#[allow(unnameable_types)] // the sealed trait of `Lock` names it
pub enum Patience {
    /// For answers of the servers, never for other holders.
    NoWait,
    For(Duration),
    Forever,
}

impl Patience {
    /// A limit of zero is a try: otherwise chance decides whether the answer or the timeout comes first.
    pub(crate) fn within(limit: Duration) -> Self {
        if limit.is_zero() { Self::NoWait } else { Self::For(limit) }
    }

    /// Acquires without a limit, which ends with a hold or an error. The loop is only for the type.
    pub(crate) async fn forever<T: Send, F>(
        mut acquire: impl FnMut(Self) -> F + Send,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<Option<T>, Error>> + Send,
    {
        loop {
            if let Some(acquired) = acquire(Self::Forever).await? {
                return Ok(acquired);
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) curator: Curator,
    pub(crate) path: LockPath,
    pub(crate) retry: RetryPolicy,
    /// The lock in the metrics.
    pub(crate) counted: Lock,
}

impl Recipe {
    pub(crate) fn new(
        curator: &Curator,
        path: &str,
        recipe: metrics::Recipe,
    ) -> Result<Self, Error> {
        let path = LockPath::parse("lock path", path)?;
        let absolute = curator.connection().absolute(&path);
        let options = curator.options();
        check_contender(&absolute, &options.identity, &options.acls)
            .map_err(|error| error.at(&path))?;
        let counted = Lock::new(recipe, &curator.connection().settings.path_label, path.as_str());
        Ok(Self { curator: curator.clone(), path, retry: options.retry.clone(), counted })
    }

    /// The same recipe at the child `name` of its path.
    pub(crate) fn below(&self, name: &'static str) -> Self {
        Self { path: self.path.below(name), ..self.clone() }
    }

    /// For nodes whose data other clients decode.
    pub(crate) fn check_text(&self) -> Result<(), Error> {
        let identity = &self.curator.options().identity;
        if std::str::from_utf8(identity).is_ok() {
            return Ok(());
        }
        let value = format_args!("of {} bytes for {}", identity.len(), self.path);
        let reason = "kazoo decodes it, so with this filter it must be UTF-8";
        Err(Error::invalid("identity", value, reason).at(&self.path))
    }

    pub(crate) fn request(&self, family: Family, kind: Kind, patience: Patience) -> Request {
        let options = self.curator.options();
        let no_wait = matches!(patience, Patience::NoWait);
        Request {
            path: self.path.clone(),
            shares_queue: matches!(family, Family::Exclusive(_)),
            node_per_hold: false,
            retention: Duration::ZERO,
            family,
            kind,
            companion: None,
            data: options.identity.clone(),
            acls: options.acls.clone(),
            retry: self.retry.clone(),
            loss_policy: options.loss_policy,
            no_wait,
            check_first: no_wait,
            counted: self.counted.clone(),
        }
    }

    /// Waits for an answer as long as the patience lasts. After that it is nothing if a server `said` that another
    /// contender has the lock; without any word of a server it is an error.
    pub(crate) async fn in_time<T: Send>(
        &self,
        patience: Patience,
        said: impl Fn() -> bool + Send,
        answer: impl Future<Output = Result<Option<T>, Error>> + Send,
    ) -> Result<Option<T>, Error> {
        let Patience::For(limit) = patience else { return answer.await };
        // It is dropped after `said`, because dropping it forgets what the server said.
        let mut answer = pin!(answer);
        match timeout(limit, answer.as_mut()).await {
            Ok(answer) => answer,
            Err(_) if said() => Ok(None),
            Err(_) => Err(Error::unavailable(&self.path, Some(limit))),
        }
    }
}
