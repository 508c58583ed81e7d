//! [`LeaderLatch`]: leads until it is closed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::DropGuard;

use super::candidate::Candidate;
use super::error::LeaderError;
use super::latching::{Driving, Shared, drive};
use super::leadership::Leadership;
use super::surface::candidate_surface;
use super::watch::{LeaderState, LeaderWatch};
use crate::curator::Curator;
use crate::error::{ConfigError, ReleaseError};
use crate::recipe::Recipe;
use crate::surface::option_surface;

/// What a [`LeaderLatch`] that closes tells those who watch it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CloseMode {
    /// That it is closed, and no more.
    #[default]
    Silent,
    /// That it does not lead any more, if it did, and then that it is closed.
    NotifyLeader,
}

/// Makes one of several processes the leader, until its latch is closed or its leadership is lost.
///
/// It has the znodes of Apache Curator's `LeaderLatch`, so JVM and Rust processes can stand for one election.
///
/// * **Fair**: the candidate that entered the queue first leads first.
/// * **Steps down before anyone else can lead**: [`has_leadership`](Self::has_leadership) compares the clock with the
///   lease, so that it is right also in a process that was paused.
/// * **Does not flap**: a disconnection that ends within the lease changes nothing, nor does a rolling restart of the
///   servers. The node, and the place with it, is kept over everything but the end of the session and its deletion by
///   somebody else: a latch whose lease had ended leads again on the same node, if it is still there.
/// * **Recovers**: after an expiry, or when its node was deleted, it is a candidate again, at the tail. It has no need
///   of a connection to be [started](Self::start).
/// * **Ends** only where trying again would not help: when the `Curator` is closed; and when it enters, or has to enter
///   anew, and the server says that it may not, another recipe's contender is on the path, this session has no room for
///   another node, or a [retry policy](Self::with_retry) that ends is used up. Whoever waits or watches is told.
/// * **Not guaranteed**: that the process runs; see [`Leadership`].
///
/// A latch is a cheap handle to clone; with the last one it is closed. To take part twice in one process, make two.
///
/// ```no_run
/// # use zookeeper_recipes::{Curator, LeaderLatch};
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let curator = Curator::connect("zk1:2181,zk2:2181,zk3:2181/app").await?;
/// let latch = LeaderLatch::new(&curator, "/leader")?.with_id("node-7")?;
/// latch.start()?;
/// let leadership = latch.await_leadership().await?;
/// let stop = leadership.cancellation_token();
/// // … what only the leader does, until `stop.cancelled()` …
/// latch.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LeaderLatch {
    candidate: Candidate,
    mode: CloseMode,
    shared: Arc<Shared>,
    /// Closes with the last handle.
    _open: Arc<DropGuard>,
}

option_surface!(LeaderLatch, with_id, "an endless back-off, from 100 ms to 10 s");
candidate_surface!(LeaderLatch);

impl LeaderLatch {
    /// A latch at `path`, under the curator's namespace, that is not started. Options are the curator's, but for the
    /// retry policy. Setting one gives a latch that is not started, whatever this one was.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidPath`] for a path that ZooKeeper does not accept.
    pub fn new(curator: &Curator, path: &str) -> Result<Self, ConfigError> {
        let candidate = Candidate::of_latch(curator, path)?;
        let (shared, open) = latent(&candidate);
        Ok(Self { candidate, mode: CloseMode::default(), shared, _open: open })
    }

    /// What those who watch are told when it closes. Defaults to [`CloseMode::Silent`].
    #[must_use]
    pub fn with_close_mode(mut self, mode: CloseMode) -> Self {
        self.recipe_mut();
        self.mode = mode;
        self
    }

    /// Takes part from now on. It returns at once, and needs no connection: while there is none, it waits for one.
    ///
    /// # Errors
    ///
    /// [`LeaderError::AlreadyStarted`], [`LeaderError::Closed`], [`LeaderError::Ended`].
    pub fn start(&self) -> Result<(), LeaderError> {
        let driving = Driving::new(&self.shared, self.mode)?;
        self.candidate.recipe.curator.session().spawn(drive(self.candidate.clone(), driving));
        Ok(())
    }

    /// Whether it leads at this instant.
    pub fn has_leadership(&self) -> bool {
        self.shared.leads()
    }

    /// The present term, if it leads at this instant.
    pub fn leadership(&self) -> Option<Leadership> {
        self.shared.leadership()
    }

    /// Waits until it leads; also until it is started.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing: the latch stays a candidate, or the leader.
    ///
    /// # Errors
    ///
    /// [`LeaderError::Closed`], [`LeaderError::Ended`].
    pub async fn await_leadership(&self) -> Result<Leadership, LeaderError> {
        let mut watch = self.watch();
        let mut state = watch.state();
        loop {
            match state {
                LeaderState::Leader(leadership) => return Ok(leadership),
                LeaderState::NotLeader => state = watch.changed().await?,
            }
        }
    }

    /// Waits until it leads, at most for `limit`; `None` when the time is up.
    ///
    /// # Cancel safety
    ///
    /// As for [`await_leadership`](Self::await_leadership).
    ///
    /// # Errors
    ///
    /// As for [`await_leadership`](Self::await_leadership).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn await_leadership_timeout(
        &self,
        limit: Duration,
    ) -> Result<Option<Leadership>, LeaderError> {
        tokio::time::timeout(limit, self.await_leadership()).await.ok().transpose()
    }

    /// Follows whether it leads.
    pub fn watch(&self) -> LeaderWatch {
        LeaderWatch::new(&self.shared)
    }

    /// Gives the place up, and waits until the servers confirm it, at most for
    /// [`CuratorBuilder::connection_timeout`](crate::CuratorBuilder::connection_timeout). From the first poll on it does
    /// not lead. Closing again gives the same outcome.
    ///
    /// # Cancel safety
    ///
    /// Once it was polled, dropping the future does not stop the closing.
    ///
    /// # Errors
    ///
    /// * [`ReleaseError::Lost`]: the leadership had been lost, and nobody had noticed;
    /// * [`ReleaseError::Unconfirmed`]: no server answered in time; the session goes on deleting;
    /// * [`ReleaseError::NoAuth`]: the server does not let us delete the leader's node.
    pub async fn close(&self) -> Result<(), ReleaseError> {
        self.close_with(self.mode).await
    }

    /// The same, with another mode.
    ///
    /// # Cancel safety
    ///
    /// As for [`close`](Self::close).
    ///
    /// # Errors
    ///
    /// As for [`close`](Self::close).
    pub async fn close_with(&self, mode: CloseMode) -> Result<(), ReleaseError> {
        self.shared.close(mode).await
    }

    /// Another latch than the one that may be started.
    fn recipe_mut(&mut self) -> &mut Recipe {
        (self.shared, self._open) = latent(&self.candidate);
        &mut self.candidate.recipe
    }
}

fn latent(candidate: &Candidate) -> (Arc<Shared>, Arc<DropGuard>) {
    let shared = Arc::new(Shared::new(candidate.path()));
    let open = Arc::new(shared.closing().when_dropped());
    (shared, open)
}

impl fmt::Debug for LeaderLatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderLatch")
            .field("path", &self.path())
            .field("id", &self.id())
            .field("status", &self.shared.status())
            .finish_non_exhaustive()
    }
}
