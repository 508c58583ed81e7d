//! The callers of one session that wait for one lock path, in order, and at most one node at the servers that stands for
//! them. Readers and writers of a path have a queue each.
//!
//! Pure: an [`Event`] and the [`Conditions`] at that instant go in; [`Command`]s come out, in the order in which they have to be
//! carried out. The [driver](super::driver) owns the lock, the requests, the callers and the clock.
//!
//! ```text
//!    None --Joined--> Acquiring --First--> Held --Released--> Held again (passed on), Undecided, Retained, or Acquiring
//!      ^                  |                 |
//!      +------------------+-----------------+   no caller waits, the node is deleted, or it drains
//! ```
//!
//! # Passing on
//!
//! The tasks of one process take turns under one node. That is safe because the node is first and stays first (invariant
//! 2): so no other process has a holder, and in this process one task holds at a time (I3). The node
//! is passed on only if, when the next hold begins,
//!
//! * the session lease lasts, by the next holder's loss policy (I4);
//! * the fenced writes of the previous hold are closed, and were sent on this connection, which is still the one on which the
//!   node was created. A write on a broken connection may take effect at any time until the client is connected again;
//! * the session has not ended and is not about to be closed;
//!
//! and, so that other processes get what they asked for,
//!
//! * no process asked for the node to be given up, and no read was created alongside a write hold of the node: such a read
//!   outlives its write hold, and would hold beside the next writer;
//! * the node of the next holder would have the same data and ACLs;
//! * the next holder joined before the node was created, before the listing that showed the node as the *sole* contender was
//!   sent, or while the watch on the children of that listing has not fired (I6). So a contender of another process is served
//!   before the tasks that joined after the news of it.
//!
//! # Sharing
//!
//! The readers of one process hold together under one node, by the same conditions. A reader joins the holders of the node
//! without a request. That is safe because each writer behind the node waits until the node is deleted, which is after the last
//! of its holds; a writer before the node was waited for. What sharing could break is the order, so for a reader only a writer
//! counts as another contender: the node is sole while no write node is known. When the watch has fired, because any contender
//! came or left, the first reader that asks sends one listing with a new watch, and those that ask meanwhile await it: no
//! listing is sent because others come or go. One is sent if the node is retained without a reader, so that it keeps no writer
//! out.
//!
//! If a writer is known, or if another condition is missing, the node *drains*: no further reader joins it, and it is deleted
//! after its last hold. The waiting readers enter at once by a second node, behind the writer. So a stream of readers starves
//! no writer.
//!
//! # Invariants
//!
//! * I1: while a caller waits, there is a node by which it may hold, or an entry that creates one.
//! * I2: there is at most one node by which a hold can begin. Each other node whose delete was not handed to the client drains,
//!   and has a hold.
//! * I3: only a present hold changes its node; a late guard of an earlier hold changes nothing.
//! * I4: a hold begins in the step that checked the lease, the closing and the session.
//! * I5: without a hold, a node is kept only while callers wait to hear whether it is the sole contender (`Undecided`), or
//!   while none waits (`Retained`). Then its retention ends it. A permit that is kept for the head of its semaphore is `Retained`
//!   without a retention: the head takes it, or [`PassedPermits`](super::passed_permits) ends it when no head follows.
//! * I6: the node never passes to a caller that joined after a foreign contender was seen.
//! * I7, which the driver keeps: wakes, answers, metrics and drops happen outside the lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::client::Acl;
use crate::session::lease::TermKind;

/// The place of a caller: a lower ticket joined earlier.
pub(super) type Ticket = u64;

/// The number of a hold in its queue.
pub(super) type HoldNumber = u64;

/// The `czxid` of a node.
pub(super) type NodeId = i64;

/// The part of a request that the queue decides by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Waiter {
    /// The node that would be created for the waiter.
    pub(crate) node: NodeSpec,
    /// Take turns with other tasks of the session under one node.
    pub(crate) shares_queue: bool,
    /// Hold together with others under one node.
    pub(crate) shared: bool,
    /// Refuse the waiter rather than let it wait.
    pub(crate) no_wait: bool,
    /// Keep the node for this long after the hold, while no caller waits.
    pub(crate) retention: Duration,
    /// The kind of the hold.
    pub(crate) term: TermKind,
}

