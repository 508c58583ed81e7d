//! [`Curator`]: the handle on a supervised ZooKeeper connection, and its builder.

use std::fmt;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime;
use tokio::sync::watch;
use tracing::Instrument;

use crate::client::{self, Acl, Acls, Client, Connector, Dialer, ZooKeeperClient};
use crate::clock::BootInstant;
use crate::error::{Error, ErrorKind, Released};
use crate::lock_path::LockPath;
use crate::queue::Queues;
use crate::session::Session;
use crate::session::lease::LossPolicy;
use crate::session::retry::RetryPolicy;
use crate::session::state::ConnectionState;
use crate::session::supervisor::{adopt, connect, open};
use crate::session::tasks::Spawner;
use crate::session::{Connection, NoSession, Settings};

/// Connects to ZooKeeper and keeps a session open for all locks that are made with it; the counterpart of Curator's
/// `CuratorFramework`.
///
/// When a session has expired, a `Curator` opens the next one, until it is closed. A clone is another handle on the same
/// session, and each recipe and guard has one. When the last handle is dropped, the session is closed in the background.
/// [`close`](Self::close) closes it and waits until the servers confirm it.
///
/// `with_identity`, `with_acls`, `with_retry` and `with_loss_policy` give a handle of the same session with another option,
/// for all recipes that are made with it:
///
/// ```no_run
/// # use zookeeper_recipes::{Curator, Error};
/// # async fn example() -> Result<(), Error> {
/// let curator = Curator::connect("zk1:2181,zk2:2181,zk3:2181/app").await?;
/// let audit = curator.with_identity("audit-7");
/// let mutex = audit.mutex("/locks/orders")?;
/// # Ok(())
/// # }
/// ```
///
/// A `Curator` belongs to the tokio runtime on which it was created. Guards may be used and dropped anywhere.
#[derive(Clone)]
#[must_use = "the session is closed with the last handle"]
pub struct Curator {
    handle: Arc<Handle>,
    options: Arc<Options>,
}

/// The part that all handles share. No task that outlives the user's object has a handle, so the session closes with the user's
/// last one.
struct Handle {
    connection: Arc<Connection>,
    queues: Arc<Queues>,
}

/// The options of the recipes that a handle creates.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) identity: Arc<[u8]>,
    pub(crate) acls: Arc<[Acl]>,
    pub(crate) retry: RetryPolicy,
    /// True if the policy was set on a handle, so that elections have it as well.
    retry_is_own: bool,
    pub(crate) loss_policy: LossPolicy,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.connection.closing().cancel();
    }
}

impl Curator {
    /// Connects to the servers of a ZooKeeper connect string, with the defaults of [`CuratorBuilder`], and waits for a
    /// session, at most 15 s. A chroot at its end is created when missing.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves no session open.
    ///
    /// # Errors
    ///
    /// As for [`CuratorBuilder::connect`].
    pub async fn connect(servers: &str) -> Result<Self, Error> {
        Self::builder().connect(servers).await
    }

    /// Returns a builder with the default options.
    pub fn builder() -> CuratorBuilder {
        CuratorBuilder::default()
    }

    /// Returns a handle whose recipes write this identity to their nodes, for people and tools. Keep it UTF-8, because kazoo
    /// decodes it. An identity that is larger than a server takes is an error of the recipe's constructor.
    #[doc(alias = "setId")]
    #[doc(alias = "getLockNodeBytes")]
    #[doc(alias = "setNodeData")]
    pub fn with_identity(&self, identity: impl Into<Vec<u8>>) -> Self {
        self.with(|options| options.identity = identity.into().into())
    }

    /// Returns a handle whose recipes create nodes with these ACLs. An empty list, or more than a server takes, is an error of
    /// the recipe's constructor.
    pub fn with_acls(&self, acls: Acls<'_>) -> Self {
        self.with(|options| options.acls = (&*acls).into())
    }

    /// Returns a handle whose recipes retry by this policy. So do its elections, which otherwise retry without end: when the policy is
    /// used up, the try has failed, which a latch and a selector report. They try again after a pause of their own. Persistent nodes,
    /// members, observers and counts that are followed always retry without end.
    pub fn with_retry(&self, policy: RetryPolicy) -> Self {
        self.with(|options| {
            options.retry = policy;
            options.retry_is_own = true;
        })
    }

