//! Carries out the commands of the real queue, as the driver does.

use super::process::{At, Entry, Own, Stage};
use super::servers::{Kind, Purpose, Request, kind_of};
use super::world::World;
use crate::queue::local_queue::{
    Command, Conditions, Event, NodeId, Question, Refusal, Sole, Ticket,
};
use crate::session::lease::LossPolicy;

impl World {
    /// Gives an event to the real queue, and carries out the commands. Returns the last one.
    pub(super) fn on(&mut self, p: usize, q: usize, event: Event) -> Option<Command> {
        let first = self.processes[p].queues[q].first;
        let closing = self.processes[p].closing;
        let crowded = self.processes[p].crowded;
        let link = self.servers.sessions[p].link;
        let lasts = |policy| self.lease_lasts(p, policy);
        let lease = [lasts(LossPolicy::Lease), lasts(LossPolicy::Suspended)];
        let mut terms = Vec::new();
        let commands = self.processes[p].queues[q].core.0.on(event, |question| {
            let Some(first) = first else {
                return Conditions { closing, ..Conditions::default() };
            };
            let unfired = first.fired == Some(false);
            let Question::Pass(kind) = question else {
                return Conditions { closing, unfired, ..Conditions::default() };
            };
            let lasts = |policy| lease[usize::from(policy == LossPolicy::Suspended)];
            let lease_lasts = kind.is_some_and(|kind| lasts(kind.policy));
            if lease_lasts {
                terms.extend(kind);
            }
            Conditions {
                closing,
                lease_lasts,
                same_connection: first.link == link,
                given_up: first.revoked || first.accompanied,
                unfired,
                spare: !crowded,
                wanted: false,
            }
        });
        for command in &commands {
            if let Command::Begin { ticket, hold } = command {
                let term =
                    self.caller(p, q, *ticket).map(|c| self.processes[p].callers[c].waiter.term);
                let checked = term.is_some_and(|term| terms.contains(&term));
                self.claim(
                    checked && !closing,
                    "I4: a hold begins without a lease, or while closing",
                );
                self.begin(p, q, *ticket, *hold);
            } else {
                self.carry_out(p, q, command);
            }
        }
        commands.last().cloned()
    }

    fn caller(&self, p: usize, q: usize, ticket: Ticket) -> Option<usize> {
        self.processes[p].callers.iter().position(|caller| caller.ticket(q) == Some(ticket))
    }

    fn carry_out(&mut self, p: usize, q: usize, command: &Command) {
        let queue = &mut self.processes[p].queues[q];
        match command {
            Command::EndRetention => {
                queue.own().for_each(|own| own.awaits_news = false);
            }
            Command::AwaitNews => {
                if let Some(first) = &mut queue.first {
                    first.awaits_news = true;
                }
            }
            Command::Delete(node) | Command::Forget(node) => {
                let is_it = |own: &Own| own.key == *node;
                if queue.first.take_if(|own| is_it(own)).is_none() {
                    queue.draining.retain(|own| !is_it(own));
                }
                self.delete(p, *node);
            }
            Command::KeepPermit { .. } => self.claim(false, "a permit is offered in a lock"),
            Command::Drain => {
                let first = queue.first.take();
                queue.draining.extend(first);
            }
            Command::Create { ticket, watch_children } => {
                let vacant = queue.entry.is_none() && queue.first.is_none();
                self.claim(vacant, "I2: a create while there is an entry or a node");
                self.create(p, q, *ticket, *watch_children);
            }
            Command::NotifyQueued(tickets) => {
                for ticket in tickets {
                    let waits = self.caller(p, q, *ticket).is_some();
                    self.claim(waits, "a caller that does not wait is notified");
                }
            }
            Command::Refuse(tickets, why) => {
                for ticket in tickets {
                    self.refuse(p, q, *ticket, *why);
                }
            }
            Command::AskWhetherSole => {
                if let Some(first) = queue.first {
                    let purpose = Purpose::Sole(first.key);
                    let again = self.servers.sessions[p].asks_whether_sole(first.key);
                    self.claim(!again, "a second listing whether one node is sole");
                    self.send(p, Request::List { queue: q, purpose, watch: true });
                }
            }
            // A retention may end at any time.
            Command::Retain { .. } => {
                let tells = queue.first.is_some_and(|first| first.retainable);
                let spare = !self.processes[p].crowded;
                self.claim(tells, "a node is retained whose name does not say so");
                self.claim(spare, "a node is retained without room to spare");
            }
            // The entry sees that no caller waits. The others are the answer to `admit`.
            Command::StopEntry
            | Command::Prove
            | Command::Abandon
            | Command::Requeue
            | Command::Begin { .. } => {}
        }
    }

    fn refuse(&mut self, p: usize, q: usize, ticket: Ticket, why: Refusal) {
        let Some(caller) = self.caller(p, q, ticket) else {
            return self.claim(false, "a caller that does not wait is refused");
        };
        let process = &mut self.processes[p];
        let caller = &mut process.callers[caller];
        caller.stage = Stage::Idle;
        let right = match why {
            Refusal::Busy => caller.waiter.no_wait,
            Refusal::Closed => process.closing,
        };
        self.claim(right, "a caller is refused without a reason");
    }

