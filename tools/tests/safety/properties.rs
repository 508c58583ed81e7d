//! What must hold in every state, and what is to be seen in some.

use stateright::Property;

use crate::model::Contention;
use crate::phase::{Phase, Watch};
use crate::world::{Client, World};

pub(crate) const ALONE: &str = "1: at most one believes to hold";
pub(crate) const IN_ORDER: &str = "2: a hold begins with the lease lasting, its own node there and none before it but released ones of its session";
pub(crate) const NOTHING_LEFT: &str =
    "3: when all is settled, every node belongs to who holds or waits";
pub(crate) const TOKENS: &str = "4: tokens increase from hold to hold";
pub(crate) const NO_HERD: &str = "6: a deletion wakes one successor at most, and two in all";
pub(crate) const SOMEBODY_HOLDS: &str =
    "when all is settled, whoever waits has its node, and the first holds";

pub(crate) const ADOPTED: &str = "seen: a create of unknown outcome is found";
pub(crate) const LOST: &str = "seen: one holds while another has yet to let a lost hold go";
pub(crate) const ALL_DONE: &str = "seen: all tries are over";

pub(crate) fn properties() -> Vec<Property<Contention>> {
    vec![
        Property::always(ALONE, |_, world| believers(world) <= 1),
        Property::always(IN_ORDER, |_, world: &World| !world.early),
        Property::always(NOTHING_LEFT, |model: &Contention, world| {
            nothing_left(world) || !model.settled(world)
        }),
        Property::always(TOKENS, |_, world: &World| !world.token_fell),
        Property::always(NO_HERD, |_, world| no_herd(world)),
        Property::always(SOMEBODY_HOLDS, |model: &Contention, world| {
            somebody_holds(world) || !model.settled(world)
        }),
        Property::sometimes(ADOPTED, |_, world: &World| {
            phases(world).any(|phase| matches!(phase, Phase::Adopting { .. }))
        }),
        Property::sometimes(LOST, |_, world: &World| {
            let lost = |phase: &Phase| matches!(phase, Phase::Holding { lost: true, .. });
            believers(world) == 1 && phases(world).any(lost)
        }),
        Property::sometimes(ALL_DONE, |_, world: &World| world.clients.iter().all(Client::is_done)),
    ]
}

fn phases(world: &World) -> impl Iterator<Item = &Phase> {
    world.clients.iter().flat_map(Client::phases)
}

/// How many would hear yes from `is_held()`. Where an administrator deleted the node nobody promises it.
fn believers(world: &World) -> usize {
    let believes = |phase: &&Phase| match phase {
        Phase::Holding { own, lost } => !lost && !own.robbed,
        _ => false,
    };
    phases(world).filter(believes).count()
}

fn nothing_left(world: &World) -> bool {
    world.leader().nodes.iter().all(|node| {
        let id = node.name.client;
        let client = world.client(id);
        let mut owns = client.phases().filter_map(Phase::own);
        node.epoch == client.epoch && owns.any(|own| World::name(id, own) == node.name)
    })
}

fn somebody_holds(world: &World) -> bool {
    let first = world.leader().nodes.first();
    world.all_tasks().filter(|(_, task)| task.phase.waits()).all(|(who, task)| {
        let own = task.phase.own().unwrap();
        let holder = first.is_some_and(|first| {
            let id = first.name.client;
            world.client(id).phases().any(|phase| match phase {
                Phase::Holding { own, lost: false } => World::name(id, *own) == first.name,
                _ => false,
            })
        });
        holder && world.leader().get(World::name(who.client, own)).is_some()
    })
}

/// Of those that wait with a node of their own, no two watch the same one as their predecessor, and no
/// three the same one at all. Whoever has an event of its predecessor to come is awake by that.
fn no_herd(world: &World) -> bool {
    let (mut before, mut all) = (Vec::new(), Vec::new());
    let there = |name| world.leader().get(name).is_some();
    for (who, task) in world.all_tasks() {
        let Phase::Waiting { own, before: mine, stand_by, .. } = task.phase else { continue };
        let asleep = mine.watch == Watch::Armed && there(mine.name);
        if asleep && there(World::name(who.client, own)) {
            before.push(mine.name);
            all.push(mine.name);
            let armed = stand_by.filter(|s| s.watch == Watch::Armed && there(s.name));
            all.extend(armed.map(|stand_by| stand_by.name));
        }
    }
    before.sort_unstable();
    all.sort_unstable();
    before.windows(2).all(|pair| pair[0] != pair[1])
        && all.windows(3).all(|three| three[0] != three[2])
}
