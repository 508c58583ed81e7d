//! Takes a step: of a caller, of a connection, of the servers.

use super::process::{At, Companion, Stage};
use super::servers::{Answer, Lost, Purpose, Request, Session, companion_of};
use super::world::{Step, World};
use crate::queue::local_queue::Event;
use crate::session::lease::LossPolicy;

impl World {
    /// Takes the step, and checks the claims about the state that it leads to.
    pub(super) fn take(&mut self, step: Step) {
        self.carry(step);
        self.forget();
        self.check();
    }

    fn carry(&mut self, step: Step) {
        match step {
            Step::Joins(p, c) => self.joins(p, c, step),
            Step::Withdraws(p, c) => {
                let process = &self.processes[p];
                if !process.closing && !process.callers[c].may_leave {
                    self.faults.withdrawals -= 1;
                }
                self.leaves(p, c, step);
            }
            Step::Releases(p, c) => self.leaves(p, c, step),
            Step::EndsRetention(p, q) => {
                if let Some((_, _, event)) = self.event_of(step) {
                    self.on(p, q, event);
                }
            }
            Step::WritesFenced(p, c) => self.writes_fenced(p, c),
            Step::Accompanies(p, c) => self.accompanies(p, c),
            Step::ReleasesCompanion(p) => {
                if let Companion::Holds { write, .. } = self.processes[p].companion {
                    self.delete(p, companion_of(write));
                }
                self.processes[p].companion = Companion::None;
            }
            Step::Executes(p) => self.executes(p),
            Step::Hears(p) => {
                if let Some(answer) = self.servers.sessions[p].answers.pop_front() {
                    self.hears(p, answer, None);
                }
            }
            Step::HearsWithEvent(p) => {
                let event = self.servers.sessions[p].event_behind_listing();
                if let Some(answer) = self.servers.sessions[p].answers.pop_front() {
                    self.hears(p, answer, event);
                }
            }
            Step::LosesConnection(p) => self.loses_connection(p),
            Step::Reconnects(p) => self.servers.sessions[p].reconnect(),
            Step::LosesLease(p) => {
                self.faults.lapses -= 1;
                self.processes[p].lease = false;
                self.lose_holds(p, |_| true);
            }
            Step::RenewsLease(p) => self.processes[p].lease = true,
            Step::Expires(p) => {
                self.faults.expiries -= 1;
                self.servers.expire(p);
            }
            Step::LearnsOfExpiry(p) => self.learns_of_expiry(p),
            Step::EntersAgain(p, q) => self.enters_again(p, q),
            Step::ListsAgain(p, q) => self.lists_again(p, q),
            Step::StopsEntry(p, q) => self.stops_entry(p, q),
            Step::IsAskedToGiveUp(p, q) => {
                self.faults.revocations -= 1;
                if let Some(first) = &mut self.processes[p].queues[q].first {
                    first.revoked = true;
                }
            }
            Step::Closes(p) => {
                self.faults.closes -= 1;
                self.processes[p].closing = true;
                self.lose_holds(p, |_| true);
            }
            Step::RunsOutOfRoom(p) => {
                self.faults.crowds -= 1;
                self.processes[p].crowded = true;
            }
            Step::OperatorDeletes(key) => {
                self.faults.deletions -= 1;
                self.deleted.push(key);
                self.servers.delete(key, None);
            }
            Step::CuratorCreates | Step::CuratorHolds | Step::CuratorDeletes => {
                self.curator_event(step);
            }
        }
    }

    /// Forgets what no longer matters, so that equal states look equal.
    fn forget(&mut self) {
        let nodes = &self.servers.nodes;
        for queue in self.processes.iter_mut().flat_map(|process| &mut process.queues) {
            queue.seen.retain(|key, _| nodes.iter().any(|node| node.key == *key));
        }
    }

    // --- Callers.

    fn joins(&mut self, p: usize, c: usize, step: Step) {
        let Some((_, q, event)) = self.event_of(step) else { return };
        let ticket = self.processes[p].queues[q].core.0.next_ticket();
        let caller = &mut self.processes[p].callers[c];
        caller.turns -= 1;
        caller.stage = Stage::Waits(ticket);
        self.on(p, q, event);
    }

    /// A caller stops waiting, or releases its hold.
    fn leaves(&mut self, p: usize, c: usize, step: Step) {
        let Some((_, q, event)) = self.event_of(step) else { return };
        self.processes[p].callers[c].stage = Stage::Idle;
        let core = &self.processes[p].queues[q].core.0;
        let late = match event {
            Event::Released { hold, .. } => !core.is_held_by(hold),
            _ => false,
        };
        let before = late.then(|| format!("{core:?}"));
        self.on(p, q, event);
        if let Some(before) = before {
            let after = format!("{:?}", self.processes[p].queues[q].core.0);
            self.claim(before == after, "I3: a late guard changes the queue");
        }
    }

