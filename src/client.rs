//! The seam: the only place (testkit aside) that names `zookeeper_client`.
//!
//! What the rest of the crate must know of that client:
//!
//! * A request is sent when its future is *made*, also if it is never polled; requests of one session
//!   are answered in the order they were made. So the functions here are not `async`: calling them
//!   sends.
//! * While disconnected it queues requests without limit and sends them later.
//! * Whatever breaks the link ends the requests in flight, each in its own shape. Only an answer of
//!   the server is definite; [`Failure`] sorts errors by that.
//! * Only one-shot watches survive a reconnect.

use std::future::Future;
use std::time::Duration;

use thiserror::Error;
use zookeeper_client as zk;
pub(crate) use zookeeper_client::{Acl, Acls, Client as ZooKeeperClient, Connector};

use crate::error::{ConfigError, SessionError};
use crate::lock_path::LockPath;

/// What the ZooKeeper client says of a failure. Opaque: it is for people.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(transparent)]
pub struct ClientError(zk::Error);

/// A failed request, sorted by what may have happened.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The server says that the node is not there. Nothing was changed.
    NoNode,
    /// The server says that the node is there already. Nothing was changed.
    NodeExists,
    /// The server refused, and will refuse again. Nothing was changed.
    Refused(ClientError),
    /// The server did not do it now; it may later. Nothing was changed.
    NotNow(ClientError),
    /// No answer of the server: it may have taken effect, or may yet.
    Unknown(ClientError),
    /// The session is over, and it may have taken effect before.
    SessionOver(ClientError),
}

impl Failure {
    fn of(error: zk::Error) -> Self {
        use zk::Error as E;
        match error {
            E::NoNode => Failure::NoNode,
            E::NodeExists => Failure::NodeExists,
            E::NoAuth
            | E::BadVersion
            | E::NoChildrenForEphemerals
            | E::NotEmpty
            | E::InvalidAcl
            | E::NoWatcher
            | E::QuotaExceeded
            | E::MarshallingError
            | E::Unimplemented
            | E::BadArguments(_)
            | E::ReconfigDisabled => Failure::Refused(ClientError(error)),
            E::Throttled | E::NotReadOnly | E::SessionMoved => Failure::NotNow(ClientError(error)),
            E::SessionExpired | E::AuthFailed | E::ClientClosed => {
                Failure::SessionOver(ClientError(error))
            }
            // Codes that the client does not know among them: an unknown answer is not a "no".
            _ => Failure::Unknown(ClientError(error)),
        }
    }

    /// What a request gets that is made after its session.
    pub(crate) fn session_over() -> Self {
        Failure::SessionOver(ClientError(zk::Error::ClientClosed))
    }

    /// The client's words, where it has any.
    pub(crate) fn into_source(self) -> Option<ClientError> {
        match self {
            Failure::NoNode => Some(ClientError(zk::Error::NoNode)),
            Failure::NodeExists => Some(ClientError(zk::Error::NodeExists)),
            Failure::Refused(e)
            | Failure::NotNow(e)
            | Failure::Unknown(e)
            | Failure::SessionOver(e) => Some(e),
        }
    }
}

impl ClientError {
    pub(crate) fn is_no_auth(&self) -> bool {
        self.0 == zk::Error::NoAuth
    }

    pub(crate) fn is_invalid_acl(&self) -> bool {
        self.0 == zk::Error::InvalidAcl
    }

    pub(crate) fn is_ephemeral_parent(&self) -> bool {
        self.0 == zk::Error::NoChildrenForEphemerals
    }

    fn is_unimplemented(&self) -> bool {
        self.0 == zk::Error::Unimplemented
    }
}

/// The state of the link, as far as it concerns us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    Connected,
    /// A read-only server counts: it cannot renew a lease.
    Disconnected,
    Expired,
    AuthFailed,
    Closed,
}

impl From<zk::SessionState> for LinkState {
    fn from(state: zk::SessionState) -> Self {
        match state {
            zk::SessionState::SyncConnected => LinkState::Connected,
            zk::SessionState::Disconnected | zk::SessionState::ConnectedReadOnly => {
                LinkState::Disconnected
            }
            zk::SessionState::Expired => LinkState::Expired,
            zk::SessionState::AuthFailed => LinkState::AuthFailed,
            zk::SessionState::Closed => LinkState::Closed,
        }
    }
}

/// Tells of changes of the link. It does not keep the session alive.
#[derive(Debug)]
pub(crate) struct LinkWatch(zk::StateWatcher);

