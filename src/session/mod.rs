//! The session: when requests are tried again, and the state of the connection.
//!
//! A [`Curator`](crate::Curator) opens one ZooKeeper session after another. Holds and waiters of a session that has expired
//! are lost, and waiters enter anew in the next one.

// One epoch after another, supervised; the session lease; the clean-up duties.

pub(crate) mod duty;
pub(crate) mod epoch;
pub(crate) mod lease;
pub(crate) mod retry;
pub(crate) mod state;
pub(crate) mod supervisor;
pub(crate) mod tasks;
pub(crate) mod tries;

pub use self::retry::RetryPolicy;
pub use self::state::ConnectionState;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use self::epoch::Epoch;
use self::state::Finish;
use self::tasks::Home;
use crate::client::{Acl, Failure};
use crate::clock::BootInstant;
use crate::error::{Error, Released};
use crate::lock_path::LockPath;
use crate::metrics::{self, Connection, Operation, PathLabel};

/// What every recipe of a `Curator` starts from.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) session_timeout: Duration,
    pub(crate) connection_timeout: Duration,
    pub(crate) acls: Arc<[Acl]>,
    pub(crate) ephemeral_limit: usize,
    pub(crate) path_label: PathLabel,
}

/// The epoch to work in, if there is one.
type Link = Result<Arc<Epoch>, NoEpoch>;

/// The supervised session: what all handles of one `Curator`, and all its tasks, share.
pub(crate) struct Session {
    pub(crate) settings: Settings,
    /// Chroot and namespace in one, as the server knows it.
    root: LockPath,
    home: Home,
    /// Entries and clean-up duties.
    tasks: TaskTracker,
    /// What is done while something is held, and has time to end before that goes.
    work: TaskTracker,
    /// The supervisor; it ends last.
    supervision: TaskTracker,
    state: watch::Sender<ConnectionState>,
    link: watch::Sender<Link>,
    close: CancellationToken,
    closed: watch::Receiver<Option<Released>>,
    /// Counted for as long as a handle may want it: a supervisor that gave up is gone before.
    connection: Connection,
}

/// Why there is no epoch to work in.
#[derive(Clone, Debug)]
pub(crate) enum NoEpoch {
    /// None came up in time; one may later.
    NotNow,
    /// None will.
    Over(Error),
}

impl Session {
    fn new(
        settings: Settings,
        root: LockPath,
        state: ConnectionState,
        closed: watch::Receiver<Option<Released>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            settings,
            root,
            home: Home::here(),
            tasks: TaskTracker::new(),
            work: TaskTracker::new(),
            supervision: TaskTracker::new(),
            state: watch::Sender::new(state),
            link: watch::Sender::new(Err(NoEpoch::NotNow)),
            close: CancellationToken::new(),
            closed,
            connection: Connection::default(),
        })
    }

    /// `path` as the server knows it.
    pub(crate) fn absolute(&self, path: &LockPath) -> LockPath {
        self.root.join(path)
    }

    /// Runs a task that ends with the session, from wherever this is called.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.home.start(&self.tasks, task)
    }

    /// For as long as this is kept, the session is not closed: for work that is done while something is held.
    pub(crate) fn working(&self) -> TaskTrackerToken {
        self.work.token()
    }

    /// The present epoch, or the next one if it comes up within `patience`.
    pub(crate) async fn epoch(&self, patience: Duration) -> Result<Arc<Epoch>, NoEpoch> {
        let next = self.next_epoch(None);
        tokio::time::timeout(patience, next).await.unwrap_or(Err(NoEpoch::NotNow))
    }

    /// The first epoch that is not `old`; never [`NoEpoch::NotNow`].
    pub(crate) async fn next_epoch(&self, old: Option<&Arc<Epoch>>) -> Result<Arc<Epoch>, NoEpoch> {
        let is_next = |link: &Link| match link {
            Ok(epoch) => {
                !epoch.over().is_cancelled() && old.is_none_or(|old| !Arc::ptr_eq(old, epoch))
            }
            Err(none) => matches!(none, NoEpoch::Over(_)),
        };
        let mut link = self.link.subscribe();
        match link.wait_for(is_next).await {
            Ok(link) => link.clone(),
            // The sender lives in `self`.
            Err(_) => Err(NoEpoch::Over(Error::closed())),
        }
    }

    /// Resolves when there will be no epoch any more.
    pub(crate) async fn ended(&self) {
        let mut link = self.link.subscribe();
        // The sender lives in `self`.
        let _ = link.wait_for(|link| matches!(link, Err(NoEpoch::Over(_)))).await;
    }

    /// The epoch there is, if there is one.
    pub(crate) fn present_epoch(&self) -> Result<Arc<Epoch>, NoEpoch> {
        self.link.borrow().clone()
    }

    pub(crate) fn state(&self) -> watch::Receiver<ConnectionState> {
        self.state.subscribe()
    }

    /// Fires when the session is to be closed.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.close
    }

    /// Closes the session, and waits until it is.
    pub(crate) async fn close(&self) -> Released {
        self.close.cancel();
        let mut closed = self.closed.clone();
        // The supervisor may be gone with its runtime, and the connection with it.
        let outcome = closed.wait_for(Option::is_some).await.ok().and_then(|outcome| *outcome);
        // One that failed before.
        self.connection.set_state(Finish::Closed.word());
        outcome.unwrap_or(Released::Pending)
    }

    /// A pause before the next try, cut short when a server answers again.
    pub(crate) async fn pause(&self, pause: Duration) {
        let mut state = self.state.subscribe();
        let answers_again = async {
            use ConnectionState::{Connected, Reconnected};
            // The sender lives in `self`.
            while state.changed().await.is_ok() {
                if matches!(*state.borrow_and_update(), Connected | Reconnected) {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = answers_again => {}
            () = tokio::time::sleep(pause) => {}
        }
    }

    /// Repeats `operation` under `policy` while it fails in a way that may pass.
    pub(crate) async fn retried<T, F>(
        &self,
        policy: &RetryPolicy,
        mut operation: impl FnMut() -> F + Send,
    ) -> Result<T, Failure>
    where
        T: Send,
        F: Future<Output = Result<T, Failure>> + Send,
    {
        let started = BootInstant::now();
        let mut retry = policy.start();
        loop {
            let failure = match operation().await {
                Err(failure @ (Failure::Unknown(_) | Failure::NotNow(_))) => failure,
                settled => return settled,
            };
            let Some(pause) = retry.next_pause(started.elapsed()) else {
                return Err(failure);
            };
            tracing::debug!(?failure, ?pause, "trying again");
            metrics::retried(Operation::REQUEST);
            self.pause(pause).await;
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("state", &*self.state.borrow())
            .field("link", &*self.link.borrow())
            .finish_non_exhaustive()
    }
}
