//! The errors, one enum for each family of operations.
//!
//! Contention is never an error: it is `None`. A failure that leaves the outcome unknown never looks
//! like one that did not happen. `Display` says what this error adds; its cause is in `source`.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use thiserror::Error;

use crate::client::ClientError;
use crate::shared_error::SharedError;

/// A path, an option or a connect string cannot be used as it is.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A path is not one that ZooKeeper accepts.
    #[error("invalid {option} {path:?}: {reason}")]
    #[non_exhaustive]
    InvalidPath {
        /// What the path was given for.
        option: &'static str,
        /// The path.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The connect string names no server, a bad port or a bad chroot.
    #[error("invalid connect string {connect_string:?}: {reason}")]
    #[non_exhaustive]
    InvalidConnectString {
        /// The connect string.
        connect_string: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An option has a value that cannot work.
    #[error("invalid {option} {value}: {reason}")]
    #[non_exhaustive]
    InvalidOption {
        /// The option, as its method is named.
        option: &'static str,
        /// The value.
        value: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// No ZooKeeper session, or none any more.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// What was given to connect with cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No server gave a session in time.
    #[error("no session with {connect_string} within {waited:?}: {hint}")]
    #[non_exhaustive]
    Unreachable {
        /// The servers.
        connect_string: String,
        /// How long it was tried.
        waited: Duration,
        /// What may be the matter with the servers. A refused TLS handshake looks like a server that is
        /// out of reach; the log of `zookeeper_client`, at level `debug`, tells them apart.
        hint: &'static str,
        /// How the last try failed, if a server or the system said so.
        #[source]
        source: Option<ClientError>,
    },
    /// The servers refused the credentials. No new session is tried.
    #[error("authentication with {connect_string} failed")]
    #[non_exhaustive]
    AuthFailed {
        /// The servers.
        connect_string: String,
    },
    /// The namespace, or the chroot of the connect string, is missing and could not be made.
    #[error("cannot make the namespace or chroot {path}")]
    #[non_exhaustive]
    Namespace {
        /// The node, as the server knows it.
        path: String,
        /// The server's answer.
        #[source]
        source: ClientError,
    },
    /// The session of the client given to [`Curator::from_client`](crate::Curator::from_client) is
    /// over, and only its owner can make another.
    #[error("the client's session is over")]
    Expired,
    /// There is none at this moment; the next one is being opened.
    #[error("between two sessions")]
    NotNow,
    /// [`Curator::close`](crate::Curator::close) was called, or the last handle dropped.
    #[error("closed")]
    Closed,
    /// The session was told to end, but no server confirmed it: its nodes may stay until the servers
    /// expire it.
    #[error("the end of the session was not confirmed within {waited:?}")]
    #[non_exhaustive]
    CloseUnconfirmed {
        /// How long the confirmation was waited for.
        waited: Duration,
    },
}

/// Why a lock was not acquired, or its path not read. A node of the failed attempt is deleted, at once or in the background.
///
/// A lock that another contender holds is no error: [`try_acquire`](crate::InterProcessMutex::try_acquire) returns `None`.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// There is no session to acquire it with.
    #[error("cannot acquire {path}")]
    #[non_exhaustive]
    Session {
        /// The lock path.
        path: String,
        /// Why.
        #[source]
        source: SessionError,
    },
    /// The server says that these credentials may not do it.
    #[error("no permission to {operation} {path}{}", or_under(operation))]
    #[non_exhaustive]
    NoAuth {
        /// The path. Where `create` was refused and the path is there, a node under it was to be created.
        path: String,
        /// What was refused: `create`, `list`, `read` or `delete`.
        operation: &'static str,
    },
    /// The server says that the ACLs are invalid, for instance because they name an identity that the
    /// connection does not have.
    #[error("the server rejects the ACLs for {path}")]
    #[non_exhaustive]
    InvalidAcl {
        /// The path.
        path: String,
    },
    /// The path, or one above it, is an ephemeral node, which cannot have children.
    #[error("{path} is or lies below an ephemeral node, which cannot have children")]
    #[non_exhaustive]
    EphemeralParent {
        /// The path.
        path: String,
    },
    /// The server refused for another reason, which will not change by trying again.
    #[error("the server refuses to {operation} {path}")]
    #[non_exhaustive]
    Refused {
        /// The path.
        path: String,
        /// What was refused.
        operation: &'static str,
        /// The server's answer.
        #[source]
        source: ClientError,
    },
    /// The retry policy is used up.
    #[error("gave up on {path}: the retry policy is used up")]
    #[non_exhaustive]
    RetriesExhausted {
        /// The path.
        path: String,
        /// How the last try failed.
        #[source]
        source: Option<ClientError>,
    },
    /// The time was up before the servers said whether anybody holds the lock. (When they said that
    /// somebody does, the answer is `None`.)
    #[error("no answer of the servers about {path} within {waited:?}")]
    #[non_exhaustive]
    TimedOut {
        /// The path.
        path: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The path's sequence numbers are used up: beyond here they wrap, and two would hold. Delete the
    /// lock's node while nobody uses it, and it starts anew.
    #[error("the sequence numbers under {path} are used up (at {sequence})")]
    #[non_exhaustive]
    SequenceExhausted {
        /// The lock path.
        path: String,
        /// The number the server gave.
        sequence: i64,
    },
    /// This session has as many ephemeral nodes as it may. See
    /// [`CuratorBuilder::ephemeral_limit`](crate::CuratorBuilder::ephemeral_limit).
    #[error(
        "{path}: this session's ephemeral nodes may take {limit} bytes (ephemeral_limit), {in_use} are in use"
    )]
    #[non_exhaustive]
    TooManyContenders {
        /// The lock path.
        path: String,
        /// Bytes of paths in use.
        in_use: usize,
        /// Bytes of paths allowed.
        limit: usize,
    },
    /// Somebody contends on this path by the rules of another recipe, or by names that this
    /// [`ContenderFilter`](crate::ContenderFilter) does not count: neither would keep the other out. Use a path for one
    /// recipe; or remove the child, if nobody uses it.
    #[error("{child} under {path} is of another recipe, which this lock does not keep out")]
    #[non_exhaustive]
    OtherRecipe {
        /// The lock path.
        path: String,
        /// The child's name.
        child: String,
    },
    /// No lease was asked for, or more than there are, which would be waited for for ever.
    #[error("{asked} leases of {path} cannot be had: of {limit}, at least one must be asked for")]
    #[non_exhaustive]
    LeaseCount {
        /// The lock path.
        path: String,
        /// How many were asked for.
        asked: usize,
        /// How many there are.
        limit: usize,
    },
    /// This [`Owner`](crate::Owner) holds the read lock and asks for the write lock, which would wait for that. Release
    /// the read guards first; what was read may have changed when the write lock is held.
    #[error("this owner reads {path}: a read lock cannot be turned into a write lock")]
    #[non_exhaustive]
    Upgrade {
        /// The lock path.
        path: String,
    },
    /// This [`Owner`](crate::Owner) had the lock and lost it, and has not let go of the guard; or a write hold was lost
    /// beside which to read.
    #[error("{path} was lost, and its guard is still there: {loss}")]
    #[non_exhaustive]
    HoldLost {
        /// The lock path.
        path: String,
        /// How it was lost.
        loss: Loss,
    },
    /// A member of an [`InterProcessMultiLock`](crate::InterProcessMultiLock) was not acquired. Those before
    /// it were released; those behind it were not asked.
    #[error("member {position}, {path}, was not acquired")]
    #[non_exhaustive]
    Member {
        /// The member's path.
        path: String,
        /// Its place among the members, from 0.
        position: usize,
        /// Why.
        #[source]
        source: Box<AcquireError>,
    },
    /// A member of an [`InterProcessMultiLock`](crate::InterProcessMultiLock) was lost while those behind it
    /// were acquired. All were released.
    #[error("member {position}, {path}, was lost before all were acquired: {loss}")]
    #[non_exhaustive]
    MemberLost {
        /// The member's path.
        path: String,
        /// Its place among the members, from 0.
        position: usize,
        /// How it was lost.
        loss: Loss,
    },
    /// A lock that is not one of this crate's could not be acquired.
    #[error("cannot acquire {path}")]
    #[non_exhaustive]
    Other {
        /// The lock path.
        path: String,
        /// What that lock says.
        #[source]
        source: SharedError,
    },
}

