//! [`Error`]: one error type with a kind, the causes of a loss, and the results of a release.
//!
//! A failure whose outcome is unknown never looks like a failure that changed nothing.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The error of a failed operation.
///
/// Programs match on the [`kind`](Self::kind). The `Display` text is for people: it names the problem, the place, and
/// what to do. The [`source`](std::error::Error::source) is the cause. If a server answered, `downcast_ref` gives a
/// [`zookeeper_client::Error`].
///
/// ```
/// use zookeeper_recipes::{Error, ErrorKind};
///
/// fn status(error: &Error) -> u16 {
///     match error.kind() {
///         _ if error.is_transient() => 503,
///         ErrorKind::Closed => 503, // this process shuts down
///         ErrorKind::Busy => 409, // another contender has the lock
///         ErrorKind::InvalidInput => 400,
///         ErrorKind::Lost => 500, // work may have overlapped with another holder; proxies repeat a 503
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

/// The kind of an [`Error`], for programs to match on.
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
    /// Another contender has the lock, or a semaphore has too few leases, and the caller waits no longer. The operation had no effect.
    /// A server said so, or a task of this session has the lock or is entering. [`Error::path`] names the lock, of a multi-lock the
    /// member that is busy.
    Busy,
    /// A path, an option, a count or an ACL is invalid. No request was sent, or a server refused it, or the limit of a semaphore is
    /// now below what was asked for.
    InvalidInput,
    /// No server answered in time, or the retry policy is exhausted. The operation had no effect, but parents may have been created,
    /// and by `SharedCount::start` the count.
    Unavailable,
    /// This session has reached its limit of ephemeral nodes
    /// ([`CuratorBuilder::ephemeral_limit`](crate::CuratorBuilder::ephemeral_limit)). The operation had no effect.
    LimitReached,
    /// A hold was lost: work done under it may have overlapped with another holder. [`Error::loss`] gives the cause.
    Lost,
    /// No server confirmed a write, which may have taken effect or may still do so. Check before you repeat it.
    OutcomeUnknown,
    /// The [`Curator`](crate::Curator) is closed or its runtime has ended, the session of a client that was given to it has ended, or
    /// the latch, run, node or hold that was used is closed.
    Closed,
    /// The servers refuse the credentials.
    AuthenticationFailed,
    /// The credentials do not permit the operation.
    PermissionDenied,
    /// A server refused the request for another reason. Trying again does not help.
    Refused,
    /// The path has content that this recipe cannot work with: another recipe's nodes, foreign data, or used-up
    /// sequence numbers.
    UnusablePath,
    /// The caller would wait for itself.
    WouldDeadlock,
    /// The node does not exist.
    NotFound,
    /// The node already exists.
    AlreadyExists,
    /// The body of a leader's term panicked. [`Error::loss`] says whether the leadership was lost by then.
    BodyPanicked,
    /// The body of a leader's term did not end within its grace period, or its runtime ended meanwhile, and it was dropped.
    BodyDropped,
}

/// The cause of a lost hold.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Loss {
    /// The session lease ended: no server answered for so long that the servers may soon give the lock to another contender.
    #[error("the servers did not answer in time")]
    LeaseEnded,
    /// The connection broke, and the lock's [`LossPolicy`](crate::interop::LossPolicy) does not wait.
    #[error("the connection broke")]
    Suspended,
    /// The ZooKeeper session has ended.
    #[error("the session expired")]
    SessionExpired,
    /// The [`Curator`](crate::Curator) was closed.
    #[error("the session was closed")]
    Closed,
    /// Another client deleted the hold's node.
    #[error("another client deleted its node")]
    NodeDeleted,
}

/// The result of a release or a close.
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
    /// The next contender can have the lock: the node is deleted, retained for a while, or passed on to another task
    /// of the session.
    Confirmed,
    /// No server confirmed it in time; the session keeps trying to delete the node.
    Pending,
    /// Other guards of the same hold remain. The lock is released with the last one.
    StillHeld,
}

impl Error {
    /// Returns the kind of the error, for programs to match on.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the path that the error is about, if any: the path of the lock, of a node, or of one of several locks.
    pub fn path(&self) -> Option<&str> {
        self.0.path.as_deref()
    }

    /// Returns the name of the invalid option, for [`ErrorKind::InvalidInput`]: `"namespace"`, `"connect string"`,
    /// `"acls"` and so on.
    pub fn option(&self) -> Option<&'static str> {
        self.0.option
    }

    /// Returns the cause of the loss, for [`ErrorKind::Lost`] and for the body of a leader that did not end as the
    /// leader.
    pub fn loss(&self) -> Option<Loss> {
        self.0.loss
    }

    /// Returns true if another contender has the lock: [`ErrorKind::Busy`].
    ///
    /// ```no_run
    /// # use zookeeper_recipes::{Error, InterProcessMutex};
    /// # async fn bill(token: i64) -> Result<u64, Error> { Ok(1) }
    /// # async fn example(mutex: InterProcessMutex) -> Result<(), Error> {
    /// match mutex.try_run(async |hold| bill(hold.fencing_token().value()).await).await {
    ///     Ok(billed) => println!("{billed} orders"),
    ///     Err(error) if error.is_busy() => println!("{error}"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_busy(&self) -> bool {
        self.kind() == ErrorKind::Busy
    }

    /// Returns true if the operation had no effect and the same call may succeed later: [`ErrorKind::Unavailable`]
    /// and [`ErrorKind::LimitReached`]. A service answers 503. [`ErrorKind::Busy`] is not included, because it is the answer
    /// that the caller asked for.
    pub fn is_transient(&self) -> bool {
        matches!(self.kind(), ErrorKind::Unavailable | ErrorKind::LimitReached)
    }

    pub(crate) fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            kind,
            text: text.into(),
            path: None,
            option: None,
            loss: None,
            source: None,
        }))
    }

    pub(crate) fn invalid(option: &'static str, value: impl fmt::Display, reason: &str) -> Self {
        let error =
            Self::new(ErrorKind::InvalidInput, format!("invalid {option} {value}: {reason}"));
        error.changed(|inner| inner.option = Some(option))
    }

    pub(crate) fn lost(path: impl fmt::Display, loss: Loss) -> Self {
        let text = format!(
            "{path} was lost, and work done under it may have overlapped with another holder's: {loss}"
        );
        Self::new(ErrorKind::Lost, text).at(path).by(Some(loss))
    }

    pub(crate) fn authentication(servers: &str) -> Self {
        let text = format!(
            "authentication with {servers} failed: check the credentials, and whether the servers require SASL"
        );
        Self::new(ErrorKind::AuthenticationFailed, text)
    }

    pub(crate) fn busy(path: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Busy, format!("another contender has {path}")).at(path)
    }

    pub(crate) fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the Curator is closed")
    }

    /// The error after a timeout of `waited`, or if that is `None`, of a request that no server could serve.
    pub(crate) fn unavailable(path: impl fmt::Display, waited: Option<Duration>) -> Self {
        let text = match waited {
            Some(waited) => {
                format!("no answer of the servers about {path} within {waited:?}; try again")
            }
            None => format!("no server could serve the request about {path}; try again"),
        };
        Self::new(ErrorKind::Unavailable, text).at(path)
    }

    /// The error when the policy that `limit` describes allows no further retry.
    pub(crate) fn gave_up(path: impl fmt::Display, limit: impl fmt::Display) -> Self {
        let text = format!("gave up on {path}: {limit}; try again");
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

    /// Prefixes the text with the operation that failed.
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

// The derive of `thiserror` would return the `Arc` as the source, and `downcast_ref` would not find the client's error in it.
impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
