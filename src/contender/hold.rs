//! A hold: an admitted contender, what the guard sees of it, and how it ends.
//!
//! A hold is lost once and for good, at the first of: its lease ends, its epoch is over, its node is
//! gone. A hold that was lost because its lease ended keeps its node until the guard is let go: the
//! session may live, and then the node still keeps others out while the holder finds out.
//!
//! A hold has no task. The lease ends it, or the epoch's [caretaker](super::care), which looks after its node.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::Request;
use super::local::Spot;
use super::place::{Departure, Place};
use crate::client::ClientError;
use crate::error::{Loss, ReleaseError};
use crate::fencing::FencingToken;
use crate::lock_path::LockPath;
use crate::metrics::Holding;
use crate::session::clock::Moment;
use crate::session::duty::Cleaned;
use crate::session::epoch::Epoch;
use crate::session::lease::Term;

/// What a guard can ask its hold. Outlives the hold.
#[derive(Debug)]
pub(crate) struct HoldState {
    path: LockPath,
    spot: Arc<Spot>,
    token: FencingToken,
    epoch: Arc<Epoch>,
    term: Arc<Term>,
    /// The end of this hold alone; that of all holds is the term's.
    own_end: OnceLock<Loss>,
    ended: CancellationToken,
    /// Cancelled when the node asks to be revoked; once somebody wants to know.
    revocation: OnceLock<CancellationToken>,
    counted: Holding,
}

impl HoldState {
    /// The path of the contender's node.
    pub(crate) fn node(&self) -> &str {
        &self.spot.node
    }

    pub(super) fn sequence(&self) -> i64 {
        self.spot.sequence
    }

