//! Plays the entry of a queue: what it does with an answer or an event, as `queue/entry.rs`, `wait.rs` and `path_nodes.rs` do.

use super::process::{At, Companion, Stage};
use super::servers::{
    Answer, Kind, Purpose, Request, companion_of, key_of, kind_of, name_of, sequence_of,
};
use super::world::World;
use crate::queue::local_queue::{Event, NodeId, Sole};
use crate::queue::rules::admission::{Family, Position, decide, is_busy};
use crate::queue::rules::filter::ContenderFilter;
use crate::session::lease::LossPolicy;

impl World {
    pub(super) fn at(&self, p: usize, q: usize) -> Option<At> {
        self.processes[p].queues[q].entry.as_ref().map(|entry| entry.at)
    }

    /// Returns true if the entry with this node is there.
    pub(super) fn is_at(&self, p: usize, q: usize, own: NodeId, at: At) -> bool {
        let entry = self.processes[p].queues[q].entry.as_ref();
        entry.is_some_and(|entry| entry.own.key == own && entry.at == at)
    }

    /// Ends the attempt, and makes another one if callers wait.
    pub(super) fn enters_again(&mut self, p: usize, q: usize) {
        if self.processes[p].closing {
            self.refuse_all(p, q);
        }
        self.processes[p].queues[q].entry = None;
        self.on(p, q, Event::AttemptEnded);
        let core = &mut self.processes[p].queues[q].core.0;
        if let Some(ticket) = core.begin_attempt() {
            self.create(p, q, ticket, false);
        }
    }

    /// The connection is closing: no caller waits any more.
    fn refuse_all(&mut self, p: usize, q: usize) {
        let process = &mut self.processes[p];
        process.queues[q].core.0.remove(|_, _| true);
        let callers = process.callers.iter_mut();
        for caller in callers.filter(|caller| caller.ticket(q).is_some()) {
            caller.stage = Stage::Idle;
        }
    }

    pub(super) fn stops_entry(&mut self, p: usize, q: usize) {
        if self.processes[p].closing {
            self.refuse_all(p, q);
        }
        self.abandon(p, q);
    }

    pub(super) fn lists_again(&mut self, p: usize, q: usize) {
        let Some(entry) = &mut self.processes[p].queues[q].entry else { return };
        entry.at = At::Listing;
        let purpose = Purpose::Again(entry.own.key);
        self.send(p, Request::List { queue: q, purpose, watch: false });
    }

    fn is_gone(&mut self, p: usize, q: usize) {
        if let Some(entry) = &mut self.processes[p].queues[q].entry {
            entry.at = At::Over;
            entry.own.key = 0;
        }
    }

    pub(super) fn hears(&mut self, p: usize, answer: Answer, event: Option<i64>) {
        match answer {
            Answer::Created { queue, key } => {
                if let Some(entry) = &mut self.processes[p].queues[queue].entry {
                    entry.own.key = key;
                    entry.at = At::Created;
                }
            }
            Answer::Found { queue, key: Some(key) } => {
                if let Some(entry) = &mut self.processes[p].queues[queue].entry {
                    entry.own.key = key;
                    self.lists_again(p, queue);
                }
            }
            Answer::Found { queue, key: None } => self.is_gone(p, queue),
            Answer::Listing { queue, purpose, watch, children } => {
                self.sees(p, &children);
                if let Some(before) = event {
                    self.sees_event(p, before);
                }
                let watch = watch.then_some(event.is_some());
                match purpose {
                    Purpose::Entering if self.at(p, queue) == Some(At::Created) => {
                        self.takes_first_listing(p, queue, watch, &children);
                    }
                    Purpose::Again(own) if self.is_at(p, queue, own, At::Listing) => {
                        self.decides(p, queue, &children);
                    }
                    Purpose::Sole(node) => self.listed(p, queue, node, watch, &children),
                    Purpose::Entering | Purpose::Again(_) => {}
                }
            }
            Answer::Watching { queue, own, target, exists } => {
                let entry = self.processes[p].queues[queue].entry.as_mut();
                let Some(entry) = entry.filter(|entry| entry.own.key == own) else { return };
                if let At::Arming { predecessor, head } = entry.at
                    && predecessor == target
                {
                    entry.at = At::Waiting { predecessor, head };
                    if !exists {
                        self.predecessor_deleted(p, queue, target);
                    }
                }
            }
            Answer::Accompanied { write, created } => self.accompanied(p, write, created),
            Answer::Children { before } => self.children_changed(p, before),
            Answer::Deleted(key) => {
                for q in 0..self.processes[p].queues.len() {
                    match self.at(p, q) {
                        Some(At::Arming { .. } | At::Waiting { .. }) if self.is_own(p, q, key) => {
                            self.is_gone(p, q);
                        }
                        Some(At::Waiting { predecessor, .. }) if predecessor == key => {
                            self.predecessor_deleted(p, q, key);
                        }
                        _ => {}
                    }
                }
                self.node_gone(p, key);
            }
        }
    }

