//! [`Recipe`]: the base of every recipe, which is a [`Curator`] with its options, and a path.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::participants::{self, Participant};
use crate::client::{Failed, check_contender};
use crate::curator::Curator;
use crate::error::Error;
use crate::lock_path::LockPath;
use crate::metrics::{self, LockLabels};
use crate::queue::rules::admission::Family;
use crate::queue::rules::node_name::Kind;
use crate::queue::{NodeSpec, Request, Waiter};
use crate::session::Session;
use crate::session::retry::RetryPolicy;
use crate::session::retry::{Idempotent, with_retry};

/// The time that a caller waits.
#[derive(Clone, Copy, Debug)]
#[allow(unnameable_types)] // the sealed trait of `Lock` names it
pub enum Patience {
    /// The caller waits for answers of the servers, at most for a connection timeout, and never for other holders. Without
    /// `connects`, it waits for no connection either.
    NoWait {
        connects: bool,
    },
    /// The caller waits until the deadline, which is `limit` after the call.
    Until {
        deadline: Instant,
        limit: Duration,
    },
    Forever,
}

impl Patience {
    /// The patience of a try.
    pub(crate) const TRY: Self = Self::NoWait { connects: true };

    /// Returns true if there is a deadline, and it has passed.
    pub(crate) fn is_over(self) -> bool {
        matches!(self, Self::Until { deadline, .. } if deadline <= Instant::now())
    }

    /// A limit of zero means [`NoWait`](Self::NoWait). As a time limit, zero would leave it to chance whether the answer or
    /// the timeout comes first.
    pub(crate) fn within(limit: Duration) -> Self {
        match Instant::now().checked_add(limit) {
            _ if limit.is_zero() => Self::NoWait { connects: false },
            Some(deadline) => Self::Until { deadline, limit },
            None => Self::Forever,
        }
    }
}

/// The longest retention. A longer one is a mistake in units.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) curator: Curator,
    pub(crate) path: LockPath,
    pub(crate) retry: RetryPolicy,
    /// The lock in the metrics.
    pub(crate) counted: LockLabels,
}

impl Recipe {
    pub(crate) fn new(
        curator: &Curator,
        path: &str,
        recipe: metrics::Recipe,
    ) -> Result<Self, Error> {
        let uncounted = Self::uncounted(curator, path)?;
        let label = &curator.connection().settings.path_label;
        let counted = LockLabels::new(recipe, label, uncounted.path.as_str());
        Ok(Self { counted, ..uncounted })
    }

    /// The recipe of an observer, which holds nothing: a gauge of its holds would always be zero.
    pub(crate) fn uncounted(curator: &Curator, path: &str) -> Result<Self, Error> {
        let path = LockPath::parse("lock path", path)?;
        let absolute = curator.connection().absolute(&path);
        let options = curator.options();
        check_contender(&absolute, &options.identity, &options.acls)
            .map_err(|error| error.at(&path))?;
        let retry = options.retry.clone();
        Ok(Self { curator: curator.clone(), path, retry, counted: LockLabels::default() })
    }

    /// A lock at `path` that this recipe uses. The metrics do not count it.
    pub(crate) fn internal(&self, path: LockPath) -> Self {
        Self { path, counted: LockLabels::default(), ..self.clone() }
    }

    /// Fails if the identity is not text, for nodes whose data kazoo decodes.
    pub(crate) fn check_text(&self) -> Result<(), Error> {
        let identity = &self.curator.options().identity;
        if std::str::from_utf8(identity).is_ok() {
            return Ok(());
        }
        let value = format!("of {} bytes for {}", identity.len(), self.path);
        let reason = "kazoo decodes it, so with this filter it must be UTF-8";
        Err(Error::invalid("identity", value, reason).at(&self.path))
    }

    /// The request of a caller that waits without a limit.
    pub(crate) fn request(&self, family: Family, kind: Kind) -> Request {
        let options = self.curator.options();
        Request {
            path: self.path.clone(),
            waiter: Arc::new(Waiter {
                node: NodeSpec { data: options.identity.clone(), acls: options.acls.clone() },
                shares_queue: true,
                shared: kind == Kind::Read,
                no_wait: false,
                retention: Duration::ZERO,
                term: options.loss_policy.into(),
            }),
            family,
            kind,
            companion: None,
            retry: self.retry.clone(),
            check_first: false,
            counted: self.counted.clone(),
        }
    }

    /// Fails if the nodes of such callers cannot be retained for so long.
    pub(crate) fn check_retention(&self, waiter: &Waiter) -> Result<(), Error> {
        let Waiter { retention, shares_queue, .. } = *waiter;
        if retention <= DAY && (shares_queue || retention.is_zero()) {
            return Ok(());
        }
        let path = &self.path;
        let value = format!("{retention:?} for {path}");
        let reason = "it is at most a day, and a node per hold cannot be retained";
        Err(Error::invalid("retention", value, reason).at(path))
    }

    /// Waits for an answer, at most until the deadline if there is one, or until the connection of a try without `connects` breaks.
    /// Then the lock is busy if a server said that the caller is queued behind another contender, and otherwise no server answered.
    pub(crate) async fn in_time<T: Send>(
        &self,
        patience: Patience,
        is_queued: impl Fn() -> bool + Send,
        answer: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        let connection = self.curator.connection();
        let (deadline, limit) = match patience {
            Patience::Forever => return answer.await,
            Patience::Until { deadline, limit } => (deadline, limit),
            Patience::NoWait { .. } => {
                let limit = connection.settings.connection_timeout;
                (Instant::now() + limit, limit)
            }
        };
        // Dropped after `is_queued` is called, because dropping it may reset what that reads.
        let mut answer = pin!(answer);
        let mut state = connection.state();
        let disconnected = async {
            match patience {
                // The sender lives in the connection.
                Patience::NoWait { connects: false } => {
                    drop(state.wait_for(|state| !state.is_connected()).await)
                }
                _ => std::future::pending().await,
            }
        };
        let answered = async {
            tokio::select! {
                biased;
                () = disconnected => None,
                answer = answer.as_mut() => Some(answer),
            }
        };
        match timeout_at(deadline, answered).await {
            Ok(Some(answer)) => answer,
            _ if is_queued() => Err(Error::busy(&self.path)),
            Ok(None) => Err(Error::unavailable(&self.path, Some(Duration::ZERO))),
            Err(_) => Err(Error::unavailable(&self.path, Some(limit))),
        }
    }

    /// The holders and the waiters of a family.
    pub(crate) async fn participants(&self, family: &Family) -> Result<Vec<Participant>, Error> {
        let path = &self.path;
        let read = |session: Arc<Session>, _| async move {
            let read = participants::read_all(&session, path, family).await;
            read.map_err(|failure| Failed::at(path, "read", failure))
        };
        let connection = self.curator.connection();
        let mut participants =
            with_retry(connection, path, &self.retry, Idempotent::Yes, read).await?;
        if let Some(first) = participants.first_mut()
            && family.is_exclusive()
        {
            // A node that was listed before this one may have been deleted since.
            first.holds = true;
        }
        Ok(participants)
    }

    /// The exclusive holder of a family.
    pub(crate) async fn holder(&self, family: &Family) -> Result<Option<Participant>, Error> {
        let path = &self.path;
        let read = |session: Arc<Session>, _| async move {
            let read = participants::read_holder(&session, path, family).await;
            read.map_err(|failure| Failed::at(path, "read", failure))
        };
        with_retry(self.curator.connection(), path, &self.retry, Idempotent::Yes, read).await
    }
}
