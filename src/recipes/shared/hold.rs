//! [`Guard`]: keeps a lock held. [`Hold`]: a view of a hold.

use std::fmt;
use std::future::{Future, pending};
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::fenced::Fenced;
use super::recipe::Recipe;
use super::revocation::requested;
use super::runs::impl_guard_runs;
use crate::client::Acl;
use crate::curator::Curator;
use crate::error::{Error, Loss, Released};
use crate::fencing_token::FencingToken;
use crate::lock_path::LockPath;
use crate::queue::{End, HoldState, OwnedHold};
use crate::session::Connection;

/// A view of a held lock, lease or leadership.
///
/// A [`Guard`] derefs to it. A view keeps nothing held, and may outlive the hold.
///
/// **A view is no proof.** The lock may be lost while the view lives. Check [`is_held`](Self::is_held) before each step that needs
/// the lock, stop when [`lost`](Self::lost) resolves, and pass the [`fencing_token`](Self::fencing_token) to a resource
/// that compares it. Use [`fenced`](Self::fenced) for writes to ZooKeeper.
///
/// ```no_run
/// # use zookeeper_recipes::{Error, InterProcessMutex};
/// # async fn next_order() -> Option<u64> { None }
/// # async fn bill(order: u64, token: i64) {}
/// # async fn example(mutex: InterProcessMutex) -> Result<(), Error> {
/// mutex
///     .with(async |hold| {
///         while let Some(order) = next_order().await {
///             if hold.is_held() {
///                 bill(order, hold.fencing_token().value()).await;
///             }
///         }
///     })
///     .await
/// # }
/// ```
// Not `Clone`: through `Deref`, `guard.clone()` would be a view that keeps nothing.
pub struct Hold {
    state: Arc<HoldState>,
    /// The path of the lock.
    path: LockPath,
    connection: Arc<Connection>,
    /// The ACLs of nodes that fenced writes create.
    acls: Arc<[Acl]>,
    /// Cancelled when the work is to end. Only a leader has a token of its own, because its work ends before its hold.
    stop: Option<CancellationToken>,
}

impl Hold {
    pub(crate) fn new(state: &Arc<HoldState>, recipe: &Recipe) -> Self {
        Self {
            state: state.clone(),
            path: recipe.path.clone(),
            connection: recipe.curator.connection().clone(),
            acls: recipe.curator.options().acls.clone(),
            stop: None,
        }
    }

    /// This hold with a token of its own, which asks for the end of the work.
    pub(crate) fn with_stop(self) -> Self {
        let stop = self.state.ended().child_token();
        Self { stop: Some(stop), ..self }
    }

    /// The token that asks for the end of the work.
    pub(crate) fn stop(&self) -> &CancellationToken {
        self.stop.as_ref().unwrap_or_else(|| self.state.ended())
    }

    pub(crate) fn state(&self) -> &Arc<HoldState> {
        &self.state
    }

    /// Returns true while the lock is held.
    ///
    /// Each call compares the clock with the session lease, so a process that was stopped gets the truth at its first call.
    /// Once the answer is `false`, it stays `false`.
    #[must_use]
    #[doc(alias = "isAcquiredInThisProcess")]
    #[doc(alias = "isOwnedByCurrentThread")]
    pub fn is_held(&self) -> bool {
        self.state.end().is_none()
    }

    /// Returns how the lock was lost; `None` while it is held and after a release.
    pub fn loss(&self) -> Option<Loss> {
        self.state.end().and_then(End::loss)
    }

    /// Resolves with the cause when the lock is lost. A loss is permanent. After a release the future never resolves.
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time, and the method called again.
    #[doc(alias = "notLeader")]
    pub async fn lost(&self) -> Loss {
        self.state.ended().cancelled().await;
        match self.loss() {
            Some(loss) => loss,
            None => pending().await,
        }
    }

    pub(crate) async fn lost_as_error(&self) -> Error {
        Error::lost(self.path(), self.lost().await)
    }

