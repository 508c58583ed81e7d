//! The versions of servers that differ as their clients see them. Pure.

use std::fmt;

/// A version of ZooKeeper. The servers of an ensemble behave alike where this does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Version {
    /// 3.5, as 3.6.
    V3_5,
    /// 3.6. An event comes to every client that watches the node, also to one that may not read it (before the fix of
    /// CVE-2024-23944).
    V3_6,
    /// 3.7, as 3.6.
    V3_7,
    /// 3.8 with the fix of CVE-2024-23944, as Debian has it: an event comes only to clients that may read the node.
    #[default]
    V3_8,
    /// 3.9, from 3.9.2 on, as 3.8 from 3.8.4 on. A server reports whether a node exists only to clients that may read it.
    V3_9,
}

/// As `3.9`.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V3_5 => "3.5",
            Self::V3_6 => "3.6",
            Self::V3_7 => "3.7",
            Self::V3_8 => "3.8",
            Self::V3_9 => "3.9",
        })
    }
}

impl Version {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::V3_5, Self::V3_6, Self::V3_7, Self::V3_8, Self::V3_9];

    /// Returns true if READ is needed to learn that a node exists.
    pub(super) fn exists_needs_read(self) -> bool {
        self >= Self::V3_9
    }

    /// Returns true if READ is needed to hear of an event.
    pub(super) fn events_need_read(self) -> bool {
        self >= Self::V3_8
    }
}
