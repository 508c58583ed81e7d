//! The callers of one session that wait for one lock path, in order, and at most one node at the servers that stands for
//! them. Pure: an [`Event`] and the [`Conditions`] at that instant go in, [`Command`]s come out, in the order in which they
//! have to be carried out. The [driver](super::driver) owns the lock, the requests, the callers and the clock.
//!
//! ```text
//!    None --Joined--> Acquiring --First--> Held --Released--> Held again (passed on), Undecided, Retained, or Acquiring
//!      ^                  |                 |
//!      +------------------+-----------------+   no caller waits, or the node is gone
//! ```
//!
//! # Passing on
//!
//! The tasks of one process take turns under one node. That is safe because the node is first and stays first (invariant
//! 2): the task that holds by it holds alone among all processes, and of this process one holds at a time (I3). The node is
//! passed on only if, when the next hold begins,
//!
//! * the session lease lasts, by the next one's loss policy (I4);
//! * the fenced writes of the hold before are closed, and went out on this connection: it is still the one on which the
//!   node was created. A write behind a broken link may take effect at any time until the client is connected again;
//! * the session is not about to be closed, and has not ended;
//!
//! and, so that other processes get what they asked for,
//!
//! * no request to give the node up was seen;
//! * the next one's node would have the same data and ACLs, and neither wants a node of its own;
//! * the next one joined before the node was created, or while the node was the *sole* contender: a listing sent behind
//!   the create, with a watch on the children, showed no other, and the watch has not fired (I6). So a contender of another
//!   process that came since is served before the tasks that joined after the news of it.
//!
//! # Invariants
//!
//! * I1: while a caller waits there is a node, or an entry that is to make one.
//! * I2: there is at most one node whose delete was not handed to the client.
//! * I3: only the present hold changes the node; a late guard of an earlier one changes nothing.
//! * I4: a hold begins in the step in which lease, closing and session were looked at.
//! * I5: without a hold a node is only kept while it is asked whether it is the sole one and callers wait (`Undecided`), or
//!   while none waits and retention runs (`Retained`).
//! * I6: no pass to a caller that joined after the news of a stranger.
//! * I7 is the driver's: wakes, answers, counts and drops are outside the lock.

use std::collections::BTreeMap;
use std::time::Duration;

use super::request::NodeSpec;
use crate::session::lease::LossPolicy;

/// The place of a caller: smaller ones joined earlier.
pub(super) type Ticket = u64;

/// Counts the holds of one queue.
pub(super) type HoldNumber = u64;

/// The `czxid` of a node.
pub(super) type NodeId = i64;

/// What counts of a caller's request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Waiter {
    /// Data and ACLs of the node that would be made for it.
    pub(super) node: NodeSpec,
    /// Whether it takes turns with others under one node at all, and whether its hold wants a node of its own.
    pub(super) shares_queue: bool,
    pub(super) node_per_hold: bool,
    /// It is refused rather than kept waiting.
    pub(super) no_wait: bool,
    /// For how long its node is kept after the hold, when no caller waits.
    pub(super) retention: Duration,
    pub(super) loss_policy: LossPolicy,
}

/// What only the outside knows, at the instant of the event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // each is a condition of its own
pub(super) struct Conditions {
    /// The session is about to be closed.
    pub(super) closing: bool,
    /// A hold may begin: the session has not ended, and its lease lasts by the policy that was asked about.
    pub(super) lease_lasts: bool,
    /// The connection is the one on which the node was created.
    pub(super) same_connection: bool,
    /// Another process asked for the node to be given up.
    pub(super) revoked: bool,
    /// The watch on the children has not fired.
    pub(super) unfired: bool,
    /// More than half of the room for nodes and for watches is free.
    pub(super) spare: bool,
}

