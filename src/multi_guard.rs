//! [`MultiGuard`]: all members of a multi-lock, held.

use std::fmt;
use std::future::{Future, pending};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::{FutureExt, select_all};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::error::{Loss, MemberFailure, MultiReleaseError, ReleaseError};
use crate::fencing::FencingToken;
use crate::guard::Released;
use crate::inter_process_lock::{BoxFuture, LockGuard};
use crate::session::tasks::Home;

/// All members of an [`InterProcessMultiLock`](crate::InterProcessMultiLock), held. Dropping it releases them, the
/// last first; so does [`release`](Self::release), which also tells what became of them.
///
/// It is owned and `'static`, as a [`MutexGuard`](crate::MutexGuard) is, and no more of a proof: one of the members
/// may be lost while the guard lives, and then the others are still held. Check [`is_held`](Self::is_held) before
/// each step, and stop at [`lost`](Self::lost).
///
/// There is no one fencing token: each [member](Self::members) has its own, for what that member protects.
#[must_use = "dropping a guard releases its locks"]
pub struct MultiGuard {
    path: Arc<str>,
    /// Before the members: first of all nobody may take it for held any more.
    watch: OnceLock<Watch>,
    members: Acquired,
    /// The first loss that was seen: what is said once stays said.
    first: Arc<OnceLock<MemberLoss>>,
    /// Where it was acquired, if that was in a runtime.
    home: Home,
}

/// Which member of a multi-lock was lost, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberLoss {
    /// The member's path.
    pub path: String,
    /// Its place among the members, from 0.
    pub position: usize,
    /// How it was lost.
    pub loss: Loss,
}

impl fmt::Display for MemberLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, position, loss } = self;
        write!(f, "member {position}, {path}: {loss}")
    }
}

impl MultiGuard {
    pub(crate) fn new(path: Arc<str>, members: Acquired) -> Self {
        let (first, watch, home) = (Arc::default(), OnceLock::new(), Home::here());
        Self { path, members, first, watch, home }
    }

    /// Whether all members are held at this instant. Once it says `false` it always will.
    pub fn is_held(&self) -> bool {
        self.loss().is_none()
    }

    /// Which member was lost, and how, if one was: the first that was seen to be.
    pub fn loss(&self) -> Option<MemberLoss> {
        self.members.loss().map(|loss| self.first.get_or_init(|| loss).clone())
    }

    /// Resolves as soon as one member is lost, with which and how; once and for good. After a release it resolves
    /// with [`Loss::Released`].
    ///
    /// # Cancel safety
    ///
    /// It can be dropped and made again at any time.
    pub fn lost(&self) -> impl Future<Output = MemberLoss> + Send + use<> {
        let (lost, first) = (self.members.lost(), self.first.clone());
        async move {
            let loss = lost.await;
            first.get_or_init(|| loss).clone()
        }
    }

    /// How long the lease of each member lasts from now on if no server answers any more: the shortest. Nothing once one
    /// is lost. See [`MutexGuard::lease_left`](crate::MutexGuard::lease_left).
    pub fn lease_left(&self) -> Duration {
        let left = self.members.guards.iter().map(|guard| guard.lease_left());
        left.min().unwrap_or(Duration::MAX)
    }

    /// Resolves when the lease of a member is renewed after this was called.
    ///
    /// # Cancel safety
    ///
    /// It can be dropped and made again at any time.
    ///
    /// # Errors
    ///
    /// Which member was lost, and how.
    pub fn lease_renewed(&self) -> impl Future<Output = Result<(), MemberLoss>> + Send + use<> {
        let (lost, first) = (self.lost(), self.members.renewed());
        async move {
            tokio::select! {
                biased;
                loss = lost => Err(loss),
                () = first => Ok(()),
            }
        }
    }

    /// A token that is cancelled when one member is lost, and when they are released. Cancelling it has no effect
    /// on the locks. The first call starts a task, which ends with the guard.
    ///
    /// # Panics
    ///
    /// If neither the guard was acquired in a tokio runtime nor this is called in one.
    pub fn cancellation_token(&self) -> CancellationToken {
        self.watch.get_or_init(|| self.watch()).token.child_token()
    }

    fn watch(&self) -> Watch {
        let token = CancellationToken::new();
        let (lost, ended) = (self.lost(), token.clone().drop_guard());
        let watching = async move {
            lost.await;
            drop(ended);
        };
        let mut task = JoinSet::new();
        self.home.start_in(&mut task, watching);
        Watch { token, _task: task }
    }

    /// The guards of the members, in the order of the multi-lock.
    pub fn members(&self) -> &[Box<dyn LockGuard>] {
        &self.members.guards
    }