    /// Returns a handle whose recipes' holds count as lost by this policy.
    pub fn with_loss_policy(&self, policy: LossPolicy) -> Self {
        self.with(|options| options.loss_policy = policy)
    }

    fn with(&self, change: impl FnOnce(&mut Options)) -> Self {
        let mut other = self.clone();
        change(Arc::make_mut(&mut other.options));
        other
    }

    /// Returns the present state of the connection, of which `is_connected` and a `Display` suit a health check. A server that
    /// falls silent still counts as connected for up to a fifth of the session timeout (at least a second), some eight seconds at most.
    pub fn state(&self) -> ConnectionState {
        *self.handle.connection.state().borrow()
    }

    /// Follows the state of the connection. States that pass between two reads are not seen.
    #[doc(alias = "getConnectionStateListenable")]
    pub fn watch_state(&self) -> watch::Receiver<ConnectionState> {
        self.handle.connection.state()
    }

    /// Returns the present session's client, for other work on znodes. Its paths are under the namespace.
    ///
    /// The client ends with its session, so do not keep it: ask again. A clone that is kept over [`close`](Self::close) keeps
    /// the ZooKeeper session open. The locks are released all the same.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unavailable`] between two sessions, and after the last one the reason for its end. A simulated server has no
    /// such client, which is `Unavailable` as well: use `simulation::Ensemble::admin`.
    pub fn client(&self) -> Result<ZooKeeperClient, Error> {
        let client = self.current_session()?.lend_client().map_err(|_| not_now())?;
        client.inner().cloned().ok_or_else(|| {
            let text = "a simulated server has no such client; use `simulation::Ensemble::admin`";
            Error::new(ErrorKind::Unavailable, text)
        })
    }

    /// Returns the present session's id.
    ///
    /// # Errors
    ///
    /// As for [`client`](Self::client).
    pub fn session_id(&self) -> Result<i64, Error> {
        Ok(self.current_session()?.session_id())
    }

    /// Returns the present session's timeout, as the servers granted it, at most the [requested
    /// one](CuratorBuilder::session_timeout).
    ///
    /// # Errors
    ///
    /// As for [`client`](Self::client).
    pub fn session_timeout(&self) -> Result<Duration, Error> {
        Ok(self.current_session()?.timeout())
    }

    /// Returns how long the holds of the present session last if no server answers from now on. Zero without a session, and
    /// until a server has answered in it. For health checks; code under a lock asks
    /// [`Hold::session_lease_left`](crate::Hold::session_lease_left).
    #[must_use]
    pub fn session_lease_left(&self) -> Duration {
        let end = self.current_session().ok().and_then(|session| session.lease.end());
        end.map_or(Duration::ZERO, |end| end.since(BootInstant::now()))
    }

    /// Closes the session of all handles: holds are lost, waiters get an error, and the ZooKeeper session ends (unless a user of
    /// [`client`](Self::client) keeps it), so that its locks pass on at once.
    ///
    /// 1. Nothing begins any more, and all holds are lost except those under which the body of a
    ///    [selector](crate::leader::LeaderSelector) runs.
    /// 2. The bodies are asked to end, each by its token, and are dropped after the
    ///    [grace](crate::leader::LeaderSelector::with_grace) of their selector. Until a body has ended its process leads, and the
    ///    session lease is renewed, so a [fenced](crate::Hold::fenced) write of the body is accepted.
    /// 3. The session ends.
    ///
    /// Waits for the end of the bodies, and then until the servers confirm the end of the session, each for
    /// [`CuratorBuilder::connection_timeout`] at most. Closing again is fine. If [`client`](Self::client) was
    /// called, the servers confirm that the locks' nodes are deleted, not the end of the session.
    ///
    /// Returns [`Released::Pending`] if no server confirmed it. Then the servers delete the session's nodes when its timeout is
    /// over, or the library does when a server answers again. Also returns `Pending` if a selector's body has not ended, because it
    /// has a long grace or does not await: the session is kept until the body ends, so that no other process leads.
    ///
    /// # Cancel safety
    ///
    /// The close continues if the future is dropped after it was polled once.
    pub async fn close(&self) -> Released {
        self.handle.connection.close().await
    }

