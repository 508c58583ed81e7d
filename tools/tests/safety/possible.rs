//! What can happen in a state. What is *due* happens sooner or later, if nothing else does: answers come,
//! servers catch up, links heal, stopped processes go on, sessions that nobody uses expire, and who lost
//! a hold lets it go. The rest need not happen: faults, new tries, and the end of a hold.

use crate::model::{Action, Contention, What};
use crate::phase::{Phase, Task, Watch};
use crate::rules::ParentWatch;
use crate::world::{Client, Link, Who, World};

impl Client {
    pub(crate) fn is_done(&self) -> bool {
        let done = |task: &Task| task.phase == Phase::Idle && task.tries == 0;
        self.duties.is_empty() && self.tasks.iter().all(done)
    }

    /// Whether a fault of its own can make a difference.
    fn is_busy(&self) -> bool {
        !self.duties.is_empty() || self.phases().any(|phase| *phase != Phase::Idle)
    }

    fn is_reachable(&self) -> bool {
        self.link == Link::Up && self.alive
    }
}

impl Contention {
    /// Nothing is due: unless somebody does something new, this is how things stay.
    pub(crate) fn settled(&self, world: &World) -> bool {
        let mut due = Vec::new();
        self.due(world, &mut due);
        due.is_empty()
    }

    pub(crate) fn due(&self, world: &World, actions: &mut Vec<Action>) {
        for id in world.ids() {
            let client = world.client(id);
            let mut add = |task, what| actions.push(Action { who: Who { client: id, task }, what });
            if client.abandoned.is_some() {
                add(0, What::AbandonedExpires);
            }
            if client.dead || client.is_done() {
                continue;
            }
            // What the servers and the network do, also while the process is stopped.
            if client.lag > 0 && client.link != Link::Apart {
                add(0, What::ServerAdvances);
            }
            if client.link == Link::Apart {
                add(0, What::PartitionHeals);
            }
            if client.is_reachable() {
                for (who, task) in world.tasks_of(id) {
                    if matches!(task.phase, Phase::Creating { .. }) {
                        add(who.task, What::CreateRuns);
                    }
                }
            }
            if client.stopped {
                add(0, What::Resumes);
                continue;
            }
            if client.link == Link::Down && client.alive {
                add(0, What::Reconnects);
            }
            if client.link != Link::Apart && !client.alive {
                add(0, What::LearnsOfExpiry);
            }
            if client.link != Link::Down
                && client.known.watch == Watch::Cut
                && !self.rules.gap.no_reconnect
            {
                add(0, What::RearmsParent);
            }
            for index in 0..client.duties.len() as u8 {
                if client.is_reachable() {
                    add(0, What::CleansUp(index));
                }
            }
            for (who, task) in world.tasks_of(id) {
                let mut add = |what| add(who.task, what);
                if client.link != Link::Down {
                    self.read(world, who, task, &mut add);
                }
                if client.is_reachable() {
                    write(task, &mut add);
                }
                wait(task, &mut add);
            }
        }
    }

    pub(crate) fn optional(&self, world: &World, actions: &mut Vec<Action>) {
        for id in world.ids() {
            let client = world.client(id);
            let mut add = |task, what| actions.push(Action { who: Who { client: id, task }, what });
            for (index, flying) in client.abandoned.iter().flat_map(|a| a.flying).enumerate() {
                if flying.is_some() {
                    add(0, What::LateCreateOfAbandonedRuns(index as u8));
                }
            }
            if client.dead || client.is_done() {
                continue;
            }
            late(client, &mut add);
            if client.is_busy() {
                faults(world, client, &mut add);
            }
            if client.stopped {
                continue;
            }
            if self.may_watch_parent(client) {
                add(0, What::WatchesParent);
            }
            for (who, task) in world.tasks_of(id) {
                if task.phase == Phase::Idle && task.tries > 0 && client.is_reachable() {
                    add(who.task, What::Starts);
                }
                if let Phase::Holding { lost: false, .. } = task.phase {
                    add(who.task, What::Releases);
                    if world.faults.downgrades > 0 && client.is_reachable() {
                        add(who.task, What::PassesOn);
                    }
                }
            }
        }
        let mut add = |what| actions.push(Action { who: Who { client: 0, task: 0 }, what });
        let leader = world.leader();
        if world.faults.deletions > 0 {
            leader.nodes.iter().for_each(|node| add(What::NodeIsDeleted(node.name.sequence)));
        }
        if world.faults.changes > 0 {
            leader.nodes.iter().for_each(|node| add(What::NodeIsChanged(node.name.sequence)));
        }
        let used = leader.counter.is_some_and(|counter| counter > 0);
        if world.faults.reaps > 0 && used && leader.nodes.is_empty() {
            add(What::ParentIsReaped);
        }
    }