    /// Returns a token that is cancelled when the work under the lock is to end: when the lock is lost, when it is released, and
    /// when a leader is [asked to step down](crate::leader::LeaderRun::step_down). Cancelling the token has no effect on the
    /// lock.
    #[must_use]
    #[doc(alias = "CancelLeadershipException")]
    pub fn cancellation_token(&self) -> CancellationToken {
        self.stop().child_token()
    }

    /// Returns a number that never decreases, and grows whenever the lock passes between processes.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.state.fencing_token()
    }

    /// Returns a handle for writes that ZooKeeper refuses once the hold has ended.
    #[must_use]
    pub fn fenced(&self) -> Fenced {
        Fenced { hold: self.state.clone(), acls: self.acls.clone() }
    }

    /// Returns how long the lock cannot pass to another process, even if no server answers from now on. While the servers
    /// answer, the session lease is renewed about seven times in a session timeout. Zero once the lock is lost.
    ///
    /// Use it as the deadline of work that cannot check again, such as another process or a request.
    #[must_use]
    pub fn session_lease_left(&self) -> Duration {
        self.state.lease_left()
    }

    /// Resolves when the session lease is renewed, or with the cause when the hold is lost. For tools that pass the lease on.
    #[doc(hidden)]
    pub fn session_lease_renewed(&self) -> impl Future<Output = Result<(), Loss>> + Send + use<> {
        let mut renewals = self.state.session().lease.renewals();
        let view = self.view();
        async move {
            tokio::select! {
                biased;
                loss = view.lost() => Err(loss),
                // The sender lives in the session, which the view keeps.
                _ = renewals.changed() => Ok(()),
            }
        }
    }

    /// Resolves when another process asks for the lock back, with a [`Revoker`](crate::interop::Revoker) or Curator's class of
    /// that name, or has asked before this call. To comply, release the lock.
    ///
    /// The first call begins to watch the node. A request is then seen at once, or within a second if the session has no
    /// room for another watch. The future never resolves once the hold has ended: `select!` it with [`lost`](Self::lost).
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time, and the method called again.
    #[doc(alias = "makeRevocable")]
    #[doc(alias = "RevocationListener")]
    pub async fn revocation_requested(&self) {
        requested(&self.connection, &self.state).await;
    }

    /// The path of the lock, under the namespace.
    pub fn path(&self) -> &str {
        self.path.as_str()
    }

    /// The path of the contender's node, under the namespace.
    #[doc(alias = "getNodeName")]
    #[doc(alias = "getOurPath")]
    pub fn node(&self) -> &str {
        self.state.node()
    }

    /// Returns another view, for another task. It keeps nothing held.
    #[must_use]
    pub fn view(&self) -> Hold {
        Self {
            state: self.state.clone(),
            path: self.path.clone(),
            connection: self.connection.clone(),
            acls: self.acls.clone(),
            stop: self.stop.clone(),
        }
    }
}

impl Hold {
    /// Formats the hold under the name of the type that contains it.
    pub(crate) fn fmt_as(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("path", &self.path())
            .field("node", &self.node())
            .field("fencing_token", &self.fencing_token())
            .field("is_held", &self.is_held())
            .field("loss", &self.loss())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as("Hold", f)
    }
}

/// Holds a lock until it is released or dropped. Its state is in [`Hold`], to which it derefs.
///
/// A guard is owned and `'static`: keep it in a struct, move it to another task or thread, drop it anywhere, even outside
/// a runtime. A guard keeps its [`Curator`]'s session open.
///
/// `let _ = mutex.acquire().await?;` and the pattern `_` drop the guard at once, without a compiler warning.
///
/// ```no_run
/// # use zookeeper_recipes::{Error, InterProcessMutex};
/// # async fn example(mutex: InterProcessMutex) -> Result<(), Error> {
/// let guard = mutex.acquire().await?;
/// // … alone among all processes, while `guard.is_held()` …
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "the lock is released when its guard is dropped"]
pub struct Guard {
    /// Nested guards share it; dropping the last one releases.
    owned: Arc<OwnedHold>,
    view: Hold,
    /// Without a handle the session would be closed while the lock is held.
    curator: Curator,
    /// True if the caller had a time limit, and waited for another contender.
    waited: bool,
}

