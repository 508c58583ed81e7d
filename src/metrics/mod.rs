//! Metrics for operators, through the `metrics` facade (feature `metrics`). This module owns all names and labels,
//! which `docs/guide/observability.md` explains.
//!
//! A gauge counts values for as long as they live, and never depends on calls in pairs. So the gauges stay correct
//! wherever a value is dropped. Each value keeps the handle that counted it, even if another recorder is installed
//! meanwhile.
//!
//! The recorder is the user's code. A caller of these functions holds no lock, and has already done what others wait
//! for: above all, it has notified holders of their loss. A panic of the recorder is caught here.
//!
//! Without the feature, the types are zero-sized and the functions are empty, so callers need no `cfg`.

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
    pub(crate) const SLOTS: Self = Self("slots");
    pub(crate) const ONCE: Self = Self("once");
    pub(crate) const LEADER_LATCH: Self = Self("leader_latch");
    pub(crate) const LEADER_SELECTOR: Self = Self("leader_selector");
    pub(crate) const PERSISTENT_NODE: Self = Self("persistent_node");
    pub(crate) const GROUP_MEMBER: Self = Self("group_member");
}

/// The label `operation`: a request that was retried, or a write whose outcome is unknown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation(&'static str);

impl Operation {
    /// The value of the label.
    pub(crate) fn name(self) -> &'static str {
        self.0
    }

    /// A contender's attempt to enter the queue.
    pub(crate) const ENTER: Self = Self("enter");
    /// The create of a contender's node.
    pub(crate) const CREATE: Self = Self("create");
    /// The watches of a waiter.
    pub(crate) const WATCH: Self = Self("watch");
    /// A read, a probe, or the creation of parents.
    pub(crate) const REQUEST: Self = Self("request");
    /// An attempt to follow a count or a leader.
    pub(crate) const FOLLOW: Self = Self("follow");
    /// A write to a shared count, or to another contender's node.
    pub(crate) const WRITE: Self = Self("write");
    /// A write that takes effect only while a hold lasts.
    pub(crate) const FENCED_WRITE: Self = Self("fenced_write");
    /// The delete of one of our nodes, or the search for one.
    pub(crate) const CLEANUP: Self = Self("cleanup");
    /// An attempt to open a session.
    pub(crate) const CONNECT: Self = Self("connect");
}