/// The content of a node. Requests with equal content can share a node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeSpec {
    pub(crate) data: Arc<[u8]>,
    pub(crate) acls: Arc<[Acl]>,
}

/// Facts that the queue cannot know, at the instant of the event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // each is a condition of its own
pub(super) struct Conditions {
    /// The connection is about to be closed.
    pub(super) closing: bool,
    /// A hold may begin: the session has not ended, and its lease lasts of the kind that was asked about.
    pub(super) lease_lasts: bool,
    /// The connection is the one on which the node was created.
    pub(super) same_connection: bool,
    /// Another process asked for the node to be given up, or a read was created alongside a write hold of it.
    pub(super) given_up: bool,
    /// The watch on the children is armed and has not fired.
    pub(super) unfired: bool,
    /// More than half of the session's room for nodes and for watches is free.
    pub(super) spare: bool,
    /// The node is a permit, and the head of its semaphore is a task of this process that waits for one.
    pub(super) wanted: bool,
}

/// The conditions that an event depends on. Some checks are costly, and some change what they check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Only `closing` and `unfired`.
    Basic,
    /// All conditions, with the lease by the kind of the first waiter's hold, if there is one.
    Pass(Option<TermKind>),
}

/// An input of the queue.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    /// A caller joins. It gets the [next ticket](LocalQueue::next_ticket).
    Joined(Arc<Waiter>),
    /// A caller stopped waiting.
    Withdrawn(Ticket),
    /// A listing shows another contender before the node of the entry.
    Behind,
    /// The node of the entry is first. `retainable`: its name tells other processes that it may be kept without a hold.
    First { node: NodeId, sole: Sole, retainable: bool },
    /// An attempt of the entry ended without a node.
    AttemptEnded,
    /// A hold was released; `lost`: it had ended before.
    Released { hold: HoldNumber, lost: bool },
    /// The node of a lost hold is to contend again.
    Requeued { hold: HoldNumber },
    /// The listing of [`Command::AskWhetherSole`] was answered, or will not be.
    Listed { node: NodeId, sole: bool },
    /// The retention of a node has passed, or another contender came or left.
    RetentionOver { node: NodeId },
    /// Another contender came or left while the node of readers is retained.
    News { node: NodeId },
    /// Another client deleted the node of a hold, or the node that is kept without one. (The entry sees to a node that waits.)
    NodeGone { node: NodeId },
    /// The session ended or is left to others: the node has to be deleted, one way or the other.
    NodeGivenUp { node: NodeId },
}

/// An output of the queue.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Command {
    /// End the retention of the node.
    EndRetention,
    /// Send the delete.
    Delete(NodeId),
    /// Forget the node, which is deleted already.
    Forget(NodeId),
    /// Let another caller of this process find the permit, which is kept. `wanted`: the head alone.
    KeepPermit { node: NodeId, wanted: bool },
    /// Keep the node for its holds, beside the node of those that wait.
    Drain,
    /// Send a create for this caller, and start an entry for it. `watch_children`: send a listing with a watch on the children as
    /// well.
    Create { ticket: Ticket, watch_children: bool },
    /// Start an entry for the node, which waits again.
    Requeue,
    /// Notify these callers that they wait for another contender.
    NotifyQueued(Vec<Ticket>),
    /// End the wait of these callers.
    Refuse(Vec<Ticket>, Refusal),
    /// Have the entry stop the present attempt or pause, and begin the next attempt if callers wait.
    StopEntry,
    /// End the retention when the watch on the children fires.
    AwaitNews,
    /// Send a listing with a watch on the children, if there is room for the watch.
    AskWhetherSole,
    /// End the retention after this time, or when something happens to the node.
    Retain { retention: Duration, term: TermKind },
    /// Give the hold to the caller. If the caller has left, the hold is released.
    Begin { ticket: Ticket, hold: HoldNumber },
    /// Answer to the entry whose node is first: the session lease has ended; prove the session and list again.
    Prove,
    /// Answer to the entry whose node is first: no caller wants the node.
    Abandon,
}

