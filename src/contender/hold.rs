//! A hold: an admitted contender, what the guard sees of it, and how it ends.
//!
//! A hold is lost once and for good, at the first of: its lease ends, its epoch is over, its node is
//! gone. A hold that was lost because its lease ended keeps its node until the guard is let go: the
//! session may live, and then the node still keeps others out while the holder finds out.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::Answer;
use super::enter::Entered;
use super::wait::{OwnNode, own_node_gone};
use crate::client::{ClientError, Failure};
use crate::error::{Loss, ReleaseError};
use crate::fencing::FencingToken;
use crate::lock_path::LockPath;
use crate::session::Session;
use crate::session::clock::Moment;
use crate::session::duty::{Cleaned, Duty, clean_up};
use crate::session::epoch::{Demand, Epoch, HolderNote, Reservation};
use crate::session::lease::Term;

/// What became of a release.
pub(crate) type ReleaseOutcome = Result<(), ReleaseError>;

/// What a guard can ask its hold. Outlives the hold.
#[derive(Debug)]
pub(crate) struct HoldState {
    path: LockPath,
    node: String,
    czxid: i64,
    epoch: Arc<Epoch>,
    term: Arc<Term>,
    /// The end of this hold alone; that of all holds is the term's.
    own_end: OnceLock<Loss>,
    ended: CancellationToken,
}

impl HoldState {
    fn new(life: &Life) -> Arc<Self> {
        Arc::new(Self {
            path: life.path.clone(),
            node: life.entered.node.clone(),
            czxid: life.entered.czxid,
            epoch: life.epoch.clone(),
            term: life.term.clone(),
            own_end: OnceLock::new(),
            ended: life.term.ended().child_token(),
        })
    }

    pub(crate) fn path(&self) -> &LockPath {
        &self.path
    }

    /// The path of the contender's node.
    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    pub(crate) fn epoch(&self) -> &Epoch {
        &self.epoch
    }

    /// Invariant 4: a later node of the same path was created by a later transaction.
    pub(crate) fn fencing_token(&self) -> FencingToken {
        FencingToken::new(self.czxid)
    }

    /// How it ended, if it has. Looks at the clock itself: a process that was stopped learns the truth
    /// before any timer fires (invariant 5).
    pub(crate) fn end(&self) -> Option<Loss> {
        let own = self.own_end.get().copied();
        own.or_else(|| {
            let lasts = self.epoch.lease.lasts(&self.term, Moment::now());
            if lasts { None } else { Some(self.term.loss().unwrap_or(Loss::LeaseEnded)) }
        })
    }

    /// Fires when it has ended, in whatever way.
    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// A server said that its node is not there; gives how it ended.
    pub(crate) fn node_is_gone(&self) -> Loss {
        self.finish(Loss::NodeDeleted)
    }

    /// Ends it, unless it has ended before; gives how it ended.
    fn finish(&self, how: Loss) -> Loss {
        let how = self.end().unwrap_or(how);
        let how = *self.own_end.get_or_init(|| how);
        self.ended.cancel();
        how
    }
}

/// A hold, for whoever asked for it. Dropping it releases.
#[derive(Debug)]
pub(crate) struct Hold {
    state: Arc<HoldState>,
    /// Dropping the sender tells the contender's task to leave: it needs no runtime.
    leave: Option<oneshot::Sender<Reply>>,
}

type Reply = oneshot::Sender<ReleaseOutcome>;

impl Hold {
    pub(crate) fn state(&self) -> &Arc<HoldState> {
        &self.state
    }

