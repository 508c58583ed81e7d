//! A state of the model, and the steps that lead from it.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::process::{At, Caller, Companion, Process, Queue, Stage};
use super::servers::{CURATOR, Kind, Servers, kind_of};
use crate::queue::local_queue::{Event, NodeId, NodeState};
use crate::session::lease::LossPolicy;

/// The number of times that each fault may happen, in all processes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Faults {
    /// A session lease ends.
    pub(super) lapses: u8,
    /// The servers expire a session whose lease has ended.
    pub(super) expiries: u8,
    /// A connection breaks.
    pub(super) cuts: u8,
    /// A caller stops waiting.
    pub(super) withdrawals: u8,
    /// Another process asks for a node to be given up.
    pub(super) revocations: u8,
    /// A read is created alongside a write hold.
    pub(super) companions: u8,
    /// An operator deletes a node.
    pub(super) deletions: u8,
    /// A holder sends a fenced write.
    pub(super) fenced: u8,
    /// A process closes its connection.
    pub(super) closes: u8,
    /// The room of a session gets scarce.
    pub(super) crowds: u8,
}

/// The contender of Curator.
#[derive(Clone, Debug, Hash)]
pub(super) struct Curator {
    /// The holds that it will ask for.
    pub(super) plan: Vec<Kind>,
    pub(super) node: Option<NodeId>,
    pub(super) holds: bool,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) servers: Servers,
    pub(super) processes: Vec<Process>,
    pub(super) curator: Curator,
    pub(super) faults: Faults,
    /// The nodes that an operator deleted.
    pub(super) deleted: Vec<NodeId>,
    /// The first claim that does not hold.
    pub(super) broken: Option<String>,
}

/// A step. The first number is the process, the second the caller or the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Joins(usize, usize),
    Withdraws(usize, usize),
    Releases(usize, usize),
    WritesFenced(usize, usize),
    Accompanies(usize, usize),
    ReleasesCompanion(usize),
    Executes(usize),
    Hears(usize),
    /// The client has the answer and the event behind it when the task takes the answer.
    HearsWithEvent(usize),
    LosesConnection(usize),
    Reconnects(usize),
    LosesLease(usize),
    RenewsLease(usize),
    Expires(usize),
    LearnsOfExpiry(usize),
    EntersAgain(usize, usize),
    ListsAgain(usize, usize),
    StopsEntry(usize, usize),
    EndsRetention(usize, usize),
    IsAskedToGiveUp(usize, usize),
    Closes(usize),
    RunsOutOfRoom(usize),
    OperatorDeletes(NodeId),
    CuratorCreates,
    CuratorHolds,
    CuratorDeletes,
}

impl Step {
    /// Returns true for a step that needs no fault and no new call: it happens if time passes.
    pub(super) fn is_progress(self, world: &World) -> bool {
        match self {
            Self::Withdraws(process, _) => world.processes[process].closing,
            Self::Joins(..)
            | Self::WritesFenced(..)
            | Self::Accompanies(..)
            | Self::LosesConnection(_)
            | Self::LosesLease(_)
            | Self::Expires(_)
            | Self::IsAskedToGiveUp(..)
            | Self::Closes(_)
            | Self::RunsOutOfRoom(_)
            | Self::OperatorDeletes(_)
            | Self::CuratorCreates => false,
            _ => true,
        }
    }
}

impl World {
    pub(super) fn new(
        kinds: &[Kind],
        callers: Vec<Vec<Caller>>,
        plan: Vec<Kind>,
        faults: Faults,
    ) -> Self {
        let process = |callers| Process {
            callers,
            queues: kinds.iter().map(|kind| Queue::new(*kind)).collect(),
            lease: true,
            closing: false,
            crowded: false,
            companion: Companion::None,
        };
        Self {
            servers: Servers::new(callers.len()),
            processes: callers.into_iter().map(process).collect(),
            curator: Curator { plan, node: None, holds: false },
            faults,
            deleted: Vec::new(),
            broken: None,
        }
    }

