//! [`PersistentNode`]: an ephemeral znode that is kept, session after session.

use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::DropGuard;

use super::shared::hold::Hold;
use super::shared::recipe::Recipe;
use super::shared::task_state::{CloseOnDrop, Phase, TaskState};
use crate::client::check_frame;
use crate::curator::Curator;
use crate::error::{Error, Loss, Released};
use crate::metrics;
use crate::sync::Mutex;

mod keeper;

use self::keeper::{Keeper, Wanted};

/// Keeps an ephemeral znode at a path, session after session: the counterpart of Apache Curator's `PersistentNode` in its mode
/// `EPHEMERAL`.
///
/// The znode is created by [`start`](Self::start). It is created again after the end of its session, and when it was deleted, also
/// with its parents. It is deleted by [`close`](Self::close), or when the last handle is dropped.
///
/// **Two processes never have the znode at once.** If another session has a znode at the path, this one waits until that is deleted,
/// and logs one warning with the session, unless that was its own before. The process stops to hold its znode before the servers can
/// delete it, as a holder of a lock does: [`start`](Self::start) returns the [`Hold`] of the present znode. Curator's class, in
/// contrast, writes its data over those of the other process, and takes the znode for its own. This class then writes its own data
/// again.
///
/// ```no_run
/// # use zookeeper_recipes::{Curator, Error};
/// # async fn example(curator: Curator) -> Result<(), Error> {
/// let node = curator.persistent_node("/services/billing", "10.0.0.7:8080")?;
/// node.start().await?;
/// // … until the service stops …
/// node.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "the znode is deleted with the last handle"]
pub struct PersistentNode {
    recipe: Recipe,
    shared: Arc<Shared>,
    /// Closes the node with the last handle.
    _open: Arc<DropGuard>,
}

/// The part that the handles share.
struct Shared {
    state: Arc<TaskState>,
    /// The task, until it is started.
    unstarted: Mutex<Option<Keeper>>,
    wanted: watch::Sender<Wanted>,
    /// The number of the data that were written last.
    written: watch::Receiver<u64>,
    /// The session that has a znode at the path, if that is another one.
    taken_by: watch::Receiver<Option<i64>>,
}

/// Whose znode is at the path of a [`PersistentNode`], as far as this process knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PersistentNodeState {
    /// No znode is known: the node is not started, is being created, or may have been lost with the session lease.
    Absent,
    /// The znode is there and ours.
    Ours,
    /// Another node has a znode there, for example of another process, of another handle of this session, or of an earlier session of
    /// this process that has not expired yet. Zero: the znode is not ephemeral.
    Taken {
        /// The session that owns the znode.
        session_id: i64,
    },
    /// The node is closed.
    Closed,
}

impl Curator {
    /// Returns a node at `path`, under the namespace, with the options of this handle. It is created when it is
    /// [started](PersistentNode::start).
    ///
    /// # Errors
    ///
    /// As for [`mutex`](Self::mutex); [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if a request with the data would
    /// take more than 1 MiB.
    pub fn persistent_node(
        &self,
        path: impl AsRef<str>,
        data: impl Into<Vec<u8>>,
    ) -> Result<PersistentNode, Error> {
        let recipe = Recipe::new(self, path.as_ref(), metrics::Recipe::PERSISTENT_NODE)?;
        PersistentNode::new(recipe, data.into())
    }
}

impl PersistentNode {
    pub(super) fn new(recipe: Recipe, data: Vec<u8>) -> Result<Self, Error> {
        check_data(&recipe, &data)?;
        let state = TaskState::new("persistent node", &recipe.path);
        let wanted = watch::Sender::new(Wanted { number: 0, data: data.into() });
        let written = watch::Sender::new(0);
        let taken_by = watch::Sender::new(None);
        let shared = Shared {
            state: state.clone(),
            written: written.subscribe(),
            taken_by: taken_by.subscribe(),
            unstarted: Mutex::new(Some(Keeper::new(
                recipe.clone(),
                CloseOnDrop(state.clone()),
                wanted.subscribe(),
                written,
                taken_by,
            ))),
            wanted,
        };
        let _open = Arc::new(state.close.clone().drop_guard());
        Ok(Self { recipe, shared: Arc::new(shared), _open })
    }