    fn begin(&mut self, p: usize, q: usize, ticket: Ticket, hold: u64) {
        let link = self.servers.sessions[p].link;
        let queue = &mut self.processes[p].queues[q];
        let (Some(first), Some(caller)) = (queue.first, self.caller(p, q, ticket)) else {
            return self.claim(false, "a hold begins without a node or a caller");
        };
        let queue = &mut self.processes[p].queues[q];
        let key = first.key;
        let passes_on = queue.last.is_some_and(|(_, last, _)| last == key);
        queue.last = Some((hold, key, link));
        let overtakes = queue.seen.iter().any(|(other, since)| *other > key && *since <= ticket);
        let before = queue.core.0.waiters.keys().any(|other| *other < ticket);
        let caller = &mut self.processes[p].callers[caller];
        caller.stage = Stage::Holds { hold, key, lost: false };
        let content = caller.content;
        let same = self.servers.find(key).is_none_or(|node| node.content == content);
        let revoked = passes_on && first.revoked;
        self.claim(!revoked, "a node passes on that another process asked for");
        self.claim(!overtakes, "I6: the node passes to a caller that joined after the news");
        self.claim(!before, "a caller is served before one that joined earlier");
        self.claim(same, "a caller holds by a node of another content");
        let together = self.processes[p].callers.iter().filter(|caller| {
            matches!(caller.stage, Stage::Holds { key: other, lost: false, .. } if other == key)
        });
        let alone = kind_of(key) == Kind::Read || together.count() == 1;
        self.claim(alone, "exclusion: two callers of a process hold at once");
    }

    // --- Requests.

    pub(super) fn send(&mut self, p: usize, request: Request) {
        self.servers.sessions[p].send(request);
    }

    /// Sends a delete, unless the node is deleted already.
    pub(super) fn delete(&mut self, p: usize, key: NodeId) {
        if self.servers.find(key).is_some_and(|node| node.owner == p) {
            self.send(p, Request::Delete(key));
        }
    }

    /// Sends a create with a listing, and starts an entry.
    pub(super) fn create(&mut self, p: usize, q: usize, ticket: Ticket, watch: bool) {
        let Some(caller) = self.caller(p, q, ticket) else {
            return self.claim(false, "a create for a caller that does not wait");
        };
        let closing = self.processes[p].closing;
        self.claim(!closing, "a create while closing");
        let link = self.servers.sessions[p].link;
        let content = self.processes[p].callers[caller].content;
        let queue = &self.processes[p].queues[q];
        let guid = u8::try_from(q).unwrap_or(0) * 64 + queue.creates;
        let own = Own {
            key: 0,
            link,
            revoked: false,
            accompanied: false,
            fired: None,
            awaits_news: false,
            retainable: self.processes[p].callers[caller].keeps_node(),
        };
        let sole = Sole::NotAsked;
        let at = At::Creating;
        let queue = &mut self.processes[p].queues[q];
        queue.creates += 1;
        queue.entry = Some(Entry { guid, own, sole, armed: None, at });
        let kind = queue.kind;
        self.send(p, Request::Create { queue: q, kind, guid, content });
        self.send(p, Request::List { queue: q, purpose: Purpose::Entering, watch });
    }

    /// The holds by a node end because it is deleted.
    pub(super) fn node_gone(&mut self, p: usize, key: NodeId) {
        self.processes[p].callers.iter_mut().for_each(|caller| caller.lose(|of, _| of == key));
        for q in 0..self.processes[p].queues.len() {
            if self.processes[p].queues[q].own().any(|own| own.key == key) {
                self.on(p, q, Event::NodeGone { node: key });
            }
        }
    }

    // --- The answer to an entry whose node is first.

    /// Has the first waiter hold. The entry goes on if the queue says so.
    pub(super) fn admit(&mut self, p: usize, q: usize) {
        let queue = &mut self.processes[p].queues[q];
        let Some(entry) = queue.entry.take() else { return };
        queue.first = Some(entry.own);
        let Own { key: node, retainable, .. } = entry.own;
        let sole = entry.sole;
        let answer = self.on(p, q, Event::First { node, sole, retainable });
        let queue = &mut self.processes[p].queues[q];
        match answer {
            Some(Command::Prove) => {
                let own = queue.first.take().unwrap_or(entry.own);
                queue.entry = Some(Entry { own, at: At::Proving, ..entry });
            }
            Some(Command::Abandon) => {
                let own = queue.first.take().unwrap_or(entry.own);
                queue.entry = Some(Entry { own, ..entry });
                self.abandon(p, q);
            }
            _ => {}
        }
    }

    /// Ends the attempt of an entry, and deletes its node.
    pub(super) fn abandon(&mut self, p: usize, q: usize) {
        let Some(entry) = &mut self.processes[p].queues[q].entry else { return };
        entry.at = At::Over;
        let key = entry.own.key;
        entry.own.key = 0;
        self.delete(p, key);
    }
}
