//! The contenders of one session at one lock path: the tasks that wait, in order, and at most one node at the servers,
//! the *seat*.
//!
//! ```text
//!   Empty --join--> Entering --admitted--> Held --release--> Held (passed on), Idle, or Entering again
//!     ^                |                     |                 Idle: nobody holds, and
//!     +----------------+---------------------+                  · it is not known yet whether to pass it on, or
//!        nobody waits, or the node is gone                      · it is kept for whoever comes back soon
//! ```
//!
//! # Passing on
//!
//! The tasks of one process take turns under one node. That is safe because the node is first and stays first (invariant
//! 2): who holds by it holds alone among all processes, and of this process one holds at a time (I3). Only if, at the
//! moment at which the next hold begins, under the queue's lock,
//!
//! * the session lease lasts, by the loss policy of whoever is next (I4);
//! * the fenced writes of the hold before are closed, and went out on this connection: the link has not changed since the
//!   node was created. One behind a broken link may take effect at any time until the client is connected again;
//! * the session is not about to be closed, and the epoch is not over;
//!
//! and, so that others get what they asked for,
//!
//! * nobody asked for the node to be given up;
//! * the next one's node would have the same data and ACLs, and neither wants a node of its own;
//! * the next one asked before the node was created, or while the session was *alone*: a listing sent behind the create,
//!   with a watch on the children, showed the node and nobody else, and the watch has not fired (I6). So whoever
//!   of another process came since is served before those that asked after the news of it.
//!
//! # Invariants
//!
//! * I1: while a task waits there is a seat. I2: the queue has at most one node whose delete was not handed to the client.
//! * I3: only the present hold changes the seat; a late guard of an earlier one changes nothing.
//! * I4: a hold begins in the critical section in which lease, closing, epoch and seat were looked at.
//! * I5: it is Idle in the two forms above only. I6: no pass to a task that asked after the news of a stranger.
//! * I7: wakes, sends, counts and drops are outside the lock.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{Notify, OwnedSemaphorePermit, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::create::{Sent, reserve, send};
use super::epochs::Epochs;
use super::hold::HoldState;
use super::node::{Leaving, Left, OwnedNode, SharedNode};
use super::request::{Request, Stop, is_session_over};
use super::siblings::Owner;
use crate::admission::Family;
use crate::client::{ChildrenWatch, ClientError, Listing};
use crate::error::{AcquireError, Loss, ReleaseError, SessionError};
use crate::retry::Retry;
use crate::session::Session;
use crate::session::clock::Moment;
use crate::session::duty::Cleaned;
use crate::session::epoch::Asker;
use crate::session::lease::{Over, Term};

/// `None`: somebody else is first, and the caller asked not to wait.
pub(crate) type Answer = Result<Option<Hold>, AcquireError>;

/// Whether the servers said that somebody is first.
pub(crate) type Queued = Arc<watch::Sender<bool>>;

/// Runs an entry: a task of the session's that takes the seat.
pub(super) type Enter = fn(Arc<LocalQueue>, Start);

/// What an entry begins with.
pub(super) enum Start {
    /// A create, that may have been sent.
    Create(Option<Sent>),
    /// The node of a hold that was lost; none, if that is gone.
    Again(Option<OwnedNode>),
}

pub(super) struct LocalQueue {
    pub(super) epochs: Arc<Epochs>,
    pub(super) family: Family,
    /// Counts the nodes, until they are known to be gone.
    pub(super) nodes: TaskTracker,
    enter: Enter,
    me: Weak<Self>,
    /// For the entry: somebody left.
    left: Notify,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// By their tickets: in the order in which they asked.
    waiters: BTreeMap<u64, Waiter>,
    next_ticket: u64,
    seat: Seat,
    /// Of the last hold that began.
    hold: u64,
}

#[derive(Debug)]
struct Waiter {
    request: Arc<Request>,
    asker: Asker,
    queued: Queued,
    /// Of the present trouble.
    began: Moment,
    retry: Retry,
    reply: oneshot::Sender<Answer>,
}

#[derive(Debug)]
enum Seat {
    Empty,
    /// `behind`: the servers said that somebody else is first.
    Entering {
        behind: bool,
    },
    Held(Admitted),
    /// The token ends the task that keeps it, if it is kept.
    Idle(Admitted, Option<CancellationToken>),
}

/// A node that is first.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) node: OwnedNode,
    /// Whose data and ACLs it has.
    pub(super) request: Arc<Request>,
    pub(super) alone: Alone,
    /// Whoever has a smaller ticket may hold by it.
    pub(super) serves: u64,
}

/// Whether no other contender is at the path. It ends for good, for one node.
#[derive(Debug)]
pub(super) enum Alone {
    NotAsked,
    Asked,
    Yes(Arc<Mutex<ChildrenWatch>>),
    Over,
}

