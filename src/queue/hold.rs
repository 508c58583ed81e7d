//! A node in the queue, and a hold by it: what a guard can ask, and how a hold ends.
//!
//! A hold is lost once and for good, at the first of: its lease ends, its session is over, its node is
//! gone. A hold that was lost because its lease ended keeps its node until the guard is let go: the
//! session may live, and then the node still keeps others out while the holder finds out.
//!
//! A hold has no task. The lease ends it, or the session's [node monitor](super::node_monitor), which looks after its node.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::contending::Waiting;
use super::driver::{QueueDriver, ReleaseStep};
use super::local_queue::HoldNumber;
use super::node::{DeleteOutcome, SharedNode};
use super::queued_flag::QueuedFlag;
use super::request::Request;
use crate::client::LinkWatch;
use crate::clock::Moment;
use crate::error::{Error, ErrorKind, Loss, Released};
use crate::fencing_token::FencingToken;
use crate::lock::Mutex;
use crate::metrics::Holding;
use crate::session::cleanup::CleanupOutcome;
use crate::session::lease::LeaseTerm;
use crate::session::session::{Requester, Session};

/// `None`: another contender is first, and the caller asked not to wait.
pub(crate) type Answer = Result<Option<OwnedHold>, Error>;

/// A node of ours in the queue.
#[derive(Debug)]
pub(super) struct Znode {
    /// Its path, under the namespace.
    pub(super) path: String,
    /// The transaction that created it.
    pub(super) czxid: i64,
    pub(super) sequence: i64,
    /// Whether it holds together with others like it.
    pub(super) shared: bool,
    /// The link as it was before the create was sent, while that lasts.
    link: Mutex<Option<LinkWatch>>,
    /// Whether another process asked for it to be given up.
    revoked: AtomicBool,
    /// Held while a fenced write is handed to the client.
    fence: Mutex<()>,
    /// Whether the node monitor has a watch on it, from the waiter.
    watched: AtomicBool,
}

impl Znode {
    pub(super) fn new(
        path: String,
        czxid: i64,
        sequence: i64,
        shared: bool,
        link: LinkWatch,
    ) -> Self {
        Self {
            path,
            czxid,
            sequence,
            shared,
            link: Mutex::new(Some(link)),
            revoked: AtomicBool::new(false),
            fence: Mutex::new(()),
            watched: AtomicBool::new(false),
        }
    }

    pub(super) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    pub(super) fn set_watched(&self, watched: bool) {
        self.watched.store(watched, Ordering::Relaxed);
    }

    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Whether the connection is the one on which it was created. A change is seen once only, and kept.
    pub(super) fn is_on_its_link(&self) -> bool {
        let mut link = self.link.lock();
        link.take_if(|link| link.has_changed());
        link.is_some()
    }

    pub(super) fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Relaxed)
    }
}

/// How a hold ended.
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

/// What a guard can ask its hold. Outlives the hold.
#[derive(Debug)]
pub(crate) struct HoldState {
    path: String,
    node: Arc<Znode>,
    token: FencingToken,
    session: Arc<Session>,
    term: Arc<LeaseTerm>,
    /// The task that asked for it.
    pub(super) asker: Requester,
    /// The end of this hold alone; that of all holds is the term's.
    own_end: OnceLock<End>,
    ended: CancellationToken,
    /// Cancelled when the node asks to be revoked; once a caller wants to know.
    revocation: OnceLock<CancellationToken>,
    counted: Holding,
}

