//! [`FencingToken`]: a number by which others can tell a newer hold from an older one.

use std::fmt;

/// Grows from hold to hold of one lock path (invariant 4), also when the path was deleted and made
/// again: it is the `czxid`, the transaction that created the hold's node.
///
/// Hand it to whatever the lock protects, and let that refuse a token smaller than the largest it
/// has seen: then a holder that does not know yet that it lost the lock can do no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(i64);

impl FencingToken {
    pub(crate) const fn new(czxid: i64) -> Self {
        Self(czxid)
    }

    /// The token as a number. ZooKeeper's transaction ids are positive.
    pub const fn value(self) -> i64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