/// Why a node that is first does not come to hold.
pub(super) enum NotAdmitted {
    /// The session lease has ended.
    NoLease(Admitted),
    Stop(Stop),
}

/// What is to be done when the lock is let go of.
#[derive(Default)]
struct Effects {
    leaving: Option<Leaving>,
    enter: Option<Start>,
    begin: Option<Begin>,
    ended: Option<Over>,
    /// Those that have to wait for somebody.
    queued: Vec<Queued>,
    answers: Vec<(oneshot::Sender<Answer>, Answer)>,
    ask: Option<OwnedSemaphorePermit>,
    keep: Option<(Arc<Request>, CancellationToken)>,
    /// The children of a kept node's path, which end that.
    await_news: Option<(Arc<Mutex<ChildrenWatch>>, CancellationToken)>,
    kept: Option<CancellationToken>,
}

/// A hold that begins.
struct Begin {
    waiter: Waiter,
    term: Arc<Term>,
    hold: u64,
    node: SharedNode,
}

/// What became of a seat that was given back.
enum GivenBack {
    /// Another task of this session has it, or will, or it is kept.
    Passed,
    Leaving(oneshot::Receiver<Left>),
    /// The node was gone before.
    Gone,
}

impl LocalQueue {
    pub(super) fn new(epochs: &Arc<Epochs>, family: Family, enter: Enter) -> Arc<Self> {
        let state = State { waiters: BTreeMap::new(), next_ticket: 0, seat: Seat::Empty, hold: 0 };
        Arc::new_cyclic(|me| Self {
            epochs: epochs.clone(),
            family,
            nodes: TaskTracker::new(),
            enter,
            me: me.clone(),
            left: Notify::new(),
            state: Mutex::new(state),
        })
    }

    pub(super) fn session(&self) -> &Arc<Session> {
        &self.epochs.session
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics under this lock, and the state is whole between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues up; `None` if that is busy and is not to wait.
    pub(super) fn join(
        self: &Arc<Self>,
        request: Arc<Request>,
        queued: &Queued,
        began: Moment,
    ) -> Option<Waiting> {
        let (reply, answer) = oneshot::channel();
        let (asker, retry) = (Asker::current(), request.retry.start());
        let mut effects = Effects::default();
        let mut state = self.lock();
        let is_taken = matches!(state.seat, Seat::Held(_) | Seat::Entering { behind: true });
        if is_taken && request.only_if_free {
            return None;
        }
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        let waiter = Waiter { request, asker, queued: queued.clone(), began, retry, reply };
        state.waiters.insert(ticket, waiter);
        match std::mem::replace(&mut state.seat, Seat::Empty) {
            Seat::Empty => self.open(&mut state, false, &mut effects),
            Seat::Entering { behind } => state.seat = Seat::Entering { behind },
            Seat::Held(mut admitted) => {
                admitted.joined(ticket);
                admitted.ask(&mut effects);
                state.seat = Seat::Held(admitted);
            }
            Seat::Idle(mut admitted, kept) => {
                admitted.joined(ticket);
                effects.kept = kept;
                self.offer(&mut state, admitted, &mut effects);
            }
        }
        drop(state);
        if is_taken {
            queued.send_replace(true);
            self.warn_of_itself(asker);
        }
        effects.run(self);
        Some(Waiting { queue: self.clone(), ticket, answer })
    }

    fn warn_of_itself(&self, asker: Asker) {
        let path = match &self.lock().seat {
            Seat::Held(Admitted { node, .. }) if node.siblings.is_held_by(asker) => {
                node.siblings.path.clone()
            }
            _ => return,
        };
        warn_of_deadlock(path.as_str());
    }

    /// Whether nobody holds, and the node is kept: it can be had without a request.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.lock().seat, Seat::Idle(..))
    }