    fn lose_holds(&mut self, p: usize, of: impl Fn(LossPolicy) -> bool) {
        let process = &mut self.processes[p];
        process.callers.iter_mut().for_each(|caller| caller.lose(|_, one| of(one.term.policy)));
        if let Companion::Holds { lost, .. } = &mut process.companion {
            *lost |= of(LossPolicy::Lease);
        }
    }

    fn writes_fenced(&mut self, p: usize, c: usize) {
        self.faults.fenced -= 1;
        let caller = &self.processes[p].callers[c];
        if let Stage::Holds { hold, key, .. } = caller.stage {
            let queue = caller.queue;
            self.send(p, Request::Fenced { queue, key, hold });
        }
    }

    /// The fence closes when the write hold ends, so the node is marked while it lasts.
    fn accompanies(&mut self, p: usize, c: usize) {
        self.faults.companions -= 1;
        let caller = &self.processes[p].callers[c];
        let Stage::Holds { hold, key, .. } = caller.stage else { return };
        let queue = caller.queue;
        let queue = &mut self.processes[p].queues[queue];
        queue.own().filter(|own| own.key == key).for_each(|own| own.accompanied = true);
        self.processes[p].companion = Companion::Asked(hold);
        self.send(p, Request::Companion(key));
    }

    // --- The connection and the session.

    fn executes(&mut self, p: usize) {
        let connected = self.servers.sessions[p].connected;
        let request = self.servers.execute(p);
        if let Some(Request::Fenced { queue, key, hold }) = request
            && !connected
            && self.servers.find(key).is_some()
        {
            let link = self.servers.sessions[p].link;
            let last = self.processes[p].queues[queue].last;
            let late = last.is_some_and(|(later, of, on)| later > hold && of == key && on == link);
            let claim = "a write of an earlier hold takes effect on a broken connection";
            self.claim(!late, claim);
        }
    }

    fn loses_connection(&mut self, p: usize) {
        self.faults.cuts -= 1;
        let lost = self.servers.sessions[p].cut();
        self.lose_holds(p, |policy| policy == LossPolicy::Suspended);
        for one in lost {
            self.repeat(p, one);
        }
    }

    /// Repeats a request without an answer, as its task does.
    fn repeat(&mut self, p: usize, lost: Lost) {
        match lost {
            Lost::Request(request @ Request::Delete(_)) => self.send(p, request),
            Lost::Request(Request::Create { queue, .. })
            | Lost::Answer(Answer::Created { queue, .. }) => {
                if let Some(entry) = &mut self.processes[p].queues[queue].entry {
                    entry.at = At::Searching;
                    let guid = entry.guid;
                    self.send(p, Request::Search { queue, guid });
                }
            }
            Lost::Request(Request::Search { queue, .. })
            | Lost::Answer(Answer::Found { queue, .. }) => {
                if let Some(entry) = &self.processes[p].queues[queue].entry {
                    let guid = entry.guid;
                    self.send(p, Request::Search { queue, guid });
                }
            }
            Lost::Request(Request::List { queue, purpose, .. })
            | Lost::Answer(Answer::Listing { queue, purpose, .. }) => match purpose {
                Purpose::Entering => {
                    if self.at(p, queue) == Some(At::Created) {
                        self.lists_again(p, queue);
                    }
                }
                Purpose::Again(own) => {
                    if self.is_at(p, queue, own, At::Listing) {
                        self.lists_again(p, queue);
                    }
                }
                Purpose::Sole(node) => self.listed(p, queue, node, None, &[]),
            },
            Lost::Request(Request::Watch { queue, own, target })
            | Lost::Answer(Answer::Watching { queue, own, target, .. }) => {
                self.send(p, Request::Watch { queue, own, target });
            }
            Lost::Request(Request::Companion(write))
            | Lost::Answer(Answer::Accompanied { write, .. }) => {
                // The read gives up, and deletes what it may have left.
                if let Companion::Asked(_) = self.processes[p].companion {
                    self.processes[p].companion = Companion::None;
                }
                self.send(p, Request::Delete(companion_of(write)));
            }
            Lost::Request(Request::Fenced { .. }) | Lost::Answer(_) => {}
        }
    }

    fn learns_of_expiry(&mut self, p: usize) {
        let link = self.servers.sessions[p].link + 1;
        self.servers.sessions[p] = Session::new(link);
        let process = &mut self.processes[p];
        process.lease = true;
        process.companion = Companion::None;
        for q in 0..process.queues.len() {
            let own: Vec<_> = self.processes[p].queues[q].own().map(|own| own.key).collect();
            for node in own {
                self.on(p, q, Event::NodeGivenUp { node });
            }
            // An entry that these events started is of the new session.
            let queue = &mut self.processes[p].queues[q];
            if let Some(entry) = queue.entry.as_mut().filter(|entry| entry.own.link != link) {
                entry.at = At::Over;
                entry.own.key = 0;
            }
        }
    }
}
