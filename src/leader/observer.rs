//! [`LeaderObserver`]: who leads, in whatever process.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use tokio::sync::watch;

use super::candidate::Candidate;
use super::error::LeaderError;
use super::observing::{Following, Observed, follow};
use crate::curator::Curator;
use crate::error::ConfigError;
use crate::participants::Participant;
use crate::waiting::Waiting;

/// Reports the current leader without being a candidate.
///
/// * **No leader** is an answer: `None` while there is no candidate.
/// * **Never back**: after a leader, no older one is reported, even if the connected server lags or a new session began: each
///   leader's [token](Participant::fencing_token) is larger than those before. If the servers lost data, so that the
///   new leader has a smaller token, it is reported a session timeout later.
/// * **As the servers know it**: the first candidate. That process may not know yet that it is leader, or may already have
///   lost its lease. If two leaders must never act together, compare fencing tokens.
/// * **A node that may not be read** still tells that somebody leads, with an empty id, unless this session has no room for
///   another watch.
/// * **Cheap**: a watch on the leader's node, and two reads when that goes. While there is no leader, a watch on the path.
///   It watches no other candidate.
///
/// A task of the session's follows, over reconnects and sessions, until the last handle is dropped. Leaders that came and
/// went while nobody looked are not told.
///
/// It is a [`Stream`] of leaders, which ends where [`changed`](Self::changed) fails.
///
/// ```no_run
/// # use zookeeper_recipes::{Curator, LeaderObserver};
/// # async fn example(curator: Curator) -> Result<(), Box<dyn std::error::Error>> {
/// let mut observer = LeaderObserver::of_latch(&curator, "/leader")?;
/// loop {
///     match observer.changed().await? {
///         Some(leader) => println!("{} leads, by {}", leader.id(), leader.fencing_token()),
///         None => println!("nobody leads"),
///     }
/// }
/// # }
/// ```
pub struct LeaderObserver {
    /// Its curator keeps the session open.
    candidate: Candidate,
    observed: watch::Receiver<Observed>,
    waiting: Waiting<watch::Receiver<Observed>, Result<Option<Participant>, LeaderError>>,
}

impl LeaderObserver {
    pub(super) fn new(candidate: Candidate) -> Self {
        let (following, observed) = Following::new(&candidate);
        candidate.recipe.curator.session().spawn(follow(following));
        Self { candidate, observed, waiting: Waiting::new() }
    }

    /// Of those who take part with a [`LeaderLatch`](crate::LeaderLatch) at `path`, or Curator's class of that name.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidPath`] for a path that ZooKeeper does not accept.
    pub fn of_latch(curator: &Curator, path: &str) -> Result<Self, ConfigError> {
        Ok(Self::new(Candidate::of_latch(curator, path)?))
    }

    /// Of those who take part with a [`LeaderSelector`](crate::LeaderSelector) at `path`, or Curator's class of that
    /// name; and so of those who hold a mutex. For a selector with a filter, see
    /// [`LeaderSelector::observe`](crate::LeaderSelector::observe).
    ///
    /// # Errors
    ///
    /// As for [`of_latch`](Self::of_latch).
    pub fn of_selector(curator: &Curator, path: &str) -> Result<Self, ConfigError> {
        Ok(Self::new(Candidate::of_selector(curator, path)?))
    }

    /// The path, under the namespace.
    pub fn path(&self) -> &str {
        self.candidate.recipe.path.as_str()
    }

    /// Who leads, as far as is known; `None` also while nothing is known, and when nobody looks any more.
    pub fn leader(&self) -> Option<Participant> {
        match &*self.observed.borrow() {
            Observed::Leader(leader) => leader.clone(),
            Observed::Nothing | Observed::Ended(_) => None,
        }
    }

    /// Waits until who leads has changed; the first time, until it is known.
    ///
    /// # Cancel safety
    ///
    /// Nothing is missed by dropping the future.
    ///
    /// # Errors
    ///
    /// [`LeaderError::Ended`]: the path may not be read, or the `Curator` is closed.
    pub async fn changed(&mut self) -> Result<Option<Participant>, LeaderError> {
        self.waiting.forget();
        let path = self.candidate.path();
        next(&mut self.observed, path).await
    }
}

async fn next(
    observed: &mut watch::Receiver<Observed>,
    path: String,
) -> Result<Option<Participant>, LeaderError> {
    loop {
        // Who is told of the end is told so again.
        if let Observed::Ended(error) = &*observed.borrow() {
            return Err(error.clone());
        }
        if observed.changed().await.is_err() {
            return Err(LeaderError::Closed { path });
        }
        if let Observed::Leader(leader) = &*observed.borrow_and_update() {
            return Ok(leader.clone());
        }
    }
}

/// It has been told what its origin has.
impl Clone for LeaderObserver {
    fn clone(&self) -> Self {
        let (candidate, observed) = (self.candidate.clone(), self.observed.clone());
        Self { candidate, observed, waiting: Waiting::new() }
    }
}

impl Stream for LeaderObserver {
    type Item = Option<Participant>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { candidate, observed, waiting } = &mut *self;
        let told = ready!(waiting.poll(observed, context, |mut observed| {
            let path = candidate.path();
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
