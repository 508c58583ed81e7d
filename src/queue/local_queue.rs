//! The contenders of one session at one lock path: the tasks that wait, in order, and at most one node at the servers,
//! the *seat*.
//!
//! ```text
//!   Empty --join--> Entering --admitted--> Held --release--> Held (passed on), Idle, or Entering again
//!     ^                |                     |                 Idle: no task holds, and
//!     +----------------+---------------------+                  · it is not known yet whether to pass it on, or
//!        no task waits, or the node is gone                     · it is kept for a task that comes back soon
//! ```
//!
//! # Passing on
//!
//! The tasks of one process take turns under one node. That is safe because the node is first and stays first (invariant
//! 2): the task that holds by it holds alone among all processes, and of this process one holds at a time (I3). Only if, at the
//! moment at which the next hold begins, under the queue's lock,
//!
//! * the session lease lasts, by the next one's loss policy (I4);
//! * the fenced writes of the hold before are closed, and went out on this connection: the link has not changed since the
//!   node was created. One behind a broken link may take effect at any time until the client is connected again;
//! * the session is not about to be closed, and the epoch is not over;
//!
//! and, so that others get what they asked for,
//!
//! * no request to give the node up was seen;
//! * the next one's node would have the same data and ACLs, and neither wants a node of its own;
//! * the next one asked before the node was created, or while the session was *alone*: a listing sent behind the create,
//!   with a watch on the children, showed the node and no other contender, and the watch has not fired (I6). So a
//!   contender of another process that came since is served before the tasks that asked after the news of it.
//!
//! # Invariants
//!
//! * I1: while a task waits there is a seat. I2: the queue has at most one node whose delete was not handed to the client.
//! * I3: only the present hold changes the seat; a late guard of an earlier one changes nothing.
//! * I4: a hold begins in the critical section in which lease, closing, epoch and seat were looked at.
//! * I5: it is Idle in the two forms above only. I6: no pass to a task that asked after the news of a stranger.
//! * I7: wakes, sends, counts and drops are outside the lock.

mod effects;
mod entry;
mod hold;
mod idle;
mod seat;
mod state;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use self::effects::Effects;
pub(super) use self::state::{Admitted, Alone, Enter, LocalQueue, NotAdmitted, Start, Waiting};
pub(crate) use self::state::{Answer, Hold, Queued};
use self::state::{GivenBack, Seat, State, Waiter};
use super::create::{reserve, send};
use super::hold::{End, HoldState};
use super::node::{Leaving, OwnedNode};
use super::request::Request;
use super::siblings::Owner;
use crate::client::{ChildrenWatch, Listing};
use crate::clock::Moment;
use crate::error::Error;
use crate::session::epoch::Asker;
use crate::session::lease::Term;

