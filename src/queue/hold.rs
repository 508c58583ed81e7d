//! A node in the queue, and a hold by it: what a guard can ask, and how a hold ends.
//!
//! A hold is lost once and for good, at the first of: its lease ends, its epoch is over, its node is
//! gone. A hold that was lost because its lease ended keeps its node until the guard is let go: the
//! session may live, and then the node still keeps others out while the holder finds out.
//!
//! A hold has no task. The lease ends it, or the epoch's [node monitor](super::node_monitor), which looks after its node.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::client::LinkWatch;
use crate::clock::Moment;
use crate::error::Loss;
use crate::fencing_token::FencingToken;
use crate::lock::Mutex;
use crate::metrics::{Holding, Lock};
use crate::session::epoch::{Asker, Epoch};
use crate::session::lease::Term;

/// A node of ours in the queue.
#[derive(Debug)]
pub(super) struct QueueNode {
    /// Its path, under the namespace.
    pub(super) node: String,
    /// The transaction that created it.
    pub(super) czxid: i64,
    pub(super) sequence: i64,
    /// Whether it holds together with others like it.
    pub(super) shared: bool,
    /// The link as it was before the create was sent.
    link: Mutex<LinkWatch>,
    /// Whether another process asked for it to be given up.
    revoked: AtomicBool,
    /// Held while a fenced write is handed to the client.
    fence: Mutex<()>,
    /// Whether the node monitor has a watch on it, from the waiter.
    watched: AtomicBool,
}

impl QueueNode {
    pub(super) fn new(
        node: String,
        czxid: i64,
        sequence: i64,
        shared: bool,
        link: LinkWatch,
    ) -> Self {
        let (revoked, watched) = (AtomicBool::new(false), AtomicBool::new(false));
        let (link, fence) = (Mutex::new(link), Mutex::new(()));
        Self { node, czxid, sequence, shared, link, revoked, fence, watched }
    }

    pub(super) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    pub(super) fn set_watched(&self, watched: bool) {
        self.watched.store(watched, Ordering::Relaxed);
    }

    pub(super) fn name(&self) -> &str {
        self.node.rsplit('/').next().unwrap_or_default()
    }

    /// Whether the connection is the one on which it was created.
    pub(super) fn is_on_its_link(&self) -> bool {
        !self.link.lock().has_changed()
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
    node: Arc<QueueNode>,
    token: FencingToken,
    epoch: Arc<Epoch>,
    term: Arc<Term>,
    /// The task that asked for it.
    pub(super) asker: Asker,
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
        path: &str,
        node: Arc<QueueNode>,
        beside: Option<&Self>,
        epoch: Arc<Epoch>,
        term: Arc<Term>,
        (asker, counted): (Asker, &Lock),
    ) -> Arc<Self> {
        let token = beside.map_or_else(|| FencingToken::new(node.czxid), Self::fencing_token);
        let (ended, counted) = (term.ended().child_token(), term.holds.begin(counted));
        let session = epoch.session_id();
        tracing::debug!(%path, node = node.node, %token, session = %format_args!("{session:#x}"), "holds");
        let (own_end, revocation, path) = (OnceLock::new(), OnceLock::new(), path.to_owned());
        Arc::new(Self {
            path,
            node,
            token,
            epoch,
            term,
            asker,
            own_end,
            ended,
            revocation,
            counted,
        })
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The path of the contender's node.
    pub(crate) fn node(&self) -> &str {
        &self.node.node
    }

    pub(super) fn sequence(&self) -> i64 {
        self.node.sequence
    }

    /// The number as it ends the node's name: ten digits, since others are refused.
    pub(super) fn digits(&self) -> &str {
        let name = self.node.name();
        name.get(name.len().saturating_sub(10)..).unwrap_or_default()
    }

    pub(crate) fn epoch(&self) -> &Epoch {
        &self.epoch
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
        own.or_else(|| self.epoch.lease.loss(&self.term, Moment::now()).map(End::Lost))
    }

    /// How long the lease lasts if nothing renews it; nothing once the hold has ended.
    pub(crate) fn lease_left(&self) -> Duration {
        let now = Moment::now();
        match (self.end(), self.epoch.lease.end()) {
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
        let over = self.epoch.lease.look(Moment::now());
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
