//! Requests and answers, as they travel. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::client::{Permission, ServerError, Stat};

/// A request, as it travels to a server.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Op {
    Create { path: String, data: Vec<u8>, acls: Acls, mode: Mode },
    Delete { path: String, version: Option<i32> },
    SetData { path: String, data: Vec<u8>, version: Option<i32> },
    SetAcl { path: String, acls: Acls },
    Check { path: String },
    Multi(Vec<Op>),
    GetData { path: String, watch: bool },
    Exists { path: String, watch: bool },
    List { path: String, watch: bool },
    GetAcl { path: String },
    // A read of several nodes' children.
    AreGone(Vec<String>),
    Sync,
    SetWatches { since: i64, data: Vec<String>, exist: Vec<String>, child: Vec<String> },
    RemoveWatches { path: String, kind: Kind },
    Auth { scheme: String, id: String },
    Ping,
    Close,
    // The server's own: a container that was left empty is deleted.
    Reap { path: String },
    OpenSession { timeout: u64 },
}

/// What a watch is on. One on a node that is not there is on its existence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Data,
    Exist,
    Child,
}

/// How a node is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    Persistent,
    PersistentSequential,
    Ephemeral,
    EphemeralSequential,
    Container,
}

/// What happened to a node, as a watch tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Happened {
    Created,
    Deleted,
    Changed,
    Children,
}

/// Permissions, scheme and id, one by one.
pub(crate) type Acls = Arc<Vec<(Permission, String, String)>>;

/// The identities that a connection has shown.
pub(crate) type Ids = Arc<BTreeSet<(String, String)>>;

/// What a server answers.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Nothing,
    Created(String, Stat),
    Stat(Option<Stat>),
    Data(Vec<u8>, Stat),
    Children(Vec<String>, Stat),
    Gone(Vec<bool>),
    Acls(Acls, Stat),
}

/// Why a server refuses; in a transaction of several steps, at which.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) step: Option<usize>,
    pub(crate) error: ServerError,
}

pub(crate) type Reply = Result<Answer, Refused>;

impl Op {
    pub(super) fn is_write(&self) -> bool {
        matches!(
            self,
            Op::Create { .. }
                | Op::Delete { .. }
                | Op::SetData { .. }
                | Op::SetAcl { .. }
                | Op::Multi(_)
                | Op::Close
                | Op::Reap { .. }
                | Op::OpenSession { .. }
        )
    }

    /// The same once it is answered: of a node that is not there its existence is watched.
    pub(super) fn watches(&self, answer: &Answer) -> Option<(&str, Kind)> {
        let (path, kind) = self.watched()?;
        Some((path, if matches!(answer, Answer::Stat(None)) { Kind::Exist } else { kind }))
    }

    /// The path that it sets a watch on, and on what of it.
    pub(super) fn watched(&self) -> Option<(&str, Kind)> {
        match self {
            Op::GetData { path, watch: true } | Op::Exists { path, watch: true } => {
                Some((path, Kind::Data))
            }
            Op::List { path, watch: true } => Some((path, Kind::Child)),
            _ => None,
        }
    }

    pub(super) fn operation(&self) -> Operation {
        match self {
            Op::Create { .. } => Operation::Create,
            Op::Delete { .. } | Op::Reap { .. } => Operation::Delete,
            Op::SetData { .. } => Operation::SetData,
            Op::SetAcl { .. } | Op::GetAcl { .. } => Operation::Acl,
            Op::Multi(_) | Op::Check { .. } => Operation::Multi,
            Op::GetData { .. } => Operation::GetData,
            Op::Exists { .. } => Operation::Exists,
            Op::List { .. } => Operation::List,
            Op::AreGone(_) => Operation::MultiRead,
            Op::Sync => Operation::Sync,
            Op::SetWatches { .. } => Operation::SetWatches,
            Op::RemoveWatches { .. } => Operation::RemoveWatches,
            Op::Auth { .. } => Operation::Auth,
            Op::Ping => Operation::Ping,
            Op::Close => Operation::CloseSession,
            Op::OpenSession { .. } => Operation::Connect,
        }
    }

    /// The client does not send it.
    pub(super) fn lacks_acls(&self) -> bool {
        match self {
            Op::Create { acls, .. } | Op::SetAcl { acls, .. } => acls.is_empty(),
            Op::Multi(steps) => steps.iter().any(Op::lacks_acls),
            _ => false,
        }
    }
}

/// What a message asks for, or a reply answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Every request, and every reply to one, except handshakes and pings.
    Any,
    /// The handshake, the first message of a connection either way.
    Connect,
    /// A node is created, of whatever kind.
    Create,
    /// A node is deleted.
    Delete,
    /// Is there such a node?
    Exists,
    /// A node's data are read.
    GetData,
    /// A node's data are written.
    SetData,
    /// Children are listed.
    List,
    /// A member catches up with the leader.
    Sync,
    /// The client's sign of life.
    Ping,
    /// Several writes, all or none.
    Multi,
    /// Several reads.
    MultiRead,
    /// Watches are set again, after a reconnection.
    SetWatches,
    /// Watches are taken back.
    RemoveWatches,
    /// Credentials are sent.
    Auth,
    /// The session is ended.
    CloseSession,
    /// A watch has fired: a message of the server that answers no request. [`Any`](Self::Any) leaves it out.
    Event,
    /// A node's ACLs are read or written.
    Acl,
}

impl Operation {
    pub(super) fn means(self, seen: Self) -> bool {
        match self {
            Self::Any => !matches!(seen, Self::Connect | Self::Ping | Self::Event),
            asked => asked == seen,
        }
    }
}