/// Why a caller gets no hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Another contender is first, and the caller asked not to wait.
    Busy,
    /// The connection is about to be closed.
    Closed,
}

/// A node that is first.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) id: NodeId,
    /// The waiter for which the node was created; later, the most recent holder.
    pub(super) holder: Arc<Waiter>,
    pub(super) sole: Sole,
    /// The name tells other processes that the node may be kept without a hold.
    pub(super) retainable: bool,
    /// Only waiters with a ticket below this may hold by the node.
    pub(super) ticket_limit: Ticket,
    /// The `ticket_limit` that follows if the node is sole by the listing that was asked for.
    asked_limit: Ticket,
    /// The present holds: one, unless they are shared.
    holds: BTreeSet<HoldNumber>,
}

/// Tells whether a node is the only contender, or the only one that counts for readers. `No` is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum Sole {
    NotAsked,
    Asked,
    Yes,
    No,
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
enum NodeState {
    None,
    /// An entry is there.
    Acquiring(Progress),
    Held(Node),
    /// Without a hold, callers wait to hear whether the node may be passed on to them.
    Undecided(Node),
    Retained(Node),
}

/// The activity of an entry.
#[derive(Clone, Debug)]
enum Progress {
    /// The entry creates a node, or waits with it. The first of the waiters may hold by the node.
    Attempt(Attempt),
    /// No attempt has begun since the last one failed, or since a lost hold was put back. The entry may pause until a caller joins,
    /// which has had no failure yet.
    Pause,
    /// The entry is to stop what it does: the node of the attempt is for none of the waiters, or the pause is over.
    Stop,
}

/// The attempt of an entry to hold by one node.
#[derive(Clone, Debug)]
struct Attempt {
    /// The waiter for which the node is created.
    waiter: Arc<Waiter>,
    /// Only waiters with a ticket below this may hold by the node: they joined before its create.
    ticket_limit: Ticket,
    /// A listing showed that another contender is first.
    behind: bool,
}

/// See the [module](self).
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct LocalQueue {
    /// The waiters in the order in which they joined.
    waiters: BTreeMap<Ticket, Arc<Waiter>>,
    next_ticket: Ticket,
    /// True if some waiters may have asked not to wait.
    has_try_waiters: bool,
    /// True if some waiters may not know yet that they are queued.
    has_unnotified: bool,
    node: NodeState,
    /// The nodes that drain.
    draining: Vec<Node>,
    /// The number of the most recent hold.
    hold: HoldNumber,
    /// The node is a semaphore's permit.
    is_permit: bool,
}

impl LocalQueue {
    pub(super) fn new() -> Self {
        Self {
            waiters: BTreeMap::new(),
            next_ticket: 0,
            has_try_waiters: false,
            has_unnotified: false,
            node: NodeState::None,
            draining: Vec::new(),
            hold: 0,
            is_permit: false,
        }
    }

    /// A queue that begins with a hold by `node`, a semaphore's permit, which was admitted by count. The hold has number 0.
    pub(super) fn held(node: NodeId, holder: Arc<Waiter>, retainable: bool) -> Self {
        let mut node = Node::new(node, holder, Sole::NotAsked, retainable, 0);
        node.holds.insert(0);
        Self { node: NodeState::Held(node), is_permit: true, ..Self::new() }
    }