/// A lock path may be there without the permission to create a contender's node under it.
fn or_under(operation: &str) -> &'static str {
    if operation == "create" { " or a node under it" } else { "" }
}

/// For whoever implements [`InterProcessLock`](crate::InterProcessLock).
impl AcquireError {
    /// The failure of a lock that is not one of this crate's. The error is kept as the source.
    pub fn other(
        path: impl Into<String>,
        error: impl Into<Box<dyn Error + Send + Sync + 'static>>,
    ) -> Self {
        Self::Other { path: path.into(), source: SharedError::new(error) }
    }

    /// The time was up before anybody said whether the lock is held.
    pub fn timed_out(path: impl Into<String>, waited: Duration) -> Self {
        Self::TimedOut { path: path.into(), waited }
    }
}

/// Why a lock was not released cleanly.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The hold had ended before: what was done under it may not have been done alone.
    #[error("{path} was lost before it was released: {loss}")]
    #[non_exhaustive]
    Lost {
        /// The lock path.
        path: String,
        /// How it was lost.
        loss: Loss,
    },
    /// Nobody confirmed yet that the node is gone; the session goes on deleting it until it is.
    #[error("the release of {path} was not confirmed within {waited:?}, and goes on")]
    #[non_exhaustive]
    Unconfirmed {
        /// The lock path.
        path: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The server says that these credentials may not delete the node. The session goes on trying;
    /// the lock stays taken until it may, or until the session is closed.
    #[error("no permission to delete {node}")]
    #[non_exhaustive]
    NoAuth {
        /// The contender's node.
        node: String,
    },
    /// Some members of an [`InterProcessMultiLock`](crate::InterProcessMultiLock) were not released in order.
    #[error("not all members of {path} were held to the end and released")]
    #[non_exhaustive]
    Members {
        /// The path of the multi-lock.
        path: String,
        /// Which, and why.
        #[source]
        source: MultiReleaseError,
    },
    /// A lock that is not one of this crate's could not be released.
    #[error("cannot release {path}")]
    #[non_exhaustive]
    Other {
        /// The lock path.
        path: String,
        /// What that lock says.
        #[source]
        source: SharedError,
    },
}