    /// Starts to keep the znode, and waits until it is there and ours. The [`Hold`] is of this znode: it ends when the znode is
    /// deleted, and before the servers can delete it with its session. Later calls wait for the next znode.
    ///
    /// # Cancel safety
    ///
    /// Once the future was polled, dropping it changes nothing: the znode is kept until it is closed.
    ///
    /// # Errors
    ///
    /// * [`ErrorKind::Closed`](crate::ErrorKind::Closed): the node or its [`Curator`] is closed;
    ///   [`ErrorKind::AuthenticationFailed`](crate::ErrorKind::AuthenticationFailed): the servers refuse the credentials. Each later
    ///   call fails as well.
    /// * Any other kind: a try failed while this call waited. The node tries again, and a later call waits for that try.
    ///   [`ErrorKind::PermissionDenied`](crate::ErrorKind::PermissionDenied), [`ErrorKind::Refused`](crate::ErrorKind::Refused): a
    ///   server refuses; [`ErrorKind::UnusablePath`](crate::ErrorKind::UnusablePath): a znode at the path is not ephemeral, or one
    ///   above it is; [`ErrorKind::LimitReached`](crate::ErrorKind::LimitReached).
    #[doc(alias = "waitForInitialCreate")]
    pub async fn start(&self) -> Result<Hold, Error> {
        let unstarted = self.shared.unstarted.lock().take();
        if let Some(keeper) = unstarted {
            self.recipe.curator.connection().spawn(keeper.run());
        }
        self.shared.state.hold().await
    }

    /// Returns whose znode is at the path, as far as this process knows. Each call compares the clock with the session lease.
    pub fn state(&self) -> PersistentNodeState {
        let phase = self.shared.state.phase.borrow();
        match (phase.hold(), *self.shared.taken_by.borrow()) {
            (Some(_), _) => PersistentNodeState::Ours,
            (None, _) if phase.is_final() => PersistentNodeState::Closed,
            (None, Some(session_id)) => PersistentNodeState::Taken { session_id },
            (None, None) => PersistentNodeState::Absent,
        }
    }

    /// Returns the hold of the present znode, if it is there and ours.
    pub fn hold(&self) -> Option<Hold> {
        self.shared.state.phase.borrow().hold().map(Hold::view)
    }

    /// Resolves with the cause when the present znode is lost: at once if it is not ours now and was before. Before the first
    /// znode, and after the node has ended, the future never resolves.
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time, and the method called again.
    pub async fn lost(&self) -> Loss {
        let last = match &*self.shared.state.phase.borrow() {
            Phase::Holding(hold) => Some(hold.view()),
            _ => None,
        };
        match last {
            Some(hold) => hold.lost().await,
            None => pending().await,
        }
    }

    /// Returns how long the znode stays ours, even if no server answers from now on: see
    /// [`Hold::session_lease_left`]. Zero if it is not ours now.
    #[must_use]
    pub fn session_lease_left(&self) -> Duration {
        self.hold().map_or(Duration::ZERO, |hold| hold.session_lease_left())
    }

    /// Replaces the data, and waits until the znode has them: [`start`](Self::start) the node first. Only our own znode is written.
    /// If the node is not there, it will be created with these data. If an answer is missing, the znode is read and written again,
    /// so the outcome is always known.
    ///
    /// # Cancel safety
    ///
    /// Once the future was polled, dropping it changes nothing: the data are written.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if a request with the data would take more than 1 MiB; as for
    /// [`start`](Self::start).
    #[doc(alias = "setData")]
    pub async fn set_data(&self, data: impl Into<Vec<u8>>) -> Result<(), Error> {
        let data = data.into();
        check_data(&self.recipe, &data)?;
        let mut number = 0;
        self.shared.wanted.send_modify(|wanted| {
            number = wanted.number + 1;
            *wanted = Wanted { number, data: data.into() };
        });
        let mut written = self.shared.written.clone();
        let is_written = async {
            // Without a sender the task has ended, which `failed` reports.
            if written.wait_for(|written| *written >= number).await.is_err() {
                pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = is_written => Ok(()),
            error = self.shared.state.failed() => Err(error),
        }
    }

    /// Deletes the znode, and waits until the servers confirm it, at most for
    /// [`CuratorBuilder::connection_timeout`](crate::CuratorBuilder::connection_timeout): then with [`Released::Pending`], and the
    /// delete goes on in the background. From the first poll on the znode is not ours. Closing again returns the same outcome, and
    /// after [`Released::Pending`] waits again.
    ///
    /// # Cancel safety
    ///
    /// Once the future was polled, dropping it does not stop the closing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::PermissionDenied`](crate::ErrorKind::PermissionDenied): the server does not let us delete the znode.
    pub async fn close(&self) -> Result<Released, Error> {
        self.shared.state.enter(Phase::Closed);
        // A task that was never started reports the end as it is dropped.
        drop(self.shared.unstarted.lock().take());
        let limit = self.recipe.curator.connection().settings.connection_timeout;
        self.shared.state.close_within(limit).await
    }

    /// Returns the path, under the namespace.
    #[doc(alias = "getActualPath")]
    pub fn path(&self) -> &str {
        self.recipe.path.as_str()
    }
}

fn check_data(recipe: &Recipe, data: &[u8]) -> Result<(), Error> {
    let acls = &recipe.curator.options().acls;
    let absolute = recipe.curator.connection().absolute(&recipe.path);
    check_frame("data", &absolute, data.len(), acls).map_err(|error| error.at(&recipe.path))
}

impl fmt::Debug for PersistentNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersistentNode")
            .field("path", &self.path())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
