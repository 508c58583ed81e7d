//! What each step does: the client's, as in `src/contender` and `src/session`, and the faults.

use crate::admission::{Decision, decide};
use crate::contender_name::Kind;
use crate::model::{Action, Contention, Guids, What};
use crate::service::Name;
use crate::world::{Abandoned, Duty, Link, Own, Phase, Removal, Watch, World};

impl Contention {
    pub(crate) fn act(&self, world: &mut World, action: Action) {
        let id = action.client;
        match action.what {
            What::Starts => {
                world.client_mut(id).tries -= 1;
                self.enter(world, id);
            }
            What::CreateRuns => self.create_runs(world, id),
            What::CreateAnswered => self.create_answered(world, id),
            What::MakesParent => self.make_parent(world, id),
            What::Resolves => self.resolve(world, id),
            What::ReadsOwner => self.read_owner(world, id),
            What::Lists => self.list(world, id),
            What::Proves => self.prove(world, id),
            What::Watches => self.watch(world, id),
            What::Wakes => self.wake(world, id),
            What::Releases | What::GivesUp => {
                if action.what == What::GivesUp {
                    world.faults.withdrawals -= 1;
                }
                leave_a_duty(world, id);
                world.client_mut(id).phase = Phase::Idle;
            }
            What::CleansUp(index) => self.clean_up(world, id, usize::from(index)),
            What::RearmsOwn => world.client_mut(id).own_watch = world.look_at_own(id),
            What::RearmsPredecessor => world.look_at_predecessor(id),
            What::ServerAdvances => world.advance(id),
            What::Reconnects => reconnect(world, id),
            What::PartitionHeals => world.client_mut(id).link = Link::Up,
            What::Resumes => world.client_mut(id).stopped = false,
            What::LearnsOfExpiry => self.next_epoch(world, id),
            fault => self.fault(world, id, fault),
        }
    }

    fn fault(&self, world: &mut World, id: u8, fault: What) {
        match fault {
            What::LateCreateRuns => late_create(world, id),
            What::LateCleanUpRuns(index) => late_clean_up(world, id, usize::from(index)),
            What::LateCreateOfAbandonedRuns => late_create_of_abandoned(world, id),
            What::AbandonedExpires => {
                if let Some(left) = world.client_mut(id).abandoned.take() {
                    close_session(world, id, left.epoch);
                }
            }
            What::LeaseEnds => {
                let client = world.client_mut(id);
                client.lease = false;
                if let Phase::Holding { lost, .. } = &mut client.phase {
                    *lost = true;
                }
            }
            What::LinkIsCut => {
                world.faults.cuts -= 1;
                world.link_is_cut(id);
            }
            What::LinkIsCutBeforeTheListing => {
                world.faults.cuts -= 1;
                renew(world, id);
                if let Phase::Created { own, .. } = world.client(id).phase {
                    world.client_mut(id).phase = Phase::Listing { own };
                }
                world.link_is_cut(id);
            }
            What::IsPartitioned => {
                world.faults.partitions -= 1;
                world.client_mut(id).link = Link::Apart;
            }
            What::Stops => {
                world.faults.stops -= 1;
                world.client_mut(id).stopped = true;
            }
            What::IsKilled => kill(world, id),
            What::SessionExpires => {
                world.faults.expiries -= 1;
                world.client_mut(id).alive = false;
                let epoch = world.client(id).epoch;
                close_session(world, id, epoch);
            }
            What::DeclaresItOver => {
                world.faults.expiries -= 1;
                let flying = flying_create(world, id);
                let epoch = world.client(id).epoch;
                world.client_mut(id).abandoned = Some(Abandoned { epoch, flying });
                self.next_epoch(world, id);
            }
            What::NodeIsDeleted(sequence) => {
                world.faults.deletions -= 1;
                let node = world.leader().nodes.iter().find(|n| n.name.sequence == sequence);
                if let Some(name) = node.map(|node| node.name) {
                    world.rob(name);
                }
            }
            What::ParentIsReaped => {
                world.faults.reaps -= 1;
                world.commit(|tree| tree.counter = None);
            }
            _ => unreachable!("{fault:?}"),
        }
    }

    /// One entering: draws a GUID, and sends the create and the listing.
    fn enter(&self, world: &mut World, id: u8) {
        let guid = match self.rules.guids {
            Guids::OnePerClient => 0,
            Guids::Fresh | Guids::KeptOverSessions => world.fresh_guid(id),
        };
        let client = world.client_mut(id);
        client.own_watch = Watch::None;
        client.phase = Phase::Creating { guid };
    }

    fn create_runs(&self, world: &mut World, id: u8) {
        let Phase::Creating { guid } = world.client(id).phase else { return };
        let epoch = world.client(id).epoch;
        let created = world.create(id, guid, epoch);
        world.client_mut(id).phase =
            created.map_or(Phase::NoParent, |own| Phase::Created { own, age: 0 });
    }