/// For whoever implements [`LockGuard`](crate::LockGuard).
impl ReleaseError {
    /// The failure of a lock that is not one of this crate's. The error is kept as the source.
    pub fn other(
        path: impl Into<String>,
        error: impl Into<Box<dyn Error + Send + Sync + 'static>>,
    ) -> Self {
        Self::Other { path: path.into(), source: SharedError::new(error) }
    }

    /// The hold had ended before it was released.
    pub fn lost(path: impl Into<String>, loss: Loss) -> Self {
        Self::Lost { path: path.into(), loss }
    }

    /// Nobody confirmed the release in time.
    pub fn unconfirmed(path: impl Into<String>, waited: Duration) -> Self {
        Self::Unconfirmed { path: path.into(), waited }
    }
}

/// All members of an [`InterProcessMultiLock`](crate::InterProcessMultiLock) were released, but something must be
/// known about some of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiReleaseError {
    failures: Vec<MemberFailure>,
}

/// What must be known about the release of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberFailure {
    /// The member's path.
    pub path: String,
    /// Its place among the members, from 0.
    pub position: usize,
    /// What must be known.
    pub error: ReleaseError,
}

impl MultiReleaseError {
    /// `None` if nothing failed.
    pub(crate) fn of(failures: Vec<MemberFailure>) -> Option<Self> {
        (!failures.is_empty()).then_some(Self { failures })
    }

    /// All of them, in the order of the releases: the last member first.
    pub fn failures(&self) -> &[MemberFailure] {
        &self.failures
    }

    /// The first member that had been lost before it was released, if one had: what was done under the locks
    /// may not have been done alone.
    pub fn loss(&self) -> Option<(&str, Loss)> {
        self.failures.iter().find_map(|failure| match &failure.error {
            ReleaseError::Lost { loss, .. } => Some((failure.path.as_str(), *loss)),
            ReleaseError::Members { source, .. } => source.loss(),
            _ => None,
        })
    }
}

/// Says all of them, with their causes: they have no cause in common.
impl fmt::Display for MultiReleaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, MemberFailure { path, position, error }) in self.failures.iter().enumerate() {
            let before = if number == 0 { "" } else { "; " };
            write!(f, "{before}member {position}, {path}")?;
            let mut cause: Option<&dyn Error> = Some(error);
            while let Some(error) = cause {
                write!(f, ": {error}")?;
                cause = error.source();
            }
        }
        Ok(())
    }
}