    fn is_own(&self, p: usize, q: usize, key: NodeId) -> bool {
        self.processes[p].queues[q].entry.as_ref().is_some_and(|entry| entry.own.key == key)
    }

    fn accompanied(&mut self, p: usize, write: NodeId, created: bool) {
        let Companion::Asked(hold) = self.processes[p].companion else { return };
        let lasts = self.lease_lasts(p, LossPolicy::Lease) && !self.processes[p].closing;
        self.processes[p].companion = match created && lasts {
            true => Companion::Holds { write, hold, lost: false },
            false => Companion::None,
        };
        if created && !lasts {
            self.delete(p, companion_of(write));
        }
    }

    /// The process knows these contenders of others from now on.
    fn sees(&mut self, p: usize, children: &[NodeId]) {
        let foreign = children
            .iter()
            .filter(|key| self.servers.find(**key).is_some_and(|node| node.owner != p));
        let foreign: Vec<_> = foreign.copied().collect();
        for queue in &mut self.processes[p].queues {
            let next = queue.core.0.next_ticket();
            for key in &foreign {
                if queue.counts(*key) {
                    queue.seen.entry(*key).or_insert(next);
                }
            }
        }
    }

    /// The process knows of contenders that the event of a watch may stand for.
    fn sees_event(&mut self, p: usize, before: i64) {
        let known = self.servers.nodes.iter().map(|node| node.key);
        let known: Vec<_> = known.filter(|key| sequence_of(*key) < before).collect();
        self.sees(p, &known);
    }

    fn children_changed(&mut self, p: usize, before: i64) {
        let mut news = Vec::new();
        let mut any = false;
        for (q, queue) in self.processes[p].queues.iter_mut().enumerate() {
            let entry = queue.entry.as_mut().map(|entry| &mut entry.own);
            for own in entry.into_iter().chain(queue.first.iter_mut()).chain(&mut queue.draining) {
                if let Some(fired @ false) = &mut own.fired {
                    *fired = true;
                    any = true;
                    news.extend(own.awaits_news.then_some((q, own.key)));
                }
            }
        }
        if any {
            self.sees_event(p, before);
        }
        for (q, node) in news {
            self.hears_news(p, q, node);
        }
    }

    /// The watch that is awaited may have fired before.
    fn awaits_old_news(&mut self, p: usize, q: usize, node: NodeId) {
        let first = self.processes[p].queues[q].first;
        if first.is_some_and(|own| own.key == node && own.awaits_news && own.fired == Some(true)) {
            self.hears_news(p, q, node);
        }
    }

    fn hears_news(&mut self, p: usize, q: usize, node: NodeId) {
        // Beyond ten listings a second the driver ends the retention, as it may end at any time.
        let event = match kind_of(node) {
            Kind::Read => Event::News { node },
            _ => Event::RetentionOver { node },
        };
        self.on(p, q, event);
    }

    fn family(&self, q: usize) -> Family {
        match self.processes[0].queues[q].kind {
            Kind::Lock => Family::Exclusive(ContenderFilter::Curator),
            Kind::Write | Kind::Read => Family::ReadWrite,
        }
    }

