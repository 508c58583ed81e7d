//! The session layer: one epoch after another, supervised; the lease; the clean-up duties.

pub(crate) mod clock;
pub(crate) mod duty;
pub(crate) mod epoch;
pub(crate) mod lease;
pub(crate) mod state;
pub(crate) mod supervisor;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::epoch::Epoch;
use self::lease::LossPolicy;
use self::state::ConnectionState;
use crate::client::{Acl, Failure};
use crate::error::SessionError;
use crate::lock_path::LockPath;
use crate::retry::RetryPolicy;

/// What every recipe of a `Curator` starts from.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) session_timeout: Duration,
    pub(crate) connection_timeout: Duration,
    pub(crate) retry: RetryPolicy,
    pub(crate) acls: Arc<[Acl]>,
    pub(crate) identity: Arc<[u8]>,
    pub(crate) loss_policy: LossPolicy,
    pub(crate) ephemeral_limit: usize,
}

/// Whether there is an epoch to work in.
#[derive(Clone, Debug)]
enum Link {
    Down,
    Up(Arc<Epoch>),
    Over(SessionError),
}

/// The supervised session: what all handles of one `Curator`, and all its tasks, share.
pub(crate) struct Session {
    pub(crate) settings: Settings,
    /// Chroot and namespace in one, as the server knows it.
    root: LockPath,
    runtime: Handle,
    /// Contenders and clean-up duties.
    tasks: TaskTracker,
    /// The supervisor; it ends last.
    supervision: TaskTracker,
    state: watch::Sender<ConnectionState>,
    link: watch::Sender<Link>,
    close: CancellationToken,
    closed: watch::Receiver<Option<Result<(), SessionError>>>,
}

/// Why there is no epoch to work in.
#[derive(Debug)]
pub(crate) enum NoEpoch {
    /// None came up in time; one may later.
    NotNow,
    /// None will.
    Over(SessionError),
}

impl Session {
    fn new(
        settings: Settings,
        root: LockPath,
        closed: watch::Receiver<Option<Result<(), SessionError>>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            settings,
            root,
            runtime: Handle::current(),
            tasks: TaskTracker::new(),
            supervision: TaskTracker::new(),
            state: watch::Sender::new(ConnectionState::Connected),
            link: watch::Sender::new(Link::Down),
            close: CancellationToken::new(),
            closed,
        })
    }

    /// `path` as the server knows it.
    pub(crate) fn absolute(&self, path: &LockPath) -> LockPath {
        self.root.join(path)
    }

    /// Runs a task that ends with the session, from wherever this is called.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(task, &self.runtime);
    }

    /// The present epoch, or the next one if it comes up within `patience`.
    pub(crate) async fn epoch(&self, patience: Duration) -> Result<Arc<Epoch>, NoEpoch> {
        let next = self.next_epoch(None);
        tokio::time::timeout(patience, next).await.unwrap_or(Err(NoEpoch::NotNow))
    }

    /// The first epoch that is not `old`; never [`NoEpoch::NotNow`].
    pub(crate) async fn next_epoch(&self, old: Option<&Arc<Epoch>>) -> Result<Arc<Epoch>, NoEpoch> {
        let is_next = |link: &Link| match link {
            Link::Down => false,
            Link::Over(_) => true,
            Link::Up(epoch) => {
                !epoch.over().is_cancelled() && old.is_none_or(|old| !Arc::ptr_eq(old, epoch))
            }
        };
        let mut link = self.link.subscribe();
        match link.wait_for(is_next).await.as_deref() {
            Ok(Link::Up(epoch)) => Ok(epoch.clone()),
            Ok(Link::Over(error)) => Err(NoEpoch::Over(error.clone())),
            // The sender lives in `self`.
            Ok(Link::Down) | Err(_) => Err(NoEpoch::Over(SessionError::Closed)),
        }
    }

    /// The epoch there is, if there is one.
    pub(crate) fn present_epoch(&self) -> Result<Arc<Epoch>, NoEpoch> {
        match &*self.link.borrow() {
            Link::Up(epoch) => Ok(epoch.clone()),
            Link::Down => Err(NoEpoch::NotNow),
            Link::Over(error) => Err(NoEpoch::Over(error.clone())),
        }
    }

    pub(crate) fn state(&self) -> watch::Receiver<ConnectionState> {
        self.state.subscribe()
    }

    /// Fires when the session is to be closed.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.close
    }

    /// Closes the session, and waits until it is.
    pub(crate) async fn close(&self) -> Result<(), SessionError> {
        self.close.cancel();
        let mut closed = self.closed.clone();
        match closed.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(result)) => result.clone(),
            // The supervisor is gone with its runtime, and the connection with it.
            Ok(None) | Err(_) => Err(SessionError::CloseUnconfirmed { waited: Duration::ZERO }),
        }
    }

    /// A pause before the next try, cut short when a server answers again.
    pub(crate) async fn pause(&self, pause: Duration) {
        let mut state = self.state.subscribe();
        let answers_again = async {
            loop {
                if state.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
                if *state.borrow_and_update() == ConnectionState::Reconnected {
                    return;
                }
            }
        };
        tokio::select! {
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
        let started = clock::Moment::now();
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