impl LinkWatch {
    /// The state at this moment. It counts as seen.
    pub(crate) fn now(&mut self) -> LinkState {
        self.0.state().into()
    }

    /// The next state after the one seen last; never returns after a terminal one.
    pub(crate) async fn changed(&mut self) -> LinkState {
        self.0.changed().await.into()
    }
}

/// A node that was just created or looked up.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The transaction that created it.
    pub(crate) czxid: i64,
    /// The session that owns it, for an ephemeral node.
    pub(crate) owner: i64,
    pub(crate) data: Vec<u8>,
}

/// What happened to a watched node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeEvent {
    Deleted,
    Changed,
    SessionOver,
}

/// A one-shot watch on a node's data and existence.
#[derive(Debug)]
pub(crate) struct NodeWatch(zk::OneshotWatcher);

impl NodeWatch {
    pub(crate) async fn changed(self) -> NodeEvent {
        match self.0.changed().await.event_type {
            zk::EventType::Session => NodeEvent::SessionOver,
            zk::EventType::NodeDeleted => NodeEvent::Deleted,
            _ => NodeEvent::Changed,
        }
    }
}

/// One session, rooted at the chroot and the namespace. Cheap to clone; the session ends when the last
/// clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    rooted: zk::Client,
    /// Chroot and namespace in one, as the server knows it.
    root: LockPath,
}

impl Client {
    /// Takes over a connected client and moves its root down by `namespace`.
    pub(crate) fn new(client: zk::Client, namespace: &LockPath) -> Result<Self, ConfigError> {
        let root = LockPath::parse("chroot", client.path())?.join(namespace);
        let rooted =
            client.chroot(root.as_str().to_owned()).map_err(|_| ConfigError::InvalidPath {
                option: "namespace",
                path: root.as_str().to_owned(),
                reason: "the client refuses it",
            })?;
        Ok(Self { rooted, root })
    }

    /// Whether the session is one of a read-only server: it gets another id when the client finds a
    /// server that writes.
    pub(crate) fn is_read_only(client: &ZooKeeperClient) -> bool {
        client.session().is_readonly() || client.state() == zk::SessionState::ConnectedReadOnly
    }

    /// The client itself, for other work on the same session.
    pub(crate) fn inner(&self) -> &zk::Client {
        &self.rooted
    }

    pub(crate) fn root(&self) -> &LockPath {
        &self.root
    }

    pub(crate) fn session_id(&self) -> i64 {
        self.rooted.session_id().0
    }

    pub(crate) fn session_timeout(&self) -> Duration {
        self.rooted.session_timeout()
    }

    pub(crate) fn watch_link(&self) -> LinkWatch {
        LinkWatch(self.rooted.state_watcher())
    }