    /// Releases; the future tells what is known of it. The release goes on if that is dropped.
    pub(crate) fn release(mut self) -> impl Future<Output = ReleaseOutcome> + Send + use<> {
        let state = self.state.clone();
        let end = state.finish(Loss::Released);
        let (reply, outcome) = oneshot::channel();
        if let Some(leave) = self.leave.take() {
            // Without a task there is nothing left to delete.
            let _ = leave.send(reply);
        }
        async move {
            let lost = |loss| ReleaseError::Lost { path: state.path.to_string(), loss };
            if end != Loss::Released {
                tracing::warn!(path = %state.path, %end, "released what was lost before");
                return Err(lost(end));
            }
            // The task is gone only with its epoch, its node or its runtime.
            outcome.await.unwrap_or_else(|_| Err(lost(Loss::Closed)))
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // First of all nobody may take it for held any more; then the node goes.
        self.state.finish(Loss::Released);
    }
}

/// What an admitted contender is made of.
pub(super) struct Life {
    pub(super) path: LockPath,
    pub(super) epoch: Arc<Epoch>,
    pub(super) entered: Entered,
    pub(super) own: Option<OwnNode>,
    pub(super) term: Arc<Term>,
    pub(super) demand: Demand,
    pub(super) reservation: Reservation,
    pub(super) note: HolderNote,
}

/// Hands the hold out, looks after it, and leaves when it is over.
pub(super) async fn serve(session: &Arc<Session>, life: Life, caller: oneshot::Sender<Answer>) {
    let state = HoldState::new(&life);
    let (sender, mut leave) = oneshot::channel();
    tracing::debug!(node = state.node, token = %state.fencing_token(), "holds");
    // If the caller is gone, the hold comes back, is dropped, and tells us to leave.
    let _ = caller.send(Ok(Some(Hold { state: state.clone(), leave: Some(sender) })));
    let Life { epoch, entered, own, demand, reservation, note, .. } = life;
    let own = own.unwrap_or_else(|| {
        let (session, epoch, node) = (session.clone(), epoch.clone(), entered.node.clone());
        Box::pin(async move {
            // A short hold costs no read.
            tokio::time::sleep(epoch.timeout() / 6).await;
            own_node_gone(session, epoch, node).await
        })
    });
    let reply = tokio::select! {
        biased;
        reply = &mut leave => reply.ok(),
        () = epoch.over().cancelled() => {
            let how = state.end().unwrap_or(Loss::SessionExpired);
            tracing::warn!(path = %state.path, node = state.node, %how, "the hold is lost");
            None
        }
        () = session.closing().cancelled() => {
            state.finish(Loss::Closed);
            None
        }
        () = look_after(session, &epoch, &entered.node, own) => {
            let how = state.finish(Loss::NodeDeleted);
            tracing::warn!(path = %state.path, node = state.node, %how, "the hold's node is gone");
            return;
        }
    };
    drop(note);
    let span = tracing::info_span!("release", path = %state.path, contender = entered.name);
    remove(session, epoch, &state, reply, (demand, reservation)).instrument(span).await;
}

/// Resolves when the node is gone, though we may not be allowed to read it.
async fn look_after(session: &Session, epoch: &Arc<Epoch>, node: &str, own: OwnNode) {
    let Err(refused) = own.await else { return };
    tracing::warn!(node, ?refused, "the node cannot be watched, only looked for");
    loop {
        session.pause(epoch.timeout() / 3).await;
        let Ok(client) = epoch.client() else {
            return std::future::pending().await;
        };
        if let Ok(false) | Err(Failure::NoNode) = client.exists(node).await {
            return;
        }
    }
}

/// Deletes the node, and tells whoever waits for it.
async fn remove(
    session: &Session,
    epoch: Arc<Epoch>,
    state: &HoldState,
    reply: Option<Reply>,
    room: (Demand, Reservation),
) {
    let reply = Mutex::new(reply);
    let tell = |outcome| {
        if let Some(reply) = reply.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = reply.send(outcome); // whoever asked may not wait any more
        }
    };
    let (path, node) = (state.path.to_string(), state.node.clone());
    let refused = |error: &ClientError| {
        if error.is_no_auth() {
            tell(Err(ReleaseError::NoAuth { node: node.clone() }));
        }
    };
    let patience = session.settings.connection_timeout;
    let cleaning = clean_up(session, epoch, Duty::Delete(node.clone()), refused);
    tokio::pin!(cleaning);
    let cleaned = tokio::select! {
        biased;
        cleaned = &mut cleaning => cleaned,
        () = tokio::time::sleep(patience) => {
            tracing::warn!(path, waited = ?patience, "the release is not confirmed yet");
            tell(Err(ReleaseError::Unconfirmed { path: path.clone(), waited: patience }));
            cleaning.await
        }
    };
    // Room first: whoever hears of the release may use it.
    drop(room);
    match cleaned {
        // When the session ended, the hold had been given up before, while it lasted.
        Cleaned::Deleted | Cleaned::SessionOver => tell(Ok(())),
        Cleaned::Gone => {
            tell(Err(ReleaseError::Lost { path, loss: Loss::NodeDeleted }));
        }
    }
}
