//! Changes of data that several processes share.

use zookeeper_client as zk;

/// Which change of a node's data it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// The transaction that created the node.
    pub(crate) czxid: i64,
    /// The transaction that wrote the data, the create included.
    pub(crate) mzxid: i64,
    /// How often they were written since the create.
    pub(crate) version: i32,
}

impl Change {
    pub(super) fn of(stat: &zk::Stat) -> Self {
        Self { czxid: stat.czxid, mzxid: stat.mzxid, version: stat.version }
    }
}
