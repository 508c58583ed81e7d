//! [`LeaderObserver`]: the leader, in whatever process.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use tokio::sync::watch;

use super::candidate::closed;
use super::observing::{Following, Observed, follow};
use crate::curator::Curator;
use crate::error::Error;
use crate::metrics;
use crate::queue::rules::admission::Family;
use crate::recipes::shared::participants::Participant;
use crate::recipes::shared::recipe::Recipe;
use crate::recipes::shared::waiting::Waiting;

/// Reports the current leader without being a candidate.
///
/// * **No leader** is an answer: `None` while there is no candidate.
/// * **Never back**: after a leader, no older one is reported, even if the connected server lags or a new session began: each
///   leader's [token](Participant::fencing_token) is larger than those before. If the servers lost data, so that the
///   new leader has a smaller token, it is reported a session timeout later.
/// * **As the servers know it**: the first candidate. That process may not know yet that it is leader, or may already have
///   lost its lease. If two leaders must never act together, compare fencing tokens.
/// * **A node that may not be read** still tells that there is a leader, without its identity, unless this session has no
///   room for another watch.
/// * **Cheap**: a watch on the leader's node, and two reads when that goes. While there is no leader, a watch on the path.
///   It watches no other candidate.
///
/// A task of the session follows the leader, over reconnects and sessions, until the last handle is dropped. A slow observer
/// may skip leaders.
///
/// It is a [`Stream`] of leaders, which ends where [`changed`](Self::changed) fails.
///
/// ```no_run
/// # use zookeeper_recipes::{Curator, Error};
/// # async fn example(curator: Curator) -> Result<(), Error> {
/// let mut observer = curator.observe_leader("/leader")?;
/// loop {
///     match observer.changed().await? {
///         Some(leader) => println!("leader: {}", leader.identity.unwrap_or(leader.node)),
///         None => println!("no leader"),
///     }
/// }
/// # }
/// ```
#[must_use = "a stream does nothing until it is polled"]
pub struct LeaderObserver {
    /// Its curator keeps the session open.
    recipe: Recipe,
    observed: watch::Receiver<Observed>,
    waiting: Waiting<watch::Receiver<Observed>, Result<Option<Participant>, Error>>,
}

impl Curator {
    /// Follows the leader at `path`, of latches or of selectors, in whatever process; also a mutex's holder. The nodes' names say
    /// which recipe it is. If both are on one path, the first contender of all counts. For a selector with a filter, see
    /// [`LeaderSelector::observe`](crate::leader::LeaderSelector::observe).
    ///
    /// # Errors
    ///
    /// As for [`mutex`](Self::mutex).
    pub fn observe_leader(&self, path: impl AsRef<str>) -> Result<LeaderObserver, Error> {
        let recipe = Recipe::new(self, path.as_ref(), metrics::Recipe::LeaderLatch)?;
        Ok(LeaderObserver::new(recipe, Family::Leaders))
    }
}

impl LeaderObserver {
    pub(super) fn new(recipe: Recipe, family: Family) -> Self {
        let (following, observed) = Following::new(&recipe, family);
        recipe.curator.session().spawn(follow(following));
        Self { recipe, observed, waiting: Waiting::new() }
    }

    /// The path, under the namespace.
    pub fn path(&self) -> &str {
        self.recipe.path.as_str()
    }

    /// The leader, as far as it is known; `None` also while nothing is known, and after the end.
    pub fn leader(&self) -> Option<Participant> {
        match &*self.observed.borrow() {
            Observed::Leader(leader) => leader.clone(),
            Observed::Nothing | Observed::Ended(_) => None,
        }
    }

    /// Waits until the leader has changed; the first time, until it is known.
    ///
    /// # Cancel safety
    ///
    /// Nothing is missed by dropping the future.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::PermissionDenied`](crate::ErrorKind::PermissionDenied), [`ErrorKind::Refused`](crate::ErrorKind::Refused):
    /// the path may not be read; [`ErrorKind::Closed`](crate::ErrorKind::Closed): the [`Curator`] is closed.
    pub async fn changed(&mut self) -> Result<Option<Participant>, Error> {
        self.waiting.forget();
        let path = self.recipe.path.to_string();
        next(&mut self.observed, path).await
    }
}

async fn next(
    observed: &mut watch::Receiver<Observed>,
    path: String,
) -> Result<Option<Participant>, Error> {
    loop {
        // The end is reported each time.
        if let Observed::Ended(error) = &*observed.borrow() {
            return Err(error.clone());
        }
        if observed.changed().await.is_err() {
            return Err(closed(&path));
        }
        if let Observed::Leader(leader) = &*observed.borrow_and_update() {
            return Ok(leader.clone());
        }
    }
}

/// It starts from what its origin has reported.
impl Clone for LeaderObserver {
    fn clone(&self) -> Self {
        let (recipe, observed) = (self.recipe.clone(), self.observed.clone());
        Self { recipe, observed, waiting: Waiting::new() }
    }
}

impl Stream for LeaderObserver {
    type Item = Option<Participant>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { recipe, observed, waiting } = &mut *self;
        let told = ready!(waiting.poll(observed, context, |mut observed| {
            let path = recipe.path.to_string();
            async move {
                let told = next(&mut observed, path).await;
                (observed, told)
            }
        }));
        Poll::Ready(told.ok())
    }
}

impl fmt::Debug for LeaderObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderObserver")
            .field("path", &self.path())
            .field("leader", &self.leader())
            .finish_non_exhaustive()
    }
}
