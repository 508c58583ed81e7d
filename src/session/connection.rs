//! The supervised connection of a `Curator`, which opens one ZooKeeper session after another.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::retry::RetryPolicy;
use super::session::Session;
use super::state::{ConnectionState, Finish};
use super::tasks::Home;
use crate::client::{Acl, Failure};
use crate::clock::BootInstant;
use crate::error::{Error, Released};
use crate::lock_path::LockPath;
use crate::metrics::{self, Operation, PathLabel};

/// What every recipe of a `Curator` starts from.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) session_timeout: Duration,
    pub(crate) connection_timeout: Duration,
    pub(crate) acls: Arc<[Acl]>,
    pub(crate) ephemeral_limit: usize,
    pub(crate) path_label: PathLabel,
}

type CurrentSession = Result<Arc<Session>, NoSession>;

/// The supervised connection that all handles and all tasks of one `Curator` share.
pub(crate) struct Connection {
    pub(crate) settings: Settings,
    /// Chroot and namespace in one, as the server knows it.
    pub(super) root: LockPath,
    pub(super) home: Home,
    /// Entries and clean-up duties.
    pub(super) tasks: TaskTracker,
    /// What is done while something is held, and has time to end before that goes.
    pub(super) work: TaskTracker,
    /// The supervisor; it ends last.
    pub(super) supervision: TaskTracker,
    pub(super) state: watch::Sender<ConnectionState>,
    pub(super) current: watch::Sender<CurrentSession>,
    pub(super) close: CancellationToken,
    pub(super) closed: watch::Receiver<Option<Released>>,
    /// Counted for as long as a handle may want it: a supervisor that gave up is gone before.
    pub(super) gauge: metrics::Connection,
}

/// Why there is no session to work in.
#[derive(Clone, Debug)]
pub(crate) enum NoSession {
    /// No session is open now. One may be opened later.
    NotConnected,
    /// No session will be opened again.
    Closed(Error),
}

impl Connection {
    pub(super) fn new(
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
            current: watch::Sender::new(Err(NoSession::NotConnected)),
            close: CancellationToken::new(),
            closed,
            gauge: metrics::Connection::default(),
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

    /// The present session, or the next one if it comes up within `patience`.
    pub(crate) async fn session(&self, patience: Duration) -> Result<Arc<Session>, NoSession> {
        let next = self.next_session(None);
        tokio::time::timeout(patience, next).await.unwrap_or(Err(NoSession::NotConnected))
    }

    /// The first session that is not `old`; never [`NoSession::NotConnected`].
    pub(crate) async fn next_session(
        &self,
        old: Option<&Arc<Session>>,
    ) -> Result<Arc<Session>, NoSession> {
        let is_next = |current: &CurrentSession| match current {
            Ok(session) => {
                !session.ended().is_cancelled() && old.is_none_or(|old| !Arc::ptr_eq(old, session))
            }
            Err(none) => matches!(none, NoSession::Closed(_)),
        };
        let mut current = self.current.subscribe();
        match current.wait_for(is_next).await {
            Ok(current) => current.clone(),
            // The sender lives in `self`.
            Err(_) => Err(NoSession::Closed(Error::closed())),
        }
    }

    /// Resolves when there will be no session any more.
    pub(crate) async fn ended(&self) {
        let mut current = self.current.subscribe();
        // The sender lives in `self`.
        let _ = current.wait_for(|current| matches!(current, Err(NoSession::Closed(_)))).await;
    }

    /// The session there is, if there is one.
    pub(crate) fn current_session(&self) -> Result<Arc<Session>, NoSession> {
        self.current.borrow().clone()
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
        self.gauge.set_state(Finish::Closed.word());
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

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("state", &*self.state.borrow())
            .field("current", &*self.current.borrow())
            .finish_non_exhaustive()
    }
}
