//! Metrics for operators, by the `metrics` facade (feature `metrics`). This module owns all names and labels.
//! `docs/guide/observability.md` says what they mean.
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
pub(crate) struct Recipe(&'static str);

impl Recipe {
    pub(crate) const MUTEX: Self = Self("mutex");
    pub(crate) const READ_LOCK: Self = Self("read_lock");
    pub(crate) const WRITE_LOCK: Self = Self("write_lock");
    pub(crate) const SEMAPHORE: Self = Self("semaphore");
    pub(crate) const ONCE: Self = Self("once");
    pub(crate) const LEADER_LATCH: Self = Self("leader_latch");
    pub(crate) const LEADER_SELECTOR: Self = Self("leader_selector");
}

/// The label `operation`: a request that was tried again, or a write of unknown outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation(&'static str);

impl Operation {
    pub(crate) fn name(self) -> &'static str {
        self.0
    }

    /// A contender enters the queue anew.
    pub(crate) const ENTER: Self = Self("enter");
    /// The create of a contender's node.
    pub(crate) const CREATE: Self = Self("create");
    /// The watches of a waiter.
    pub(crate) const WATCH: Self = Self("watch");
    /// Reading, asking for a sign of life, making parents.
    pub(crate) const REQUEST: Self = Self("request");
    /// Following a count, or a leader.
    pub(crate) const FOLLOW: Self = Self("follow");
    /// A write to a shared count, or to another contender's node.
    pub(crate) const WRITE: Self = Self("write");
    /// A write that takes effect only while a hold lasts.
    pub(crate) const FENCED_WRITE: Self = Self("fenced_write");
    /// The delete of a node of ours, or the search for one.
    pub(crate) const CLEANUP: Self = Self("cleanup");
    /// Opening a session.
    pub(crate) const CONNECT: Self = Self("connect");
}