/// What happens.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    /// A caller joins; it gets the [next ticket](LocalQueue::next_ticket).
    Joined(Waiter),
    /// A caller does not wait any longer.
    Withdrawn(Ticket),
    /// A listing shows that another contender is before the node of the entry.
    Behind,
    /// The node of the entry is first.
    First(Node),
    /// The entry failed for good: for all whose node would be the same.
    Failed(NodeSpec),
    /// The retry policies of these callers are used up.
    Exhausted(Vec<Ticket>),
    /// There is no session any more, or its runtime is gone.
    SessionOver,
    /// An attempt of the entry left no node.
    AttemptEnded,
    /// A hold was released; `lost`: it had ended before.
    Released { hold: HoldNumber, lost: bool },
    /// The node of a lost hold is to contend again.
    Requeued { hold: HoldNumber },
    /// The listing that was [asked for](Command::AskWhetherSole) was answered, or will not be.
    Listed { node: NodeId, sole: bool },
    /// The time of a retained node is over, or something happened to it or beside it.
    RetentionOver { node: NodeId },
    /// The node is not there any more.
    NodeGone { node: NodeId },
    /// The session is over or left to others: the node is to go, one way or the other.
    NodeGivenUp { node: NodeId },
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Command {
    /// The node is not retained any longer.
    EndRetention,
    /// Send the delete.
    Delete { node: NodeId },
    /// The node is gone: nothing is to be deleted.
    Forget { node: NodeId },
    /// Send a create for this caller, and have an entry see to it. Callers with a smaller ticket than `max_ticket` may hold
    /// by the node. `watch_children`: with a listing and a watch on the children.
    Create { ticket: Ticket, max_ticket: Ticket, watch_children: bool },
    /// Have an entry take the node: it waits again.
    Requeue { node: NodeId },
    /// Tell these callers that they wait for another contender.
    NotifyQueued(Vec<Ticket>),
    /// These callers wait no longer.
    Refuse(Vec<Ticket>, Refusal),
    /// No caller waits: the entry is to stop.
    StopEntry,
    /// The retention ends when the watch on the children fires.
    AwaitNews,
    /// Send a listing with a watch on the children, if there is room for that.
    AskWhetherSole,
    /// End the retention after this time, or when something happens to the node.
    Retain { retention: Duration, loss_policy: LossPolicy },
    /// Give the hold to the caller; if it has left, the hold is released.
    Begin { ticket: Ticket, hold: HoldNumber },
    /// To the entry whose node is first: the session lease has ended, prove the session and list again.
    Prove { sole: Sole },
    /// To the entry whose node is first: there is no caller for it.
    Abandon,
}

/// Why a caller gets no hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Another contender is first, and the caller asked not to wait.
    Busy,
    /// The session is about to be closed.
    Closed,
    /// By the error that came with the event.
    Failed,
}

/// A node that is first.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) id: NodeId,
    /// For whom it was made; later, whose hold was the last.
    pub(super) holder: Waiter,
    pub(super) sole: Sole,
    /// Callers with a smaller ticket may hold by it.
    pub(super) max_ticket: Ticket,
}

/// Whether the node is the only contender. Once `No`, that is so for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sole {
    NotAsked,
    Asked,
    Yes,
    No,
}

#[derive(Debug)]
enum NodeState {
    None,
    /// An entry makes a node, or waits with it. `behind`: a listing showed that another contender is first.
    Acquiring {
        behind: bool,
    },
    Held(Node),
    /// Callers wait, and it is not known yet whether the node may be passed on to them.
    Undecided(Node),
    Retained(Node),
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct LocalQueue {
    /// In the order in which they joined.
    waiters: BTreeMap<Ticket, Waiter>,
    next_ticket: Ticket,
    /// Whether some asked not to wait, or have not been told that they do.
    has_try_waiters: bool,
    has_unnotified: bool,
    node: NodeState,
    /// The number of the last hold that began.
    hold: HoldNumber,
    /// Whether nodes are passed on or retained at all.
    passes_on: bool,
}

impl LocalQueue {
    pub(super) fn new(passes_on: bool) -> Self {
        Self {
            waiters: BTreeMap::new(),
            next_ticket: 0,
            has_try_waiters: false,
            has_unnotified: false,
            node: NodeState::None,
            hold: 0,
            passes_on,
        }
    }

    /// With a node that was admitted otherwise: a lease. Its hold has number 0.
    pub(super) fn held(node: NodeId, holder: Waiter) -> Self {
        let node = Node { id: node, holder, sole: Sole::No, max_ticket: 0 };
        Self { node: NodeState::Held(node), ..Self::new(false) }
    }

