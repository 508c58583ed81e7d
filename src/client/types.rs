//! The values that requests carry and return.

use std::time::{Duration, SystemTime};

use zookeeper_client::{self as zk, Acl, Acls, CreateMode};

use crate::fencing_token::FencingToken;

/// A change of a node's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// The transaction that created the node.
    pub(crate) czxid: i64,
    /// The transaction that wrote the data, the create included.
    pub(crate) mzxid: i64,
    /// The number of writes of the data since the create.
    pub(crate) version: i32,
}

impl Change {
    pub(super) fn of(stat: &zk::Stat) -> Self {
        Self { czxid: stat.czxid, mzxid: stat.mzxid, version: stat.version }
    }
}

/// A node that was just created or read. All fields are zero if the node exists but may not be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    /// The last change of its data.
    pub(crate) change: Change,
    /// The session that owns an ephemeral node.
    pub(crate) owner: i64,
    /// The time of the create in milliseconds since 1970, by the server's clock.
    pub(crate) created: u64,
    pub(crate) data: Vec<u8>,
}

impl Node {
    pub(super) fn new(data: Vec<u8>, stat: &zk::Stat) -> Self {
        Self {
            change: Change::of(stat),
            owner: stat.ephemeral_owner,
            created: stat.ctime.try_into().unwrap_or(0),
            data,
        }
    }

    /// The session that owns the node; `None` for a persistent one, and for one that may not be read.
    pub(crate) fn session_id(&self) -> Option<i64> {
        Some(self.owner).filter(|owner| *owner != 0)
    }

    /// The token of the hold by this node. A server that hides a node may hide its transaction as well (3.8.4, 3.9.2).
    pub(crate) fn fencing_token(&self) -> Option<FencingToken> {
        // Transactions are numbered from one.
        (self.change.czxid > 0).then(|| FencingToken::new(self.change.czxid))
    }

    /// The time of the create, if the transaction is known.
    pub(crate) fn since(&self) -> Option<SystemTime> {
        let created = SystemTime::UNIX_EPOCH + Duration::from_millis(self.created);
        self.fencing_token().map(|_| created)
    }

    pub(super) fn without_data(stat: &zk::Stat) -> Self {
        Self::new(Vec::new(), stat)
    }
}

/// A sequential node that was created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Created {
    pub(crate) sequence: i64,
    /// The transaction that created the node. Zero if the answer does not tell.
    pub(crate) czxid: i64,
    /// The session that owns the node. Zero if the answer does not tell.
    pub(crate) owner: i64,
}

/// The children of a node, at one moment.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) children: Vec<String>,
    /// The transaction that created the node.
    pub(crate) czxid: i64,
    /// The number of changes of the set of children.
    pub(crate) cversion: i32,
    pub(crate) num_children: i32,
}

impl Listing {
    pub(super) fn new(children: Vec<String>, stat: &zk::Stat) -> Self {
        Self {
            children,
            czxid: stat.czxid,
            cversion: stat.cversion,
            num_children: stat.num_children,
        }
    }
}

/// A write to one node.
#[derive(Debug)]
pub(crate) enum Write<'a> {
    Create { data: &'a [u8], acls: &'a [Acl], mode: CreateMode },
    Set { data: &'a [u8] },
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

/// Returns the ACL that allows everyone everything (`world:anyone`): ZooKeeper's and Curator's default.
pub(crate) fn world_anyone_acl() -> Vec<Acl> {
    Acls::anyone_all().to_vec()
}