impl HoldState {
    /// Begins to count it: not under any lock.
    pub(super) fn new(
        request: &Request,
        node: Arc<Znode>,
        session: Arc<Session>,
        term: Arc<LeaseTerm>,
        asker: Requester,
    ) -> Arc<Self> {
        let path = request.path.to_string();
        let companion = request.companion.as_deref();
        let token = companion.map_or_else(|| FencingToken::new(node.czxid), Self::fencing_token);
        let counted = term.holds.begin(&request.counted);
        tracing::debug!(%path, node = node.path, %token, session = %format_args!("{:#x}", session.session_id()), "holds");
        Arc::new(Self {
            path,
            node,
            token,
            session,
            asker,
            own_end: OnceLock::new(),
            ended: term.ended().child_token(),
            term,
            revocation: OnceLock::new(),
            counted,
        })
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The path of the contender's node.
    pub(crate) fn node(&self) -> &str {
        &self.node.path
    }

    pub(super) fn sequence(&self) -> i64 {
        self.node.sequence
    }

    /// The number as it ends the node's name: ten digits, since others are refused.
    pub(super) fn digits(&self) -> &str {
        let name = self.node.name();
        name.get(name.len().saturating_sub(10)..).unwrap_or_default()
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Invariant 4: a later node of the same path was created by a later transaction. A read beside a write hold has
    /// the token of that: its own node is younger than those of contenders that hold later.
    pub(crate) fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// How it ended, if it has. Looks at the clock itself: a process that was stopped learns the truth
    /// before any timer fires (invariant 5).
    pub(crate) fn end(&self) -> Option<End> {
        let own = self.own_end.get().copied();
        own.or_else(|| self.session.lease.loss(&self.term, Moment::now()).map(End::Lost))
    }

    /// How long the lease lasts if nothing renews it; nothing once the hold has ended.
    pub(crate) fn lease_left(&self) -> Duration {
        let now = Moment::now();
        match (self.end(), self.session.lease.end()) {
            (None, Some(end)) => end.since(now),
            _ => Duration::ZERO,
        }
    }

    /// Fires when it has ended, in whatever way.
    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// A server said that its node is not there; gives how it ended.
    pub(crate) fn node_is_gone(&self) -> End {
        self.finish(End::Lost(Loss::NodeDeleted))
    }

    /// Sends a fenced write, unless the hold has ended. The task that ends it waits for that: so all fenced writes
    /// are ahead of the delete, and of the next hold by the same node.
    pub(crate) fn fence<T>(&self, send: impl FnOnce() -> T) -> Result<T, End> {
        let sending = self.node.fence.lock();
        let over = self.session.lease.look(Moment::now());
        let sent = match self.own_end.get().copied().or_else(|| self.term.loss().map(End::Lost)) {
            Some(end) => Err(end),
            None => Ok(send()),
        };
        drop(sending);
        over.wake();
        sent
    }

    /// Waits for a fenced write that is being handed to the client. None follows on a hold that has ended.
    pub(super) fn close_fence(&self) {
        drop(self.node.fence.lock());
    }

    /// `look_out` begins to look, the first time.
    pub(crate) fn revocation(
        &self,
        look_out: impl FnOnce() -> CancellationToken,
    ) -> CancellationToken {
        self.revocation.get_or_init(look_out).clone()
    }

    /// The node asks for it: it is given up for others, with all whose turn would come under it.
    pub(crate) fn node_is_revoked(&self) {
        self.node.revoked.store(true, Ordering::Relaxed);
    }

    /// Ends it, unless it has ended before; gives how it ended.
    pub(super) fn finish(&self, how: End) -> End {
        let how = self.end().unwrap_or(how);
        let how = *self.own_end.get_or_init(|| how);
        self.ended.cancel();
        self.counted.ended(how.loss());
        how
    }

    /// The same, but wakes no task, and does not look at the clock: [`finish`](Self::finish) has to follow.
    pub(super) fn is_over(&self, how: Loss) {
        self.own_end.get_or_init(|| End::Lost(self.term.loss().unwrap_or(how)));
    }
}

/// A hold, for its caller. Dropping it releases.
#[derive(Debug)]
pub(crate) struct OwnedHold {
    state: Arc<HoldState>,
    number: HoldNumber,
    /// Taken by the release.
    driver: Option<Arc<QueueDriver>>,
}

impl OwnedHold {
    /// Not under the queue's lock.
    pub(super) fn begin(
        driver: &Arc<QueueDriver>,
        number: HoldNumber,
        node: &SharedNode,
        request: &Request,
        asker: Requester,
        term: Arc<LeaseTerm>,
    ) -> Self {
        let SharedNode { node, path_nodes, nodes } = node;
        let state = HoldState::new(request, node.clone(), nodes.session.clone(), term, asker);
        if !path_nodes.admitted(node, driver, state.clone()) {
            state.node_is_gone();
            driver.node_gone(node.czxid);
        }
        Self { state, number, driver: Some(driver.clone()) }
    }

    pub(crate) fn state(&self) -> &Arc<HoldState> {
        &self.state
    }

    pub(super) fn driver(&self) -> Option<Arc<QueueDriver>> {
        self.driver.clone()
    }

    /// To release it otherwise.
    pub(super) fn into_parts(mut self) -> (HoldNumber, Arc<HoldState>) {
        self.driver = None;
        (self.number, self.state.clone())
    }

    /// Releases; the future tells what is known of it. The release goes on if that is dropped, or not polled any
    /// more.
    pub(crate) fn release(
        mut self,
    ) -> impl Future<Output = Result<Released, Error>> + Send + use<> {
        let span = self.span();
        let (end, step) = span.in_scope(|| self.release_now());
        let state = self.state.clone();
        let released = async move {
            let path = state.path().to_owned();
            if let End::Lost(loss) = end {
                tracing::warn!(path, %loss, "released what was lost before");
                return Err(Error::lost(path, loss));
            }
            let left = match step {
                ReleaseStep::Passed => return Ok(Released::Confirmed),
                ReleaseStep::Deleting(left) => left.await,
                ReleaseStep::Gone => Ok(DeleteOutcome::Confirmed(CleanupOutcome::Gone)),
            };
            match left {
                // When the session ended, the hold had been given up before, while it lasted.
                Ok(DeleteOutcome::Confirmed(
                    CleanupOutcome::Deleted | CleanupOutcome::SessionOver,
                )) => Ok(Released::Confirmed),
                Ok(DeleteOutcome::Confirmed(CleanupOutcome::Gone)) => {
                    Err(Error::lost(path, Loss::NodeDeleted))
                }
                Ok(DeleteOutcome::NoAuth) => {
                    let text = format!(
                        "no permission to delete {}: the lock stays taken until the session ends",
                        state.node()
                    );
                    Err(Error::new(ErrorKind::PermissionDenied, text).at(state.node()))
                }
                Ok(DeleteOutcome::Late(waited)) => {
                    tracing::warn!(path, ?waited, "the release is not confirmed yet");
                    Ok(Released::Pending)
                }
                // The runtime is gone.
                Err(_) => Err(Error::lost(path, Loss::Closed)),
            }
        };
        released.instrument(span)
    }

    fn span(&self) -> tracing::Span {
        let node = self.state.node().rsplit('/').next().unwrap_or_default();
        tracing::info_span!("release", path = self.state.path(), contender = node)
    }

    fn release_now(&mut self) -> (End, ReleaseStep) {
        match self.driver.take() {
            Some(driver) => driver.release(self.number, &self.state),
            None => (End::Released, ReleaseStep::Gone),
        }
    }

    /// Ends the hold, and has its node contend again: no other contender can have held meanwhile, unless the node was gone.
    pub(super) fn requeue(
        mut self,
        driver: &Arc<QueueDriver>,
        request: Arc<Request>,
        queued: &QueuedFlag,
    ) -> Waiting {
        self.state.finish(End::Released);
        self.state.close_fence();
        self.driver = None;
        let waiting = driver.join(request, queued, Moment::now());
        driver.requeue(self.number);
        waiting
    }
}

impl Drop for OwnedHold {
    fn drop(&mut self) {
        if self.driver.is_some() {
            // A task of the session's sees to the delete: to start one needs no runtime here.
            self.span().in_scope(|| drop(self.release_now()));
        }
    }
}
