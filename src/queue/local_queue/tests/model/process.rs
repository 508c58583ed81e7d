//! A process of the model: its callers, and for each kind a queue with the real [`LocalQueue`] and what the driver and the entry
//! keep beside it.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::servers::{Kind, kind_of};
use crate::queue::local_queue::{
    Attempt, HoldNumber, LocalQueue, Node, NodeId, NodeState, Progress, Sole, Ticket, Waiter,
};

/// A caller, which asks for the lock this many times.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) queue: usize,
    pub(super) waiter: Arc<Waiter>,
    pub(super) content: u8,
    pub(super) turns: u8,
    /// The caller may stop waiting, beside the callers that [`Faults`](super::world::Faults) count.
    pub(super) may_leave: bool,
    pub(super) stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Idle,
    Waits(Ticket),
    Holds { hold: HoldNumber, key: NodeId, lost: bool },
}

impl Caller {
    /// Returns the ticket of a caller that waits in this queue.
    pub(super) fn ticket(&self, queue: usize) -> Option<Ticket> {
        match self.stage {
            Stage::Waits(ticket) if self.queue == queue => Some(ticket),
            _ => None,
        }
    }

    pub(super) fn keeps_node(&self) -> bool {
        !self.waiter.retention.is_zero()
    }

    pub(super) fn lose(&mut self, matches: impl Fn(NodeId, &Waiter) -> bool) {
        if let Stage::Holds { key, lost, .. } = &mut self.stage {
            *lost |= matches(*key, &self.waiter);
        }
    }
}

impl Hash for Caller {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.turns, self.stage).hash(hasher);
    }
}

/// A node that is first or drains, as the driver knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Own {
    pub(super) key: NodeId,
    /// The connection on which the create was sent.
    pub(super) link: u8,
    /// Another process asked for the node to be given up.
    pub(super) revoked: bool,
    /// A read was created alongside a write hold of the node.
    pub(super) accompanied: bool,
    /// The watch on the children, and whether it has fired.
    pub(super) fired: Option<bool>,
    /// A task ends the retention when the watch fires.
    pub(super) awaits_news: bool,
    /// The name tells other processes that the node may be kept without a hold.
    pub(super) retainable: bool,
}

/// The entry of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) guid: u8,
    pub(super) own: Own,
    pub(super) sole: Sole,
    /// The connection on which the first watch of the wait was asked for.
    pub(super) armed: Option<u8>,
    pub(super) at: At,
}

/// The place of an entry in its algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum At {
    /// The create is not answered.
    Creating,
    /// The search for the node of a create without an answer.
    Searching,
    /// The create is answered; the listing behind it is not.
    Created,
    Listing,
    /// The request for the watch on the predecessor is not answered.
    Arming {
        predecessor: NodeId,
        head: bool,
    },
    Waiting {
        predecessor: NodeId,
        head: bool,
    },
    /// The lease has to be proved.
    Proving,
    /// The attempt left no node.
    Over,
}

impl At {
    /// Returns true if the entry stops as soon as no caller waits.
    pub(super) fn is_stoppable(self) -> bool {
        !matches!(self, Self::Creating | Self::Searching | Self::Created | Self::Over)
    }
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Queue {
    pub(super) kind: Kind,
    pub(super) core: Core,
    pub(super) entry: Option<Entry>,
    pub(super) first: Option<Own>,
    pub(super) draining: Vec<Own>,
    /// The number of creates.
    pub(super) creates: u8,
    /// The foreign contenders that count and still exist, each with the next ticket when this process first saw it.
    pub(super) seen: BTreeMap<NodeId, Ticket>,
    /// The last hold that began: its number, its node and the connection.
    pub(super) last: Option<(HoldNumber, NodeId, u8)>,
}

impl Queue {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            core: Core(LocalQueue::new()),
            entry: None,
            first: None,
            draining: Vec::new(),
            creates: 0,
            seen: BTreeMap::new(),
            last: None,
        }
    }

    /// Returns true if a foreign contender counts for the order of this queue.
    pub(super) fn counts(&self, key: NodeId) -> bool {
        self.kind != Kind::Read || kind_of(key) == Kind::Write
    }

    /// The nodes that are first or drain.
    pub(super) fn own(&mut self) -> impl Iterator<Item = &mut Own> {
        self.first.iter_mut().chain(&mut self.draining)
    }
}

/// A read alongside a write hold, which has a queue of its own, without other callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Companion {
    None,
    /// A read is asked for, alongside this hold.
    Asked(HoldNumber),
    /// The read was created alongside this hold of the node `write`.
    Holds {
        write: NodeId,
        hold: HoldNumber,
        lost: bool,
    },
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Process {
    pub(super) callers: Vec<Caller>,
    pub(super) queues: Vec<Queue>,
    pub(super) lease: bool,
    pub(super) closing: bool,
    /// The session's room for nodes and for watches is half used.
    pub(super) crowded: bool,
    pub(super) companion: Companion,
}

/// The real queue.
#[derive(Clone, Debug)]
pub(super) struct Core(pub(super) LocalQueue);

impl Hash for Core {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let LocalQueue {
            waiters,
            next_ticket,
            has_try_waiters,
            has_unnotified,
            node,
            draining,
            hold,
            // The model has no permits.
            is_permit: _,
        } = &self.0;
        (next_ticket, has_try_waiters, has_unnotified, hold).hash(hasher);
        waiters.len().hash(hasher);
        for (ticket, waiter) in waiters {
            (ticket, Arc::as_ptr(waiter)).hash(hasher);
        }
        match node {
            NodeState::None => 0_u8.hash(hasher),
            NodeState::Acquiring(Progress::Pause) => 1_u8.hash(hasher),
            NodeState::Acquiring(Progress::Stop) => 6_u8.hash(hasher),
            NodeState::Acquiring(Progress::Attempt(attempt)) => {
                let Attempt { waiter, ticket_limit, behind } = attempt;
                (7_u8, Arc::as_ptr(waiter), ticket_limit, behind).hash(hasher);
            }
            NodeState::Held(node) => hash_node(2, node, hasher),
            NodeState::Undecided(node) => hash_node(3, node, hasher),
            NodeState::Retained(node) => hash_node(4, node, hasher),
        }
        draining.len().hash(hasher);
        draining.iter().for_each(|node| hash_node(5, node, hasher));
    }
}

fn hash_node(state: u8, node: &Node, hasher: &mut impl Hasher) {
    let Node { id, holder, sole, retainable, ticket_limit, asked_limit, holds } = node;
    (state, id, Arc::as_ptr(holder), sole, retainable).hash(hasher);
    (ticket_limit, asked_limit, holds).hash(hasher);
}