    /// Whether the servers said that somebody is first.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.lock().seat, Seat::Held(_) | Seat::Entering { behind: true })
    }

    /// Whoever waited does so no more.
    fn leaves(self: &Arc<Self>, ticket: u64) {
        let mut effects = Effects::default();
        let mut state = self.lock();
        let waiter = state.waiters.remove(&ticket);
        if waiter.is_some() {
            match std::mem::replace(&mut state.seat, Seat::Empty) {
                Seat::Idle(admitted, kept) => {
                    effects.kept = kept;
                    self.offer(&mut state, admitted, &mut effects);
                }
                other => state.seat = other,
            }
        }
        let nobody = state.waiters.is_empty();
        drop(state);
        drop(waiter);
        if nobody {
            self.left.notify_waiters();
        }
        effects.run(self);
    }

    /// A hold is let go of: the seat is passed on, kept, or left. Runs on any thread.
    fn give_back(self: &Arc<Self>, hold: u64, of: &HoldState) -> (Loss, GivenBack) {
        let (end, effects) = self.given_back(hold, of);
        let Some((effects, left)) = effects else { return (end, GivenBack::Gone) };
        let told = effects.run(self);
        (
            end,
            match (left, told) {
                (true, Some(told)) => GivenBack::Leaving(told),
                (true, None) => GivenBack::Gone,
                (false, _) => GivenBack::Passed,
            },
        )
    }

    /// Whether the node is left; nothing, if the seat was not that of the hold any more.
    fn given_back(&self, hold: u64, of: &HoldState) -> (Loss, Option<(Effects, bool)>) {
        // First of all nobody may take it for held any more; then no fenced write may follow.
        let end = of.finish(Loss::Released);
        of.close_fence();
        let mut effects = Effects::default();
        let mut state = self.lock();
        let Some(admitted) = state.take_held(hold) else { return (end, None) };
        if end == Loss::Released {
            self.offer(&mut state, admitted, &mut effects);
        } else {
            self.leave(&mut state, admitted, &mut effects);
        }
        let left = matches!(state.seat, Seat::Empty | Seat::Entering { .. });
        (end, Some((effects, left)))
    }

    /// The node is first, and nobody holds.
    fn offer(&self, state: &mut State, mut admitted: Admitted, effects: &mut Effects) {
        let Some((ticket, first)) = state.waiters.first_key_value() else {
            return self.retain(state, admitted, effects);
        };
        let knows = admitted.looks_alone(state.next_ticket);
        let may = admitted.may_pass() && admitted.request.passes_to(&first.request);
        if may && self.epochs.rules.local && !self.session().closing().is_cancelled() {
            if *ticket < admitted.serves {
                if let Some(term) = self.term(&admitted, &first.request, effects) {
                    return state.begin(admitted, term, effects);
                }
            } else if !knows {
                state.seat = Seat::Idle(admitted, None);
                return;
            }
        }
        self.leave(state, admitted, effects);
    }

    /// The term in which a hold can begin now.
    fn term(
        &self,
        admitted: &Admitted,
        request: &Request,
        effects: &mut Effects,
    ) -> Option<Arc<Term>> {
        let epoch = &admitted.node.nodes.epoch;
        if epoch.over().is_cancelled() {
            return None;
        }
        let (over, term) = epoch.lease.term_quietly(request.loss_policy, Moment::now());
        effects.ended = Some(over);
        term
    }

    /// Nobody waits: keeps the node, if that was asked for.
    fn retain(&self, state: &mut State, mut admitted: Admitted, effects: &mut Effects) {
        let retention = admitted.request.retention;
        admitted.looks_alone(state.next_ticket);
        let keeps = !retention.is_zero()
            && admitted.may_pass()
            && admitted.node.nodes.epoch.has_spare_room()
            && !self.session().closing().is_cancelled();
        if !keeps {
            return self.leave(state, admitted, effects);
        }
        admitted.ask(effects);
        if matches!(admitted.alone, Alone::Over) {
            return self.leave(state, admitted, effects);
        }
        let end = CancellationToken::new();
        effects.keep = Some((admitted.request.clone(), end.clone()));
        effects.await_news = admitted.alone.watch().map(|watch| (watch, end.clone()));
        state.seat = Seat::Idle(admitted, Some(end));
    }

    /// Hands the delete to the client, and the create for who waits behind it: so both are in one packet.
    fn leave(&self, state: &mut State, admitted: Admitted, effects: &mut Effects) {
        let children = admitted.alone.watch();
        effects.leaving = admitted.node.leave().map(|leaving| leaving.with(children));
        state.seat = Seat::Empty;
        if !state.waiters.is_empty() {
            self.open(state, true, effects);
        }
    }

    /// Sends a create for the first who waits, and has a task see to it. `watched`: with a watch on the children.
    fn open(&self, state: &mut State, watched: bool, effects: &mut Effects) {
        if self.session().closing().is_cancelled() {
            return state.fail_all(|request| request.session_error(SessionError::Closed), effects);
        }
        let Some(first) = state.waiters.values().next() else { return };
        let sent = || {
            let nodes = self.epochs.nodes(&self.session().present_epoch().ok()?);
            let room = reserve(&nodes, &first.request, &self.nodes).ok()?;
            let watched = watched && first.request.takes_turns;
            let watch = watched.then(|| nodes.epoch.room_at_once(first.request.path.as_str()));
            // What fails is found out by the task.
            send(&nodes, (&first.request, state.next_ticket), room, watch.flatten()).ok()
        };
        effects.enter = Some(Start::Create(sent()));
        state.seat = Seat::Entering { behind: false };
    }
}