    /// Takes an event, and returns the commands. `look` gathers the conditions; it is called once for each hold that may begin.
    pub(super) fn on(
        &mut self,
        event: Event,
        mut look: impl FnMut(Question) -> Conditions,
    ) -> Vec<Command> {
        let mut commands = Vec::with_capacity(4);
        let out = &mut commands;
        let look = &mut look;
        match event {
            Event::Joined(waiter) => self.join(waiter, look, out),
            Event::Withdrawn(ticket) => self.withdraw(ticket, look, out),
            Event::Behind => self.behind(out),
            Event::First { node, sole, retainable } => {
                self.admit(node, sole, retainable, look, out);
            }
            Event::AttemptEnded => {
                self.node = match self.waiters.is_empty() {
                    true => NodeState::None,
                    false => NodeState::Acquiring(Progress::Pause),
                };
            }
            Event::Released { hold, lost } => self.release(hold, lost, look, out),
            Event::Requeued { hold } => {
                if let Some(node) = self.take_held(hold) {
                    debug_assert!(
                        node.holds.is_empty(),
                        "a node that contends again is a leader's, which is not shared"
                    );
                    self.node = NodeState::Acquiring(Progress::Pause);
                    out.push(Command::Requeue);
                }
            }
            Event::Listed { node, sole } => self.listed(node, sole, look, out),
            Event::RetentionOver { node } => {
                if matches!(&self.node, NodeState::Retained(retained) if retained.id == node) {
                    self.node = NodeState::None;
                    out.push(Command::EndRetention);
                    out.push(Command::Delete(node));
                }
            }
            Event::News { node } => {
                let next_ticket = self.next_ticket;
                if let NodeState::Retained(retained) = &mut self.node
                    && retained.id == node
                    && retained.sole == Sole::Yes
                {
                    retained.sole = Sole::NotAsked;
                    retained.ask(next_ticket, out);
                }
            }
            Event::NodeGone { node } => self.lose(node, Command::Forget(node), look, out),
            Event::NodeGivenUp { node } => self.lose(node, Command::Delete(node), look, out),
        }
        commands
    }

    // --- Questions.

    /// The ticket of the next caller that joins.
    pub(super) fn next_ticket(&self) -> Ticket {
        self.next_ticket
    }

    /// The waiter for which the next node is created.
    pub(super) fn first(&self) -> Option<Ticket> {
        self.waiters.keys().next().copied()
    }

    /// Returns true if a waiter may have asked not to wait.
    pub(super) fn has_tries(&self) -> bool {
        self.has_try_waiters
    }

