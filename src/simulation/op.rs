//! Requests and answers between clients and servers, and ACLs. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::client::{Acl, AuthId, CreateMode, Permission, ServerError, Stat};

/// A request to a server, or an entry of the servers' log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Create { path: String, data: Vec<u8>, acls: Acls, mode: CreateMode },
    Delete { path: String, version: Option<i32> },
    SetData { path: String, data: Vec<u8>, version: Option<i32> },
    SetAcl { path: String, acls: Acls },
    Check { path: String },
    // No step creates a sequential node.
    Multi(Vec<Op>),
    GetData { path: String, watch: bool },
    Exists { path: String, watch: bool },
    List { path: String, watch: bool },
    GetAcl { path: String },
    Sync,
    SetWatches { since: i64, watches: BTreeSet<(WatchKind, String)> },
    RemoveWatches { path: String, kind: WatchKind },
    Auth { scheme: String, id: String },
    Ping,
    Close,
    // Deletes an empty container. Only servers make this request, and the next one.
    Reap { path: String },
    OpenSession { timeout: u64 },
}

/// The target of a watch. A watch on a node that does not exist is of the kind `Exist`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WatchKind {
    Data,
    Exist,
    Child,
}

/// The change of a node that a watch reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    Created,
    Deleted,
    Changed,
    Children,
}

pub(crate) type Acls = Arc<[Acl]>;

/// The identities that a connection has shown.
pub(crate) type Ids = Arc<BTreeSet<(String, String)>>;

/// The answer of a server.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Nothing,
    Created(String, Stat),
    Stat(Option<Stat>),
    Data(Vec<u8>, Stat),
    Children(Vec<String>, Stat),
    Acls(Acls, Stat),
}

/// The refusal of a request; in a transaction of several steps, with the step that failed.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) step: Option<usize>,
    pub(crate) error: ServerError,
}

impl From<ServerError> for Refused {
    fn from(error: ServerError) -> Self {
        Self { step: None, error }
    }
}

pub(crate) type Reply = Result<Answer, Refused>;

impl Op {
    pub(crate) fn create(path: String, data: &[u8], acls: &[Acl], mode: CreateMode) -> Self {
        Self::Create { path, data: data.to_vec(), acls: acls.into(), mode }
    }

    /// Returns true if only the leader can answer the request.
    pub(super) fn needs_leader(&self) -> bool {
        matches!(
            self,
            Op::Create { .. }
                | Op::Delete { .. }
                | Op::SetData { .. }
                | Op::SetAcl { .. }
                | Op::Multi(_)
                | Op::Sync
                | Op::Close
                | Op::Reap { .. }
                | Op::OpenSession { .. }
        )
    }

    /// The path and the kind of the watch that an answered request sets. If the node does not exist, the watch is on
    /// its existence.
    pub(super) fn watches(&self, answer: &Answer) -> Option<(&str, WatchKind)> {
        let (path, kind) = self.watched()?;
        Some((path, if matches!(answer, Answer::Stat(None)) { WatchKind::Exist } else { kind }))
    }

    /// The path and the kind of the watch that a request asks for.
    pub(super) fn watched(&self) -> Option<(&str, WatchKind)> {
        match self {
            Op::GetData { path, watch: true } | Op::Exists { path, watch: true } => {
                Some((path, WatchKind::Data))
            }
            Op::List { path, watch: true } => Some((path, WatchKind::Child)),
            _ => None,
        }
    }

    /// The node that a step of a transaction writes or checks.
    pub(super) fn path(&self) -> Option<&str> {
        match self {
            Op::Create { path, .. }
            | Op::Delete { path, .. }
            | Op::SetData { path, .. }
            | Op::SetAcl { path, .. }
            | Op::Check { path } => Some(path),
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
            Op::Sync => Operation::Sync,
            Op::SetWatches { .. } => Operation::SetWatches,
            Op::RemoveWatches { .. } => Operation::RemoveWatches,
            Op::Auth { .. } => Operation::Auth,
            Op::Ping => Operation::Ping,
            Op::Close => Operation::CloseSession,
            Op::OpenSession { .. } => Operation::Connect,
        }
    }

    /// Returns true if the request lacks ACLs. The client does not send such a request.
    pub(super) fn lacks_acls(&self) -> bool {
        match self {
            Op::Create { acls, .. } | Op::SetAcl { acls, .. } => acls.is_empty(),
            Op::Multi(steps) => steps.iter().any(Op::lacks_acls),
            _ => false,
        }
    }
}

/// The operation of a message: of a request, or of the request that a reply answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Every request and every reply, except handshakes and pings.
    Any,
    /// The handshake: the first message of a connection in either direction.
    Connect,
    /// A node of any mode is created.
    Create,
    /// A node is deleted.
    Delete,
    /// A node's existence is checked.
    Exists,
    /// A node's data are read.
    GetData,
    /// A node's data are written.
    SetData,
    /// Children are listed.
    List,
    /// A server catches up with the leader.
    Sync,
    /// The client's ping.
    Ping,
    /// Several writes are made, all or none.
    Multi,
    /// Watches are set again after a reconnect.
    SetWatches,
    /// Watches are removed.
    RemoveWatches,
    /// Credentials are sent.
    Auth,
    /// The session is closed.
    CloseSession,
    /// A watch has fired. The server's message answers no request, and [`Any`](Self::Any) does not include it.
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

/// Returns the ACLs as a node keeps them, with the creator's identities in place of `auth`.
pub(super) fn resolved(acls: &[Acl], ids: &Ids) -> Result<Acls, ServerError> {
    let mut resolved = Vec::new();
    for acl in acls {
        let is_valid = match acl.scheme() {
            "auth" => !ids.is_empty(),
            "world" => acl.id() == "anyone",
            "digest" => acl.id().split(':').count() == 2,
            scheme => scheme == "ip",
        };
        match acl.scheme() {
            _ if !is_valid => return Err(ServerError::InvalidAcl),
            "auth" => resolved.extend(
                ids.iter().map(|(scheme, id)| Acl::new(acl.permission(), AuthId::new(scheme, id))),
            ),
            _ => resolved.push(acl.clone()),
        }
    }
    Ok(resolved.into())
}

pub(super) fn allow(acls: &[Acl], permission: Permission, ids: &Ids) -> bool {
    acls.iter().any(|acl| {
        permission & acl.permission() != Permission::NONE
            && (acl.scheme() == "world"
                || ids.contains(&(acl.scheme().to_owned(), acl.id().to_owned())))
    })
}