/// For the entry.
impl LocalQueue {
    /// Whose node is to be made, and who of those that wait may hold by it whatever comes.
    pub(super) fn first(&self) -> Result<(Arc<Request>, u64), Stop> {
        let state = self.lock();
        let first = state.waiters.values().next().ok_or(Stop::Abandoned)?;
        Ok((first.request.clone(), state.next_ticket))
    }

    /// Fires when there is no point in going on.
    pub(super) async fn stopped(&self) -> Stop {
        loop {
            let left = self.left.notified();
            let mut left = std::pin::pin!(left);
            left.as_mut().enable();
            if self.lock().waiters.is_empty() {
                return Stop::Abandoned;
            }
            tokio::select! {
                biased;
                () = self.session().closing().cancelled() => {
                    self.fail_all(|request| request.session_error(SessionError::Closed));
                    return Stop::Abandoned;
                }
                () = left => {}
            }
        }
    }

    /// Awaits `work`, unless there is no point in going on.
    pub(super) async fn unless_stopped<T>(
        &self,
        work: impl Future<Output = Result<T, Stop>> + Send,
    ) -> Result<T, Stop> {
        tokio::select! {
            biased;
            stop = self.stopped() => Err(stop),
            done = work => done,
        }
    }

    /// The node is first: begins the hold of whoever waits longest.
    pub(super) fn admit(self: &Arc<Self>, mut admitted: Admitted) -> Result<(), NotAdmitted> {
        let mut effects = Effects::default();
        let mut state = self.lock();
        admitted.looks_alone(state.next_ticket);
        let admission = match state.waiters.values().next().map(|first| first.request.clone()) {
            None => Err(NotAdmitted::Stop(Stop::Abandoned)),
            // Whoever it was made for has left.
            Some(first) if !admitted.request.has_node_of(&first) => {
                Err(NotAdmitted::Stop(Stop::Abandoned))
            }
            Some(_) if self.session().closing().is_cancelled() => {
                Err(NotAdmitted::Stop(Stop::Abandoned))
            }
            // Invariant 2: our node was seen in this epoch, and the lease lasts now.
            Some(first) => match self.term(&admitted, &first, &mut effects) {
                Some(term) => Ok((term, admitted)),
                None => Err(NotAdmitted::NoLease(admitted)),
            },
        };
        let admission = admission.map(|(term, admitted)| state.begin(admitted, term, &mut effects));
        drop(state);
        effects.run(self);
        admission
    }

    /// The servers say that somebody else is first: who asked not to wait is told.
    pub(super) fn is_behind(&self, is_held_by: impl Fn(Asker) -> bool) {
        let mut state = self.lock();
        let first_time = matches!(state.seat, Seat::Entering { behind: false });
        state.seat = Seat::Entering { behind: true };
        let tries = state.take_tries();
        let queued: Vec<_> = state.waiters.values().map(|waiter| waiter.queued.clone()).collect();
        let mut waiters = state.waiters.values();
        let deadlock = waiters.find(|waiter| first_time && is_held_by(waiter.asker));
        let deadlock = deadlock.map(|waiter| waiter.request.path.clone());
        let nobody = state.waiters.is_empty();
        drop(state);
        queued.into_iter().for_each(|queued| _ = queued.send_replace(true));
        tries.into_iter().for_each(|waiter| _ = waiter.reply.send(Ok(None)));
        deadlock.inspect(|path| warn_of_deadlock(path.as_str()));
        if nobody {
            self.left.notify_waiters();
        }
    }

    /// What came of a try for `request` ends the wait of all whose node would be the same.
    pub(super) fn fail(&self, request: &Request, error: &AcquireError) {
        let mut state = self.lock();
        let same = |_: &u64, waiter: &mut Waiter| waiter.request.has_node_of(request);
        let failed: Vec<_> = state.waiters.extract_if(.., same).collect();
        drop(state);
        failed.into_iter().for_each(|(_, waiter)| _ = waiter.reply.send(Err(error.clone())));
    }

    fn fail_all(&self, error: impl Fn(&Request) -> AcquireError) {
        let mut effects = Effects::default();
        self.lock().fail_all(error, &mut effects);
        effects.answer();
    }

    /// A try failed: it counts for each who waits; the pause before the next is that of the first who has one left.
    /// `anew`: all went well for so long that this is a new trouble.
    pub(super) async fn another_try(
        &self,
        cause: Option<ClientError>,
        anew: bool,
    ) -> Option<Duration> {
        let mut pause = None;
        let exhausted: Vec<_> = {
            let mut state = self.lock();
            let exhausted = state.waiters.extract_if(.., |_, waiter| {
                if anew {
                    (waiter.began, waiter.retry) = (Moment::now(), waiter.request.retry.start());
                }
                let next = waiter.retry.next_pause(waiter.began.elapsed());
                pause = pause.or(next);
                next.is_none()
            });
            exhausted.collect()
        };
        if !exhausted.is_empty() {
            let over = is_session_over(self.session()).await;
            for (_, Waiter { request, reply, .. }) in exhausted {
                let _ = reply.send(Err(match &over {
                    Some(error) => request.session_error(error.clone()),
                    None => request.exhausted(cause.clone()),
                }));
            }
        }
        pause
    }

