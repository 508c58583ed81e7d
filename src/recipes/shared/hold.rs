//! [`Guard`]: a lock that is held; [`Hold`]: what can be asked of it.

use std::fmt;
use std::future::{Future, pending};
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::fenced::Fenced;
use super::recipe::Recipe;
use super::revocation::requested;
use crate::client::Acl;
use crate::curator::Curator;
use crate::error::{Error, ErrorKind, Loss, Released};
use crate::fencing_token::FencingToken;
use crate::lock_path::LockPath;
use crate::queue::{self, HoldState};
use crate::session::Connection;

/// What can be asked of a hold: a lock, a lease or a leadership.
///
/// A [`Guard`] derefs to it. A hold by itself keeps nothing: it is a view, and outlives what it is of.
///
/// **It is no proof.** The lock may be lost while this lives. Check [`is_held`](Self::is_held) before each step that needs
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
    /// Of the lock.
    path: LockPath,
    connection: Arc<Connection>,
    /// Of nodes that fenced writes make.
    acls: Arc<[Acl]>,
    /// Cancelled when the work is to end before the hold does: a leader's.
    stop: Option<CancellationToken>,
}

impl Hold {
    pub(crate) fn new(state: &Arc<HoldState>, recipe: &Recipe) -> Self {
        let (connection, acls) =
            (recipe.curator.connection().clone(), recipe.curator.options().acls.clone());
        Self { state: state.clone(), path: recipe.path.clone(), connection, acls, stop: None }
    }

    /// With a token of its own for the end of the work.
    pub(crate) fn with_stop(self) -> Self {
        let stop = Some(self.state.ended().child_token());
        Self { stop, ..self }
    }

    /// Asks that the work ends.
    pub(crate) fn stop(&self) -> &CancellationToken {
        self.stop.as_ref().unwrap_or_else(|| self.state.ended())
    }

    pub(crate) fn state(&self) -> &Arc<HoldState> {
        &self.state
    }

    /// Whether the lock is held at this instant.
    ///
    /// It looks at the clock, so that a process that was stopped gets the truth at its first look. Once it says `false`
    /// it always will.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.state.end().is_none()
    }

    /// How the lock was lost, if it was; `None` after a release.
    pub fn loss(&self) -> Option<Loss> {
        self.state.end().and_then(queue::End::loss)
    }

    /// Resolves when the lock is lost, with how; once and for good. After a release it never does.
    ///
    /// # Cancel safety
    ///
    /// It can be dropped and called again at any time.
    pub async fn lost(&self) -> Loss {
        self.state.ended().cancelled().await;
        match self.loss() {
            Some(loss) => loss,
            None => pending().await,
        }
    }

    /// A token that is cancelled when the work under the lock is to end: when the lock is lost, when it is released, and
    /// when a leader is [asked to step down](crate::leader::LeaderRun::step_down). Cancelling it has no effect on the lock.
    #[must_use]
    pub fn cancellation_token(&self) -> CancellationToken {
        self.stop().child_token()
    }

    /// A number that never decreases, and grows whenever the lock passes between processes.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.state.fencing_token()
    }

    /// Writes that ZooKeeper refuses once the hold is over.
    #[must_use]
    pub fn fenced(&self) -> Fenced {
        Fenced { hold: self.state.clone(), acls: self.acls.clone() }
    }

    /// For how long the lock cannot pass to another process if no server answers from now on. The session lease is renewed
    /// some seven times in a session timeout while the servers answer. Nothing once the lock is lost.
    ///
    /// For what has to be over by then and cannot ask again: another process, a request with a deadline.
    #[must_use]
    pub fn session_lease_left(&self) -> Duration {
        self.state.lease_left()
    }

    /// Resolves when the session lease is renewed, and with how the hold was lost. For tools that pass the lease on.
    #[doc(hidden)]
    pub fn session_lease_renewed(&self) -> impl Future<Output = Result<(), Loss>> + Send + use<> {
        let (mut renewals, view) = (self.state.session().lease.renewals(), self.view());
        async move {
            tokio::select! {
                biased;
                loss = view.lost() => Err(loss),
                // The session, which the hold keeps, has the sender.
                _ = renewals.changed() => Ok(()),
            }
        }
    }

    /// Resolves when another process asks that the lock be given back, by a [`Revoker`](crate::interop::Revoker) or
    /// Curator's class of that name; also if that was before this is called. It is a request: to comply, release.
    ///
    /// The first call begins to watch the node; a request is seen at once, or within a second where the session has no
    /// room for another watch. It never resolves once the hold has ended: `select!` it with [`lost`](Self::lost).
    ///
    /// # Cancel safety
    ///
    /// It can be dropped and called again at any time.
    pub async fn revocation_requested(&self) {
        requested(&self.connection, &self.state).await;
    }

    /// The path of the lock, under the namespace.
    pub fn path(&self) -> &str {
        self.path.as_str()
    }

    /// The path of the contender's node, under the namespace.
    pub fn node(&self) -> &str {
        self.state.node()
    }

    /// Another view, for another task. It keeps nothing.
    #[must_use]
    pub fn view(&self) -> Hold {
        let Self { state, path, connection, acls, stop } = self;
        let (state, path, connection) = (state.clone(), path.clone(), connection.clone());
        Self { state, path, connection, acls: acls.clone(), stop: stop.clone() }
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("node", &self.node())
            .field("fencing_token", &self.fencing_token())
            .field("is_held", &self.is_held())
            .field("loss", &self.loss())
            .finish_non_exhaustive()
    }
}