    fn create_answered(&self, world: &mut World, id: u8) {
        let Phase::Created { own, .. } = world.client(id).phase else { return };
        renew(world, id);
        world.client_mut(id).phase = Phase::Listing { own };
        self.list(world, id);
    }

    fn make_parent(&self, world: &mut World, id: u8) {
        if world.leader().counter.is_none() {
            world.commit(|tree| tree.counter = Some(0));
        }
        answered_by_the_leader(world, id);
        self.enter(world, id);
    }

    /// Looks for the create of unknown outcome, behind the barrier.
    fn resolve(&self, world: &mut World, id: u8) {
        let Phase::Doubt { guid, .. } = world.client(id).phase else { return };
        if self.rules.barrier {
            answered_by_the_leader(world, id);
        }
        let found = find(world, id, guid).map(|name| {
            let czxid = world.view(id).get(name).map_or(0, |node| node.czxid);
            Own { guid, sequence: name.sequence, czxid, robbed: false }
        });
        world.client_mut(id).phase =
            found.map_or(Phase::Creating { guid }, |own| Phase::Adopting { own });
    }

    fn read_owner(&self, world: &mut World, id: u8) {
        let Phase::Adopting { own } = world.client(id).phase else { return };
        let node = world.view(id).get(World::name(id, own)).copied();
        let ours = node
            .is_some_and(|node| node.epoch == world.client(id).epoch || !self.rules.owner_check);
        world.client_mut(id).phase =
            if ours { Phase::Listing { own } } else { Phase::Creating { guid: own.guid } };
    }

    fn list(&self, world: &mut World, id: u8) {
        let Phase::Listing { own } = world.client(id).phase else { return };
        let view = world.view(id);
        let Some(children) = view.children() else {
            return self.enter_again(world, id);
        };
        let node = |text: &str| {
            let place = children.iter().position(|child| child == text);
            view.nodes[place.unwrap_or_default()].name
        };
        match decide(&children, &World::name(id, own).text(), Kind::Lock) {
            Decision::Gone => self.enter_again(world, id),
            Decision::WaitFor { predecessor, head } => {
                let awaited = if self.rules.one_before { predecessor } else { head };
                let before = node(awaited.as_str());
                world.client_mut(id).phase = Phase::Watching { own, before };
            }
            Decision::Admitted if world.client(id).lease || !self.rules.lease_check => {
                admit(world, id, own);
            }
            Decision::Admitted => world.client_mut(id).phase = Phase::Proving { own },
        }
    }

    fn prove(&self, world: &mut World, id: u8) {
        let Phase::Proving { own } = world.client(id).phase else { return };
        answered_by_the_leader(world, id);
        world.client_mut(id).phase = Phase::Listing { own };
    }

    /// Both watch requests, the own node's first.
    fn watch(&self, world: &mut World, id: u8) {
        let Phase::Watching { own, before } = world.client(id).phase else { return };
        if self.rules.own_watch {
            if world.client(id).own_watch == Watch::None {
                world.client_mut(id).own_watch = world.look_at_own(id);
            }
            if world.client(id).own_watch == Watch::Fired {
                return self.enter_again(world, id);
            }
        }
        let node = world.view(id).get(before).copied();
        world.client_mut(id).phase = node.map_or(Phase::Listing { own }, |node| Phase::Waiting {
            own,
            before,
            czxid: node.czxid,
            watch: Watch::Armed,
        });
    }

    fn wake(&self, world: &mut World, id: u8) {
        let Phase::Waiting { own, .. } = world.client(id).phase else { return };
        if world.client(id).own_watch == Watch::Fired {
            self.enter_again(world, id);
        } else {
            world.client_mut(id).phase = Phase::Listing { own };
        }
    }

    /// The node is gone, as far as we know. What may be left of it is a duty all the same.
    fn enter_again(&self, world: &mut World, id: u8) {
        leave_a_duty(world, id);
        self.enter(world, id);
    }

    /// The session is over; there is a new one, and it takes over the duties.
    fn next_epoch(&self, world: &mut World, id: u8) {
        let kept = match world.client(id).phase {
            Phase::Doubt { guid, .. } if self.rules.guids == Guids::KeptOverSessions => Some(guid),
            _ => None,
        };
        if kept.is_none() {
            leave_a_duty(world, id);
        }
        let client = world.client_mut(id);
        client.duties.iter_mut().for_each(|duty| duty.flying = false);
        (client.epoch, client.alive, client.lease) = (client.epoch + 1, true, false);
        (client.link, client.lag, client.own_watch) = (Link::Up, 0, Watch::None);
        match (kept, client.phase) {
            (Some(guid), _) => client.phase = Phase::Doubt { guid, flying: false },
            (None, Phase::Idle) => {}
            (None, Phase::Holding { .. }) => client.phase = Phase::Idle,
            (None, _) => self.enter(world, id),
        }
    }