    /// Ends all waits: there will be no session.
    pub(super) fn session_over(&self, error: &SessionError) {
        self.fail_all(|request| request.session_error(error.clone()));
    }

    /// Whether the entry is over: nobody waits, and the seat is empty.
    pub(super) fn is_done(&self) -> bool {
        let mut state = self.lock();
        let done = state.waiters.is_empty();
        state.seat = if done { Seat::Empty } else { Seat::Entering { behind: false } };
        done
    }
}

/// Of a seat that has a holder, or had one.
impl LocalQueue {
    /// Whoever was asked whether the node is alone has an answer; none, if there is no way to know.
    fn answered(self: &Arc<Self>, czxid: i64, answer: Option<(Listing, ChildrenWatch)>) {
        let mut effects = Effects::default();
        let mut state = self.lock();
        let next_ticket = state.next_ticket;
        let Some(admitted) = state.seat.admitted(czxid) else { return };
        admitted.answered(answer, next_ticket);
        match std::mem::replace(&mut state.seat, Seat::Empty) {
            Seat::Idle(admitted, Some(kept)) if admitted.is_alone() => {
                effects.await_news = admitted.alone.watch().map(|watch| (watch, kept.clone()));
                state.seat = Seat::Idle(admitted, Some(kept));
            }
            Seat::Idle(admitted, kept) => {
                effects.kept = kept;
                self.offer(&mut state, admitted, &mut effects);
            }
            other => state.seat = other,
        }
        drop(state);
        effects.run(self);
    }

    /// A seat that is kept is given up now, unless somebody has it.
    fn ends_keeping(self: &Arc<Self>, czxid: i64) {
        let mut effects = Effects::default();
        let mut state = self.lock();
        match std::mem::replace(&mut state.seat, Seat::Empty) {
            Seat::Idle(admitted, kept) if admitted.node.node.czxid == czxid => {
                effects.kept = kept;
                self.leave(&mut state, admitted, &mut effects);
            }
            other => state.seat = other,
        }
        drop(state);
        effects.run(self);
    }

    /// Somebody else came, or went, while the seat that `end` is of was kept.
    fn news(self: &Arc<Self>, end: &CancellationToken) {
        let kept = match &self.lock().seat {
            Seat::Idle(admitted, Some(_)) => Some(admitted.node.node.czxid),
            _ => None,
        };
        if let Some(czxid) = kept.filter(|_| !end.is_cancelled()) {
            self.ends_keeping(czxid);
        }
    }

    /// The node of a hold that is over is taken for another entry.
    fn again(self: &Arc<Self>, hold: u64) -> Option<OwnedNode> {
        let mut state = self.lock();
        let admitted = state.take_held(hold)?;
        state.seat = Seat::Entering { behind: false };
        drop(state);
        admitted.node.siblings.waits_again(&admitted.node.node);
        Some(admitted.node)
    }

    /// Takes the node out of the seat, if it is that one.
    fn take(&self, czxid: i64, effects: &mut Effects) -> Option<OwnedNode> {
        let mut state = self.lock();
        state.seat.admitted(czxid)?;
        let node = match std::mem::replace(&mut state.seat, Seat::Empty) {
            Seat::Held(admitted) => admitted.node,
            Seat::Idle(admitted, kept) => {
                effects.kept = kept;
                admitted.node
            }
            Seat::Empty | Seat::Entering { .. } => return None,
        };
        if !state.waiters.is_empty() {
            self.open(&mut state, false, effects);
        }
        Some(node)
    }
}

impl Owner for LocalQueue {
    fn node_gone(self: Arc<Self>, czxid: i64) {
        let mut effects = Effects::default();
        let node = self.take(czxid, &mut effects);
        node.map(OwnedNode::forget);
        effects.run(&self);
    }

    fn gives_up(self: Arc<Self>, czxid: i64) -> BoxFuture<'static, ()> {
        let mut effects = Effects::default();
        let node = self.take(czxid, &mut effects);
        let left = node.and_then(OwnedNode::leave).map(Leaving::see_to);
        effects.run(&self);
        Box::pin(async move {
            if let Some(left) = left {
                let _ = left.await;
            }
        })
    }
}

impl State {
    /// I3: the seat, if it is that of the hold.
    fn take_held(&mut self, hold: u64) -> Option<Admitted> {
        match std::mem::replace(&mut self.seat, Seat::Empty) {
            Seat::Held(admitted) if self.hold == hold => Some(admitted),
            other => {
                self.seat = other;
                None
            }
        }
    }

