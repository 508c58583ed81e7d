//! The supervised connection of a `Curator`, which opens one ZooKeeper session after another.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::retry::{RetryLoop, RetryPolicy};
use super::session::{Reservation, Session};
use super::state::{ConnectionState, Finish};
use super::tasks::Spawner;
use crate::client::{Acl, Failure};
use crate::error::{Error, ErrorKind, Released};
use crate::lock_path::LockPath;
use crate::metrics::{self, Operation, PathLabel};

/// The options that all recipes of a `Curator` share.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) session_timeout: Duration,
    pub(crate) connection_timeout: Duration,
    pub(crate) acls: Arc<[Acl]>,
    pub(crate) ephemeral_limit: usize,
    pub(crate) path_label: PathLabel,
    /// Where the session's tasks run; `None` for the runtime of the caller that connects.
    pub(crate) runtime: Option<Handle>,
}

type CurrentSession = Result<Arc<Session>, NoSession>;

/// The supervised connection that all handles and all tasks of one `Curator` share.
pub(crate) struct Connection {
    /// Distinguishes the connections of this process.
    pub(crate) id: u64,
    pub(crate) settings: Settings,
    /// Chroot and namespace joined, as the server knows it.
    pub(super) root: LockPath,
    pub(super) spawner: Spawner,
    /// Entries and clean-up tasks.
    pub(super) tasks: TaskTracker,
    /// Work that is done under a hold. The session is closed when it has ended.
    pub(super) work: TaskTracker,
    /// The supervisor, which ends last.
    pub(super) supervision: TaskTracker,
    pub(super) state: watch::Sender<ConnectionState>,
    pub(super) current: watch::Sender<CurrentSession>,
    pub(super) close: CancellationToken,
    pub(super) closed: watch::Receiver<Option<Released>>,
    /// Counts the connection while a handle exists. A supervisor that gave up ends earlier.
    pub(super) gauge: metrics::Connection,
}

/// The reason why there is no session.
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
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let spawner = settings.runtime.clone().map_or_else(Spawner::current, Spawner::on);
        Arc::new(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            settings,
            root,
            spawner,
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

    /// Makes a connection without a supervisor, whose present session is `session`.
    #[cfg(feature = "simulation")]
    pub(crate) fn without_supervisor(session: &Arc<Session>) -> Arc<Self> {
        let settings = Settings {
            session_timeout: session.timeout(),
            connection_timeout: session.timeout(),
            acls: Arc::default(),
            ephemeral_limit: usize::MAX,
            path_label: PathLabel::default(),
            runtime: None,
        };
        let closed = watch::Sender::new(None).subscribe();
        let connection = Self::new(settings, LockPath::root(), ConnectionState::Connected, closed);
        drop(connection.current.send_replace(Ok(session.clone())));
        connection
    }

    /// Returns `path` as the server knows it.
    pub(crate) fn absolute(&self, path: &LockPath) -> LockPath {
        self.root.join(path)
    }

    /// Reserves room in the session for an ephemeral node under `path`, whose own path has this many bytes.
    pub(crate) fn reserve(
        &self,
        session: &Arc<Session>,
        path: &LockPath,
        bytes: usize,
    ) -> Result<Reservation, Error> {
        let limit = self.settings.ephemeral_limit;
        session.reserve(bytes, limit).map_err(|in_use| {
            let text = format!(
                "{path}: this session's ephemeral nodes may take {limit} bytes (ephemeral_limit), {in_use} are in use"
            );
            Error::new(ErrorKind::LimitReached, text).at(path)
        })
    }

    /// Spawns a task on the connection's runtime, from any thread. A close waits for it.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.spawn_by(&self.spawner, task)
    }

    /// As [`spawn`](Self::spawn), on the spawner's runtime.
    pub(crate) fn spawn_by<T: Send + 'static>(
        &self,
        spawner: &Spawner,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        spawner.spawn(&self.tasks, task)
    }

    /// The session is not closed while the token exists: for work that is done under a hold. Take the token, and then check that the
    /// connection is not [closing](Self::closing).
    pub(crate) fn working(&self) -> TaskTrackerToken {
        self.work.token()
    }

    /// Returns the present session, or the next one if it is opened within `patience`.
    pub(crate) async fn session(&self, patience: Duration) -> Result<Arc<Session>, NoSession> {
        let next = self.next_session(None);
        tokio::time::timeout(patience, next).await.unwrap_or(Err(NoSession::NotConnected))
    }

    /// Waits for the first session that is not `old`. Never fails with [`NoSession::NotConnected`].
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

    /// Resolves when no session will be opened again.
    pub(crate) async fn ended(&self) {
        let mut current = self.current.subscribe();
        // The sender lives in `self`.
        let _ = current.wait_for(|current| matches!(current, Err(NoSession::Closed(_)))).await;
    }

    /// Returns the present session, or why there is none.
    pub(crate) fn current_session(&self) -> Result<Arc<Session>, NoSession> {
        self.current.borrow().clone()
    }

    pub(crate) fn state(&self) -> watch::Receiver<ConnectionState> {
        self.state.subscribe()
    }

    /// Cancelled when the session must be closed.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.close
    }

    /// Closes the session, and waits until it is closed.
    pub(crate) async fn close(&self) -> Released {
        self.close.cancel();
        let mut closed = self.closed.clone();
        // The runtime may have dropped the supervisor, and the connection with it.
        let outcome = closed.wait_for(Option::is_some).await.ok().and_then(|outcome| *outcome);
        // A connection that failed before counts as failed until it is closed.
        self.gauge.set_state(Finish::Closed.label());
        outcome.unwrap_or(Released::Pending)
    }

    /// Closes the session, and waits at most for `limit` until no task of the connection is left. Unlike [`close`](Self::close) this
    /// waits for bodies for longer than the connection timeout.
    pub(crate) async fn close_within(&self, limit: Duration) -> Released {
        self.close.cancel();
        let mut closed = self.closed.clone();
        // The supervisor owns the sender, and ends last.
        let supervised = async { while closed.changed().await.is_ok() {} };
        if tokio::time::timeout(limit, supervised).await.is_err() {
            return Released::Pending;
        }
        self.close().await
    }

    /// Pauses before the next try, and returns early when a server answers again.
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

    /// Pauses as [`pause`](Self::pause) does, and returns early when no session will be opened any more, which the next try reports.
    pub(crate) async fn pause_unless_ended(&self, pause: Duration) {
        tokio::select! {
            biased;
            () = self.ended() => {}
            () = self.pause(pause) => {}
        }
    }

    /// Repeats `operation` under `policy` while it fails for a reason that may pass.
    pub(crate) async fn retried<T, F>(
        &self,
        policy: &RetryPolicy,
        mut operation: impl FnMut() -> F + Send,
    ) -> Result<T, Failure>
    where
        T: Send,
        F: Future<Output = Result<T, Failure>> + Send,
    {
        let mut retry = RetryLoop::new(policy, Operation::REQUEST);
        loop {
            let failure = match operation().await {
                Err(failure @ (Failure::Unknown(_) | Failure::NotNow(_))) => failure,
                settled => return settled,
            };
            if !retry.backoff(self, &failure).await {
                return Err(failure);
            }
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("state", &*self.state.borrow())
            .field("current", &*self.current.borrow())
            .finish_non_exhaustive()
    }
}
