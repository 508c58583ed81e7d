//! What contends while the servers are upgraded.

use std::time::Duration;

/// Of the semaphore.
pub(super) const LEASES: usize = 3;

/// What the contenders want, and how many contend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recipe {
    /// One holds the mutex for the whole upgrade.
    Mutex,
    /// The mutex is passed on all the time.
    Turns,
    Semaphore,
    Latch,
    Selector,
}

impl Recipe {
    pub(super) const ALL: [Self; 5] =
        [Self::Mutex, Self::Turns, Self::Semaphore, Self::Latch, Self::Selector];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Turns => "mutex, in turns",
            Self::Semaphore => "semaphore",
            Self::Latch => "latch",
            Self::Selector => "selector",
        }
    }

    pub(super) fn path(self) -> String {
        format!("/upgrade/{self:?}")
    }

    /// Two more than can hold at a time.
    pub(super) fn contenders(self) -> usize {
        2 + self.holders()
    }

    pub(super) fn holders(self) -> usize {
        if self == Self::Semaphore { LEASES } else { 1 }
    }

    /// The longest time for which a contender holds.
    pub(super) fn limit(self) -> Duration {
        if self == Self::Turns { Duration::from_millis(20) } else { Duration::MAX }
    }
}
