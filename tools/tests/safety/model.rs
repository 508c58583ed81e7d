//! The model: what is set out, what must hold.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use stateright::{Model, Property};

use crate::phase::Task;
use crate::properties::properties;
use crate::rules::Rules;
use crate::service::Tree;
use crate::world::{Client, Faults, Known, Link, Who, World};

#[derive(Clone, Debug)]
pub(crate) struct Contention {
    pub(crate) rules: Rules,
    /// For each client, how many transactions its servers may be behind.
    pub(crate) lags: Vec<u8>,
    /// For each client, how many tasks it has; one each, where there is no more to say.
    pub(crate) tasks: Vec<u8>,
    /// Of each task.
    pub(crate) tries: u8,
    pub(crate) faults: Faults,
    /// Whether listings may be acted upon late, when other tasks of the session have gone on.
    pub(crate) late: bool,
    /// Whether states that differ only by the clients' numbers count as one. Off, where a trace is to be
    /// read.
    pub(crate) interchange: bool,
    /// Which rules admitted or woke somebody.
    pub(crate) used: Arc<Used>,
}

/// That a rule was used at all, in some state. No part of the states.
#[derive(Debug, Default)]
pub(crate) struct Used {
    pub(crate) head: AtomicBool,
    pub(crate) stand_by: AtomicBool,
    pub(crate) local: AtomicBool,
    pub(crate) gap: AtomicBool,
}

impl fmt::Display for Contention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "clients={}", self.lags.len())?;
        if !self.tasks.is_empty() {
            write!(f, " tasks={:?}", self.tasks)?;
        }
        write!(f, " tries={} lag={:?}", self.tries, self.lags)?;
        if self.late {
            write!(f, " late")?;
        }
        let Faults { cuts, partitions, stops, kills, expiries, .. } = self.faults;
        let Faults { deletions, changes, reaps, withdrawals, downgrades, .. } = self.faults;
        let faults = [
            ("cuts", cuts),
            ("partitions", partitions),
            ("stops", stops),
            ("kills", kills),
            ("expiries", expiries),
            ("deletions", deletions),
            ("changes", changes),
            ("reaps", reaps),
            ("withdrawals", withdrawals),
            ("downgrades", downgrades),
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
    ActsOnListing,
    Proves,
    Watches,
    Wakes,
    ListsAsStandBy,
    Releases,
    CleansUp(u8),
    WatchesOwn,
    RearmsOwn,
    RearmsOthers,
    FindsOwnGone,
    WatchesParent,
    RearmsParent,
    ServerAdvances,
    Reconnects,
    PartitionHeals,
    Resumes,
    LearnsOfExpiry,
    AbandonedExpires,
    // What need not happen, and faults.
    LateCreateRuns,
    LateCleanUpRuns(u8),
    LateCreateOfAbandonedRuns(u8),
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
    NodeIsChanged(u8),
    ParentIsReaped,
    PassesOn,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Action {
    pub(crate) who: Who,
    pub(crate) what: What,
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            What::NodeIsDeleted(sequence) => write!(f, "an administrator deletes node {sequence}"),
            What::NodeIsChanged(sequence) => write!(f, "the data of node {sequence} is changed"),
            What::ParentIsReaped => write!(f, "the empty parent is reaped"),
            what => {
                let client = char::from(b'A' + self.who.client);
                let task = "'".repeat(usize::from(self.who.task));
                write!(f, "{client}{task}: {what:?}")
            }
        }
    }
}

impl Model for Contention {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let client = |(client, max_lag): (usize, &u8)| Client {
            max_lag: *max_lag,
            lag: 0,
            tasks: std::array::from_fn(|task| {
                let tasks = self.tasks.get(client).copied().unwrap_or(1);
                Task::new(if task < usize::from(tasks) { self.tries } else { 0 })
            }),
            duties: Vec::new(),
            known: Known::NOTHING,
            epoch: 0,
            alive: true,
            lease: false,
            link: Link::Up,
            stopped: false,
            dead: false,
            abandoned: None,
        };
        vec![World {
            trees: vec![Tree { counter: Some(0), reaped: 0, nodes: Vec::new() }],
            clients: self.lags.iter().enumerate().map(client).collect(),
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
        next.normalise(&self.rules, self.interchange);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties()
    }
}
