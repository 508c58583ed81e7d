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

#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) workers: Vec<WorkerLog>,
    pub(crate) faults: Vec<Event>,
    /// The leases of a semaphore.
    pub(crate) limit: usize,
    /// The nodes that are left at the end, each with the name of the peer that left it.
    pub(crate) left: Vec<(String, Option<String>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Double,
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