    /// Creates a contender's node; `prefix` is its whole path up to the sequence number. Gives that
    /// number and the `czxid`.
    pub(crate) fn create_contender<'a>(
        &'a self,
        prefix: &'a str,
        data: &[u8],
        acls: &[Acl],
    ) -> impl Future<Output = Result<(i64, i64), Failure>> + Send + use<'a> {
        let options = zk::CreateMode::EphemeralSequential.with_acls(Acls::new(acls));
        let sent = self.rooted.create(prefix, data, &options);
        async move {
            let (stat, sequence) = sent.await.map_err(Failure::of)?;
            Ok((sequence.into_i64(), stat.czxid))
        }
    }

    /// The names of a node's children.
    pub(crate) fn list<'a>(
        &'a self,
        path: &str,
    ) -> impl Future<Output = Result<Vec<String>, Failure>> + Send + use<'a> {
        let sent = self.rooted.list_children(path);
        async move { sent.await.map_err(Failure::of) }
    }

    /// A node's data and origin.
    pub(crate) fn read(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Node, Failure>> + Send + use<> {
        let sent = self.rooted.get_data(path);
        async move {
            let (data, stat) = sent.await.map_err(Failure::of)?;
            Ok(Node { czxid: stat.czxid, owner: stat.ephemeral_owner, data })
        }
    }

    /// Whether a node is there. Needs no permission on it.
    pub(crate) fn exists(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<bool, Failure>> + Send + use<> {
        let sent = self.rooted.check_stat(path);
        async move { Ok(sent.await.map_err(Failure::of)?.is_some()) }
    }

    /// Watches a node that is there; leaves no watch on one that is not.
    pub(crate) fn watch<'a>(
        &'a self,
        path: &str,
    ) -> impl Future<Output = Result<NodeWatch, Failure>> + Send + use<'a> {
        let sent = self.rooted.get_and_watch_data(path);
        async move {
            let (_, _, watcher) = sent.await.map_err(Failure::of)?;
            Ok(NodeWatch(watcher))
        }
    }

    /// Deletes a node, whatever its version.
    pub(crate) fn delete(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        let sent = self.rooted.delete(path, None);
        async move { sent.await.map_err(Failure::of) }
    }

    /// Waits until this server has caught up with the leader.
    pub(crate) fn sync<'a>(&'a self) -> impl Future<Output = Result<(), Failure>> + Send + use<'a> {
        let sent = self.rooted.sync("/");
        async move { sent.await.map_err(Failure::of) }
    }

    /// Makes the node `path`, and what is missing above it, as containers; persistent where the
    /// server does not know containers. `path` is absolute: what is missing may be the chroot itself.
    pub(crate) async fn make_parents(
        &self,
        path: &LockPath,
        acls: &[Acl],
    ) -> Result<(), ParentFailure> {
        let server = self.rooted.clone().chroot("/").unwrap_or_else(|client| client);
        let mut missing = Vec::new();
        // Upwards first: whoever may not read or create near the root need not.
        for level in path.lineage() {
            match make_parent(&server, level, acls).await {
                Ok(()) => break,
                Err(Failure::NoNode) => missing.push(level),
                Err(failure) => {
                    return Err(ParentFailure { path: level.to_owned(), failure });
                }
            }
        }
        for level in missing.into_iter().rev() {
            make_parent(&server, level, acls)
                .await
                .map_err(|failure| ParentFailure { path: level.to_owned(), failure })?;
        }
        Ok(())
    }
}

/// A node above the contenders that could not be made.
#[derive(Debug)]
pub(crate) struct ParentFailure {
    /// As the server knows it.
    pub(crate) path: String,
    pub(crate) failure: Failure,
}

async fn make_parent(server: &zk::Client, path: &str, acls: &[Acl]) -> Result<(), Failure> {
    let create = async |mode: zk::CreateMode| {
        let made = server.create(path, &[], &mode.with_acls(Acls::new(acls))).await;
        made.map(drop).map_err(Failure::of)
    };
    let made = match create(zk::CreateMode::Container).await {
        Err(Failure::Refused(e)) if e.is_unimplemented() => {
            create(zk::CreateMode::Persistent).await
        }
        made => made,
    };
    match made {
        Err(Failure::NodeExists) => Ok(()),
        // Who may not create it may still use it: the server looks at permissions first.
        Err(Failure::Refused(e)) if e.is_no_auth() => match server.check_stat(path).await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(Failure::Refused(e)),
            Err(error) => Err(Failure::of(error)),
        },
        made => made,
    }
}

/// Opens sessions, each a new one.
pub(crate) struct Dialer {
    connector: Connector,
    connect_string: String,
    namespace: LockPath,
}

impl Dialer {
    /// `connector` carries everything but the session.
    pub(crate) fn new(
        connector: Connector,
        connect_string: &str,
        namespace: LockPath,
    ) -> Result<Self, ConfigError> {
        refuse_what_cannot_be_supervised(&connector)?;
        // The client reads its connect string only when it connects; a lone comma would pass there.
        if connect_string.trim().is_empty() {
            return Err(invalid_connect_string(connect_string, "it names no server".to_owned()));
        }
        let connector = connector.with_readonly(false);
        Ok(Self { connector, connect_string: connect_string.to_owned(), namespace })
    }

    pub(crate) fn connect_string(&self) -> &str {
        &self.connect_string
    }

    /// Opens a session.
    pub(crate) async fn dial(&self) -> Result<Client, DialError> {
        let dialed = self.connector.clone().connect(&self.connect_string).await;
        match dialed {
            Ok(client) => {
                Client::new(client, &self.namespace).map_err(|e| DialError::Final(e.into()))
            }
            Err(zk::Error::BadArguments(reason)) => {
                let config = invalid_connect_string(&self.connect_string, (*reason).to_owned());
                Err(DialError::Final(config.into()))
            }
            Err(zk::Error::AuthFailed) => Err(DialError::Final(SessionError::AuthFailed {
                connect_string: self.connect_string.clone(),
            })),
            Err(error) => Err(DialError::Transient(ClientError(error))),
        }
    }
}