impl Error for MultiReleaseError {}

/// Why [`InterProcessMutex::with`](crate::InterProcessMutex::with), or another recipe's `with`, did not run its closure to
/// the end under the lock.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum WithError {
    /// The lock was not acquired; the body did not run.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lock was lost while the body ran. It was cancelled, or had ended too late.
    #[error("{path} was lost while the body ran: {loss}")]
    #[non_exhaustive]
    Lost {
        /// The lock path; of a multi-lock, the member's that was lost.
        path: String,
        /// How it was lost.
        loss: Loss,
    },
}

/// A contender could not be asked to give way.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum RevokeError {
    /// The path is not one of a contender's node. Nothing was written.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is no session to ask with; a request that was sent before may have been written.
    #[error("cannot ask {node} to give way")]
    #[non_exhaustive]
    Session {
        /// The contender's node.
        node: String,
        /// Why.
        #[source]
        source: SessionError,
    },
    /// The server says that these credentials may not write to the node.
    #[error("no permission to write to {node}")]
    #[non_exhaustive]
    NoAuth {
        /// The contender's node.
        node: String,
    },
    /// The server refused for another reason. Nothing was written.
    #[error("the server refuses to write to {node}")]
    #[non_exhaustive]
    Refused {
        /// The contender's node.
        node: String,
        /// The server's answer.
        #[source]
        source: ClientError,
    },
    /// The retry policy is used up; it may have been written.
    #[error("gave up on asking {node} to give way: the retry policy is used up")]
    #[non_exhaustive]
    RetriesExhausted {
        /// The contender's node.
        node: String,
        /// How the last try failed.
        #[source]
        source: Option<ClientError>,
    },
}

/// A [`Fenced`](crate::Fenced) write failed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum FencedError {
    /// The path cannot be used. Nothing was written.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The hold is over. Nothing was written.
    #[error("{path} was not written, the hold is over: {loss}")]
    #[non_exhaustive]
    Lost {
        /// What was to be written.
        path: String,
        /// How the hold ended.
        loss: Loss,
    },
    /// Nobody answered: it may have been written, or may yet be while the hold's node is there.
    #[error("whether {path} was written is not known")]
    #[non_exhaustive]
    Unknown {
        /// What was to be written.
        path: String,
        /// How the request failed; nothing if the hold ended before an answer came.
        #[source]
        source: Option<ClientError>,
    },
    /// There is no such node, or no parent to create it under. Nothing was written.
    #[error("{path} or its parent does not exist")]
    #[non_exhaustive]
    NoNode {
        /// The path.
        path: String,
    },
    /// The node to create is there already. Nothing was written.
    #[error("{path} exists already")]
    #[non_exhaustive]
    NodeExists {
        /// The path.
        path: String,
    },
    /// The server says that these credentials may not do it. Nothing was written.
    #[error("no permission on {path}")]
    #[non_exhaustive]
    NoAuth {
        /// The path; the hold's own node, if its ACLs do not let us read it.
        path: String,
    },
    /// The server refused for another reason. Nothing was written.
    #[error("the server refuses to write {path}")]
    #[non_exhaustive]
    Refused {
        /// The path.
        path: String,
        /// The server's answer.
        #[source]
        source: ClientError,
    },
}

/// Why a hold ended: what a guard's `loss` and `lost` return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// The session lease ended: no server answered for so long that the servers may soon give the lock to another contender.
    LeaseEnded,
    /// The connection broke, and the lock's [`LossPolicy`](crate::LossPolicy) does not wait.
    Suspended,
    /// The ZooKeeper session is over.
    SessionExpired,
    /// The `Curator` was closed.
    Closed,
    /// Somebody else deleted the hold's node.
    NodeDeleted,
    /// It was released: nothing was lost.
    Released,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Loss::LeaseEnded => "the servers did not answer in time",
            Loss::Suspended => "the connection broke",
            Loss::SessionExpired => "the session expired",
            Loss::Closed => "the session was closed",
            Loss::NodeDeleted => "its node was deleted by somebody else",
            Loss::Released => "it was released",
        })
    }
}
