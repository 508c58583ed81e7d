//! What operators see, by the `metrics` facade (feature `metrics`): this module owns all names, and what is counted
//! when. `docs/guide/observability.md` says what they mean.
//!
//! Gauges are kept by values that are counted for as long as they live, never by calls in pairs: so they are right
//! whatever is dropped where. Each keeps the handle that it was counted with, also if another recorder is installed
//! meanwhile.
//!
//! The recorder is the user's code. A caller that counts holds no lock, and has done before what others wait for: above all, it has
//! notified holders of their loss. A panic of the recorder ends there.
//!
//! Without the feature the types have no size and the functions no body, so that no caller has to ask.

#[cfg(feature = "metrics")]
mod recorded;
#[cfg(not(feature = "metrics"))]
mod silent;

#[cfg(feature = "metrics")]
pub(crate) use self::recorded::*;
#[cfg(not(feature = "metrics"))]
pub(crate) use self::silent::*;

/// The label `recipe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    Mutex,
    ReadLock,
    WriteLock,
    Semaphore,
    Once,
    LeaderLatch,
    LeaderSelector,
}

/// How an acquisition ended: the label `outcome`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Acquired,
    /// The caller asked not to wait.
    Busy,
    Failed,
    /// The caller gave up: its time was up, or it dropped its future.
    GivenUp,
}

impl Outcome {
    pub(crate) fn of<T, E>(answer: &Result<Option<T>, E>) -> Self {
        match answer {
            Ok(Some(_)) => Self::Acquired,
            Ok(None) => Self::Busy,
            Err(_) => Self::Failed,
        }
    }
}

/// What was tried again, or came to no known outcome: the label `operation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A contender enters the queue anew.
    Enter,
    /// The create of a contender's node.
    Create,
    /// The watches of a waiter.
    Watch,
    /// Reading, asking for a sign of life, making parents.
    Request,
    /// Following a count, or a leader.
    Follow,
    /// A write to a shared count, or to another contender's node.
    Write,
    /// A write that holds while a hold does.
    FencedWrite,
    /// The delete of a node of ours, or the search for one.
    CleanUp,
    /// Opening a session.
    Connect,
}