/// Why there is no session.
#[derive(Debug)]
pub(crate) enum DialError {
    /// Trying again cannot help.
    Final(SessionError),
    Transient(ClientError),
}

/// The client has no accessors for these; its `Debug` shows them. Were that to change, a test fails.
fn refuse_what_cannot_be_supervised(connector: &Connector) -> Result<(), ConfigError> {
    let shown = format!("{connector:?}");
    let refuse = |value: &str, reason| {
        Err(ConfigError::InvalidOption { option: "connector", value: value.to_owned(), reason })
    };
    if shown.contains("readonly: true") {
        return refuse(
            "with_readonly(true)",
            "a read-only server cannot say whether a lock is held",
        );
    }
    if shown.contains("detached: true") {
        return refuse(
            "with_detached()",
            "a detached session would keep its locks when it is closed",
        );
    }
    if !shown.contains("session: None") {
        return refuse("with_session(..)", "each epoch is a session of its own");
    }
    Ok(())
}

fn invalid_connect_string(connect_string: &str, reason: String) -> ConfigError {
    ConfigError::InvalidConnectString { connect_string: connect_string.to_owned(), reason }
}

/// The largest frame a server takes unless it is told otherwise (`jute.maxbuffer`): it cuts the
/// connection of a client that sends a larger one, again and again.
const LARGEST_FRAME: usize = 0xf_ffff;

/// What the server would say of a create that is too large, if it said anything.
pub(crate) fn check_frame(path: &LockPath, data: &[u8], acls: &[Acl]) -> Result<(), ConfigError> {
    const HEADERS: usize = 64;
    const LONGEST_NAME: usize = 64;
    let acls: usize = acls.iter().map(|acl| 12 + acl.scheme().len() + acl.id().len()).sum();
    let frame = HEADERS + path.as_str().len() + LONGEST_NAME + data.len() + acls;
    if frame <= LARGEST_FRAME {
        return Ok(());
    }
    Err(ConfigError::InvalidOption {
        option: "identity",
        value: format!("of {} bytes for {path}", data.len()),
        reason: "a create may take 1 MiB in all, and the server cuts the connection at a larger one",
    })
}

/// Lets everyone do everything: ZooKeeper's and Curator's default.
pub(crate) fn open_to_anyone() -> Vec<Acl> {
    Acls::anyone_all().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_of_the_server_are_definite() {
        use zk::Error as E;
        let unknown = [
            E::ConnectionLoss,
            E::Timeout,
            E::NoHosts,
            E::RuntimeInconsistent,
            E::UnexpectedError("x".into()),
            E::UnexpectedErrorCode(-1),
            E::UnexpectedErrorCode(-7),
        ];
        for error in unknown {
            assert!(matches!(Failure::of(error.clone()), Failure::Unknown(_)), "{error:?}");
        }
        for error in [E::SessionExpired, E::ClientClosed, E::AuthFailed] {
            assert!(matches!(Failure::of(error.clone()), Failure::SessionOver(_)), "{error:?}");
        }
        for error in [E::Throttled, E::NotReadOnly, E::SessionMoved] {
            assert!(matches!(Failure::of(error.clone()), Failure::NotNow(_)), "{error:?}");
        }
        for error in [E::NoAuth, E::InvalidAcl, E::NoChildrenForEphemerals, E::QuotaExceeded] {
            assert!(matches!(Failure::of(error.clone()), Failure::Refused(_)), "{error:?}");
        }
    }

    #[test]
    fn connectors_that_cannot_be_supervised_are_refused() {
        let plain = || zk::Client::connector().with_auth("digest", b"user:secret");
        let refused = |connector| {
            let namespace = LockPath::parse("namespace", "/").unwrap();
            Dialer::new(connector, "127.0.0.1", namespace).err().map(|e| e.to_string())
        };
        assert_eq!(refused(plain()), None);
        assert!(refused(plain().with_readonly(true)).unwrap().contains("with_readonly"));
        assert!(refused(plain().with_detached()).unwrap().contains("with_detached"));
    }

    #[test]
    fn a_create_over_the_frame_limit_is_refused() {
        let path = LockPath::parse("lock path", "/locks/orders").unwrap();
        let acls = open_to_anyone();
        assert!(check_frame(&path, &vec![0; LARGEST_FRAME - 1024], &acls).is_ok());
        let error = check_frame(&path, &vec![0; 1 << 20], &acls).unwrap_err().to_string();
        assert!(error.contains("identity") && error.contains("/locks/orders"), "{error}");
    }
}
