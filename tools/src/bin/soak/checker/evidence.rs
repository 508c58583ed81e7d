//! What the judge reads, and what it finds.

use crate::log::{Event, Nanos};

/// The log of one worker process.
#[derive(Clone, Debug)]
pub(crate) struct WorkerLog {
    pub(crate) row: usize,
    pub(crate) generation: usize,
    /// The name of the other library that it is of.
    pub(crate) peer: Option<String>,
    pub(crate) events: Vec<Event>,
}

/// A counter's value, and the token it was written with.
pub(crate) type Value = (u64, i64);

#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) workers: Vec<WorkerLog>,
    pub(crate) faults: Vec<Event>,
    /// What an observer of the leaders was told, if there was one.
    pub(crate) observed: Option<Vec<Event>>,
    /// Of a semaphore.
    pub(crate) limit: usize,
    /// What is under the paths of the locks at the end.
    pub(crate) children: Vec<String>,
    /// And those of peers, each with its name.
    pub(crate) peers_children: Vec<(String, String)>,
    pub(crate) zookeeper: Value,
    pub(crate) store: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Double,
    StaleWrite,
    Orphan,
    Hung,
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) kind: Kind,
    /// The peer that broke it; `None` of this crate.
    pub(crate) peer: Option<String>,
    pub(crate) at: Nanos,
    pub(crate) text: String,
}