    fn clean_up(&self, world: &mut World, id: u8, index: usize) {
        let duty = world.client(id).duties[index];
        let searched = matches!(duty.what, Removal::Search { .. });
        if self.rules.barrier || !searched {
            answered_by_the_leader(world, id);
        }
        while let Some(name) = target(world, id, duty.what) {
            if world.leader().get(name).is_none() {
                break;
            }
            world.commit(|tree| tree.remove(name));
            answered_by_the_leader(world, id);
        }
        world.client_mut(id).duties.remove(index);
    }
}

/// Notes what may be left at the servers.
fn leave_a_duty(world: &mut World, id: u8) {
    let client = world.client_mut(id);
    let what = match client.phase {
        Phase::Idle | Phase::NoParent => return,
        Phase::Creating { guid } | Phase::Doubt { guid, .. } => Removal::Search { guid },
        Phase::Created { own, .. } | Phase::Adopting { own } => Removal::Search { guid: own.guid },
        Phase::Listing { own }
        | Phase::Proving { own }
        | Phase::Watching { own, .. }
        | Phase::Waiting { own, .. }
        | Phase::Holding { own, .. } => Removal::Delete { guid: own.guid, sequence: own.sequence },
    };
    client.duties.push(Duty { what, flying: false });
    client.own_watch = Watch::None;
}

/// The hold is reported. Checks invariants 2 and 4.
fn admit(world: &mut World, id: u8, own: Own) {
    let client = world.client(id);
    let name = World::name(id, own);
    let leader = world.leader();
    let node = leader.get(name).is_some_and(|node| node.epoch == client.epoch);
    let first = leader.nodes.first().is_some_and(|first| first.name == name);
    let early = !client.lease || !(own.robbed || node && first);
    world.early |= early;
    if !own.robbed {
        world.token_fell |= own.czxid <= world.token;
        world.token = world.token.max(own.czxid);
    }
    let client = world.client_mut(id);
    client.own_watch = Watch::None;
    client.phase = Phase::Holding { own, lost: false };
}

/// The leader's answer proves the session, unless it came after its end; and a server passes on only
/// what it has applied.
fn answered_by_the_leader(world: &mut World, id: u8) {
    world.catch_up(id);
    renew(world, id);
}

fn renew(world: &mut World, id: u8) {
    let client = world.client_mut(id);
    client.lease |= client.alive;
}

fn find(world: &World, id: u8, guid: u8) -> Option<Name> {
    let names = world.view(id).nodes.iter().map(|node| node.name);
    names.into_iter().find(|name| (name.client, name.guid) == (id, guid))
}

fn target(world: &World, id: u8, what: Removal) -> Option<Name> {
    match what {
        Removal::Delete { guid, sequence } => Some(Name { sequence, client: id, guid }),
        Removal::Search { guid } => find(world, id, guid),
    }
}

fn reconnect(world: &mut World, id: u8) {
    let client = world.client_mut(id);
    client.link = Link::Up;
    client.duties.iter_mut().for_each(|duty| duty.flying = false);
    if let Phase::Doubt { flying, .. } = &mut client.phase {
        *flying = false;
    }
}

fn flying_create(world: &World, id: u8) -> Option<u8> {
    let client = world.client(id);
    match client.phase {
        Phase::Doubt { guid, flying: true } => Some(guid),
        // Without a link it was not sent.
        Phase::Creating { guid } if client.link == Link::Up => Some(guid),
        _ => None,
    }
}

fn late_create(world: &mut World, id: u8) {
    let Phase::Doubt { guid, .. } = world.client(id).phase else { return };
    let epoch = world.client(id).epoch;
    world.create(id, guid, epoch);
    world.client_mut(id).phase = Phase::Doubt { guid, flying: false };
}

fn late_clean_up(world: &mut World, id: u8, index: usize) {
    let duty = &mut world.client_mut(id).duties[index];
    duty.flying = false;
    let what = duty.what;
    if let Some(name) = target(world, id, what)
        && world.leader().get(name).is_some()
    {
        world.commit(|tree| tree.remove(name));
    }
}

fn late_create_of_abandoned(world: &mut World, id: u8) {
    if let Some(left) = &mut world.client_mut(id).abandoned
        && let Some(guid) = left.flying.take()
    {
        let epoch = left.epoch;
        world.create(id, guid, epoch);
    }
}

fn close_session(world: &mut World, id: u8, epoch: u8) {
    if world.leader().owns(id, epoch) {
        world.commit(|tree| tree.close_session(id, epoch));
    }
}

fn kill(world: &mut World, id: u8) {
    world.faults.kills -= 1;
    let flying = flying_create(world, id);
    let client = world.client_mut(id);
    if client.alive {
        client.abandoned = Some(Abandoned { epoch: client.epoch, flying });
    }
    (client.dead, client.lag, client.tries) = (true, 0, 0);
    (client.phase, client.own_watch) = (Phase::Idle, Watch::None);
    client.duties.clear();
}
