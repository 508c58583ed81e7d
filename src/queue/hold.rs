//! A hold: the questions that a guard asks of it, and how it ends.
//!
//! A hold is lost for good when its lease ends, when its session ends or when its znode is deleted, whichever comes first.
//! A hold whose lease ended keeps its znode until the guard is released: the session may still live, and then the znode keeps
//! other contenders out while the holder finds out.
//!
//! A hold has no task. The lease ends it, or the session's [node monitor](super::node_monitor), which watches its znode.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::contending::Waiting;
use super::driver::{QueueDriver, ReleaseStep};
use super::local_queue::HoldNumber;
use super::node::{DeleteOutcome, Znode};
use super::queued_flag::QueuedFlag;
use super::request::{Request, Requester};
use crate::clock::BootInstant;
use crate::error::{Error, ErrorKind, Loss, Released};
use crate::fencing_token::FencingToken;
use crate::lock_path::LockPath;
use crate::session::Session;
use crate::session::cleanup::CleanupOutcome;
use crate::session::lease::{LeaseTerm, TermKind};
use crate::session::observed::{HeldLock, Holding};
use crate::sync::OnceLock;

/// The answer to a caller. [`Busy`](ErrorKind::Busy) if another contender is first, and the caller asked not to wait.
pub(crate) type Answer = Result<OwnedHold, Error>;

/// The end of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Released,
    Lost(Loss),
}

impl End {
    pub(crate) fn loss(self) -> Option<Loss> {
        match self {
            Self::Released => None,
            Self::Lost(loss) => Some(loss),
        }
    }
}

/// The part of a hold that a guard can ask. The state outlives the hold.
#[derive(Debug)]
pub(crate) struct HoldState {
    path: LockPath,
    znode: Arc<Znode>,
    token: FencingToken,
    term: Arc<LeaseTerm>,
    /// The task or thread that asked for the hold.
    pub(super) requester: Requester,
    /// The end of this hold alone. The lease term has the end of all its holds.
    own_end: OnceLock<End>,
    ended: CancellationToken,
    /// Cancelled when another process asks for the lock. Empty until a caller wants to know.
    revocation: OnceLock<CancellationToken>,
    observed: Holding,
}

impl HoldState {
    /// Reports the begin of the hold. The recorder of a user may run, so the caller holds no lock.
    pub(super) fn new(
        request: &Request,
        znode: Arc<Znode>,
        term: Arc<LeaseTerm>,
        requester: Requester,
    ) -> Arc<Self> {
        let kind = request.kind.tag();
        let lock = HeldLock { path: &request.path, kind, counted: &request.counted };
        let companion = request.companion.as_deref();
        let token = companion.map_or_else(|| FencingToken::new(znode.czxid), Self::fencing_token);
        Self::begin(&lock, znode, token, term, requester)
    }

    fn begin(
        lock: &HeldLock<'_>,
        znode: Arc<Znode>,
        token: FencingToken,
        term: Arc<LeaseTerm>,
        requester: Requester,
    ) -> Arc<Self> {
        let path = lock.path.clone();
        let session = znode.session.session_id();
        let observed = term.holds.begin(lock, requester, token, session);
        tracing::debug!(%path, node = znode.path, %token, session = %format_args!("{session:#x}"), "holds");
        Arc::new(Self {
            path,
            znode,
            token,
            requester,
            own_end: OnceLock::new(),
            ended: term.ended().child_token(),
            term,
            revocation: OnceLock::new(),
            observed,
        })
    }

    pub(crate) fn path(&self) -> &str {
        self.path.as_str()
    }

    /// The path of the contender's znode.
    pub(crate) fn node(&self) -> &str {
        &self.znode.path
    }

    pub(super) fn znode(&self) -> &Znode {
        &self.znode
    }

    /// The sequence number of the contender's znode.
    pub(crate) fn sequence(&self) -> i64 {
        self.znode.sequence
    }

    pub(crate) fn session(&self) -> &Session {
        &self.znode.session
    }