    /// Returns true if a task holds.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.node, NodeState::Held(_))
    }

    pub(super) fn has_waiters(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// Returns true if the entry is to stop its present attempt or pause.
    pub(super) fn is_stopping(&self) -> bool {
        matches!(self.node, NodeState::Acquiring(Progress::Stop))
    }

    /// Returns true if another contender is first, of this process or another, and a caller waits for it.
    pub(super) fn is_busy(&self) -> bool {
        match &self.node {
            NodeState::Held(node) => !node.holder.shared,
            NodeState::Acquiring(Progress::Attempt(attempt)) => attempt.behind,
            NodeState::None
            | NodeState::Acquiring(Progress::Pause | Progress::Stop)
            | NodeState::Undecided(_)
            | NodeState::Retained(_) => false,
        }
    }

    /// Returns true if a task of this queue keeps a caller out that comes now. Readers keep no reader out: the writer that they wait
    /// for was seen before the call, which [looks again](super::driver::QueueDriver::try_join).
    pub(super) fn is_taken(&self, shared: bool) -> bool {
        !shared && self.is_busy()
    }

    /// Returns true if `hold` is a present hold.
    pub(super) fn is_held_by(&self, hold: HoldNumber) -> bool {
        let held = match &self.node {
            NodeState::Held(node) => Some(node),
            _ => None,
        };
        held.into_iter().chain(&self.draining).any(|node| node.holds.contains(&hold))
    }

    /// Returns true if the next caller can have the node without a request.
    pub(super) fn is_kept(&self) -> bool {
        matches!(self.node, NodeState::Undecided(_) | NodeState::Retained(_))
    }

    /// Returns true if readers hold by a node that was the sole one for readers.
    pub(super) fn is_shared(&self) -> bool {
        matches!(&self.node, NodeState::Held(node) if node.holder.shared && node.sole == Sole::Yes)
    }

    /// The number of waiters, without the one that the node stands for.
    pub(super) fn queued(&self) -> usize {
        let acquiring = matches!(self.node, NodeState::None | NodeState::Acquiring(_));
        self.waiters.len().saturating_sub(usize::from(acquiring))
    }

    // --- Callers come and go.

    fn join(
        &mut self,
        waiter: Arc<Waiter>,
        look: &mut impl FnMut(Question) -> Conditions,
        out: &mut Vec<Command>,
    ) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        if waiter.no_wait && self.is_taken(waiter.shared) {
            return refuse(vec![ticket], Refusal::Busy, out);
        }
        if self.is_busy() {
            out.push(Command::NotifyQueued(vec![ticket]));
        } else {
            self.has_unnotified = true;
        }
        self.has_try_waiters |= waiter.no_wait;
        self.waiters.insert(ticket, waiter);
        match std::mem::replace(&mut self.node, NodeState::None) {
            NodeState::None => self.open(false, look(Question::Basic).closing, out),
            NodeState::Acquiring(Progress::Pause) => {
                self.node = NodeState::Acquiring(Progress::Stop);
                out.push(Command::StopEntry);
            }
            NodeState::Acquiring(progress) => self.node = NodeState::Acquiring(progress),
            NodeState::Held(mut node) if !node.holder.shared => {
                self.refresh(&mut node, &look(Question::Basic));
                node.ask(self.next_ticket, out);
                self.node = NodeState::Held(node);
            }
            NodeState::Held(node) | NodeState::Undecided(node) => self.offer(node, look, out),
            NodeState::Retained(node) => {
                out.push(Command::EndRetention);
                self.offer(node, look, out);
            }
        }
    }

    fn withdraw(
        &mut self,
        ticket: Ticket,
        look: &mut impl FnMut(Question) -> Conditions,
        out: &mut Vec<Command>,
    ) {
        let waited = self.waiters.remove(&ticket).is_some();
        match std::mem::replace(&mut self.node, NodeState::None) {
            NodeState::Undecided(node) if waited => self.offer(node, look, out),
            other => {
                self.node = other;
                if self.stop_unwanted() {
                    out.push(Command::StopEntry);
                }
            }
        }
    }

    /// Removes the matching waiters, and returns their tickets. The caller answers them, and has the entry look whether it
    /// [is stopping](Self::is_stopping).
    pub(super) fn remove(&mut self, matches: impl Fn(Ticket, &Waiter) -> bool) -> Vec<Ticket> {
        let removed = self.take(matches);
        self.stop_unwanted();
        removed
    }

    fn take(&mut self, matches: impl Fn(Ticket, &Waiter) -> bool) -> Vec<Ticket> {
        let mut taken = Vec::new();
        self.waiters.retain(|ticket, waiter| {
            let is_taken = matches(*ticket, waiter);
            if is_taken {
                taken.push(*ticket);
            }
            !is_taken
        });
        taken
    }

    /// Stops an attempt whose node is for none of the waiters: those that joined after its create need a node of their own, and
    /// must not lose their place to contenders that come later.
    fn stop_unwanted(&mut self) -> bool {
        let first = self.waiters.first_key_value();
        let is_unwanted = match &self.node {
            NodeState::Acquiring(Progress::Attempt(attempt)) => {
                !first.is_some_and(|(ticket, first)| attempt.serves(*ticket, first))
            }
            NodeState::Acquiring(Progress::Pause) => first.is_none(),
            _ => false,
        };
        if is_unwanted {
            self.node = NodeState::Acquiring(Progress::Stop);
        }
        is_unwanted
    }

    fn remove_tries(&mut self) -> Vec<Ticket> {
        match std::mem::take(&mut self.has_try_waiters) {
            true => self.take(|_, waiter| waiter.no_wait),
            false => Vec::new(),
        }
    }

    fn notify(&mut self, out: &mut Vec<Command>) {
        if std::mem::take(&mut self.has_unnotified) && !self.waiters.is_empty() {
            out.push(Command::NotifyQueued(self.waiters.keys().copied().collect()));
        }
    }

    // --- The entry reports.

    fn behind(&mut self, out: &mut Vec<Command>) {
        let NodeState::Acquiring(Progress::Attempt(attempt)) = &mut self.node else { return };
        attempt.behind = true;
        let tries = self.remove_tries();
        self.notify(out);
        refuse(tries, Refusal::Busy, out);
        if self.stop_unwanted() {
            out.push(Command::StopEntry);
        }
    }

    fn admit(
        &mut self,
        node: NodeId,
        sole: Sole,
        retainable: bool,
        look: &mut impl FnMut(Question) -> Conditions,
        out: &mut Vec<Command>,
    ) {
        let NodeState::Acquiring(Progress::Attempt(attempt)) = &mut self.node else {
            return out.push(Command::Abandon);
        };
        attempt.behind = false;
        let mut node =
            Node::new(node, attempt.waiter.clone(), sole, retainable, attempt.ticket_limit);
        let conditions = look(Question::Pass(self.first_term()));
        self.refresh(&mut node, &conditions);
        match (conditions.closing, conditions.lease_lasts) {
            (true, _) => out.push(Command::Abandon),
            (false, false) => out.push(Command::Prove),
            (false, true) => {
                self.begin(&mut node, out);
                match self.goes_on(&node) {
                    true => self.offer(node, look, out),
                    false => self.node = NodeState::Held(node),
                }
            }
        }
    }

    // --- The node is first.

    fn release(
        &mut self,
        hold: HoldNumber,
        lost: bool,
        look: &mut impl FnMut(Question) -> Conditions,
        out: &mut Vec<Command>,
    ) {
        if let Some(place) = self.draining.iter().position(|node| node.holds.contains(&hold)) {
            let node = &mut self.draining[place];
            node.holds.remove(&hold);
            if node.holds.is_empty() {
                out.push(Command::Delete(node.id));
                self.draining.swap_remove(place);
            }
            return;
        }
        match self.take_held(hold) {
            Some(node) if lost => self.retire(node, look(Question::Basic).closing, out),
            Some(node) => self.offer(node, look, out),
            None => {}
        }
    }

    fn listed(
        &mut self,
        node: NodeId,
        sole: bool,
        look: &mut impl FnMut(Question) -> Conditions,
        out: &mut Vec<Command>,
    ) {
        let Some(ours) = self.node.first().filter(|ours| ours.id == node) else { return };
        ours.sole = if sole { Sole::Yes } else { Sole::No };
        if sole {
            ours.ticket_limit = ours.ticket_limit.max(ours.asked_limit);
        }
        match std::mem::replace(&mut self.node, NodeState::None) {
            NodeState::Held(mut node) if !node.holder.shared => {
                self.refresh(&mut node, &look(Question::Basic));
                self.node = NodeState::Held(node);
            }
            NodeState::Retained(node) if sole => {
                // If the watch has fired already, the news follows at once.
                out.push(Command::AwaitNews);
                self.node = NodeState::Retained(node);
            }
            NodeState::Retained(node) => {
                out.push(Command::EndRetention);
                self.retire(node, look(Question::Basic).closing, out);
            }
            NodeState::Held(node) | NodeState::Undecided(node) => self.offer(node, look, out),
            other @ (NodeState::None | NodeState::Acquiring(_)) => self.node = other,
        }
    }

    /// Has the next waiters hold by the node, keeps it, or retires it. The node is first; no caller holds by it, or readers do.
    fn offer(
        &mut self,
        mut node: Node,
        look: &mut impl FnMut(Question) -> Conditions,
        out: &mut Vec<Command>,
    ) {
        loop {
            let conditions = look(Question::Pass(self.first_term()));
            self.refresh(&mut node, &conditions);
            let Some((&ticket, first)) = self.waiters.first_key_value() else {
                return self.retain(node, &conditions, out);
            };
            let may_pass = self.keeps(&conditions) && node.holder.passes_to(first);
            let joined_in_time = ticket < node.ticket_limit;
            match (may_pass, joined_in_time, conditions.lease_lasts) {
                (true, true, true) => self.begin(&mut node, out),
                (true, false, _) if node.may_be_sole() => {
                    node.ask(self.next_ticket, out);
                    self.node = match node.holds.is_empty() {
                        true => NodeState::Undecided(node),
                        false => NodeState::Held(node),
                    };
                    return;
                }
                _ => return self.retire(node, conditions.closing, out),
            }
            if !self.goes_on(&node) {
                self.node = NodeState::Held(node);
                return;
            }
        }
    }

    /// Returns true if further waiters may hold by a node by which a hold began: readers hold together.
    fn goes_on(&self, node: &Node) -> bool {
        node.holder.shared && !self.waiters.is_empty()
    }

    /// Keeps the node for its holds. Without one, keeps a permit for the head, and any node if the last holder asked for that and no
    /// other contender is known.
    fn retain(&mut self, mut node: Node, conditions: &Conditions, out: &mut Vec<Command>) {
        if !node.holds.is_empty() {
            self.node = NodeState::Held(node);
            return;
        }
        let wanted = conditions.wanted;
        let retention = node.holder.retention;
        let term = node.holder.term;
        let asks_for_it = node.retainable && !retention.is_zero() && conditions.spare;
        let may_retain = wanted || asks_for_it && node.sole != Sole::No;
        if !(self.keeps(conditions) && may_retain) {
            return self.retire(node, conditions.closing, out);
        }
        if self.is_permit {
            out.push(Command::KeepPermit { node: node.id, wanted });
        }
        if wanted {
            // The head joins next. It was first before the permit was released.
            node.ticket_limit = self.next_ticket + 1;
            node.sole = Sole::NotAsked;
        } else {
            if node.sole == Sole::Yes {
                out.push(Command::AwaitNews);
            }
            node.ask(self.next_ticket, out);
            out.push(Command::Retain { retention, term });
        }
        self.node = NodeState::Retained(node);
    }

    /// Extends a node that is the sole contender to all callers that have joined by now.
    fn refresh(&self, node: &mut Node, conditions: &Conditions) {
        if node.sole == Sole::Yes {
            if conditions.unfired {
                node.ticket_limit = self.next_ticket;
            } else {
                // Other readers come and go, and so do callers at the mutex of a semaphore. Whether a writer came, or a caller that
                // waits, a listing shows.
                let may_be_sole = node.holder.shared || self.is_permit;
                node.sole = if may_be_sole { Sole::NotAsked } else { Sole::No };
            }
        }
    }

    /// Returns true if the node may be kept after a hold, whichever caller is next.
    fn keeps(&self, conditions: &Conditions) -> bool {
        !conditions.closing && conditions.same_connection && !conditions.given_up
    }

    /// Begins the hold of the first waiter. I4: the conditions were gathered in the same step.
    fn begin(&mut self, node: &mut Node, out: &mut Vec<Command>) {
        let Some((ticket, waiter)) = self.waiters.pop_first() else { return };
        self.hold += 1;
        node.holds.insert(self.hold);
        if !waiter.shared {
            let tries = self.remove_tries();
            self.notify(out);
            refuse(tries, Refusal::Busy, out);
            if !self.waiters.is_empty() {
                node.ask(self.next_ticket, out);
            }
        }
        // The new holder's options apply to the node now.
        node.holder = waiter;
        out.push(Command::Begin { ticket, hold: self.hold });
    }

    /// Lets no further hold begin by the node. Without a hold it is deleted, and the create for the next waiter is sent right
    /// behind the delete, so that both are in one packet.
    fn retire(&mut self, node: Node, closing: bool, out: &mut Vec<Command>) {
        let is_held = !node.holds.is_empty();
        match is_held {
            false => out.push(Command::Delete(node.id)),
            true => {
                out.push(Command::Drain);
                self.draining.push(node);
            }
        }
        self.open(!is_held, closing, out);
    }

    /// I1: starts an entry for the first waiter.
    fn open(&mut self, watch_children: bool, closing: bool, out: &mut Vec<Command>) {
        if closing {
            return refuse(self.take(|_, _| true), Refusal::Closed, out);
        }
        if self.is_permit {
            // A caller enters by the mutex of the semaphore.
            return refuse(self.take(|_, _| true), Refusal::Busy, out);
        }
        let shares_queue = self.waiters.values().next().is_some_and(|first| first.shares_queue);
        let Some(ticket) = self.begin_attempt() else { return };
        out.push(Command::Create { ticket, watch_children: watch_children && shares_queue });
    }

    /// Begins an attempt for the first waiter, which is returned. Its node is created next.
    pub(super) fn begin_attempt(&mut self) -> Option<Ticket> {
        let (&ticket, first) = self.waiters.first_key_value()?;
        let waiter = first.clone();
        let attempt = Attempt { waiter, ticket_limit: self.next_ticket, behind: false };
        self.node = NodeState::Acquiring(Progress::Attempt(attempt));
        Some(ticket)
    }

    /// Lets the node go: `how` is `Forget` if another client deleted it, and `Delete` if it is given up.
    fn lose(
        &mut self,
        node: NodeId,
        how: Command,
        look: &mut impl FnMut(Question) -> Conditions,
        out: &mut Vec<Command>,
    ) {
        if let Some(place) = self.draining.iter().position(|drained| drained.id == node) {
            self.draining.swap_remove(place);
            out.push(how);
            return;
        }
        if self.node.first().is_none_or(|ours| ours.id != node) {
            return;
        }
        if let NodeState::Retained(_) = std::mem::replace(&mut self.node, NodeState::None) {
            out.push(Command::EndRetention);
        }
        out.push(how);
        self.open(false, look(Question::Basic).closing, out);
    }

    /// I3: ends `hold` and takes the node out, if it is a present hold.
    fn take_held(&mut self, hold: HoldNumber) -> Option<Node> {
        match std::mem::replace(&mut self.node, NodeState::None) {
            NodeState::Held(mut node) if node.holds.contains(&hold) => {
                node.holds.remove(&hold);
                Some(node)
            }
            other => {
                self.node = other;
                None
            }
        }
    }

    fn first_term(&self) -> Option<TermKind> {
        self.waiters.values().next().map(|first| first.term)
    }
}

