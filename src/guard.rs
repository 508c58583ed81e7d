//! [`MutexGuard`]: a lock that is held.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::contender::Hold;
use crate::curator::Curator;
use crate::error::{Loss, ReleaseError};
use crate::fenced::Fenced;
use crate::fencing::FencingToken;

/// A lock that is held. Dropping it releases the lock; so does [`release`](Self::release), which also
/// tells what became of it.
///
/// A guard is owned and `'static`: keep it in a struct, move it to another task or thread, drop it
/// anywhere, also outside a runtime. It keeps its [`Curator`]'s session open.
///
/// **A guard is no proof.** The lock may be lost while the guard lives: check [`is_held`](Self::is_held)
/// before each step that needs it, stop at [`lost`](Self::lost), and pass the
/// [`fencing_token`](Self::fencing_token) on to whatever can compare it. What is written to ZooKeeper, write
/// [`fenced`](Self::fenced).
#[must_use = "dropping a guard releases its lock"]
pub struct MutexGuard {
    held: Arc<Held>,
}

/// What nested guards share.
#[derive(Debug)]
pub(crate) struct Held {
    hold: Hold,
    /// Without a handle the session would be closed under the hold.
    curator: Curator,
}

/// What [`MutexGuard::release`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// The node is deleted: the lock is free for the next.
    Unlocked,
    /// Other guards of the same hold are left; the lock is still held, and goes with the last.
    StillHeld,
}

impl MutexGuard {
    pub(crate) fn new(hold: Hold, curator: Curator) -> Self {
        Self { held: Arc::new(Held { hold, curator }) }
    }

    /// Another guard of a hold there is.
    pub(crate) fn nested(held: Arc<Held>) -> Self {
        Self { held }
    }

    pub(crate) fn held(&self) -> &Arc<Held> {
        &self.held
    }

    /// Whether the lock is held at this instant. It looks at the clock, so that a process that was
    /// stopped gets the truth at its first look. Once it says `false` it always will.
    pub fn is_held(&self) -> bool {
        self.loss().is_none()
    }

    /// How the lock was lost, if it was.
    pub fn loss(&self) -> Option<Loss> {
        self.held.loss()
    }

    /// Resolves when the lock is lost, with how; once and for good. After a release it resolves with
    /// [`Loss::Released`].
    ///
    /// # Cancel safety
    ///
    /// It can be dropped and made again at any time.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        let state = self.held.hold.state().clone();
        async move {
            state.ended().cancelled().await;
            state.end().unwrap_or(Loss::Released)
        }
    }

    /// A token that is cancelled when the lock is lost, and when it is released. Cancelling it has no
    /// effect on the lock.
    pub fn cancellation_token(&self) -> CancellationToken {
        self.held.hold.state().ended().child_token()
    }

    /// A number that grows from hold to hold of this lock.
    pub fn fencing_token(&self) -> FencingToken {
        self.held.hold.state().fencing_token()
    }

    /// Writes that ZooKeeper refuses once the hold is over.
    pub fn fenced(&self) -> Fenced {
        let acls = self.held.curator.session().settings.acls.clone();
        Fenced::new(self.held.hold.state().clone(), acls)
    }

    /// The path of the lock, under the namespace.
    pub fn path(&self) -> &str {
        self.held.hold.state().path().as_str()
    }

    /// The path of the contender's node, under the namespace.
    pub fn node(&self) -> &str {
        self.held.hold.state().node()
    }

    /// A nested guard of the same hold; no traffic. The lock goes with the last guard, in whatever
    /// order they go.
    pub fn reenter(&self) -> MutexGuard {
        Self { held: self.held.clone() }
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
    /// * [`ReleaseError::Lost`]: the hold had ended before; what was done under it may not have been
    ///   done alone.
    /// * [`ReleaseError::Unconfirmed`]: no server answered in time; the session goes on deleting.
    /// * [`ReleaseError::NoAuth`]: the server does not let us delete the node.
    pub async fn release(self) -> Result<Released, ReleaseError> {
        let lost = self.loss();
        let path = self.path().to_owned();
        match (Arc::into_inner(self.held), lost) {
            (Some(Held { hold, curator }), _) => {
                let outcome = hold.release().await;
                drop(curator);
                outcome.map(|()| Released::Unlocked)
            }
            (None, None) => Ok(Released::StillHeld),
            (None, Some(loss)) => Err(ReleaseError::Lost { path, loss }),
        }
    }
}

impl Held {
    pub(crate) fn loss(&self) -> Option<Loss> {
        self.hold.state().end()
    }
}

impl fmt::Debug for MutexGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutexGuard")
            .field("node", &self.node())
            .field("fencing_token", &self.fencing_token())
            .field("loss", &self.loss())
            .finish_non_exhaustive()
    }
}