    /// Returns true if the listing shows the node and no other contender that counts, as `PathNodes::is_sole` does.
    fn is_sole(&self, q: usize, key: NodeId, children: &[NodeId]) -> bool {
        if kind_of(key) == Kind::Read {
            let names: Vec<_> = children.iter().map(|child| name_of(*child)).collect();
            return children.contains(&key) && !is_busy(&names, &self.family(q), true);
        }
        children == [key]
    }

    /// Takes the answer to [`Command::AskWhetherSole`](crate::queue::local_queue::Command::AskWhetherSole).
    /// `fired`: the state of the watch, if there was an answer.
    pub(super) fn listed(
        &mut self,
        p: usize,
        q: usize,
        node: NodeId,
        fired: Option<bool>,
        children: &[NodeId],
    ) {
        let sole = fired.is_some() && self.is_sole(q, node, children);
        let first = self.processes[p].queues[q].first.as_mut();
        if let Some(first) = first.filter(|first| first.key == node) {
            first.fired = fired;
            self.on(p, q, Event::Listed { node, sole });
            self.awaits_old_news(p, q, node);
        }
    }

    fn takes_first_listing(
        &mut self,
        p: usize,
        q: usize,
        fired: Option<bool>,
        children: &[NodeId],
    ) {
        let Some(key) = self.processes[p].queues[q].entry.as_ref().map(|entry| entry.own.key)
        else {
            return;
        };
        let sole = self.is_sole(q, key, children);
        if let Some(entry) = &mut self.processes[p].queues[q].entry {
            entry.sole = match (fired, sole) {
                (None, _) => Sole::NotAsked,
                (Some(_), true) => Sole::Yes,
                (Some(_), false) => Sole::No,
            };
            entry.own.fired = fired.filter(|_| sole);
        }
        self.decides(p, q, children);
    }

    /// Decides by the real rules.
    fn decides(&mut self, p: usize, q: usize, children: &[NodeId]) {
        let Some(key) = self.processes[p].queues[q].entry.as_ref().map(|entry| entry.own.key)
        else {
            return;
        };
        // An older node of ours that is not listed was deleted.
        let queues = self.processes[p].queues.iter_mut();
        let missing = queues.flat_map(|queue| queue.own().map(|own| own.key).collect::<Vec<_>>());
        let missing: Vec<_> = missing.filter(|own| *own < key && !children.contains(own)).collect();
        missing.into_iter().for_each(|own| self.node_gone(p, own));
        let names: Vec<_> = children.iter().map(|child| name_of(*child)).collect();
        match decide(&names, &name_of(key), &self.family(q)) {
            // No queue of the model is one of leases.
            Position::Gone | Position::Among(_) => self.is_gone(p, q),
            Position::First => self.admit(p, q),
            Position::Behind(ahead) => {
                self.waits(p, q, key_of(ahead.predecessor.as_str()), ahead.admits);
            }
        }
    }

    fn waits(&mut self, p: usize, q: usize, target: NodeId, head: bool) {
        let link = self.servers.sessions[p].link;
        let queue = &mut self.processes[p].queues[q];
        let reads = queue.kind == Kind::Read;
        if let Some(entry) = &mut queue.entry {
            entry.sole = if reads { Sole::NotAsked } else { Sole::No };
            entry.own.fired = None;
            entry.armed.get_or_insert(link);
            entry.at = At::Arming { predecessor: target, head };
        }
        // Without callers the entry stops before it waits.
        if self.processes[p].queues[q].core.0.is_stopping() || self.processes[p].closing {
            return self.stops_entry(p, q);
        }
        self.on(p, q, Event::Behind);
        let own = self.processes[p].queues[q].entry.as_ref().map_or(0, |entry| entry.own.key);
        self.send(p, Request::Watch { queue: q, own, target });
    }

    /// The head rule admits the entry; otherwise it lists again.
    fn predecessor_deleted(&mut self, p: usize, q: usize, predecessor: NodeId) {
        self.node_gone(p, predecessor);
        let link = self.servers.sessions[p].link;
        let Some(entry) = &self.processes[p].queues[q].entry else { return };
        match entry.at {
            At::Waiting { head: true, .. } if entry.armed == Some(link) => self.admit(p, q),
            At::Waiting { .. } => self.lists_again(p, q),
            _ => {}
        }
    }
}
