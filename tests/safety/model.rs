//! The model: what is set out, what must hold.

use std::fmt;

use stateright::{Model, Property};

use crate::service::Tree;
use crate::world::{Client, Faults, Link, Phase, Watch, World};

/// Which GUID an entering uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guids {
    /// As the crate does: one for each entering, kept only for a create whose outcome is unknown.
    Fresh,
    /// As Curator does: a create whose outcome is unknown keeps it in the next session, too.
    KeptOverSessions,
    /// Always the same.
    OnePerClient,
}

/// The rules that can be switched off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) owner_check: bool,
    pub(crate) barrier: bool,
    pub(crate) own_watch: bool,
    pub(crate) lease_check: bool,
    /// Wait for the one before, not for the first.
    pub(crate) one_before: bool,
    pub(crate) guids: Guids,
}

impl Rules {
    pub(crate) const ALL: Self = Self {
        owner_check: true,
        barrier: true,
        own_watch: true,
        lease_check: true,
        one_before: true,
        guids: Guids::Fresh,
    };
}

#[derive(Clone, Debug)]
pub(crate) struct Contention {
    pub(crate) rules: Rules,
    /// For each client, how many transactions its servers may be behind.
    pub(crate) lags: Vec<u8>,
    pub(crate) tries: u8,
    pub(crate) faults: Faults,
    /// Whether states that differ only by the clients' numbers count as one. Off, where a trace is to be
    /// read.
    pub(crate) interchange: bool,
}

impl fmt::Display for Contention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "clients={} tries={} lag={:?}", self.lags.len(), self.tries, self.lags)?;
        let Faults { cuts, partitions, stops, kills, expiries, deletions, reaps, withdrawals } =
            self.faults;
        let faults = [
            ("cuts", cuts),
            ("partitions", partitions),
            ("stops", stops),
            ("kills", kills),
            ("expiries", expiries),
            ("deletions", deletions),
            ("reaps", reaps),
            ("withdrawals", withdrawals),
        ];
        let mut some = faults.iter().filter(|(_, number)| *number > 0);
        some.try_for_each(|(fault, number)| write!(f, " {fault}={number}"))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Starts,
    CreateRuns,
    CreateAnswered,
    MakesParent,
    Resolves,
    ReadsOwner,
    Lists,
    Proves,
    Watches,
    Wakes,
    Releases,
    CleansUp(u8),
    RearmsOwn,
    RearmsPredecessor,
    ServerAdvances,
    Reconnects,
    PartitionHeals,
    Resumes,
    LearnsOfExpiry,
    AbandonedExpires,
    // What need not happen, and faults.
    LateCreateRuns,
    LateCleanUpRuns(u8),
    LateCreateOfAbandonedRuns,
    LeaseEnds,
    LinkIsCut,
    LinkIsCutBeforeTheListing,
    IsPartitioned,
    Stops,
    IsKilled,
    SessionExpires,
    DeclaresItOver,
    GivesUp,
    NodeIsDeleted(u8),
    ParentIsReaped,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Action {
    pub(crate) client: u8,
    pub(crate) what: What,
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            What::NodeIsDeleted(sequence) => write!(f, "an administrator deletes node {sequence}"),
            What::ParentIsReaped => write!(f, "the empty parent is reaped"),
            what => write!(f, "{}: {what:?}", char::from(b'A' + self.client)),
        }
    }
}

pub(crate) const ALONE: &str = "1: at most one believes to hold";
pub(crate) const IN_ORDER: &str =
    "2: a hold begins with the lease lasting, its own node there and none before it";
pub(crate) const NOTHING_LEFT: &str =
    "3: when all is settled, every node belongs to who holds or waits";
pub(crate) const TOKENS: &str = "4: tokens increase from hold to hold";
pub(crate) const NO_HERD: &str = "6: a deletion wakes one waiter at most";
pub(crate) const SOMEBODY_HOLDS: &str =
    "when all is settled, whoever waits has its node, and the first holds";