    /// Invariant 4: a later transaction created a later znode of the same path. A read alongside a write hold has the token
    /// of the write hold, because the znode of the read is younger than those of contenders that hold later.
    pub(crate) fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// Returns how the hold ended, if it has. This reads the clock itself: a process that was stopped learns the truth before
    /// any timer fires (invariant 5). The first answer is final, so a loss that was seen never becomes a release.
    pub(crate) fn end(&self) -> Option<End> {
        self.own_end.get().copied().or_else(|| {
            let loss = self.session().lease.loss(&self.term, BootInstant::now())?;
            Some(*self.own_end.get_or_init(|| End::Lost(loss)))
        })
    }

    /// Returns how long the lease lasts if nothing renews it. Zero once the hold has ended.
    pub(crate) fn lease_left(&self) -> Duration {
        let now = BootInstant::now();
        match (self.end(), self.session().lease.end()) {
            (None, Some(end)) => end.since(now),
            _ => Duration::ZERO,
        }
    }

    /// A token that is cancelled when the hold ends, for whatever reason.
    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Ends the hold because a server said that the znode does not exist. Returns how the hold ended.
    pub(crate) fn mark_node_gone(&self) -> End {
        self.finish(End::Lost(Loss::NodeDeleted))
    }

    /// Sends a fenced write, unless the hold has ended. The thread that ends the hold waits for `send`, so all fenced writes are
    /// sent before the delete, and before the next hold of the same znode.
    pub(crate) fn fence<T>(&self, send: impl FnOnce() -> T) -> Result<T, End> {
        let (sent, ended_terms) = self.znode.fenced(|| {
            let ended_terms = self.session().lease.check(BootInstant::now());
            let sent = match (self.own_end.get(), self.term.loss()) {
                (Some(end), _) => Err(*end),
                (None, Some(loss)) => Err(*self.own_end.get_or_init(|| End::Lost(loss))),
                (None, None) => Ok(send()),
            };
            (sent, ended_terms)
        });
        ended_terms.wake();
        sent
    }

    /// Sends the create of a read alongside this write hold, unless the hold has ended. The read outlives the hold, so the znode
    /// must not pass to another writer: it is marked inside the fence, for which the end of the hold waits.
    pub(super) fn accompany<T>(&self, send: impl FnOnce() -> T) -> Result<T, End> {
        self.fence(|| {
            self.znode.set_accompanied();
            send()
        })
    }

    /// Waits for a fenced write that another thread hands to the client at this moment. After `finish`, none follows.
    pub(super) fn close_fence(&self) {
        self.znode.close_fence();
    }

    /// Returns the token that is cancelled when another process asks for the lock. The first call runs `watch`.
    pub(crate) fn revocation(
        &self,
        watch: impl FnOnce() -> CancellationToken,
    ) -> CancellationToken {
        self.revocation.get_or_init(watch).clone()
    }

    /// Gives the znode up to other processes after this hold, with all tasks that wait under it.
    pub(crate) fn mark_revoked(&self) {
        self.znode.set_revoked();
    }

    /// Ends the hold, unless it has ended before. Returns how it ended.
    pub(crate) fn finish(&self, how: End) -> End {
        let how = self.end().unwrap_or(how);
        let how = *self.own_end.get_or_init(|| how);
        self.ended.cancel();
        self.observed.ended(how.loss());
        how
    }

    /// Records the end of the hold without waking a task or reading the clock. [`finish`](Self::finish) has to follow.
    pub(super) fn mark_lost(&self, how: Loss) {
        self.own_end.get_or_init(|| End::Lost(self.term.loss().unwrap_or(how)));
    }

    /// Waits for the delete, if there is one, and reports the release to the caller.
    async fn released(&self, end: End, step: ReleaseStep) -> Result<Released, Error> {
        let path = self.path();
        if let End::Lost(loss) = end {
            if loss != Loss::Closed {
                tracing::warn!(path, %loss, "released what was lost before");
            }
            return Err(Error::lost(path, loss));
        }
        let outcome = match step {
            ReleaseStep::Passed => return Ok(Released::Confirmed),
            ReleaseStep::Gone => return Err(Error::lost(path, Loss::NodeDeleted)),
            ReleaseStep::Deleting(outcome) => outcome.await,
        };
        match outcome {
            // The hold was released before the session ended, while the hold lasted.
            Ok(DeleteOutcome::Confirmed(CleanupOutcome::Deleted | CleanupOutcome::SessionOver)) => {
                Ok(Released::Confirmed)
            }
            Ok(DeleteOutcome::Confirmed(CleanupOutcome::Gone)) => {
                Err(Error::lost(path, Loss::NodeDeleted))
            }
            Ok(DeleteOutcome::NoAuth) => {
                let node = self.node();
                let text = format!(
                    "no permission to delete {node}: the lock stays taken until the session ends"
                );
                Err(Error::new(ErrorKind::PermissionDenied, text).at(node))
            }
            Ok(DeleteOutcome::Late(waited)) => {
                tracing::warn!(path, ?waited, "the release is not confirmed yet");
                Ok(Released::Pending)
            }
            // The runtime has shut down, and the delete may have been sent. The hold ended in order.
            Err(_) => Ok(Released::Pending),
        }
    }
}

