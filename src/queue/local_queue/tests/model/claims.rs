//! The claims about each state: exclusion, and the invariants of the [module](crate::queue::local_queue).

use std::fmt;

use super::process::{At, Companion, Core, Queue, Stage};
use super::servers::{Kind, companion_of, kind_of, name_of, sequence_of};
use super::world::World;
use crate::queue::local_queue::{HoldNumber, NodeId, NodeState, Progress, Sole};

/// A hold that a live lease backs.
struct Backed {
    key: NodeId,
    /// The process and the number of a hold of a queue.
    hold: Option<(usize, HoldNumber)>,
    /// The write hold beside which this is a read.
    beside: Option<(usize, HoldNumber)>,
}

impl Backed {
    fn goes_with(&self, other: &Self) -> bool {
        let both_read = kind_of(self.key) == Kind::Read && kind_of(other.key) == Kind::Read;
        let is_companion = self.beside.is_some()
            && self.beside == other.hold
            && sequence_of(self.key) == sequence_of(other.key);
        both_read || is_companion
    }
}

impl World {
    pub(super) fn claim(&mut self, holds: bool, claim: impl fmt::Display) {
        if !holds && self.broken.is_none() {
            self.broken = Some(claim.to_string());
        }
    }

    pub(super) fn check(&mut self) {
        self.check_exclusion();
        for process in 0..self.processes.len() {
            for queue in 0..self.processes[process].queues.len() {
                self.check_queue(process, queue);
            }
        }
    }

    /// The holds that a live lease backs.
    fn backed(&self) -> Vec<Backed> {
        let mut backed = Vec::new();
        for (p, process) in self.processes.iter().enumerate() {
            for caller in &process.callers {
                if let Stage::Holds { hold, key, lost: false } = caller.stage {
                    backed.push(Backed { key, hold: Some((p, hold)), beside: None });
                }
            }
            if let Companion::Holds { write, hold, lost: false } = process.companion {
                let key = companion_of(write);
                backed.push(Backed { key, hold: None, beside: Some((p, hold)) });
            }
        }
        // The holder learns of an operator's delete afterwards.
        backed.retain(|one| !self.deleted.contains(&one.key));
        let curator = self.curator.node.filter(|_| self.curator.holds);
        backed.extend(curator.map(|key| Backed { key, hold: None, beside: None }));
        backed
    }

    fn check_exclusion(&mut self) {
        let backed = self.backed();
        for (place, one) in backed.iter().enumerate() {
            let exists = self.servers.find(one.key).is_some();
            self.claim(exists, format_args!("{} has a hold and does not exist", name_of(one.key)));
            for other in &backed[..place] {
                let names = [other, one].map(|one| name_of(one.key)).join(" and ");
                let may = one.goes_with(other) || other.goes_with(one);
                self.claim(may, format_args!("exclusion: {names} hold at once"));
            }
        }
    }

    fn check_queue(&mut self, p: usize, q: usize) {
        let process = &self.processes[p];
        let session = &self.servers.sessions[p];
        let queue = &process.queues[q];
        let Core(core) = &queue.core;
        let waits = process.callers.iter().filter_map(|caller| caller.ticket(q));
        let mut waiting: Vec<_> = waits.collect();
        waiting.sort_unstable();
        let is_none = matches!(core.node, NodeState::None);
        let is_acquiring = matches!(core.node, NodeState::Acquiring(_));
        let held = match &core.node {
            NodeState::Held(node) => Some(node),
            _ => None,
        };
        let node = match &core.node {
            NodeState::Held(node) | NodeState::Undecided(node) | NodeState::Retained(node) => {
                Some(node)
            }
            _ => None,
        };
        let mut claims = vec![
            (core.waiters.keys().copied().eq(waiting), "the waiters are the callers that wait"),
            (!core.has_waiters() || !is_none, "I1: callers wait without a node or an entry"),
            (queue.entry.is_some() == is_acquiring, "I1, I2: an entry runs while one is needed"),
            (queue.first.map(|own| own.key) == node.map(|node| node.id), "I2: one node is first"),
            (queue.draining.len() == core.draining.len(), "I2: the nodes that drain are known"),
            (core.draining.iter().all(|node| !node.holds.is_empty()), "I2: drained, without hold"),
            (held.is_none_or(|node| !node.holds.is_empty()), "I5: held, without a hold"),
        ];
        match &core.node {
            NodeState::Undecided(node) => {
                let asks = node.sole == Sole::Asked && session.asks_whether_sole(node.id);
                claims.push((core.has_waiters(), "I5: undecided, and no caller waits"));
                claims.push((asks || !session.alive, "I5: undecided, and no listing was asked"));
            }
            NodeState::Held(node) if node.holder.shared && core.has_waiters() => {
                let asks = node.sole == Sole::Asked && session.asks_whether_sole(node.id);
                claims.push((asks || !session.alive, "readers wait without a listing"));
            }
            NodeState::Retained(_) => {
                claims.push((!core.has_waiters(), "I5: retained while callers wait"));
            }
            _ => {}
        }
        if let NodeState::Acquiring(Progress::Attempt(attempt)) = &core.node {
            let first = core.waiters.first_key_value();
            let serves = first.is_some_and(|(ticket, first)| attempt.serves(*ticket, first));
            claims.push((serves, "I1: the node of the attempt is not for the first caller"));
        }
        let tries = core.waiters.values().any(|waiter| waiter.no_wait);
        claims.push((!tries || !core.is_busy(), "a try waits for another contender"));
        for (holds, claim) in claims {
            self.claim(holds, claim);
        }
    }

    /// Returns a claim that does not hold, of a state in which nothing happens any more without a fault or a new call.
    pub(super) fn at_rest(&self) -> Option<&'static str> {
        let mut callers = self.processes.iter().flat_map(|process| &process.callers);
        let mut queues = self.processes.iter().flat_map(|process| &process.queues);
        if callers.any(|caller| caller.stage != Stage::Idle) {
            return Some("a caller waits for ever");
        }
        if !self.servers.nodes.is_empty() {
            return Some("a node is left");
        }
        let is_idle = |queue: &Queue| {
            let Core(core) = &queue.core;
            matches!(core.node, NodeState::None) && core.draining.is_empty()
        };
        (!queues.all(is_idle)).then_some("a queue does not come to rest")
    }

    /// The situations in which this state is. A search that meets none of a kind shows nothing about it.
    pub(super) fn situations(&self) -> impl Iterator<Item = &'static str> {
        let queues = self.processes.iter().flat_map(|process| &process.queues);
        queues.flat_map(|queue| {
            let held = match &queue.core.0.node {
                NodeState::Held(node) => node.holds.len(),
                _ => 0,
            };
            let entry = queue.entry.as_ref().map(|entry| entry.at);
            [
                (held > 1, "readers share a node"),
                (
                    held > 0 && queue.core.0.has_waiters(),
                    "callers wait for a node of their process",
                ),
                (!queue.draining.is_empty(), "a node drains"),
                (matches!(queue.core.0.node, NodeState::Undecided(_)), "a node is undecided"),
                (matches!(queue.core.0.node, NodeState::Retained(_)), "a node is retained"),
                (matches!(entry, Some(At::Waiting { .. })), "an entry waits"),
                (entry == Some(At::Proving), "an entry proves its session"),
                (entry == Some(At::Searching), "an entry searches for its node"),
                (
                    queue.last.is_some_and(|(hold, ..)| hold > u64::from(queue.creates)),
                    "a node passed on",
                ),
            ]
            .into_iter()
            .filter_map(|(is_so, situation)| is_so.then_some(situation))
        })
    }
}
