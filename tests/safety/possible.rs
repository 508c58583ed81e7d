//! What can happen in a state. What is *due* happens sooner or later, if nothing else does: answers come,
//! servers catch up, links heal, stopped processes go on, sessions that nobody uses expire, and who lost
//! a hold lets it go. The rest need not happen: faults, new tries, and the end of a hold.

use crate::model::{Action, Contention, What};
use crate::world::{Client, Link, Phase, Watch, World};

impl Client {
    pub(crate) fn is_done(&self) -> bool {
        self.phase == Phase::Idle && self.tries == 0 && self.duties.is_empty()
    }

    /// Whether a fault of its own can make a difference.
    fn is_busy(&self) -> bool {
        self.phase != Phase::Idle || !self.duties.is_empty()
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
            let mut add = |what| actions.push(Action { client: id, what });
            if client.abandoned.is_some() {
                add(What::AbandonedExpires);
            }
            if client.dead || client.is_done() {
                continue;
            }
            // What the servers and the network do, also while the process is stopped.
            if client.lag > 0 && client.link != Link::Apart {
                add(What::ServerAdvances);
            }
            if client.link == Link::Apart {
                add(What::PartitionHeals);
            }
            if matches!(client.phase, Phase::Creating { .. }) && client.is_reachable() {
                add(What::CreateRuns);
            }
            if client.stopped {
                add(What::Resumes);
                continue;
            }
            if client.link == Link::Down && client.alive {
                add(What::Reconnects);
            }
            if client.link != Link::Apart && !client.alive {
                add(What::LearnsOfExpiry);
            }
            if client.link != Link::Down {
                read(client, &mut add);
            }
            if client.is_reachable() {
                write(client, &mut add);
            }
            wait(client, &mut add);
        }
    }

    pub(crate) fn optional(&self, world: &World, actions: &mut Vec<Action>) {
        for id in world.ids() {
            let client = world.client(id);
            let mut add = |what| actions.push(Action { client: id, what });
            if client.abandoned.is_some_and(|left| left.flying.is_some()) {
                add(What::LateCreateOfAbandonedRuns);
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
            if client.phase == Phase::Idle && client.tries > 0 && client.is_reachable() {
                add(What::Starts);
            }
            if let Phase::Holding { lost: false, .. } = client.phase {
                add(What::Releases);
            }
        }
        let mut add = |what| actions.push(Action { client: 0, what });
        let leader = world.leader();
        if world.faults.deletions > 0 {
            leader.nodes.iter().for_each(|node| add(What::NodeIsDeleted(node.name.sequence)));
        }
        let used = leader.counter.is_some_and(|counter| counter > 0);
        if world.faults.reaps > 0 && used && leader.nodes.is_empty() {
            add(What::ParentIsReaped);
        }
    }
}

fn faults(world: &World, client: &Client, add: &mut impl FnMut(What)) {
    let faults = world.faults;
    let disturbed = client.link != Link::Up || client.stopped;
    if client.link == Link::Up {
        if faults.cuts > 0 {
            add(What::LinkIsCut);
            if let Phase::Created { age, .. } = client.phase
                && client.lag <= age
                && !client.stopped
            {
                add(What::LinkIsCutBeforeTheListing);
            }
        }
        if faults.partitions > 0 && client.max_lag > 0 {
            add(What::IsPartitioned);
        }
    }
    if client.lease && disturbed {
        add(What::LeaseEnds);
    }
    if faults.expiries > 0 && client.alive && !client.lease && disturbed {
        add(What::SessionExpires);
        let gone = client.link == Link::Down && !client.stopped;
        if gone && client.abandoned.is_none() {
            add(What::DeclaresItOver);
        }
    }
    if faults.stops > 0 && !client.stopped {
        add(What::Stops);
    }
    if faults.kills > 0 && client.abandoned.is_none() {
        add(What::IsKilled);
    }
    let can_withdraw = !matches!(
        client.phase,
        Phase::Idle | Phase::Creating { .. } | Phase::Created { .. } | Phase::Holding { .. }
    );
    if faults.withdrawals > 0 && can_withdraw && !client.stopped {
        add(What::GivesUp);
    }
}

/// What a server answers by itself.
fn read(client: &Client, add: &mut impl FnMut(What)) {
    match client.phase {
        // A server has applied a write before it answers it.
        Phase::Created { age, .. } if client.lag <= age => add(What::CreateAnswered),
        Phase::Adopting { .. } => add(What::ReadsOwner),
        Phase::Listing { .. } => add(What::Lists),
        Phase::Watching { .. } => add(What::Watches),
        _ => {}
    }
    if client.own_watch == Watch::Cut {
        add(What::RearmsOwn);
    }
    if let Phase::Waiting { watch: Watch::Cut, .. } = client.phase {
        add(What::RearmsPredecessor);
    }
}

/// What the leader has to answer.
fn write(client: &Client, add: &mut impl FnMut(What)) {
    match client.phase {
        Phase::NoParent => add(What::MakesParent),
        Phase::Doubt { .. } => add(What::Resolves),
        Phase::Proving { .. } => add(What::Proves),
        _ => {}
    }
    for index in 0..client.duties.len() as u8 {
        add(What::CleansUp(index));
    }
}

fn wait(client: &Client, add: &mut impl FnMut(What)) {
    match client.phase {
        Phase::Waiting { watch, .. }
            if watch == Watch::Fired || client.own_watch == Watch::Fired =>
        {
            add(What::Wakes);
        }
        Phase::Holding { lost: true, .. } => add(What::Releases),
        _ => {}
    }
}

/// What was cut off on its way takes effect.
fn late(client: &Client, add: &mut impl FnMut(What)) {
    if client.link != Link::Down || !client.alive {
        return;
    }
    if let Phase::Doubt { flying: true, .. } = client.phase {
        add(What::LateCreateRuns);
    }
    for (index, duty) in client.duties.iter().enumerate() {
        if duty.flying {
            add(What::LateCleanUpRuns(index as u8));
        }
    }
}