    /// Only where it is sent too late.
    fn may_watch_parent(&self, client: &Client) -> bool {
        self.rules.gap.parent_watch == ParentWatch::BehindTheDelete
            && client.link != Link::Down
            && client.known.next.is_some()
            && client.known.watch == Watch::None
            && client.phases().all(|phase| *phase == Phase::Idle)
    }

    /// What a server answers by itself.
    fn read(&self, world: &World, who: Who, task: &Task, add: &mut impl FnMut(What)) {
        let lag = world.client(who.client).lag;
        match task.phase {
            // A server has applied a write before it answers it.
            Phase::Created { age, .. } if lag <= age => add(What::CreateAnswered),
            Phase::Adopting { .. } => add(What::ReadsOwner),
            Phase::Listing { .. } => add(What::Lists),
            Phase::Watching { .. } => add(What::Watches),
            Phase::Waiting { before, stand_by, .. } => {
                if before.watch == Watch::Cut {
                    add(What::RearmsOthers);
                }
                if stand_by.is_some_and(|stand_by| stand_by.watch.fired()) {
                    add(What::ListsAsStandBy);
                }
                let late = self.rules.own_watch && !self.rules.head.own_armed_first;
                if late && task.own_watch == Watch::None {
                    add(What::WatchesOwn);
                }
            }
            // Looked for now and then: what matters is that it finds out.
            Phase::InProcess { own, .. } | Phase::Holding { own, lost: false } => {
                let found = own.robbed && world.look_at_own(who) == Watch::Deleted;
                if found && self.rules.late_own_watch {
                    add(What::FindsOwnGone);
                }
            }
            _ => {}
        }
        if task.own_watch == Watch::Cut {
            add(What::RearmsOwn);
        }
    }
}

fn faults(world: &World, client: &Client, add: &mut impl FnMut(u8, What)) {
    let faults = world.faults;
    let disturbed = client.link != Link::Up || client.stopped;
    if client.link == Link::Up {
        if faults.cuts > 0 {
            add(0, What::LinkIsCut);
            for (task, phase) in (0..).zip(client.phases()) {
                if let Phase::Created { age, .. } = *phase
                    && client.lag <= age
                    && !client.stopped
                {
                    add(task, What::LinkIsCutBeforeTheListing);
                }
            }
        }
        if faults.partitions > 0 && client.max_lag > 0 {
            add(0, What::IsPartitioned);
        }
    }
    if client.lease && disturbed {
        add(0, What::LeaseEnds);
    }
    if faults.expiries > 0 && client.alive && !client.lease && disturbed {
        add(0, What::SessionExpires);
        let gone = client.link == Link::Down && !client.stopped;
        if gone && client.abandoned.is_none() {
            add(0, What::DeclaresItOver);
        }
    }
    if faults.stops > 0 && !client.stopped {
        add(0, What::Stops);
    }
    if faults.kills > 0 && client.abandoned.is_none() {
        add(0, What::IsKilled);
    }
    for (task, phase) in (0..).zip(client.phases()) {
        let can_withdraw = !matches!(
            phase,
            Phase::Idle | Phase::Creating { .. } | Phase::Created { .. } | Phase::Holding { .. }
        );
        if faults.withdrawals > 0 && can_withdraw && !client.stopped {
            add(task, What::GivesUp);
        }
    }
}

/// What the leader has to answer.
fn write(task: &Task, add: &mut impl FnMut(What)) {
    match task.phase {
        Phase::NoParent => add(What::MakesParent),
        Phase::Doubt { .. } => add(What::Resolves),
        Phase::Proving { .. } => add(What::Proves),
        _ => {}
    }
}

fn wait(task: &Task, add: &mut impl FnMut(What)) {
    match task.phase {
        Phase::Waiting { before, .. }
            if before.watch.fired() || task.own_watch == Watch::Deleted =>
        {
            add(What::Wakes);
        }
        Phase::Holding { lost: true, .. } => add(What::Releases),
        Phase::Listed { .. } => add(What::ActsOnListing),
        _ => {}
    }
}

/// What was cut off on its way takes effect.
fn late(client: &Client, add: &mut impl FnMut(u8, What)) {
    if client.link != Link::Down || !client.alive {
        return;
    }
    for (task, phase) in (0..).zip(client.phases()) {
        if let Phase::Doubt { flying: true, .. } = phase {
            add(task, What::LateCreateRuns);
        }
    }
    for (index, duty) in client.duties.iter().enumerate() {
        if duty.flying {
            add(0, What::LateCleanUpRuns(index as u8));
        }
    }
}