impl_guard_runs!(Guard, Hold, |guard| guard.view());

impl Guard {
    pub(crate) fn new(owned: Arc<OwnedHold>, recipe: &Recipe) -> Self {
        let view = Hold::new(owned.state(), recipe);
        Self { owned, view, curator: recipe.curator.clone(), waited: false }
    }

    pub(crate) fn with_waited(self, waited: bool) -> Self {
        Self { waited, ..self }
    }

    pub(crate) fn has_waited(&self) -> bool {
        self.waited
    }

    /// A nested guard, if another guard of the hold is left.
    pub(super) fn nested(owned: &Weak<OwnedHold>, recipe: &Recipe) -> Option<Self> {
        let owned = owned.upgrade()?;
        Some(Self::new(owned, recipe))
    }

    /// A reference that keeps nothing, for [`nested`](Self::nested).
    pub(super) fn downgrade(&self) -> Weak<OwnedHold> {
        Arc::downgrade(&self.owned)
    }

    /// Releases the lock and waits until the servers confirm it, at most for
    /// [`CuratorBuilder::connection_timeout`](crate::CuratorBuilder::connection_timeout).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases all the same, even before the future is polled. Only the report is lost.
    ///
    /// # Errors
    ///
    /// * [`ErrorKind::Lost`](crate::ErrorKind::Lost): the lock had been lost before; work done under it may have overlapped with another holder.
    /// * [`ErrorKind::PermissionDenied`](crate::ErrorKind::PermissionDenied): the server does not let us delete the node. The session keeps trying.
    #[doc(alias = "returnLease")]
    pub async fn release(self) -> Result<Released, Error> {
        self.release_now().await
    }

    /// As [`release`](Self::release), and waits for `limit` at the most: then it returns [`Released::Pending`], and the session
    /// continues to delete the node.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use zookeeper_recipes::{Error, Guard};
    /// # async fn example(guard: Guard) -> Result<(), Error> {
    /// let released = guard.release_timeout(Duration::from_millis(500)).await?;
    /// println!("the next contender can have the lock: {released:?}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// As for [`release`](Self::release).
    ///
    /// # Errors
    ///
    /// As for [`release`](Self::release).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn release_timeout(self, limit: Duration) -> Result<Released, Error> {
        timeout(limit, self.release_now()).await.unwrap_or(Ok(Released::Pending))
    }

    /// Releases as it is called. The future waits for the report.
    pub(crate) fn release_now(
        self,
    ) -> impl Future<Output = Result<Released, Error>> + Send + use<> {
        let Self { owned, view, curator, waited: _ } = self;
        let releasing = Arc::into_inner(owned).map(OwnedHold::release);
        // The release reports a loss itself. Without one, another guard of the hold is left.
        let lost = if releasing.is_none() { view.loss() } else { None };
        async move {
            let released = match (releasing, lost) {
                (Some(releasing), _) => releasing.await.map_err(|error| match error.loss() {
                    // The queue's path is not that of the lock, if this is a permit.
                    Some(loss) => Error::lost(view.path(), loss),
                    None => error,
                }),
                (None, None) => Ok(Released::StillHeld),
                (None, Some(loss)) => Err(Error::lost(view.path(), loss)),
            };
            // The session stays open until the release is answered.
            drop(curator);
            released
        }
    }

    /// Returns a nested guard of the same hold; no traffic. The lock is released with the last guard, in whatever order they
    /// are dropped.
    pub fn reenter(&self) -> Self {
        Self {
            owned: self.owned.clone(),
            view: self.view.view(),
            curator: self.curator.clone(),
            waited: self.waited,
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view.fmt_as("Guard", f)
    }
}

impl Deref for Guard {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.view
    }
}
