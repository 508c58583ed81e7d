//! What requests carry, and what they answer.

use zookeeper_client::{self as zk, Acl, Acls};

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

/// A node that was just created or looked up. All is zero of one that is there and may not be looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    /// The last one of its data.
    pub(crate) change: Change,
    /// The session that owns it, for an ephemeral node.
    pub(crate) owner: i64,
    /// In milliseconds since 1970, by the server's clock.
    pub(crate) created: u64,
    pub(crate) data: Vec<u8>,
}

impl Node {
    pub(super) fn new(data: Vec<u8>, stat: &zk::Stat) -> Self {
        let zk::Stat { ephemeral_owner: owner, ctime, .. } = *stat;
        let (change, created) = (Change::of(stat), ctime.try_into().unwrap_or(0));
        Self { change, owner, created, data }
    }

    pub(super) fn without_data(stat: &zk::Stat) -> Self {
        Self::new(Vec::new(), stat)
    }
}

/// The children of a node, at one moment.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) children: Vec<String>,
    /// The transaction that created the node.
    pub(crate) czxid: i64,
    /// How often its set of children has changed.
    pub(crate) cversion: i32,
    pub(crate) num_children: i32,
}

impl Listing {
    pub(super) fn new(children: Vec<String>, stat: &zk::Stat) -> Self {
        let zk::Stat { czxid, cversion, num_children, .. } = *stat;
        Self { children, czxid, cversion, num_children }
    }
}

/// What to write.
#[derive(Debug)]
pub(crate) enum Write<'a> {
    /// A node that is the session's or, if not `ephemeral`, persistent.
    Create {
        data: &'a [u8],
        acls: &'a [Acl],
        ephemeral: bool,
    },
    Set {
        data: &'a [u8],
    },
    Delete,
}

impl Write<'_> {
    pub(crate) fn data(&self) -> &[u8] {
        match self {
            Self::Create { data, .. } | Self::Set { data } => data,
            Self::Delete => &[],
        }
    }
}

/// Lets everyone do everything: ZooKeeper's and Curator's default.
pub(crate) fn open_to_anyone() -> Vec<Acl> {
    Acls::anyone_all().to_vec()
}