    /// The path of the multi-lock: those of its members, for people to read.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Releases all members, the last first, each when the one before it has answered, and waits until they are.
    /// One that fails does not keep the others.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future, also before it is polled, releases all members all the same, in the same order; only
    /// the report is lost.
    ///
    /// # Errors
    ///
    /// [`MultiReleaseError`] with what must be known of each member that was not simply released, for instance
    /// that it had been lost before.
    pub async fn release(self) -> Result<Released, MultiReleaseError> {
        let Self { members, watch, .. } = self;
        // First of all nobody may take it for held any more.
        drop(watch);
        members.release().await
    }
}

impl LockGuard for MultiGuard {
    fn path(&self) -> &str {
        Self::path(self)
    }

    fn loss(&self) -> Option<Loss> {
        Self::loss(self).map(|lost| lost.loss)
    }

    fn lost(&self) -> BoxFuture<'static, Loss> {
        Self::lost(self).map(|lost| lost.loss).boxed()
    }

    fn lease_left(&self) -> Duration {
        Self::lease_left(self)
    }

    fn lease_renewed(&self) -> BoxFuture<'static, Result<(), Loss>> {
        Self::lease_renewed(self).map(|renewed| renewed.map_err(|lost| lost.loss)).boxed()
    }

    fn fencing_token(&self) -> Option<FencingToken> {
        None
    }

    /// Resolves when any member is asked for.
    fn revocation_requested(&self) -> BoxFuture<'static, Result<(), Loss>> {
        let asked: Vec<_> =
            self.members.guards.iter().map(|guard| guard.revocation_requested()).collect();
        let lost = LockGuard::lost(self);
        Box::pin(async move {
            tokio::select! {
                biased;
                loss = lost => Err(loss),
                () = first(asked) => Ok(()),
            }
        })
    }

    fn members(&self) -> &[Box<dyn LockGuard>] {
        Self::members(self)
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, Result<Released, ReleaseError>> {
        let path = self.path.to_string();
        let released = Self::release(*self);
        Box::pin(
            async move { released.await.map_err(|source| ReleaseError::Members { path, source }) },
        )
    }
}

impl fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiGuard")
            .field("members", &self.members.guards)
            .field("loss", &self.loss())
            .finish_non_exhaustive()
    }
}

/// Cancels its token at the first loss, and when it is dropped. The task is the guard's, and ends with it.
#[derive(Debug)]
struct Watch {
    token: CancellationToken,
    _task: JoinSet<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.token.cancel();
    }
}

/// Members that are held, in the order in which they were acquired. Dropping it releases them, the last first.
#[derive(Debug, Default)]
pub(crate) struct Acquired {
    guards: Vec<Box<dyn LockGuard>>,
}

impl Acquired {
    pub(crate) fn push(&mut self, guard: Box<dyn LockGuard>) {
        self.guards.push(guard);
    }

    /// The first in order that is lost.
    pub(crate) fn loss(&self) -> Option<MemberLoss> {
        self.guards.iter().enumerate().find_map(|(position, guard)| {
            let (path, loss) = (guard.path().to_owned(), guard.loss()?);
            Some(MemberLoss { path, position, loss })
        })
    }

    /// Resolves when one is lost.
    pub(crate) fn lost(&self) -> impl Future<Output = MemberLoss> + Send + use<> {
        let lost = self.guards.iter().enumerate().map(|(position, guard)| {
            let path = guard.path().to_owned();
            guard.lost().map(move |loss| MemberLoss { path, position, loss }).boxed()
        });
        let lost: Vec<_> = lost.collect();
        async move {
            if lost.is_empty() {
                return pending().await;
            }
            select_all(lost).await.0
        }
    }

    /// Resolves when the lease of one is renewed.
    fn renewed(&self) -> impl Future<Output = ()> + Send + use<> {
        first(self.guards.iter().map(|guard| guard.lease_renewed()).collect())
    }

    /// Releases all, and gives all that failed.
    pub(crate) async fn release(mut self) -> Result<Released, MultiReleaseError> {
        let (mut failures, mut released) = (Vec::new(), Released::Unlocked);
        while let Some(guard) = self.guards.pop() {
            let path = guard.path().to_owned();
            match guard.release().await {
                Ok(Released::Unlocked) => {}
                Ok(Released::StillHeld) => released = Released::StillHeld,
                Err(error) => {
                    let position = self.guards.len();
                    failures.push(MemberFailure { path, position, error });
                }
            }
        }
        MultiReleaseError::of(failures).map_or(Ok(released), Err)
    }
}

/// Resolves when the first of these resolves without a loss.
async fn first(mut awaited: Vec<BoxFuture<'static, Result<(), Loss>>>) {
    while !awaited.is_empty() {
        let (resolved, _, others) = select_all(awaited).await;
        if resolved.is_ok() {
            return;
        }
        awaited = others;
    }
    pending().await
}

impl Drop for Acquired {
    fn drop(&mut self) {
        // A vector would drop the first one first.
        while let Some(guard) = self.guards.pop() {
            drop(guard);
        }
    }
}