    /// What an event comes to. `look` gives the conditions; of the lease by this policy, if there is one.
    pub(super) fn on(
        &mut self,
        event: Event,
        look: impl FnOnce(Option<LossPolicy>) -> Conditions,
    ) -> Vec<Command> {
        let mut commands = Vec::new();
        let out = &mut commands;
        match event {
            Event::Joined(waiter) => self.join(waiter, look, out),
            Event::Withdrawn(ticket) => self.withdraw(ticket, look, out),
            Event::Behind => self.behind(out),
            Event::First(node) => self.admit(node, look, out),
            Event::Failed(spec) => {
                let tickets = self.remove(|_, waiter| waiter.node == spec);
                refuse(tickets, Refusal::Failed, out);
            }
            Event::Exhausted(tickets) => {
                let tickets = self.remove(|ticket, _| tickets.contains(&ticket));
                refuse(tickets, Refusal::Failed, out);
            }
            Event::SessionOver => refuse(self.remove(|_, _| true), Refusal::Failed, out),
            Event::AttemptEnded => {
                self.node = match self.waiters.is_empty() {
                    true => NodeState::None,
                    false => NodeState::Acquiring { behind: false },
                };
            }
            Event::Released { hold, lost } => self.release(hold, lost, look, out),
            Event::Requeued { hold } => {
                if let Some(node) = self.take_held(hold) {
                    self.node = NodeState::Acquiring { behind: false };
                    out.push(Command::Requeue { node: node.id });
                }
            }
            Event::Listed { node, sole } => self.listed(node, sole, look, out),
            Event::RetentionOver { node } => {
                if matches!(&self.node, NodeState::Retained(retained) if retained.id == node) {
                    self.node = NodeState::None;
                    out.push(Command::EndRetention);
                    out.push(Command::Delete { node });
                }
            }
            Event::NodeGone { node } => self.lose(node, Command::Forget { node }, look, out),
            Event::NodeGivenUp { node } => self.lose(node, Command::Delete { node }, look, out),
        }
        commands
    }

    // --- Questions.

    /// The ticket of the next caller that joins.
    pub(super) fn next_ticket(&self) -> Ticket {
        self.next_ticket
    }

    /// For whom the next node is to be made.
    pub(super) fn first(&self) -> Option<Ticket> {
        self.waiters.keys().next().copied()
    }

    pub(super) fn has_waiters(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// Whether the servers said that another contender is first, of this process or another.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.node, NodeState::Held(_) | NodeState::Acquiring { behind: true })
    }

    /// Whether this is the present hold.
    pub(super) fn is_held_by(&self, hold: HoldNumber) -> bool {
        matches!(self.node, NodeState::Held(_)) && self.hold == hold
    }

    /// Whether the node can be had without a request.
    pub(super) fn is_kept(&self) -> bool {
        matches!(self.node, NodeState::Undecided(_) | NodeState::Retained(_))
    }

    /// How many wait besides the one that the node stands for.
    pub(super) fn queued(&self) -> usize {
        let acquiring = matches!(self.node, NodeState::None | NodeState::Acquiring { .. });
        self.waiters.len().saturating_sub(usize::from(acquiring))
    }

    // --- Callers come and go.

    fn join(
        &mut self,
        waiter: Waiter,
        look: impl FnOnce(Option<LossPolicy>) -> Conditions,
        out: &mut Vec<Command>,
    ) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        if self.is_busy() {
            if waiter.no_wait {
                return refuse(vec![ticket], Refusal::Busy, out);
            }
            out.push(Command::NotifyQueued(vec![ticket]));
        } else {
            self.has_unnotified = true;
        }
        self.has_try_waiters |= waiter.no_wait;
        self.waiters.insert(ticket, waiter);
        match std::mem::replace(&mut self.node, NodeState::None) {
            NodeState::None => self.open(false, look(None).closing, out),
            NodeState::Acquiring { behind } => self.node = NodeState::Acquiring { behind },
            NodeState::Held(mut node) => {
                node.refresh(&look(None), self.next_ticket);
                node.ask(out);
                self.node = NodeState::Held(node);
            }
            NodeState::Undecided(node) => self.offer(node, look, out),
            NodeState::Retained(node) => {
                out.push(Command::EndRetention);
                self.offer(node, look, out);
            }
        }
    }