fn refuse(tickets: Vec<Ticket>, why: Refusal, out: &mut Vec<Command>) {
    if !tickets.is_empty() {
        out.push(Command::Refuse(tickets, why));
    }
}

impl NodeState {
    fn first(&mut self) -> Option<&mut Node> {
        match self {
            Self::Held(node) | Self::Undecided(node) | Self::Retained(node) => Some(node),
            Self::None | Self::Acquiring(_) => None,
        }
    }
}

impl Attempt {
    /// Returns true if the waiter may hold by the node.
    fn serves(&self, ticket: Ticket, waiter: &Waiter) -> bool {
        ticket < self.ticket_limit && waiter.node == self.waiter.node
    }
}

impl Node {
    fn new(
        id: NodeId,
        holder: Arc<Waiter>,
        sole: Sole,
        retainable: bool,
        ticket_limit: Ticket,
    ) -> Self {
        let holds = BTreeSet::new();
        Self { id, holder, sole, retainable, ticket_limit, asked_limit: 0, holds }
    }

    /// Returns true if it is open whether the node is the sole contender.
    fn may_be_sole(&self) -> bool {
        self.sole == Sole::Asked || self.holder.shared && self.sole == Sole::NotAsked
    }

    /// Asks once whether the node is the sole contender.
    fn ask(&mut self, next_ticket: Ticket, out: &mut Vec<Command>) {
        if self.sole == Sole::NotAsked {
            self.sole = Sole::Asked;
            self.asked_limit = next_ticket;
            out.push(Command::AskWhetherSole);
        }
    }
}

impl Waiter {
    /// Returns true if a node of this holder may pass to `next`.
    fn passes_to(&self, next: &Self) -> bool {
        self.shares_queue && self.node == next.node
    }
}

#[cfg(test)]
mod tests;