    /// I4: called under the lock under which the term was asked for.
    fn begin(&mut self, mut admitted: Admitted, term: Arc<Term>, effects: &mut Effects) {
        let Some((_, waiter)) = self.waiters.pop_first() else { return };
        self.hold += 1;
        let tries = self.take_tries();
        effects.answers.extend(tries.into_iter().map(|waiter| (waiter.reply, Ok(None))));
        effects.queued.extend(self.waiters.values().map(|waiter| waiter.queued.clone()));
        if !self.waiters.is_empty() {
            admitted.ask(effects);
        }
        // What is asked of the holder counts for the node.
        admitted.request = waiter.request.clone();
        let node = admitted.node.share();
        self.seat = Seat::Held(admitted);
        effects.begin = Some(Begin { waiter, term, hold: self.hold, node });
    }

    fn take_tries(&mut self) -> Vec<Waiter> {
        let tries = self.waiters.extract_if(.., |_, waiter| waiter.request.only_if_free);
        tries.map(|(_, waiter)| waiter).collect()
    }

    fn fail_all(&mut self, error: impl Fn(&Request) -> AcquireError, effects: &mut Effects) {
        let failed = std::mem::take(&mut self.waiters).into_values();
        let answers = failed.map(|waiter| (waiter.reply, Err(error(&waiter.request))));
        effects.answers.extend(answers);
    }
}

impl Seat {
    fn admitted(&mut self, czxid: i64) -> Option<&mut Admitted> {
        match self {
            Self::Held(admitted) | Self::Idle(admitted, _) => {
                (admitted.node.node.czxid == czxid).then_some(admitted)
            }
            Self::Empty | Self::Entering { .. } => None,
        }
    }
}

impl Admitted {
    /// The conditions of passing on that are the node's.
    fn may_pass(&self) -> bool {
        self.node.node.is_on_its_link() && !self.node.node.is_revoked()
    }

    fn is_alone(&self) -> bool {
        match &self.alone {
            Alone::Yes(watch) => !watch.lock().unwrap_or_else(PoisonError::into_inner).has_fired(),
            Alone::NotAsked | Alone::Asked | Alone::Over => false,
        }
    }

    /// Whether it is known if it is alone. While it is, it serves all who have asked by now.
    fn looks_alone(&mut self, next_ticket: u64) -> bool {
        if self.is_alone() {
            self.serves = next_ticket;
        } else if matches!(self.alone, Alone::Yes(_)) {
            self.alone = Alone::Over;
        }
        !matches!(self.alone, Alone::Asked)
    }

    fn joined(&mut self, ticket: u64) {
        self.looks_alone(ticket + 1);
    }

    fn answered(&mut self, answer: Option<(Listing, ChildrenWatch)>, next_ticket: u64) {
        let node = &self.node;
        self.alone = match answer {
            Some((listing, watch)) if node.siblings.is_alone(&node.node, &listing) => {
                Alone::of(watch)
            }
            _ => Alone::Over,
        };
        self.looks_alone(next_ticket);
    }

    /// Asks whether it is alone, once.
    fn ask(&mut self, effects: &mut Effects) {
        if matches!(self.alone, Alone::NotAsked) {
            let room = self.node.nodes.epoch.room_at_once(self.node.siblings.path.as_str());
            self.alone = if room.is_some() { Alone::Asked } else { Alone::Over };
            effects.ask = room;
        }
    }
}

impl Effects {
    fn answer(&mut self) {
        for (reply, answer) in self.answers.drain(..) {
            let _ = reply.send(answer); // who is gone needs none
        }
    }

    /// Gives what the delete comes to, if there was one.
    fn run(mut self, queue: &Arc<LocalQueue>) -> Option<oneshot::Receiver<Left>> {
        let mut left = None;
        loop {
            if let Some(over) = self.ended.take() {
                over.wake();
            }
            if let Some(kept) = self.kept.take() {
                kept.cancel();
            }
            if let Some(start) = self.enter.take() {
                (queue.enter)(queue.clone(), start);
            }
            if let Some(leaving) = self.leaving.take() {
                left = Some(leaving.see_to());
            }
            self.queued.drain(..).for_each(|queued| _ = queued.send_replace(true));
            self.answer();
            self.watch_children(queue);
            let Some(begin) = self.begin.take() else { return left };
            match begin.run(queue) {
                None => return left,
                // Whoever it was for is gone: the next one's turn.
                Some(effects) => self = effects,
            }
        }
    }