    /// As [`close`](Self::close), and returns after `limit` at the latest. The limit covers all of it: the grace of the bodies, which
    /// may be longer than [`CuratorBuilder::connection_timeout`], and the confirmation of the servers.
    ///
    /// Returns [`Released::Pending`] when the time is up. The close continues in the background: a body that has not ended keeps its
    /// hold and the session until it ends. If the process ends before, the servers give its locks to others when the session expires.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use zookeeper_recipes::{Curator, Released};
    /// # async fn example(curator: Curator) {
    /// // The orchestrator kills the process after 30 s.
    /// if curator.close_timeout(Duration::from_secs(25)).await == Released::Pending {
    ///     eprintln!("the locks of this process may stay taken until the session expires");
    /// }
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// As for [`close`](Self::close).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn close_timeout(&self, limit: Duration) -> Released {
        self.handle.connection.close_within(limit).await
    }

    fn current_session(&self) -> Result<Arc<Session>, Error> {
        self.handle.connection.current_session().map_err(|none| match none {
            NoSession::NotConnected => not_now(),
            NoSession::Closed(error) => error,
        })
    }

    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.handle.connection
    }

    pub(crate) fn queues(&self) -> &Arc<Queues> {
        &self.handle.queues
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the policy of elections, which retry without end unless the handle has a policy of its own.
    pub(crate) fn endless_retry(&self) -> RetryPolicy {
        if self.options.retry_is_own { self.options.retry.clone() } else { RetryPolicy::endless() }
    }

    /// A handle on a session without servers.
    #[cfg(feature = "simulation")]
    pub(crate) fn simulated(session: &Arc<Session>) -> Self {
        Self::new(Connection::without_supervisor(session), CuratorBuilder::default().options)
    }

    fn new(connection: Arc<Connection>, options: Options) -> Self {
        let queues = Queues::new(connection.clone());
        Self { handle: Arc::new(Handle { connection, queues }), options: Arc::new(options) }
    }
}

/// Fails for a runtime on which the session's tasks cannot run.
fn check_runtime(runtime: &runtime::Handle) -> Result<(), Error> {
    let _entered = runtime.enter();
    // Tokio does not tell what a runtime has, but panics where it is missing.
    let timer = catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO)));
    timer.map_err(|_| Error::invalid("runtime", "without timers", "build it with `enable_all`"))
}

fn not_now() -> Error {
    Error::new(ErrorKind::Unavailable, "between two sessions; try again")
}

impl fmt::Debug for Curator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Curator").field("session", &self.handle.connection).finish_non_exhaustive()
    }
}

/// Sets the options of a [`Curator`], and connects.
///
/// | option | default |
/// | --- | --- |
/// | [`session_timeout`](Self::session_timeout) | 15 s |
/// | [`connection_timeout`](Self::connection_timeout) | 15 s |
/// | [`retry`](Self::retry) | exponential back-off, 1 s, 3 times |
/// | [`namespace`](Self::namespace) | `/` |
/// | [`acls`](Self::acls) | all clients may do everything |
/// | [`identity`](Self::identity) | `host:pid` |
/// | [`loss_policy`](Self::loss_policy) | [`LossPolicy::Lease`] |
/// | [`ephemeral_limit`](Self::ephemeral_limit) | 512 KiB |
/// | [`runtime`](Self::runtime) | the one on which it connects |
///
/// ```no_run
/// # use std::time::Duration;
/// # use zookeeper_recipes::session::RetryPolicy;
/// # use zookeeper_recipes::{Curator, Error};
/// # async fn example() -> Result<(), Error> {
/// let curator = Curator::builder()
///     .session_timeout(Duration::from_secs(10))
///     .retry(RetryPolicy::forever(Duration::from_secs(1)))
///     .namespace("/billing")
///     .connect("zk1:2181,zk2:2181,zk3:2181")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until `connect` or `connect_lazy`"]
pub struct CuratorBuilder {
    settings: Settings,
    options: Options,
    namespace: String,
    auths: Vec<(String, Vec<u8>)>,
    connector: Option<Connector>,
}