    /// A number that differs between states, save by a chance of one in 2^64.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let Self { servers, processes, curator, faults, deleted, broken: _ } = self;
        (servers, processes, curator, faults, deleted).hash(&mut hasher);
        hasher.finish()
    }

    /// The steps that are possible now.
    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for process in 0..self.processes.len() {
            self.steps_of(process, &mut steps);
        }
        if self.faults.deletions > 0 {
            let ours = self.servers.nodes.iter().filter(|node| node.owner != CURATOR);
            steps.extend(ours.map(|node| Step::OperatorDeletes(node.key)));
        }
        match self.curator.node {
            None if !self.curator.plan.is_empty() => steps.push(Step::CuratorCreates),
            Some(_) if self.curator.holds => steps.push(Step::CuratorDeletes),
            Some(own) if self.is_first_by_curator(own) => steps.push(Step::CuratorHolds),
            _ => {}
        }
        steps
    }

    /// Curator's rule: a reader holds if no writer is before it, and any other contender if it is first.
    fn is_first_by_curator(&self, own: NodeId) -> bool {
        let reads = kind_of(own) == Kind::Read;
        let keeps_out = |key: NodeId| key < own && (!reads || kind_of(key) == Kind::Write);
        !self.servers.nodes.iter().any(|node| keeps_out(node.key))
    }

    fn steps_of(&self, p: usize, steps: &mut Vec<Step>) {
        let process = &self.processes[p];
        let session = &self.servers.sessions[p];
        let faults = &self.faults;
        for (c, caller) in process.callers.iter().enumerate() {
            // The driver lets a reader's try look again meanwhile.
            let looks_again = caller.waiter.no_wait
                && caller.waiter.shared
                && process.queues[caller.queue].core.0.is_busy();
            match caller.stage {
                Stage::Idle if caller.turns > 0 && !process.closing && !looks_again => {
                    steps.push(Step::Joins(p, c));
                }
                Stage::Waits(_) => {
                    let may = caller.may_leave || process.closing || faults.withdrawals > 0;
                    steps.extend(may.then_some(Step::Withdraws(p, c)));
                }
                Stage::Holds { lost, key, .. } => {
                    steps.push(Step::Releases(p, c));
                    if !lost && faults.fenced > 0 {
                        steps.push(Step::WritesFenced(p, c));
                    }
                    let may_read = process.companion == Companion::None && faults.companions > 0;
                    if !lost && may_read && kind_of(key) == Kind::Write {
                        steps.push(Step::Accompanies(p, c));
                    }
                }
                Stage::Idle => {}
            }
        }
        if let Companion::Holds { .. } = process.companion {
            steps.push(Step::ReleasesCompanion(p));
        }
        let mut add = |possible: bool, step| {
            if possible {
                steps.push(step);
            }
        };
        let up = session.connected;
        add(session.alive && !session.requests.is_empty(), Step::Executes(p));
        add(up && !session.answers.is_empty(), Step::Hears(p));
        add(up && session.event_behind_listing().is_some(), Step::HearsWithEvent(p));
        add(up && session.alive && faults.cuts > 0, Step::LosesConnection(p));
        add(!up, Step::Reconnects(p));
        add(session.alive && process.lease && faults.lapses > 0, Step::LosesLease(p));
        add(session.alive && !process.lease && up, Step::RenewsLease(p));
        add(session.alive && !process.lease && faults.expiries > 0, Step::Expires(p));
        let is_last = session.answers.is_empty();
        add(!session.alive && up && is_last, Step::LearnsOfExpiry(p));
        add(!process.closing && faults.closes > 0, Step::Closes(p));
        add(!process.crowded && faults.crowds > 0, Step::RunsOutOfRoom(p));
        for (q, queue) in process.queues.iter().enumerate() {
            if let Some(entry) = &queue.entry {
                let stops = queue.core.0.is_stopping() || process.closing;
                let lease = session.alive && up && process.lease;
                add(entry.at == At::Over, Step::EntersAgain(p, q));
                add(entry.at == At::Proving && lease && !stops, Step::ListsAgain(p, q));
                add(entry.at.is_stoppable() && stops, Step::StopsEntry(p, q));
            }
            let is_retained = matches!(queue.core.0.node, NodeState::Retained(_));
            add(is_retained, Step::EndsRetention(p, q));
            let is_kept = queue.first.is_some_and(|first| !first.revoked);
            add(is_kept && faults.revocations > 0, Step::IsAskedToGiveUp(p, q));
        }
    }

    // --- Facts of a process.

    /// Returns true if a hold of this policy can begin.
    pub(super) fn lease_lasts(&self, p: usize, policy: LossPolicy) -> bool {
        let connected = self.servers.sessions[p].connected;
        self.processes[p].lease && (policy == LossPolicy::Lease || connected)
    }

    pub(super) fn curator_event(&mut self, step: Step) {
        let curator = &mut self.curator;
        match step {
            Step::CuratorCreates => {
                let kind = curator.plan.remove(0);
                curator.node = Some(self.servers.create(kind, CURATOR, 0, 0));
            }
            Step::CuratorHolds => curator.holds = true,
            _ => {
                curator.holds = false;
                if let Some(key) = curator.node.take() {
                    self.servers.delete(key, Some(CURATOR));
                }
            }
        }
    }

    /// Returns an event of the real queue for this step, if the step is one.
    pub(super) fn event_of(&self, step: Step) -> Option<(usize, usize, Event)> {
        match step {
            Step::Joins(p, c) => {
                let caller = &self.processes[p].callers[c];
                Some((p, caller.queue, Event::Joined(caller.waiter.clone())))
            }
            Step::Withdraws(p, c) => {
                let caller = &self.processes[p].callers[c];
                Some((p, caller.queue, Event::Withdrawn(caller.ticket(caller.queue)?)))
            }
            Step::Releases(p, c) => {
                let caller = &self.processes[p].callers[c];
                let Stage::Holds { hold, lost, .. } = caller.stage else { return None };
                Some((p, caller.queue, Event::Released { hold, lost }))
            }
            Step::EndsRetention(p, q) => {
                let node = self.processes[p].queues[q].first?.key;
                Some((p, q, Event::RetentionOver { node }))
            }
            _ => None,
        }
    }
}
