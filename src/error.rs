//! [`Error`]: one error with a kind; what a loss is, and what a release came to.
//!
//! Contention is never an error. A failure that leaves the outcome unknown never looks like one that did not happen.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Why an operation failed.
///
/// [`kind`](Self::kind) is for programs, and `Display` for people: it names what was wrong, where, and what to do. What
/// caused it is the [`source`](std::error::Error::source): where a server answered that is a
/// [`zookeeper_client::Error`], by `downcast_ref`.
///
/// ```
/// use zookeeper_recipes::{Error, ErrorKind};
///
/// fn status(error: &Error) -> u16 {
///     match error.kind() {
///         _ if error.is_transient() => 503,
///         ErrorKind::Lost => 503, // what was done may not have been done alone
///         ErrorKind::InvalidInput => 400,
///         _ => 500,
///     }
/// }
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

pub(crate) type Source = Arc<dyn std::error::Error + Send + Sync>;

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    text: String,
    path: Option<String>,
    option: Option<&'static str>,
    loss: Option<Loss>,
    source: Option<Source>,
}

/// What an [`Error`] means to a program.
///
/// ```
/// use zookeeper_recipes::{ErrorKind, FencingToken};
///
/// let error = "no token".parse::<FencingToken>().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidInput);
/// assert_eq!(error.option(), Some("fencing token"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A path, an option, a count or an ACL cannot be used as it is. Nothing was sent, or a server refused it.
    InvalidInput,
    /// No server answered in time, or the retry policy is used up. Nothing was done.
    Unavailable,
    /// This session has as many nodes as it may
    /// ([`CuratorBuilder::ephemeral_limit`](crate::CuratorBuilder::ephemeral_limit)). Nothing was done.
    LimitReached,
    /// A hold was lost: what was done under it may not have been done alone. [`Error::loss`] says how.
    Lost,
    /// No server answered a write: it may have been done, or may yet be. Look before you repeat it.
    OutcomeUnknown,
    /// The [`Curator`](crate::Curator) is closed, or the session of a client that was given to it is over.
    Closed,
    /// The servers refuse the credentials.
    AuthenticationFailed,
    /// These credentials may not do it.
    PermissionDenied,
    /// A server refused for another reason, which trying again does not change.
    Refused,
    /// The path has something that this recipe cannot work beside: another recipe's nodes, foreign data, used-up numbers.
    UnusablePath,
    /// The caller would wait for itself.
    WouldDeadlock,
    /// The node is not there.
    NotFound,
    /// The node is there already.
    AlreadyExists,
    /// The body of a leader's term panicked. [`Error::loss`] says whether the leadership was lost by then.
    BodyPanicked,
    /// The body of a leader's term did not end within its grace, and was dropped.
    BodyDropped,
}

/// How a hold was lost.
///
/// ```no_run
/// # use zookeeper_recipes::{Guard, Loss};
/// # async fn example(guard: Guard) {
/// match guard.lost().await {
///     Loss::NodeDeleted => println!("another client deleted the znode: the next may hold already"),
///     loss => println!("stop now: {loss}"),
/// }
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// The session lease ended: no server answered for so long that the servers may soon give the lock to another contender.
    LeaseEnded,
    /// The connection broke, and the lock's [`LossPolicy`](crate::interop::LossPolicy) does not wait.
    Suspended,
    /// The ZooKeeper session is over.
    SessionExpired,
    /// The [`Curator`](crate::Curator) was closed.
    Closed,
    /// Another client deleted the hold's node.
    NodeDeleted,
}

/// What a release or a close came to.
///
/// ```no_run
/// # use zookeeper_recipes::{Error, Guard, Released};
/// # async fn example(guard: Guard) -> Result<(), Error> {
/// if guard.release().await? == Released::Pending {
///     println!("no server has confirmed it yet; the session goes on");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// The next contender can have it: the node is deleted, kept for a while, or passed on to another task of the session.
    Confirmed,
    /// No server confirmed it in time; the session keeps trying to delete the node.
    Pending,
    /// Other guards of the same hold are left; the lock is released with the last.
    StillHeld,
}