impl LocalQueue {
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
        let mut state = self.state.lock();
        let is_taken = state.seat.is_taken();
        if is_taken && request.only_if_free {
            return None;
        }
        state.has_tries |= request.only_if_free;
        state.has_untold |= !is_taken;
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
        Some(Waiting::new(self, ticket, answer))
    }

    fn warn_of_itself(&self, asker: Asker) {
        let path = match &self.state.lock().seat {
            Seat::Held(Admitted { node, .. }) if node.siblings.is_held_by(asker) => {
                node.siblings.path.clone()
            }
            _ => return,
        };
        warn_of_deadlock(path.as_str());
    }

    /// Whether no task holds, and the node is kept: it can be had without a request.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.state.lock().seat, Seat::Idle(..))
    }

    /// How many wait besides the one that the node stands for.
    pub(super) fn waiting(&self) -> usize {
        let state = self.state.lock();
        let entering = matches!(state.seat, Seat::Empty | Seat::Entering { .. });
        state.waiters.len().saturating_sub(usize::from(entering))
    }

    /// Whether the servers said that another contender is first.
    pub(super) fn is_busy(&self) -> bool {
        self.state.lock().seat.is_taken()
    }

    /// A waiter does not wait any more.
    fn leaves(self: &Arc<Self>, ticket: u64) {
        let mut effects = Effects::default();
        let mut state = self.state.lock();
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
    fn give_back(self: &Arc<Self>, hold: u64, of: &HoldState) -> (End, GivenBack) {
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
    fn given_back(&self, hold: u64, of: &HoldState) -> (End, Option<(Effects, bool)>) {
        // First of all no task may take it for held any more; then no fenced write may follow.
        let end = of.finish(End::Released);
        of.close_fence();
        let mut effects = Effects::default();
        let mut state = self.state.lock();
        let Some(admitted) = state.take_held(hold) else { return (end, None) };
        if end == End::Released {
            self.offer(&mut state, admitted, &mut effects);
        } else {
            self.leave(&mut state, admitted, &mut effects);
        }
        let left = matches!(state.seat, Seat::Empty | Seat::Entering { .. });
        (end, Some((effects, left)))
    }

    /// The node is first, and no task holds.
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

    /// No task waits: keeps the node, if that was asked for.
    fn retain(&self, state: &mut State, mut admitted: Admitted, effects: &mut Effects) {
        let (retention, epoch) = (admitted.request.retention, &admitted.node.nodes.epoch);
        let spare = epoch.has_spare_room()
            && epoch.has_spare_nodes(self.session().settings.ephemeral_limit);
        admitted.looks_alone(state.next_ticket);
        let keeps = !retention.is_zero()
            && self.epochs.rules.local
            && admitted.may_pass()
            && spare
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

    /// Hands the delete to the client, and the create for the waiter behind it: so both are in one packet.
    fn leave(&self, state: &mut State, admitted: Admitted, effects: &mut Effects) {
        let children = admitted.alone.watch();
        effects.leaving = admitted.node.leave().map(|leaving| leaving.with(children));
        state.seat = Seat::Empty;
        if !state.waiters.is_empty() {
            self.open(state, true, effects);
        }
    }

    /// Sends a create for the first waiter, and has a task see to it. `watched`: with a watch on the children.
    fn open(&self, state: &mut State, watched: bool, effects: &mut Effects) {
        if self.session().closing().is_cancelled() {
            return state.fail_all(|request| request.session_error(Error::closed()), effects);
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

/// Of a seat that has a holder, or had one.
impl LocalQueue {
    /// The question whether the node is alone has an answer; none, if there is no way to know.
    fn answered(self: &Arc<Self>, czxid: i64, answer: Option<(Listing, ChildrenWatch)>) {
        let mut effects = Effects::default();
        let mut state = self.state.lock();
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

    /// A seat that is kept is given up now, unless a task has it.
    fn ends_keeping(self: &Arc<Self>, czxid: i64) {
        let mut effects = Effects::default();
        let mut state = self.state.lock();
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

    /// Another contender came, or left, while the seat that `end` is of was kept.
    fn news(self: &Arc<Self>, end: &CancellationToken) {
        let kept = match &self.state.lock().seat {
            Seat::Idle(admitted, Some(_)) => Some(admitted.node.node.czxid),
            _ => None,
        };
        if let Some(czxid) = kept.filter(|_| !end.is_cancelled()) {
            self.ends_keeping(czxid);
        }
    }

    /// The node of a hold that is over is taken for another entry.
    fn again(self: &Arc<Self>, hold: u64) -> Option<OwnedNode> {
        let mut state = self.state.lock();
        let admitted = state.take_held(hold)?;
        state.seat = Seat::Entering { behind: false };
        drop(state);
        admitted.node.siblings.waits_again(&admitted.node.node);
        Some(admitted.node)
    }

    /// Takes the node out of the seat, if it is that one.
    fn take(&self, czxid: i64, effects: &mut Effects) -> Option<OwnedNode> {
        let mut state = self.state.lock();
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
        if let Some(node) = node {
            node.forget();
        }
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

fn warn_of_deadlock(path: &str) {
    tracing::warn!(
        path,
        "waits for a lock that this very task holds: see `Guard::reenter` and `Owner`"
    );
}