pub(crate) const ADOPTED: &str = "seen: a create of unknown outcome is found";
pub(crate) const LOST: &str = "seen: one holds while another has yet to let a lost hold go";
pub(crate) const ALL_DONE: &str = "seen: all tries are over";

impl Model for Contention {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let client = |max_lag: &u8| Client {
            max_lag: *max_lag,
            lag: 0,
            tries: self.tries,
            phase: Phase::Idle,
            own_watch: Watch::None,
            duties: Vec::new(),
            epoch: 0,
            alive: true,
            lease: false,
            link: Link::Up,
            stopped: false,
            dead: false,
            abandoned: None,
        };
        vec![World {
            trees: vec![Tree { counter: Some(0), nodes: Vec::new() }],
            clients: self.lags.iter().map(client).collect(),
            zxid: 1,
            token: 0,
            faults: self.faults,
            early: false,
            token_fell: false,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.due(world, actions);
        self.optional(world, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        self.act(&mut next, action);
        next.normalise(self.interchange);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ALONE, |_, world| believers(world) <= 1),
            Property::always(IN_ORDER, |_, world: &World| !world.early),
            Property::always(NOTHING_LEFT, |model: &Self, world| {
                nothing_left(world) || !model.settled(world)
            }),
            Property::always(TOKENS, |_, world: &World| !world.token_fell),
            Property::always(NO_HERD, |_, world| no_herd(world)),
            Property::always(SOMEBODY_HOLDS, |model: &Self, world| {
                somebody_holds(world) || !model.settled(world)
            }),
            Property::sometimes(ADOPTED, |_, world: &World| {
                world.clients.iter().any(|client| matches!(client.phase, Phase::Adopting { .. }))
            }),
            Property::sometimes(LOST, |_, world: &World| {
                let lost = |c: &Client| matches!(c.phase, Phase::Holding { lost: true, .. });
                believers(world) == 1 && world.clients.iter().any(lost)
            }),
            Property::sometimes(ALL_DONE, |_, world: &World| {
                world.clients.iter().all(Client::is_done)
            }),
        ]
    }
}

/// How many would hear yes from `is_held()`. Where an administrator deleted the node nobody promises it.
fn believers(world: &World) -> usize {
    let believes = |client: &&Client| match client.phase {
        Phase::Holding { own, lost } => !lost && !own.robbed,
        _ => false,
    };
    world.clients.iter().filter(believes).count()
}

fn nothing_left(world: &World) -> bool {
    world.leader().nodes.iter().all(|node| {
        let client = world.client(node.name.client);
        let own = client.phase.own();
        node.epoch == client.epoch
            && own.is_some_and(|own| World::name(node.name.client, own) == node.name)
    })
}

fn somebody_holds(world: &World) -> bool {
    let waiting = |id: &u8| matches!(world.client(*id).phase, Phase::Waiting { .. });
    let first = world.leader().nodes.first();
    world.ids().filter(waiting).all(|id| {
        let own = world.client(id).phase.own().unwrap();
        let holder = first.is_some_and(|first| {
            let client = world.client(first.name.client);
            let holds = matches!(client.phase, Phase::Holding { lost: false, .. });
            let own = client.phase.own();
            holds && own.is_some_and(|own| World::name(first.name.client, own) == first.name)
        });
        holder && world.leader().get(World::name(id, own)).is_some()
    })
}

/// Of those that wait with a node of their own, no two watch the same one.
fn no_herd(world: &World) -> bool {
    let watched = |id: u8| match world.client(id).phase {
        Phase::Waiting { own, before, watch: Watch::Armed, .. } => {
            let queued = world.leader().get(World::name(id, own)).is_some();
            let there = world.leader().get(before).is_some();
            (queued && there).then_some(before)
        }
        _ => None,
    };
    let mut watched: Vec<_> = world.ids().filter_map(watched).collect();
    let all = watched.len();
    watched.sort_unstable();
    watched.dedup();
    watched.len() == all
}