/// A hold, owned by its caller. Dropping it releases the hold.
#[derive(Debug)]
pub(crate) struct OwnedHold {
    state: Arc<HoldState>,
    number: HoldNumber,
    /// `None` for a hold that no queue knows.
    driver: Option<Arc<QueueDriver>>,
    /// True once the hold is released or taken apart.
    is_released: bool,
}

impl OwnedHold {
    pub(super) fn new(
        state: Arc<HoldState>,
        number: HoldNumber,
        driver: &Arc<QueueDriver>,
    ) -> Self {
        Self { state, number, driver: Some(driver.clone()), is_released: false }
    }

    /// A hold that no queue knows, by a znode that the caller keeps: its path, and the transaction that created it. The hold lasts
    /// until it is released or ended. `None` if the session lease is so old that no hold may begin.
    pub(crate) fn without_queue(
        lock: &HeldLock<'_>,
        (node, czxid): (String, i64),
        session: &Arc<Session>,
        term: TermKind,
    ) -> Option<Self> {
        let term = session.lease.term(term, BootInstant::now())?;
        let znode = Arc::new(Znode::new(node, czxid, 0, false, session.clone(), None));
        let token = FencingToken::new(czxid);
        let state = HoldState::begin(lock, znode, token, term, Requester::current());
        Some(Self { state, number: 0, driver: None, is_released: false })
    }

    pub(crate) fn state(&self) -> &Arc<HoldState> {
        &self.state
    }

    pub(super) fn driver(&self) -> Option<Arc<QueueDriver>> {
        self.driver.clone()
    }

    /// Takes the hold apart. The caller releases it.
    pub(super) fn into_parts(mut self) -> (HoldNumber, Arc<HoldState>) {
        self.is_released = true;
        (self.number, self.state.clone())
    }

    /// Releases the hold. The future resolves with what is known of the release, which goes on if the future is dropped or no
    /// longer polled.
    pub(crate) fn release(
        mut self,
    ) -> impl Future<Output = Result<Released, Error>> + Send + use<> {
        let span = self.span();
        let (end, step) = span.in_scope(|| self.release_now());
        let state = self.state.clone();
        async move { state.released(end, step).await }.instrument(span)
    }

    fn span(&self) -> tracing::Span {
        // The macro evaluates the fields only for a subscriber.
        tracing::info_span!(
            "release",
            path = self.state.path(),
            contender = self.state.znode.name()
        )
    }

    fn release_now(&mut self) -> (End, ReleaseStep) {
        self.is_released = true;
        match &self.driver {
            Some(driver) => driver.release(self.number, &self.state),
            None => {
                let end = self.state.finish(End::Released);
                self.state.close_fence();
                (end, ReleaseStep::Passed)
            }
        }
    }

    /// Ends the hold, and has its znode contend again. No other contender can have held meanwhile, unless the znode was deleted.
    pub(super) fn requeue(
        mut self,
        driver: &Arc<QueueDriver>,
        request: Arc<Request>,
        queued: &QueuedFlag,
    ) -> Waiting {
        self.state.finish(End::Released);
        self.state.close_fence();
        self.is_released = true;
        driver.requeue(self.number, request, queued)
    }
}

impl Drop for OwnedHold {
    fn drop(&mut self) {
        if !self.is_released {
            // A session task deletes the znode, so no runtime is needed here.
            self.span().in_scope(|| drop(self.release_now()));
        }
    }
}