impl Default for CuratorBuilder {
    fn default() -> Self {
        let acls: Arc<[Acl]> = client::world_anyone_acl().into();
        let settings = Settings {
            // Not Curator's 60 s: a server with its defaults grants at most 40 s, and the lock of a crashed process is kept for
            // that time.
            session_timeout: Duration::from_secs(15),
            // Curator's default.
            connection_timeout: Duration::from_secs(15),
            acls: acls.clone(),
            // A 3.8 server writes the paths of a session's ephemeral nodes into one record when the session is closed, and
            // cannot start again from a record of about 2 MB.
            ephemeral_limit: 512 * 1024,
            path_label: Default::default(),
            runtime: None,
        };
        let options = Options {
            identity: default_identity().into_bytes().into(),
            acls,
            retry: RetryPolicy::default(),
            retry_is_own: false,
            loss_policy: LossPolicy::default(),
        };
        Self { settings, options, namespace: "/".to_owned(), auths: Vec::new(), connector: None }
    }
}

impl CuratorBuilder {
    /// Sets for how long the servers keep a session, and so its locks, after they last heard of the session: 15 s by default
    /// (Curator: 60 s).
    /// The server bounds the timeout, by default to 2 to 20 of its ticks of 2 s. The library counts with what was asked for if the
    /// server grants more. With the default:
    ///
    /// * the lock of a crashed process passes to the next waiter after 15 s and a tick of the server;
    /// * a hold lasts until two thirds of the timeout, 10 s, have passed since the last answered probe. An outage of all servers
    ///   that ends within 6.5 s costs none. A longer one costs them after 7.9 to 10 s, because the last probe may be a seventh of the
    ///   timeout old;
    /// * servers that are restarted one at a time cost no hold, if a server answers within that time.
    ///
    /// A shorter timeout passes the locks of a crashed process on sooner, and loses holds in shorter outages.
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.settings.session_timeout = timeout;
        self
    }

    /// Sets for how long [`connect`](Self::connect) tries, how long one try of an operation waits for a session, and how long a
    /// release or a close waits to be confirmed.
    pub fn connection_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connection_timeout = timeout;
        self
    }

    /// Sets when operations are retried. Opening a session is always retried without end, and so are elections, unless
    /// [`Curator::with_retry`] sets a policy for them, persistent nodes, members, observers and counts that are followed.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.options.retry = policy;
        self
    }

    /// Sets a path, below the connect string's chroot, that all paths are under. Created when missing.
    #[doc(alias = "usingNamespace")]
    pub fn namespace(mut self, path: &str) -> Self {
        self.namespace = path.to_owned();
        self
    }

    /// Sets the ACLs of nodes that are created.
    pub fn acls(mut self, acls: Acls<'_>) -> Self {
        self.options.acls = (&*acls).into();
        self.settings.acls = self.options.acls.clone();
        self
    }

    /// Sets the contender's identity in its nodes, for people and tools. Keep it UTF-8, because kazoo decodes it.
    pub fn identity(mut self, identity: impl Into<Vec<u8>>) -> Self {
        self.options.identity = identity.into().into();
        self
    }

    /// Adds credentials, such as `("digest", b"user:password")`. Can be called several times.
    pub fn auth(mut self, scheme: &str, credentials: impl AsRef<[u8]>) -> Self {
        self.auths.push((scheme.to_owned(), credentials.as_ref().to_vec()));
        self
    }

    /// Sets the client's own options, such as TLS or SASL. A connector that allows read-only servers, is detached or resumes a
    /// session is refused.
    ///
    /// The session timeout and the credentials are set on top. So is a connection timeout (after how long the client leaves a
    /// silent server) if the connector has none: a fifth of the session timeout or less, at least 1 s and at most 8 s. Below a session
    /// timeout of 2.5 s the client's own is used, two fifths.
    #[doc(alias = "zookeeperFactory")]
    #[doc(alias = "zkClientConfig")]
    pub fn connector(mut self, connector: Connector) -> Self {
        self.connector = Some(connector);
        self
    }

    /// Sets when a hold counts as lost.
    pub fn loss_policy(mut self, policy: LossPolicy) -> Self {
        self.options.loss_policy = policy;
        self
    }

    /// Sets how many bytes the paths of this session's ephemeral nodes may take, chroot and namespace included. Beyond that an
    /// acquire fails with [`ErrorKind::LimitReached`].
    ///
    /// The default is 512 KiB, some 5,000 contenders: a 3.8 server writes all of them into one record when the session is closed,
    /// and cannot start again from one of about 2 MB.
    pub fn ephemeral_limit(mut self, bytes: usize) -> Self {
        self.settings.ephemeral_limit = bytes;
        self
    }

    /// Sets the tokio runtime on which the session's tasks run. Defaults to the one on which the `Curator` is connected.
    ///
    /// On the runtime of your service, blocking code on all of its threads for longer than the session lease costs the locks. So
    /// other processes take over from a service that hangs. On a runtime of their own the tasks renew the lease whatever your
    /// service does, so a process that hangs keeps its locks. The bodies of selectors run on the runtime that called
    /// [`LeaderSelector::run`](crate::leader::LeaderSelector::run) either way. When the runtime shuts down, all holds are lost
    /// and all waits end with [`ErrorKind::Closed`].
    ///
    /// ```no_run
    /// # use zookeeper_recipes::{Curator, Error};
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut builder = tokio::runtime::Builder::new_multi_thread();
    /// let runtime = builder.worker_threads(1).enable_all().build()?; // keep it as long as the locks
    /// let curator = Curator::builder().runtime(runtime.handle().clone()).connect("zk1:2181").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn runtime(mut self, runtime: runtime::Handle) -> Self {
        self.settings.runtime = Some(runtime);
        self
    }

    /// Adds a `path` label to a lock's metrics, computed by `label` (feature `metrics`). There is none by default, nor if `label`
    /// returns `None`.
    ///
    /// Each value is a set of time series that the recorder keeps for good. So use a path itself only if there are few, and the
    /// common part of others:
    ///
    /// ```no_run
    /// # use zookeeper_recipes::Curator;
    /// let builder = Curator::builder().metrics_path_label(|path| match path {
    ///     "/leader" | "/jobs/nightly" => Some(path.to_owned()),
    ///     path if path.starts_with("/orders/") => Some("/orders/*".to_owned()),
    ///     _ => None,
    /// });
    /// ```
    ///
    /// `label` is called once for each recipe that is created, with the path as it was given, without the namespace; that of a member
    /// ends with its id, and each member of a multi-lock has its own.
    #[cfg(feature = "metrics")]
    pub fn metrics_path_label(
        mut self,
        label: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.settings.path_label = Some(Arc::new(label));
        self
    }

    /// Connects to the servers of a ZooKeeper connect string, such as
    /// `zk1:2181,zk2:2181,zk3:2181/chroot`, and creates chroot and namespace if they are missing.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves no session open.
    ///
    /// # Errors
    ///
    /// * [`ErrorKind::InvalidInput`] for an option or a connect string that cannot work;
    /// * [`ErrorKind::Unavailable`] when no server gives a session within the connection timeout;
    /// * [`ErrorKind::AuthenticationFailed`] when the servers refuse the credentials;
    /// * [`ErrorKind::PermissionDenied`], [`ErrorKind::Refused`] when chroot or namespace cannot be created.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O and timers.
    #[doc(alias = "blockUntilConnected")]
    pub async fn connect(self, servers: &str) -> Result<Curator, Error> {
        let (dialer, settings, options) = self.prepare(servers)?;
        let span = tracing::info_span!("connect", connect_string = servers);
        let runtime = settings.runtime.clone();
        let connecting = async {
            let connection = connect(dialer, settings).await?;
            Ok(Curator::new(connection, options))
        };
        let connecting = connecting.instrument(span);
        match runtime {
            None => connecting.await,
            // The client starts its tasks where it connects. The handle that is dropped with the task closes the session.
            Some(runtime) => {
                let connected = Spawner::run(&runtime, connecting).await;
                connected.unwrap_or_else(|| Err(Error::closed()))
            }
        }
    }

    /// As [`connect`](Self::connect), without waiting: the first session is opened in the background, with retries until that
    /// succeeds, as Apache Curator's `start` does. Until then the state is [`ConnectionState::Connecting`], and a caller that
    /// asks for a lock waits, as between two sessions. If the servers refuse the credentials, later calls fail with that error.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`] for an option or a connect string that cannot work.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O and timers.
    #[doc(alias = "start")]
    pub fn connect_lazy(self, servers: &str) -> Result<Curator, Error> {
        let (dialer, settings, options) = self.prepare(servers)?;
        let _runtime = settings.runtime.as_ref().map(runtime::Handle::enter);
        Ok(Curator::new(open(dialer, settings), options))
    }

    fn prepare(self, connect_string: &str) -> Result<(Dialer, Settings, Options), Error> {
        let namespace = self.check()?;
        if self.settings.runtime.is_some() && connect_string.starts_with("sim:") {
            let reason = "a simulated ensemble has the runtime of its test";
            return Err(Error::invalid("runtime", "for a simulated ensemble", reason));
        }
        let mut connector = self.connector.unwrap_or_else(ZooKeeperClient::connector);
        for (scheme, credentials) in &self.auths {
            connector = connector.with_auth(scheme, credentials);
        }
        let timeout = self.settings.session_timeout;
        let dialer = Dialer::new(connector, timeout, connect_string, namespace)?;
        #[cfg(feature = "simulation")]
        let dialer = dialer.with_auths(self.auths);
        Ok((dialer, self.settings, self.options))
    }

    /// Uses the session of an existing client, with the same recipes and the same session lease. When that session expires, no new
    /// one is opened, and [`Curator::close`] deletes the locks' nodes and leaves the session to its owner. Credentials, connector
    /// and session timeout are the client's.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`] for an option that cannot work, or a client whose chroot cannot be used.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn from_client(mut self, client: ZooKeeperClient) -> Result<Curator, Error> {
        if Client::is_read_only(&client) {
            let reason = "a session of a read-only server cannot hold locks";
            return Err(Error::invalid("client", client.session_id(), reason));
        }
        self.settings.session_timeout = client.session_timeout();
        let namespace = self.check()?;
        let connection = adopt(Client::new(client, &namespace)?, self.settings);
        Ok(Curator::new(connection, self.options))
    }

    /// Checks the options, and returns the namespace.
    fn check(&self) -> Result<LockPath, Error> {
        let namespace = LockPath::parse("namespace", &self.namespace)?;
        if self.auths.iter().any(|(scheme, _)| scheme.is_empty()) {
            return Err(Error::invalid("auth", "\"\"", "the scheme is empty"));
        }
        client::check_contender(&namespace, &self.options.identity, &self.options.acls)?;
        let Settings { session_timeout, connection_timeout, .. } = self.settings;
        for (option, value, shortest, reason) in [
            ("session_timeout", session_timeout, 100, "it must be from 100 ms to 24 h"),
            ("connection_timeout", connection_timeout, 1, "it must be from 1 ms to 24 h"),
        ] {
            let longest = Duration::from_secs(24 * 60 * 60);
            if !(Duration::from_millis(shortest)..=longest).contains(&value) {
                return Err(Error::invalid(option, format_args!("{value:?}"), reason));
            }
        }
        if let Some(runtime) = &self.settings.runtime {
            check_runtime(runtime)?;
        }
        Ok(namespace)
    }
}

impl fmt::Debug for CuratorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The credentials are secret.
        f.debug_struct("CuratorBuilder")
            .field("session_timeout", &self.settings.session_timeout)
            .field("connection_timeout", &self.settings.connection_timeout)
            .field("retry", &self.options.retry)
            .field("namespace", &self.namespace)
            .field("acls", &self.options.acls)
            .field("auths", &self.auths.len())
            .field("loss_policy", &self.options.loss_policy)
            .field("ephemeral_limit", &self.settings.ephemeral_limit)
            .finish_non_exhaustive()
    }
}

fn default_identity() -> String {
    #[cfg(unix)]
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    let host = std::env::var("COMPUTERNAME").unwrap_or_else(|_| "localhost".to_owned());
    format!("{host}:{}", std::process::id())
}