    fn withdraw(
        &mut self,
        ticket: Ticket,
        look: impl FnOnce(Option<LossPolicy>) -> Conditions,
        out: &mut Vec<Command>,
    ) {
        let waited = self.waiters.remove(&ticket).is_some();
        if self.waiters.is_empty() && matches!(self.node, NodeState::Acquiring { .. }) {
            out.push(Command::StopEntry);
        }
        match std::mem::replace(&mut self.node, NodeState::None) {
            NodeState::Undecided(node) if waited => self.offer(node, look, out),
            other => self.node = other,
        }
    }

    /// Takes out all that are meant.
    fn remove(&mut self, is_meant: impl Fn(Ticket, &Waiter) -> bool) -> Vec<Ticket> {
        let mut removed = Vec::new();
        self.waiters.retain(|ticket, waiter| {
            let is_meant = is_meant(*ticket, waiter);
            if is_meant {
                removed.push(*ticket);
            }
            !is_meant
        });
        removed
    }

    fn remove_tries(&mut self) -> Vec<Ticket> {
        match std::mem::take(&mut self.has_try_waiters) {
            true => self.remove(|_, waiter| waiter.no_wait),
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
        self.node = NodeState::Acquiring { behind: true };
        let tries = self.remove_tries();
        self.notify(out);
        refuse(tries, Refusal::Busy, out);
        if self.waiters.is_empty() {
            out.push(Command::StopEntry);
        }
    }

    fn admit(
        &mut self,
        mut node: Node,
        look: impl FnOnce(Option<LossPolicy>) -> Conditions,
        out: &mut Vec<Command>,
    ) {
        let conditions = look(self.first_policy());
        node.refresh(&conditions, self.next_ticket);
        // Those that it was made for may have left: the others are served by a node of their own.
        let served = self.waiters.first_key_value().is_some_and(|(ticket, first)| {
            *ticket < node.max_ticket && node.holder.node == first.node
        });
        if !served || conditions.closing {
            out.push(Command::Abandon);
        } else if !conditions.lease_lasts {
            out.push(Command::Prove { sole: node.sole });
        } else {
            self.begin(node, out);
        }
    }

    // --- The node is first.

    fn release(
        &mut self,
        hold: HoldNumber,
        lost: bool,
        look: impl FnOnce(Option<LossPolicy>) -> Conditions,
        out: &mut Vec<Command>,
    ) {
        match self.take_held(hold) {
            Some(node) if lost => self.leave(&node, look(None).closing, out),
            Some(node) => self.offer(node, look, out),
            None => {}
        }
    }

    fn listed(
        &mut self,
        node: NodeId,
        sole: bool,
        look: impl FnOnce(Option<LossPolicy>) -> Conditions,
        out: &mut Vec<Command>,
    ) {
        let next_ticket = self.next_ticket;
        let Some(ours) = self.node.first().filter(|ours| ours.id == node) else { return };
        ours.sole = if sole { Sole::Yes } else { Sole::No };
        match std::mem::replace(&mut self.node, NodeState::None) {
            NodeState::Held(mut node) => {
                node.refresh(&look(None), next_ticket);
                self.node = NodeState::Held(node);
            }
            NodeState::Retained(mut node) => {
                let conditions = look(None);
                node.refresh(&conditions, next_ticket);
                if node.sole == Sole::Yes {
                    out.push(Command::AwaitNews);
                    self.node = NodeState::Retained(node);
                } else {
                    out.push(Command::EndRetention);
                    self.leave(&node, conditions.closing, out);
                }
            }
            NodeState::Undecided(node) => self.offer(node, look, out),
            other @ (NodeState::None | NodeState::Acquiring { .. }) => self.node = other,
        }
    }

    /// The node is first, and no caller holds by it.
    fn offer(
        &mut self,
        mut node: Node,
        look: impl FnOnce(Option<LossPolicy>) -> Conditions,
        out: &mut Vec<Command>,
    ) {
        let conditions = look(self.first_policy());
        node.refresh(&conditions, self.next_ticket);
        let Some((&ticket, first)) = self.waiters.first_key_value() else {
            return self.retain(node, &conditions, out);
        };
        if self.keeps(&conditions) && node.holder.passes_to(first) {
            if ticket < node.max_ticket {
                if conditions.lease_lasts {
                    return self.begin(node, out);
                }
            } else if node.sole == Sole::Asked {
                self.node = NodeState::Undecided(node);
                return;
            }
        }
        self.leave(&node, conditions.closing, out);
    }

    /// Keeps the node without a hold, if the last holder asked for that.
    fn retain(&mut self, mut node: Node, conditions: &Conditions, out: &mut Vec<Command>) {
        let (retention, loss_policy) = (node.holder.retention, node.holder.loss_policy);
        let keeps = !retention.is_zero() && self.keeps(conditions) && conditions.spare;
        if !keeps || node.sole == Sole::No {
            return self.leave(&node, conditions.closing, out);
        }
        if node.sole == Sole::Yes {
            out.push(Command::AwaitNews);
        }
        node.ask(out);
        out.push(Command::Retain { retention, loss_policy });
        self.node = NodeState::Retained(node);
    }

    /// The conditions of keeping the node after a hold, whoever is next.
    fn keeps(&self, conditions: &Conditions) -> bool {
        self.passes_on && !conditions.closing && conditions.same_connection && !conditions.revoked
    }

    /// I4: called in the step in which the conditions were looked at.
    fn begin(&mut self, mut node: Node, out: &mut Vec<Command>) {
        let Some((ticket, waiter)) = self.waiters.pop_first() else { return };
        self.hold += 1;
        let tries = self.remove_tries();
        self.notify(out);
        refuse(tries, Refusal::Busy, out);
        if !self.waiters.is_empty() {
            node.ask(out);
        }
        // What is asked of the holder counts for the node.
        node.holder = waiter;
        self.node = NodeState::Held(node);
        out.push(Command::Begin { ticket, hold: self.hold });
    }

    /// The delete goes first, and right behind it the create for the next caller: so both are in one packet.
    fn leave(&mut self, node: &Node, closing: bool, out: &mut Vec<Command>) {
        self.node = NodeState::None;
        out.push(Command::Delete { node: node.id });
        self.open(true, closing, out);
    }

    /// I1: whoever waits gets an entry.
    fn open(&mut self, watch_children: bool, closing: bool, out: &mut Vec<Command>) {
        if closing {
            return refuse(self.remove(|_, _| true), Refusal::Closed, out);
        }
        let Some((&ticket, first)) = self.waiters.first_key_value() else { return };
        out.push(Command::Create {
            ticket,
            max_ticket: self.next_ticket,
            watch_children: watch_children && first.shares_queue,
        });
        self.node = NodeState::Acquiring { behind: false };
    }

    /// The node is gone, or to be given up.
    fn lose(
        &mut self,
        node: NodeId,
        how: Command,
        look: impl FnOnce(Option<LossPolicy>) -> Conditions,
        out: &mut Vec<Command>,
    ) {
        if self.node.first().is_none_or(|ours| ours.id != node) {
            return;
        }
        if let NodeState::Retained(_) = std::mem::replace(&mut self.node, NodeState::None) {
            out.push(Command::EndRetention);
        }
        out.push(how);
        self.open(false, look(None).closing, out);
    }

    /// I3: the node, if it is that of the hold.
    fn take_held(&mut self, hold: HoldNumber) -> Option<Node> {
        match std::mem::replace(&mut self.node, NodeState::None) {
            NodeState::Held(node) if self.hold == hold => Some(node),
            other => {
                self.node = other;
                None
            }
        }
    }

    fn first_policy(&self) -> Option<LossPolicy> {
        self.waiters.values().next().map(|first| first.loss_policy)
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
            Self::None | Self::Acquiring { .. } => None,
        }
    }
}

impl Node {
    /// While it is the sole contender, it serves all that have joined by now.
    fn refresh(&mut self, conditions: &Conditions, next_ticket: Ticket) {
        if self.sole == Sole::Yes {
            if conditions.unfired {
                self.max_ticket = next_ticket;
            } else {
                self.sole = Sole::No;
            }
        }
    }

    /// Asks whether it is the sole contender, once.
    fn ask(&mut self, out: &mut Vec<Command>) {
        if self.sole == Sole::NotAsked {
            self.sole = Sole::Asked;
            out.push(Command::AskWhetherSole);
        }
    }
}

impl Waiter {
    /// Whether a node that was made for it may pass to `next`.
    fn passes_to(&self, next: &Self) -> bool {
        self.shares_queue && self.node == next.node && !self.node_per_hold && !next.node_per_hold
    }
}

#[cfg(test)]
mod tests;