    fn watch_children(&mut self, queue: &Arc<LocalQueue>) {
        if let Some((watch, end)) = self.await_news.take() {
            queue.session().spawn(until_news(queue.clone(), watch, end));
        }
        let (ask, keep) = (self.ask.take(), self.keep.take());
        if ask.is_none() && keep.is_none() {
            return;
        }
        let node = match &queue.lock().seat {
            Seat::Held(admitted) | Seat::Idle(admitted, _) => admitted.node.share(),
            Seat::Empty | Seat::Entering { .. } => return,
        };
        if let Some(room) = ask {
            queue.session().spawn(ask_whether_alone(queue.clone(), node.clone(), room));
        }
        if let Some((request, end)) = keep {
            queue.session().spawn(keep_for(queue.clone(), node, request, end));
        }
    }
}

impl Alone {
    pub(super) fn of(watch: ChildrenWatch) -> Self {
        Self::Yes(Arc::new(Mutex::new(watch)))
    }

    fn watch(&self) -> Option<Arc<Mutex<ChildrenWatch>>> {
        match self {
            Self::Yes(watch) => Some(watch.clone()),
            Self::NotAsked | Self::Asked | Self::Over => None,
        }
    }
}

impl Begin {
    /// Begins the hold. Gives what is to be done if whoever it was for is gone.
    fn run(self, queue: &Arc<LocalQueue>) -> Option<Effects> {
        let Self { waiter: Waiter { request, asker, reply, .. }, term, hold, node } = self;
        let hold = Hold::begin(queue, hold, &node, &request, asker, term);
        let mut hold = reply.send(Ok(Some(hold))).err()?.ok()??;
        let (number, state) = (hold.number, hold.state.clone());
        let queue = hold.queue.take()?;
        queue.given_back(number, &state).1.map(|(effects, _)| effects)
    }
}

/// Asks for the children of a node's path, with a watch.
async fn ask_whether_alone(queue: Arc<LocalQueue>, node: SharedNode, room: OwnedSemaphorePermit) {
    let SharedNode { node, siblings, nodes } = node;
    let asked = async {
        let client = nodes.epoch.client()?;
        client.list_and_watch(siblings.path.as_str()).await
    };
    let answer = tokio::select! {
        biased;
        () = nodes.epoch.over().cancelled() => None,
        () = queue.session().closing().cancelled() => None,
        answer = asked => answer.ok(),
    };
    queue.answered(node.czxid, answer.map(|(listing, watch)| (listing, watch.with(room))));
}

/// Gives up a node that nobody holds by at the first event of any kind, or when its time is over.
async fn keep_for(
    queue: Arc<LocalQueue>,
    node: SharedNode,
    request: Arc<Request>,
    end: CancellationToken,
) {
    let SharedNode { node, nodes, .. } = node;
    let epoch = &nodes.epoch;
    let happens = async {
        let term = epoch.lease.term(request.loss_policy, Moment::now())?;
        let mut link = epoch.client().ok()?.watch_link();
        let room = epoch.spare_room(&node.node)?;
        let watch = {
            let client = epoch.client().ok()?;
            client.watch(&node.node).await.ok()?
        };
        if node.is_on_its_link() {
            tokio::select! {
                biased;
                () = term.ended().cancelled() => {}
                _ = link.changed() => {}
                _ = watch => {}
            }
        }
        drop(room);
        Some(())
    };
    tokio::select! {
        biased;
        () = end.cancelled() => return,
        () = queue.session().closing().cancelled() => {}
        _ = happens => {}
        () = tokio::time::sleep(request.retention) => {}
    }
    queue.ends_keeping(node.czxid);
}

/// Gives up a kept node when somebody else comes, or goes.
async fn until_news(
    queue: Arc<LocalQueue>,
    watch: Arc<Mutex<ChildrenWatch>>,
    end: CancellationToken,
) {
    let news = std::future::poll_fn(|context| {
        watch.lock().unwrap_or_else(PoisonError::into_inner).poll_fired(context)
    });
    tokio::select! {
        biased;
        () = end.cancelled() => return,
        () = news => {}
    }
    queue.news(&end);
}

/// A hold, for whoever asked for it. Dropping it releases.
#[derive(Debug)]
pub(crate) struct Hold {
    state: Arc<HoldState>,
    number: u64,
    /// Taken by the release.
    queue: Option<Arc<LocalQueue>>,
}

impl Hold {
    fn begin(
        queue: &Arc<LocalQueue>,
        number: u64,
        node: &SharedNode,
        request: &Request,
        asker: Asker,
        term: Arc<Term>,
    ) -> Self {
        let SharedNode { node, siblings, nodes } = node;
        let (path, beside) = (request.path.as_str(), request.beside.as_deref());
        let (epoch, counted) = (nodes.epoch.clone(), (asker, &request.counted));
        let state = HoldState::new(path, node.clone(), beside, epoch, term, counted);
        let owner: Weak<dyn Owner> = queue.me.clone();
        if !siblings.admitted(node, &owner, Some(state.clone())) {
            state.node_is_gone();
            queue.clone().node_gone(node.czxid);
        }
        Self { state, number, queue: Some(queue.clone()) }
    }

