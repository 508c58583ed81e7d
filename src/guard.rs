//! [`MutexGuard`]: a lock that is held.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::curator::Curator;
use crate::error::{Loss, ReleaseError, WithError};
use crate::fenced::Fenced;
use crate::lock_path::LockPath;
use crate::queue::{Hold, HoldState};
use crate::revoke::requested;
use crate::session::Session;
use crate::surface::guard_surface;

/// Holds a lock until it is released or dropped. [`release`](Self::release) also returns whether the lock was held to the end.
///
/// A guard is owned and `'static`: keep it in a struct, move it to another task or thread, drop it
/// anywhere, also outside a runtime. It keeps its [`Curator`]'s session open.
///
/// **A guard is no proof.** The lock may be lost while the guard lives. Check [`is_held`](Self::is_held) before each step
/// that needs the lock, stop when [`lost`](Self::lost) resolves, and pass the [`fencing_token`](Self::fencing_token) to a
/// resource that compares it. Use [`fenced`](Self::fenced) for writes to ZooKeeper.
#[must_use = "dropping a guard releases its lock"]
pub struct MutexGuard {
    pub(crate) held: Arc<Held>,
}

/// What can be asked of a hold, by who may not give it back. Outlives it.
#[derive(Clone, Debug)]
pub(crate) struct HoldView {
    state: Arc<HoldState>,
    /// Of the lock.
    path: LockPath,
    session: Arc<Session>,
}

impl HoldView {
    pub(crate) fn new(state: &Arc<HoldState>, path: LockPath, session: &Arc<Session>) -> Self {
        Self { state: state.clone(), path, session: session.clone() }
    }

    pub(crate) fn state(&self) -> &Arc<HoldState> {
        &self.state
    }

    pub(crate) fn path(&self) -> &str {
        self.path.as_str()
    }

    pub(crate) fn loss(&self) -> Option<Loss> {
        self.state.end()
    }

    pub(crate) fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        let state = self.state.clone();
        async move {
            state.ended().cancelled().await;
            state.end().unwrap_or(Loss::Released)
        }
    }

    pub(crate) fn lease_left(&self) -> Duration {
        self.state.lease_left()
    }

    pub(crate) fn lease_renewed(&self) -> impl Future<Output = Result<(), Loss>> + Send + use<> {
        let (mut renewals, lost) = (self.state.epoch().lease.renewals(), self.lost());
        async move {
            tokio::select! {
                biased;
                loss = lost => Err(loss),
                // The epoch, which the hold keeps, has the sender.
                _ = renewals.changed() => Ok(()),
            }
        }
    }

    pub(crate) fn fenced(&self) -> Fenced {
        Fenced::new(self.state.clone(), self.session.settings.acls.clone())
    }

    pub(crate) fn revocation_requested(
        &self,
    ) -> impl Future<Output = Result<(), Loss>> + Send + use<> {
        requested(&self.session, &self.state)
    }
}

/// What nested guards share.
#[derive(Debug)]
pub(crate) struct Held {
    hold: Hold,
    view: HoldView,
    /// Without a handle the session would be closed under the hold.
    curator: Curator,
}

/// Whether a guard's `release` freed the lock, or other guards of the same hold are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// The lock is free for the next: its node is deleted, kept for a while, or passed on to another task of the session.
    Unlocked,
    /// Other guards of the same hold are left; the lock is still held, and goes with the last.
    StillHeld,
}

guard_surface!(MutexGuard);

impl MutexGuard {
    pub(crate) fn new(held: Arc<Held>) -> Self {
        Self { held }
    }

    /// A nested guard of the same hold; no traffic. The lock goes with the last guard, in whatever
    /// order they go.
    pub fn reenter(&self) -> Self {
        Self { held: self.held.clone() }
    }
}

impl Held {
    pub(crate) fn new(hold: Hold, path: LockPath, curator: Curator) -> Self {
        let view = HoldView::new(hold.state(), path, curator.session());
        Self { hold, view, curator }
    }

    pub(crate) fn view(&self) -> &HoldView {
        &self.view
    }

    pub(crate) fn state(&self) -> &Arc<HoldState> {
        self.hold.state()
    }

    pub(crate) fn loss(&self) -> Option<Loss> {
        self.view.loss()
    }

    /// Lets go of one guard's share.
    pub(crate) async fn release(held: Arc<Self>) -> Result<Released, ReleaseError> {
        let lost = held.loss();
        let path = held.view.path.to_string();
        match (Arc::into_inner(held), lost) {
            (Some(Held { hold, curator, .. }), _) => {
                let outcome = hold.release().await;
                drop(curator);
                outcome.map(|()| Released::Unlocked).map_err(|error| of_lock(error, path))
            }
            (None, None) => Ok(Released::StillHeld),
            (None, Some(loss)) => Err(ReleaseError::Lost { path, loss }),
        }
    }

    /// After the body of a `with` has ended, or was dropped when the lock was lost.
    pub(crate) async fn with_done<T>(held: Arc<Self>, value: Option<T>) -> Result<T, WithError> {
        let path = held.view.path.to_string();
        if let Some(loss) = held.loss() {
            drop(held);
            return Err(WithError::Lost { path, loss });
        }
        match (Self::release(held).await, value) {
            (Err(ReleaseError::Lost { loss, .. }), _) => Err(WithError::Lost { path, loss }),
            (_, Some(value)) => Ok(value),
            // Without a value it had ended, which was seen above.
            (_, None) => Err(WithError::Lost { path, loss: Loss::Released }),
        }
    }
}

/// A lease's node is not right under the path of its lock.
fn of_lock(error: ReleaseError, path: String) -> ReleaseError {
    match error {
        ReleaseError::Lost { loss, .. } => ReleaseError::Lost { path, loss },
        ReleaseError::Unconfirmed { waited, .. } => ReleaseError::Unconfirmed { path, waited },
        error => error,
    }
}