    /// The number as it ends the node's name: ten digits, since others are refused.
    pub(super) fn digits(&self) -> &str {
        let name = self.spot.name();
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
    pub(crate) fn end(&self) -> Option<Loss> {
        let own = self.own_end.get().copied();
        own.or_else(|| self.epoch.lease.loss(&self.term, Moment::now()))
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
    pub(crate) fn node_is_gone(&self) -> Loss {
        self.finish(Loss::NodeDeleted)
    }

    /// Sends a fenced write, unless the hold has ended. Whoever ends it waits for that: so all fenced writes
    /// are ahead of the delete.
    pub(crate) fn fence<T>(&self, send: impl FnOnce() -> T) -> Result<T, Loss> {
        let mut fenced = self.spot.fenced.lock().unwrap_or_else(PoisonError::into_inner);
        let over = self.epoch.lease.look(Moment::now());
        if let Some(loss) = self.own_end.get().copied().or_else(|| self.term.loss()) {
            drop(fenced);
            over.wake();
            return Err(loss);
        }
        if fenced.is_none() {
            *fenced = self.epoch.client().ok().map(|client| client.watch_link());
        }
        let sent = send();
        drop(fenced);
        over.wake();
        Ok(sent)
    }

    /// `look_out` begins to look, the first time.
    pub(crate) fn revocation(
        &self,
        look_out: impl FnOnce() -> CancellationToken,
    ) -> CancellationToken {
        self.revocation.get_or_init(look_out).clone()
    }

    /// Ends it, unless it has ended before; gives how it ended.
    pub(super) fn finish(&self, how: Loss) -> Loss {
        let how = self.end().unwrap_or(how);
        let how = *self.own_end.get_or_init(|| how);
        self.ended.cancel();
        self.counted.ended(how);
        how
    }

    /// The same, but wakes nobody, and does not look at the clock: [`finish`](Self::finish) has to follow.
    pub(super) fn is_over(&self, how: Loss) {
        self.own_end.get_or_init(|| self.term.loss().unwrap_or(how));
    }
}

/// A hold, for whoever asked for it. Dropping it releases.
#[derive(Debug)]
pub(crate) struct Hold {
    state: Arc<HoldState>,
    /// Taken by the release.
    place: Option<Place>,
}

impl Hold {
    /// `None` if the place is not there any more.
    pub(super) fn new(place: Place, term: Arc<Term>, request: &Request) -> Option<Self> {
        let Place { spot, line, .. } = &place;
        let beside = request.beside.as_deref();
        let token = beside.map_or_else(|| FencingToken::new(spot.czxid), HoldState::fencing_token);
        let ended = term.ended().child_token();
        let counted = term.holds.begin(&request.counted);
        let state = Arc::new(HoldState {
            path: line.path.clone(),
            spot: spot.clone(),
            token,
            epoch: place.epoch().clone(),
            term,
            own_end: OnceLock::new(),
            ended,
            revocation: OnceLock::new(),
            counted,
        });
        let (path, session) = (&state.path, place.epoch().session_id());
        tracing::debug!(%path, node = spot.node, token = %state.token, session = %format_args!("{session:#x}"), "holds");
        line.hold(spot, state.clone()).then(|| Self { state, place: Some(place) })
    }

    pub(crate) fn state(&self) -> &Arc<HoldState> {
        &self.state
    }

    /// Releases; the future tells what is known of it. The release goes on if that is dropped, or not polled any
    /// more: whatever is not settled by the first answer is a task's, or the caretaker's.
    pub(crate) fn release(
        mut self,
    ) -> impl Future<Output = Result<(), ReleaseError>> + Send + use<> {
        let (state, span, began) = (self.state.clone(), self.span(), Moment::now());
        let (caller, passed_on) = oneshot::channel();
        let (end, departure) = self.let_go(Some(caller));
        let released = async move {
            let lost = |loss| ReleaseError::Lost { path: state.path.to_string(), loss };
            if end != Loss::Released {
                tracing::warn!(path = %state.path, %end, "released what was lost before");
                return Err(lost(end));
            }
            let mut departure = match departure {
                Ok(departure) => departure,
                Err(cleaned) => return released(cleaned, &state.path),
            };
            match departure.answered(passed_on).await {
                Some(cleaned) => released(cleaned, &state.path),
                // There is no outcome only if the runtime is gone.
                None => {
                    let outcome = Release::go_on(departure, &state, began);
                    outcome.await.unwrap_or_else(|_| Err(lost(Loss::Closed)))
                }
            }
        };
        released.instrument(span)
    }

    /// The place of a hold that was lost, for who contends with it again. Nothing is left of the hold.
    pub(super) fn into_place(mut self) -> Option<Place> {
        self.state.finish(Loss::Released);
        let place = self.place.take()?;
        // Its node may be gone: until a listing says that it is first, whoever is behind it must not go by that.
        place.line.contends_again(&place.spot);
        Some(place)
    }

    fn span(&self) -> tracing::Span {
        let HoldState { path, spot, .. } = &*self.state;
        tracing::info_span!("release", %path, contender = spot.name())
    }

    /// First of all nobody may take it for held any more; then the node goes. `Err` if it needs no delete.
    fn let_go(
        &mut self,
        caller: Option<oneshot::Sender<()>>,
    ) -> (Loss, Result<Departure, Cleaned>) {
        let end = self.state.finish(Loss::Released);
        let Some(place) = self.place.take() else { return (end, Err(Cleaned::Gone)) };
        if end == Loss::NodeDeleted {
            // It did not leave by itself: whoever is behind it has to list.
            place.line.doubt(&place.spot);
        }
        let lines = place.lines.clone();
        let departure = place.leave(caller).ok_or_else(|| {
            let over = lines.epoch.over().is_cancelled() || lines.session.closing().is_cancelled();
            if over { Cleaned::SessionOver } else { Cleaned::Gone }
        });
        (end, departure)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.place.is_some() {
            // A task of the session's sees to it: to start one needs no runtime here.
            self.span().in_scope(|| drop(self.let_go(None)));
        }
    }
}

/// What became of a release whose node has gone.
fn released(cleaned: Cleaned, path: &LockPath) -> Result<(), ReleaseError> {
    match cleaned {
        // When the session ended, the hold had been given up before, while it lasted.
        Cleaned::Deleted | Cleaned::SessionOver => Ok(()),
        Cleaned::Gone => {
            Err(ReleaseError::Lost { path: path.to_string(), loss: Loss::NodeDeleted })
        }
    }
}

type Outcome = oneshot::Sender<Result<(), ReleaseError>>;

/// Tells what became of a release, once.
#[derive(Clone)]
struct Release {
    state: Arc<HoldState>,
    reply: Arc<Mutex<Option<Outcome>>>,
}

impl Release {
    /// Goes on in a task of the session's.
    fn go_on(
        mut departure: Departure,
        state: &Arc<HoldState>,
        began: Moment,
    ) -> oneshot::Receiver<Result<(), ReleaseError>> {
        let (reply, outcome) = oneshot::channel();
        let release = Self { state: state.clone(), reply: Arc::new(Mutex::new(Some(reply))) };
        let told = release.clone();
        if let Some((rest, in_care)) = departure.go_on(move |error| told.refused(error)) {
            // Who comes so late that the caretaker is at it waits from now on.
            let began = if in_care { Moment::now() } else { began };
            let session = departure.session();
            let patience = session.settings.connection_timeout;
            let confirming = release.confirm(patience, began, rest);
            session.spawn(confirming.in_current_span());
        }
        outcome
    }

    fn tell(&self, outcome: Result<(), ReleaseError>) {
        if let Some(reply) = self.reply.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = reply.send(outcome); // whoever asked may not wait any more
        }
    }

    fn refused(&self, error: &ClientError) {
        if error.is_no_auth() {
            self.tell(Err(ReleaseError::NoAuth { node: self.state.spot.node.clone() }));
        }
    }

    async fn confirm(
        self,
        patience: Duration,
        began: Moment,
        leaving: impl Future<Output = Cleaned> + Send,
    ) {
        let path = &self.state.path;
        tokio::pin!(leaving);
        let cleaned = tokio::select! {
            biased;
            cleaned = &mut leaving => cleaned,
            () = tokio::time::sleep(patience.saturating_sub(began.elapsed())) => {
                tracing::warn!(%path, waited = ?patience, "the release is not confirmed yet");
                let path = path.to_string();
                self.tell(Err(ReleaseError::Unconfirmed { path, waited: patience }));
                leaving.await
            }
        };
        self.tell(released(cleaned, path));
    }
}