    /// A hold by a node that was admitted otherwise: a lease.
    pub(super) fn of_lease(
        epochs: &Arc<Epochs>,
        enter: Enter,
        (node, request): (OwnedNode, Arc<Request>),
        asker: Asker,
        term: Arc<Term>,
    ) -> Self {
        let (queue, shared) = (LocalQueue::new(epochs, Family::Leases, enter), node.share());
        let admitted = Admitted { node, request: request.clone(), alone: Alone::Over, serves: 0 };
        queue.lock().seat = Seat::Held(admitted);
        Self::begin(&queue, 0, &shared, &request, asker, term)
    }

    pub(crate) fn state(&self) -> &Arc<HoldState> {
        &self.state
    }

    pub(super) fn queue(&self) -> Option<Arc<LocalQueue>> {
        self.queue.clone()
    }

    /// Releases; the future tells what is known of it. The release goes on if that is dropped, or not polled any
    /// more.
    pub(crate) fn release(
        mut self,
    ) -> impl Future<Output = Result<(), ReleaseError>> + Send + use<> {
        let (state, span) = (self.state.clone(), self.span());
        let (end, given) = span.in_scope(|| self.let_go());
        let released = async move {
            let path = state.path().to_owned();
            if end != Loss::Released {
                tracing::warn!(path, %end, "released what was lost before");
                return Err(ReleaseError::Lost { path, loss: end });
            }
            let told = match given {
                GivenBack::Passed => return Ok(()),
                GivenBack::Leaving(told) => told.await,
                GivenBack::Gone => Ok(Left::Confirmed(Cleaned::Gone)),
            };
            match told {
                // When the session ended, the hold had been given up before, while it lasted.
                Ok(Left::Confirmed(Cleaned::Deleted | Cleaned::SessionOver)) => Ok(()),
                Ok(Left::Confirmed(Cleaned::Gone)) => {
                    Err(ReleaseError::Lost { path, loss: Loss::NodeDeleted })
                }
                Ok(Left::NoAuth) => Err(ReleaseError::NoAuth { node: state.node().to_owned() }),
                Ok(Left::Late(waited)) => {
                    tracing::warn!(path, ?waited, "the release is not confirmed yet");
                    Err(ReleaseError::Unconfirmed { path, waited })
                }
                // The runtime is gone.
                Err(_) => Err(ReleaseError::Lost { path, loss: Loss::Closed }),
            }
        };
        released.instrument(span)
    }

    fn span(&self) -> tracing::Span {
        let node = self.state.node().rsplit('/').next().unwrap_or_default();
        tracing::info_span!("release", path = self.state.path(), contender = node)
    }

    fn let_go(&mut self) -> (Loss, GivenBack) {
        match self.queue.take() {
            Some(queue) => queue.give_back(self.number, &self.state),
            None => (Loss::Released, GivenBack::Gone),
        }
    }

    /// Ends the hold, and has its node contend again: nobody can have held meanwhile, unless the node was gone.
    pub(super) fn again(mut self, request: Arc<Request>, queued: &Queued) -> Option<Waiting> {
        self.state.finish(Loss::Released);
        self.state.close_fence();
        let queue = self.queue.take()?;
        let waiting = queue.join(request, queued, Moment::now());
        if let Some(node) = queue.again(self.number) {
            (queue.enter)(queue.clone(), Start::Again(Some(node)));
        }
        waiting
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.queue.is_some() {
            // A task of the session's sees to the delete: to start one needs no runtime here.
            self.span().in_scope(|| drop(self.let_go()));
        }
    }
}

/// The end of whoever waits. Dropping it leaves the queue; a hold that was sent comes back.
#[derive(Debug)]
pub(super) struct Waiting {
    queue: Arc<LocalQueue>,
    ticket: u64,
    answer: oneshot::Receiver<Answer>,
}

impl Waiting {
    /// Needs no runtime. `None` if the session's is gone.
    pub(super) async fn answer(&mut self) -> Option<Answer> {
        (&mut self.answer).await.ok()
    }

    /// Leaves; gives the hold if there is one by now.
    pub(super) fn withdraw(mut self) -> Option<Hold> {
        self.queue.leaves(self.ticket);
        self.answer.close();
        self.answer.try_recv().ok()?.ok()?
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.queue.leaves(self.ticket);
    }
}

fn warn_of_deadlock(path: &str) {
    tracing::warn!(
        path,
        "waits for a lock that this very task holds: see `MutexGuard::reenter` and `Owner`"
    );
}

impl fmt::Debug for LocalQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalQueue").field("state", &*self.lock()).finish_non_exhaustive()
    }
}