impl Error {
    /// What it means to a program.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The path that it is about, if it is about one: of the lock, of a node, or of a member of several locks.
    pub fn path(&self) -> Option<&str> {
        self.0.path.as_deref()
    }

    /// Which option was wrong, for [`ErrorKind::InvalidInput`]: `"namespace"`, `"connect string"`, `"acls"` and so on.
    pub fn option(&self) -> Option<&'static str> {
        self.0.option
    }

    /// How the hold was lost, for [`ErrorKind::Lost`], and for the body of a leader that did not end as the leader.
    pub fn loss(&self) -> Option<Loss> {
        self.0.loss
    }

    /// Whether nothing was done, and the same call may succeed later: [`ErrorKind::Unavailable`] and
    /// [`ErrorKind::LimitReached`]. A service answers 503.
    pub fn is_transient(&self) -> bool {
        matches!(self.kind(), ErrorKind::Unavailable | ErrorKind::LimitReached)
    }

    pub(crate) fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        let (text, path, option) = (text.into(), None, None);
        Self(Arc::new(Inner { kind, text, path, option, loss: None, source: None }))
    }

    pub(crate) fn invalid(option: &'static str, value: impl fmt::Display, reason: &str) -> Self {
        let error =
            Self::new(ErrorKind::InvalidInput, format!("invalid {option} {value}: {reason}"));
        error.changed(|inner| inner.option = Some(option))
    }

    pub(crate) fn lost(path: impl fmt::Display, loss: Loss) -> Self {
        let text = format!(
            "{path} was lost, and what was done under it may not have been done alone: {loss}"
        );
        Self::new(ErrorKind::Lost, text).at(path).by(Some(loss))
    }

    pub(crate) fn authentication(servers: &str) -> Self {
        let text = format!("authentication with {servers} failed: check the credentials");
        Self::new(ErrorKind::AuthenticationFailed, text)
    }

    pub(crate) fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the Curator is closed")
    }

    /// The time was up, or the tries were.
    pub(crate) fn unavailable(path: impl fmt::Display, waited: Option<Duration>) -> Self {
        let text = match waited {
            Some(waited) => {
                format!("no answer of the servers about {path} within {waited:?}; try again")
            }
            None => format!("gave up on {path}: the retry policy is used up; try again"),
        };
        Self::new(ErrorKind::Unavailable, text).at(path)
    }

    pub(crate) fn unknown(path: impl fmt::Display) -> Self {
        let text = format!("whether {path} was written is not known; look before you repeat it");
        Self::new(ErrorKind::OutcomeUnknown, text).at(path)
    }

    pub(crate) fn at(self, path: impl fmt::Display) -> Self {
        self.changed(|inner| inner.path = Some(path.to_string()))
    }

    pub(crate) fn by(self, loss: Option<Loss>) -> Self {
        self.changed(|inner| inner.loss = loss)
    }

    pub(crate) fn because(self, source: Option<impl Into<Source>>) -> Self {
        self.changed(|inner| inner.source = source.map(Into::into))
    }

    /// Puts the operation that failed before the text.
    pub(crate) fn while_doing(self, what: impl fmt::Display) -> Self {
        self.changed(|inner| inner.text = format!("{what}: {}", inner.text))
    }

    fn changed(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, text, source, .. } = &*self.0;
        let mut error = f.debug_struct("Error");
        error.field("kind", kind).field("text", text);
        if let Some(source) = source {
            error.field("source", source);
        }
        error.finish_non_exhaustive()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Loss::LeaseEnded => "the servers did not answer in time",
            Loss::Suspended => "the connection broke",
            Loss::SessionExpired => "the session expired",
            Loss::Closed => "the session was closed",
            Loss::NodeDeleted => "another client deleted its node",
        })
    }
}

impl std::error::Error for Loss {}
