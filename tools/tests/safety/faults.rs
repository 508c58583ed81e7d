//! What each fault does.

use crate::client::{renew, target};
use crate::model::{Contention, What};
use crate::phase::{Phase, Task};
use crate::service::Node;
use crate::world::{Abandoned, Known, Link, TASKS, Who, World};

impl Contention {
    pub(crate) fn fault(&self, world: &mut World, who: Who, fault: What) {
        let id = who.client;
        match fault {
            What::LateCreateRuns => late_create(world, who),
            What::LateCleanUpRuns(index) => late_clean_up(world, id, usize::from(index)),
            What::LateCreateOfAbandonedRuns(index) => {
                late_create_of_abandoned(world, id, usize::from(index));
            }
            What::AbandonedExpires => {
                if let Some(left) = world.client_mut(id).abandoned.take() {
                    close_session(world, id, left.epoch);
                }
            }
            What::LeaseEnds => {
                let client = world.client_mut(id);
                client.lease = false;
                for task in &mut client.tasks {
                    if let Phase::Holding { lost, .. } = &mut task.phase {
                        *lost = true;
                    }
                }
            }
            What::LinkIsCut => {
                world.faults.cuts -= 1;
                world.link_is_cut(id);
            }
            What::LinkIsCutBeforeTheListing => {
                world.faults.cuts -= 1;
                renew(world, id);
                if let Phase::Created { own, .. } = world.task(who).phase {
                    world.task_mut(who).phase = Phase::Listing { own };
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
                let flying = flying_creates(world, id);
                let epoch = world.client(id).epoch;
                world.client_mut(id).abandoned = Some(Abandoned { epoch, flying });
                self.next_epoch(world, id);
            }
            _ => on_the_path(world, who, fault),
        }
    }
}

/// What others do to the lock path.
fn on_the_path(world: &mut World, who: Who, fault: What) {
    match fault {
        What::NodeIsDeleted(sequence) => {
            world.faults.deletions -= 1;
            let node = world.leader().nodes.iter().find(|n| n.name.sequence == sequence);
            if let Some(name) = node.map(|node| node.name) {
                world.rob(name);
            }
        }
        What::NodeIsChanged(sequence) => {
            world.faults.changes -= 1;
            world.commit(|tree| {
                let node = tree.nodes.iter_mut().find(|node| node.name.sequence == sequence);
                node.unwrap().version += 1;
            });
        }
        What::ParentIsReaped => {
            world.faults.reaps -= 1;
            world.commit(|tree| {
                tree.counter = None;
                tree.reaped += 1;
            });
        }
        What::PassesOn => pass_on(world, who),
        _ => unreachable!("{fault:?}"),
    }
}

fn late_create(world: &mut World, who: Who) {
    let Phase::Doubt { guid, .. } = world.task(who).phase else { return };
    let epoch = world.client(who.client).epoch;
    world.create(who.client, guid, epoch);
    world.task_mut(who).phase = Phase::Doubt { guid, flying: false };
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

fn late_create_of_abandoned(world: &mut World, id: u8, index: usize) {
    if let Some(left) = &mut world.client_mut(id).abandoned
        && let Some(guid) = left.flying[index].take()
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

fn flying_creates(world: &World, id: u8) -> [Option<u8>; TASKS] {
    let client = world.client(id);
    client.tasks.map(|task| match task.phase {
        Phase::Doubt { guid, flying: true } => Some(guid),
        // Without a link it was not sent.
        Phase::Creating { guid } if client.link == Link::Up => Some(guid),
        _ => None,
    })
}

fn kill(world: &mut World, id: u8) {
    world.faults.kills -= 1;
    let flying = flying_creates(world, id);
    let client = world.client_mut(id);
    if client.alive {
        client.abandoned = Some(Abandoned { epoch: client.epoch, flying });
    }
    (client.dead, client.lag, client.known) = (true, 0, Known::NOTHING);
    client.tasks = [const { Task::new(0) }; TASKS];
    client.duties.clear();
}

/// A writer goes on as a reader, with a node that has its number.
fn pass_on(world: &mut World, who: Who) {
    let Phase::Holding { mut own, .. } = world.task(who).phase else { return };
    world.faults.downgrades -= 1;
    let old = World::name(who.client, own);
    let epoch = world.client(who.client).epoch;
    own.guid = world.fresh_guid(who.client);
    own.czxid = world.zxid + 1;
    let name = World::name(who.client, own);
    world.commit(|tree| {
        let place = tree.nodes.iter().position(|node| node.name == old);
        tree.nodes.insert(place.unwrap_or(0), Node { name, epoch, czxid: own.czxid, version: 0 });
    });
    world.commit(|tree| tree.remove(old));
    world.task_mut(who).phase = Phase::Holding { own, lost: false };
}
