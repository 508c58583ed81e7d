//! What is said between us and a worker: a line of JSON each.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::now;

/// To a worker, on its standard input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Waits for the lock, and works under it: looks every 10 ms whether it is still held.
    Acquire,
    /// Waits for the lock and releases it at once.
    Pass,
    /// Holds what it holds once more, by the way's own means for that.
    Reenter,
    /// Asks the server whether the lock is still held.
    Ask,
    /// Releases what was acquired last.
    Release,
    /// So many cycles of acquire and release.
    Cycles(usize),
}

/// What a holder knows without asking anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Look {
    Held,
    Lost,
    /// This way to lock has nothing to look at.
    CannotTell,
}

impl Look {
    /// Of a holder that has the lock for a time, and knows by its clock alone when that is over.
    pub(crate) fn until(end: Duration) -> Self {
        if now() < end { Self::Held } else { Self::Lost }
    }
}

/// What a release did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Released {
    Ours,
    /// The lock was another's by then, or nobody's; or, of an optimistic write, it was refused.
    NotOurs,
    /// The server's answer is the same in both cases.
    NotTold,
}

/// From a worker, on its standard output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum What {
    Ready,
    Asks,
    Holds {
        token: Option<i64>,
    },
    /// It looked after this moment.
    Works(Look),
    /// The first look that says so; there are no more.
    Lost,
    Asked(Result<bool, String>),
    Releases,
    Released(Result<Released, String>),
    /// Nanoseconds of each.
    Cycles(Vec<u64>),
    /// The acquisition ended with an error.
    Failed(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Event {
    /// By the [clock](crate::clock) of the machine.
    pub(crate) at: Duration,
    pub(crate) what: What,
}