/// Holds a lock until it is released or dropped. What can be asked of it is in [`Hold`], to which it derefs.
///
/// A guard is owned and `'static`: keep it in a struct, move it to another task or thread, drop it anywhere, also outside
/// a runtime. It keeps its [`Curator`]'s session open.
///
/// `let _ = mutex.acquire().await?;` and the pattern `_` drop it at once, without a warning of the compiler.
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
#[derive(Debug)]
pub struct Guard {
    held: Arc<Held>,
}

/// The hold that nested guards share.
#[derive(Debug)]
pub(crate) struct Held {
    hold: queue::OwnedHold,
    view: Hold,
    /// Without a handle the session would be closed under the hold.
    _curator: Curator,
}

impl Guard {
    pub(crate) fn new(hold: queue::OwnedHold, recipe: &Recipe) -> Self {
        let (view, _curator) = (Hold::new(hold.state(), recipe), recipe.curator.clone());
        Self { held: Arc::new(Held { hold, view, _curator }) }
    }

    /// A nested guard, if a guard is left.
    pub(super) fn of(held: &Weak<Held>) -> Option<Self> {
        held.upgrade().map(|held| Self { held })
    }

    /// Keeps nothing: see [`of`](Self::of).
    pub(super) fn weak(&self) -> Weak<Held> {
        Arc::downgrade(&self.held)
    }

    /// Releases the lock and waits until the servers confirm it, at most for
    /// [`CuratorBuilder::connection_timeout`](crate::CuratorBuilder::connection_timeout).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future, also before it is polled, releases all the same; only the report is lost.
    ///
    /// # Errors
    ///
    /// * [`ErrorKind::Lost`]: the lock had been lost before; what was done under it may not have been done alone.
    /// * [`ErrorKind::PermissionDenied`]: the server does not let us delete the node. The session goes on trying.
    pub async fn release(self) -> Result<Released, Error> {
        self.let_go().await
    }

    /// Releases as it is called; the future waits for the report.
    pub(crate) fn let_go(self) -> impl Future<Output = Result<Released, Error>> + Send + use<> {
        let (lost, path) = (self.loss(), self.path.clone());
        let releasing = Arc::into_inner(self.held).map(|held| (held.hold.release(), held._curator));
        async move {
            match (releasing, lost) {
                // The session is kept until it is answered.
                (Some((releasing, _curator)), _) => releasing.await.map_err(|error| {
                    // A lease's node is not right under the path of its lock.
                    error.loss().map_or(error, |loss| Error::lost(path, loss))
                }),
                (None, None) => Ok(Released::StillHeld),
                (None, Some(loss)) => Err(Error::lost(path, loss)),
            }
        }
    }

    /// Runs `body` while the lock is held, and releases. The body is dropped at its next `await` when the lock is lost.
    ///
    /// See [`InterProcessMutex::run`](crate::InterProcessMutex::run).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and releases.
    ///
    /// # Errors
    ///
    /// Those of the body, and [`ErrorKind::Lost`].
    #[allow(clippy::future_not_send)] // it is, if the body is
    pub async fn run<T, E, Fut>(self, body: impl FnOnce(Hold) -> Fut) -> Result<T, E>
    where
        E: From<Error>,
        Fut: Future<Output = Result<T, E>>,
    {
        let lost = async { Error::lost(self.path(), self.lost().await) };
        let ended = until_lost(lost, body(self.view())).await;
        ran(ended, self.let_go()).await
    }

    /// The same for a body of any value.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and releases.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`].
    #[allow(clippy::future_not_send)] // it is, if the body is
    pub async fn with<T, Fut>(self, body: impl FnOnce(Hold) -> Fut) -> Result<T, Error>
    where
        Fut: Future<Output = T>,
    {
        self.run(|hold| body(hold).map(Ok)).await
    }

    /// A nested guard of the same hold; no traffic. The lock is released with the last guard, in whatever order they go.
    pub fn reenter(&self) -> Self {
        Self { held: self.held.clone() }
    }
}

impl Deref for Guard {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.held.view
    }
}

/// The value of `body`, unless the hold is lost first.
#[allow(clippy::future_not_send)] // it is, if the body is
pub(crate) async fn until_lost<T>(
    lost: impl Future<Output = Error>,
    body: impl Future<Output = T>,
) -> Result<T, Error> {
    tokio::select! {
        biased;
        error = lost => Err(error),
        value = body => Ok(value),
    }
}

/// The result of a run: the body's own error comes first, then a loss.
#[allow(clippy::future_not_send)] // it is, if the body is
pub(crate) async fn ran<T, E: From<Error>>(
    ended: Result<Result<T, E>, Error>,
    releasing: impl Future<Output = Result<Released, Error>>,
) -> Result<T, E> {
    // A lost hold is released in the background.
    let value = ended?;
    match (releasing.await, value) {
        (Err(error), Ok(_)) if error.kind() == ErrorKind::Lost => Err(error.into()),
        (Err(error), value) => {
            tracing::warn!(%error, "the release failed");
            value
        }
        (Ok(_), value) => value,
    }
}
