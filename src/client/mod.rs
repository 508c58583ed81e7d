//! The seam: the only place that names `zookeeper_client`. Behind it are real servers or, with the feature `simulation`,
//! simulated ones.
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

#[cfg(all(test, feature = "simulation"))]
#[path = "../../tests/conformance/mod.rs"]
mod conformance;
mod connect_string;
mod data;
mod dialer;
mod failure;
#[cfg(feature = "simulation")]
mod simulated;
mod watch;

use std::future::Future;
use std::task::{Context, Waker};
use std::time::Duration;

use zookeeper_client as zk;
pub(crate) use zookeeper_client::{Acl, Acls, Client as ZooKeeperClient, Connector};
#[cfg(feature = "simulation")]
pub(crate) use zookeeper_client::{AuthId, CreateMode, Error as ServerError, Permission, Stat};

pub(crate) use self::data::Change;
pub(crate) use self::dialer::{DialError, Dialer};
pub use self::failure::ClientError;
pub(crate) use self::failure::{Failure, WriteFailure};
use self::watch::Watcher;
pub(crate) use self::watch::{ChildrenWatch, NodeEvent, NodeWatch};
use crate::error::ConfigError;
use crate::lock_path::LockPath;
#[cfg(feature = "simulation")]
use crate::simulation;

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
pub(crate) enum LinkWatch {
    Real(zk::StateWatcher),
    #[cfg(feature = "simulation")]
    Simulated(tokio::sync::watch::Receiver<LinkState>),
}

impl LinkWatch {
    /// The state at this moment. It counts as seen.
    pub(crate) fn now(&mut self) -> LinkState {
        match self {
            Self::Real(link) => link.state().into(),
            #[cfg(feature = "simulation")]
            Self::Simulated(link) => *link.borrow_and_update(),
        }
    }

    /// The state at this moment. A change that was not seen stays unseen.
    pub(crate) fn peek(&self) -> LinkState {
        match self {
            Self::Real(link) => link.peek_state().into(),
            #[cfg(feature = "simulation")]
            Self::Simulated(link) => *link.borrow(),
        }
    }

    /// The next state after the one seen last; never returns after a terminal one.
    pub(crate) async fn changed(&mut self) -> LinkState {
        match self {
            Self::Real(link) => link.changed().await.into(),
            #[cfg(feature = "simulation")]
            Self::Simulated(link) => match link.changed().await {
                Ok(()) => *link.borrow_and_update(),
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// Whether the state has changed since it was seen last, though it may be the same again. Of an answer
    /// that came after a reconnect, the client tells later than of the change.
    pub(crate) fn has_changed(&mut self) -> bool {
        let changed = std::pin::pin!(self.changed());
        changed.poll(&mut Context::from_waker(Waker::noop())).is_ready()
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
    fn new(data: Vec<u8>, stat: &zk::Stat) -> Self {
        let zk::Stat { ephemeral_owner: owner, ctime, .. } = *stat;
        let (change, created) = (Change::of(stat), ctime.try_into().unwrap_or(0));
        Self { change, owner, created, data }
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
    fn new(children: Vec<String>, stat: &zk::Stat) -> Self {
        let zk::Stat { czxid, cversion, num_children, .. } = *stat;
        Self { children, czxid, cversion, num_children }
    }
}

/// One session, rooted at the chroot and the namespace. Cheap to clone; the session ends when the last
/// clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    to: To,
    /// Chroot and namespace in one, as the server knows it.
    root: LockPath,
}

/// A client of real servers, rooted, or one of simulated servers, which takes whole paths.
#[derive(Clone, Debug)]
enum To {
    Real(zk::Client),
    #[cfg(feature = "simulation")]
    Simulated(simulation::Client),
}

/// A request to either kind of servers, sent here. Each arm gives a future of the same output.
macro_rules! send {
    ($client:expr, $real:ident => $to_real:expr, $simulated:ident => $to_simulated:expr) => {
        match &$client.to {
            To::Real($real) => {
                let sent = $to_real;
                #[cfg(feature = "simulation")]
                let sent = futures_util::future::Either::Left(sent);
                sent
            }
            #[cfg(feature = "simulation")]
            To::Simulated($simulated) => futures_util::future::Either::Right($to_simulated),
        }
    };
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
        Ok(Self { to: To::Real(rooted), root })
    }

    /// Of simulated servers; `root` is chroot and namespace in one.
    #[cfg(feature = "simulation")]
    pub(crate) fn simulated(client: simulation::Client, root: LockPath) -> Self {
        Self { to: To::Simulated(client), root }
    }

    /// `path` as the server knows it.
    #[cfg(feature = "simulation")]
    fn at(&self, path: &str) -> String {
        match (self.root.is_root(), path) {
            (true, _) => path.to_owned(),
            (false, "/") => self.root.to_string(),
            (false, _) => format!("{}{path}", self.root),
        }
    }

    /// Whether the session is one of a read-only server: it gets another id when the client finds a
    /// server that writes.
    pub(crate) fn is_read_only(client: &ZooKeeperClient) -> bool {
        client.session().is_readonly() || client.state() == zk::SessionState::ConnectedReadOnly
    }

    /// The client itself, for other work on the same session; of simulated servers there is none.
    pub(crate) fn inner(&self) -> Option<&zk::Client> {
        match &self.to {
            To::Real(client) => Some(client),
            #[cfg(feature = "simulation")]
            To::Simulated(_) => None,
        }
    }

    pub(crate) fn root(&self) -> &LockPath {
        &self.root
    }

    pub(crate) fn session_id(&self) -> i64 {
        match &self.to {
            To::Real(client) => client.session_id().0,
            #[cfg(feature = "simulation")]
            To::Simulated(client) => client.session_id(),
        }
    }

    pub(crate) fn session_timeout(&self) -> Duration {
        match &self.to {
            To::Real(client) => client.session_timeout(),
            #[cfg(feature = "simulation")]
            To::Simulated(client) => client.session_timeout(),
        }
    }

    pub(crate) fn watch_link(&self) -> LinkWatch {
        match &self.to {
            To::Real(client) => LinkWatch::Real(client.state_watcher()),
            #[cfg(feature = "simulation")]
            To::Simulated(client) => LinkWatch::Simulated(client.watch_link()),
        }
    }

    /// Creates a contender's node; `prefix` is its whole path up to the sequence number. Gives that
    /// number and the `czxid`.
    pub(crate) fn create_contender<'a>(
        &'a self,
        prefix: &'a str,
        data: &[u8],
        acls: &[Acl],
    ) -> impl Future<Output = Result<(i64, i64), Failure>> + Send + use<'a> {
        send!(self, zk => {
            let options = zk::CreateMode::EphemeralSequential.with_acls(Acls::new(acls));
            let sent = zk.create(prefix, data, &options);
            async move {
                let (stat, sequence) = sent.await.map_err(Failure::of)?;
                Ok((sequence.into_i64(), stat.czxid))
            }
        }, sim => sim.create_contender(&self.at(prefix), data, acls))
    }

    /// Creates a node; its parent must be there.
    fn create<'a>(
        &'a self,
        path: &'a str,
        data: &[u8],
        acls: &[Acl],
        mode: Mode,
    ) -> impl Future<Output = Result<Change, Failure>> + Send + use<'a> {
        send!(self, zk => {
            let mode = match mode {
                Mode::Persistent => zk::CreateMode::Persistent,
                Mode::Container => zk::CreateMode::Container,
            };
            let sent = zk.create(path, data, &mode.with_acls(Acls::new(acls)));
            async move {
                let (stat, _) = sent.await.map_err(Failure::of)?;
                Ok(Change::of(&stat))
            }
        }, sim => sim.create(&self.at(path), data, acls, mode))
    }

    /// Creates a persistent node. Its parent must be there.
    pub(crate) fn create_persistent<'a>(
        &'a self,
        path: &'a str,
        data: &[u8],
        acls: &[Acl],
    ) -> impl Future<Output = Result<Change, Failure>> + Send + use<'a> {
        self.create(path, data, acls, Mode::Persistent)
    }

    /// Replaces a node's data, if they are of this version; `None`: whatever they are of.
    pub(crate) fn set_data(
        &self,
        path: &str,
        data: &[u8],
        version: Option<i32>,
    ) -> impl Future<Output = Result<Change, Failure>> + Send + use<> {
        send!(self, zk => {
            let sent = zk.set_data(path, data, version);
            async move { Ok(Change::of(&sent.await.map_err(Failure::of)?)) }
        }, sim => sim.set_data(&self.at(path), data, version))
    }

    /// A node's children.
    pub(crate) fn list(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Listing, Failure>> + Send + use<> {
        send!(self, zk => {
            let sent = zk.get_children(path);
            async move {
                let (children, stat) = sent.await.map_err(Failure::of)?;
                Ok(Listing::new(children, &stat))
            }
        }, sim => sim.list(&self.at(path)))
    }

    /// The same, with a watch on the set of children.
    pub(crate) fn list_and_watch<'a>(
        &'a self,
        path: &str,
    ) -> impl Future<Output = Result<(Listing, ChildrenWatch), Failure>> + Send + use<'a> {
        send!(self, zk => {
            let sent = zk.get_and_watch_children(path);
            async move {
                let (children, stat, watcher) = sent.await.map_err(Failure::of)?;
                Ok((Listing::new(children, &stat), ChildrenWatch::new(Watcher::of(watcher))))
            }
        }, sim => sim.list_and_watch(&self.at(path)))
    }

    /// A node's data and origin.
    pub(crate) fn read(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Node, Failure>> + Send + use<> {
        send!(self, zk => {
            let sent = zk.get_data(path);
            async move {
                let (data, stat) = sent.await.map_err(Failure::of)?;
                Ok(Node::new(data, &stat))
            }
        }, sim => sim.read(&self.at(path)))
    }

    /// A node's origin, without its data, if it is there. Needs no permission on it, but newer servers (3.9.5) give the
    /// origin only to those who may read the node.
    pub(crate) fn look(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Option<Node>, Failure>> + Send + use<> {
        let looked = send!(self, zk => {
            let sent = zk.check_stat(path);
            async move {
                let stat = sent.await.map_err(Failure::of)?;
                Ok(stat.map(|stat| Node::new(Vec::new(), &stat)))
            }
        }, sim => sim.look(&self.at(path)));
        async move {
            match looked.await {
                // Of a node that is not there, such a server says so, whatever the permissions.
                Err(Failure::Refused(e)) if e.is_no_auth() => Ok(Some(Node::default())),
                looked => looked,
            }
        }
    }

    /// Whether a node is there. Needs no permission on it.
    pub(crate) fn exists(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<bool, Failure>> + Send + use<> {
        let node = self.look(path);
        async move { Ok(node.await?.is_some()) }
    }

    /// A node's origin, without its data, if it is there; with a watch for when that changes, which stays on one that is
    /// not. Needs no permission on it; newer servers (3.9.5) want READ.
    pub(crate) fn look_and_watch<'a>(
        &'a self,
        path: &str,
    ) -> impl Future<Output = Result<(Option<Node>, NodeWatch), Failure>> + Send + use<'a> {
        send!(self, zk => {
            let sent = zk.check_and_watch_stat(path);
            async move {
                let (stat, watcher) = sent.await.map_err(Failure::of)?;
                let node = stat.map(|stat| Node::new(Vec::new(), &stat));
                let czxid = node.as_ref().map_or(0, |node| node.change.czxid);
                Ok((node, NodeWatch::new(Watcher::of(watcher), czxid)))
            }
        }, sim => sim.look_and_watch(&self.at(path)))
    }

    /// Whether each of several nodes is known to be gone, in one request; servers before 3.6 refuse it, and
    /// others may cut the connection.
    pub(crate) fn are_gone<'a>(
        &'a self,
        nodes: impl IntoIterator<Item = &'a str>,
    ) -> impl Future<Output = Result<Vec<bool>, Failure>> + Send {
        send!(self, zk => {
            // Of children there are none, whereas data may be large.
            let mut reader = zk.new_multi_reader();
            let added = nodes.into_iter().try_for_each(|node| reader.add_get_children(node));
            let sent = added.map(|()| reader.commit());
            async move {
                let results = sent.map_err(Failure::of)?.await.map_err(Failure::of)?;
                let is_gone = |result: &zk::MultiReadResult| {
                    matches!(result, zk::MultiReadResult::Error { err: zk::Error::NoNode })
                };
                Ok(results.iter().map(is_gone).collect())
            }
        }, sim => sim.are_gone(nodes.into_iter().map(|node| self.at(node)).collect()))
    }

    /// Watches a node that is there; leaves no watch on one that is not.
    pub(crate) fn watch<'a>(
        &'a self,
        path: &str,
    ) -> impl Future<Output = Result<NodeWatch, Failure>> + Send + use<'a> {
        let sent = self.read_and_watch(path);
        async move { Ok(sent.await?.1) }
    }

    /// Reads a node that is there, and watches it.
    pub(crate) fn read_and_watch<'a>(
        &'a self,
        path: &str,
    ) -> impl Future<Output = Result<(Node, NodeWatch), Failure>> + Send + use<'a> {
        send!(self, zk => {
            let sent = zk.get_and_watch_data(path);
            async move {
                let (data, stat, watcher) = sent.await.map_err(Failure::of)?;
                let watch = NodeWatch::new(Watcher::of(watcher), stat.czxid);
                Ok((Node::new(data, &stat), watch))
            }
        }, sim => sim.read_and_watch(&self.at(path)))
    }

    /// Deletes a node, whatever its version.
    pub(crate) fn delete(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        send!(self, zk => {
            let sent = zk.delete(path, None);
            async move { sent.await.map_err(Failure::of) }
        }, sim => sim.delete(&self.at(path)))
    }

    /// Writes to `path` if the node `other` is there, both in one transaction.
    pub(crate) fn write_while_there<'a>(
        &'a self,
        other: &str,
        path: &str,
        write: &Write<'_>,
    ) -> impl Future<Output = Result<(), WriteFailure>> + Send + use<'a> {
        send!(self, zk => {
            let send = || {
                let mut writer = zk.new_check_writer(other, None)?;
                match write {
                    Write::Create { data, acls, ephemeral } => {
                        let mode = match ephemeral {
                            true => zk::CreateMode::Ephemeral,
                            false => zk::CreateMode::Persistent,
                        };
                        writer.add_create(path, data, &mode.with_acls(Acls::new(acls)))?;
                    }
                    Write::Set { data } => writer.add_set_data(path, data, None)?,
                    Write::Delete => writer.add_delete(path, None)?,
                }
                Ok(writer.commit())
            };
            let sent = send().map_err(|error| WriteFailure::Write(Failure::of(error)));
            async move { sent?.await.map(drop).map_err(WriteFailure::of) }
        }, sim => sim.write_while_there(&self.at(other), &self.at(path), write))
    }

    /// Waits until this server has caught up with the leader.
    pub(crate) fn sync<'a>(&'a self) -> impl Future<Output = Result<(), Failure>> + Send + use<'a> {
        send!(self, zk => {
            let sent = zk.sync("/");
            async move { sent.await.map_err(Failure::of) }
        }, sim => sim.sync())
    }

    /// The same session, with whole paths.
    fn unrooted(&self) -> Self {
        let to = match &self.to {
            To::Real(client) => {
                To::Real(client.clone().chroot("/").unwrap_or_else(|client| client))
            }
            #[cfg(feature = "simulation")]
            To::Simulated(client) => To::Simulated(client.clone()),
        };
        Self { to, root: LockPath::root() }
    }

    /// Makes the node `path`, and what is missing above it, as containers; persistent where the
    /// server does not know containers. `path` is absolute: what is missing may be the chroot itself.
    pub(crate) async fn make_parents(
        &self,
        path: &LockPath,
        acls: &[Acl],
    ) -> Result<(), ParentFailure> {
        let server = self.unrooted();
        let mut missing = Vec::new();
        // Upwards first: whoever may not read or create near the root need not.
        for level in path.lineage() {
            match server.make_parent(level, acls).await {
                Ok(()) => break,
                Err(Failure::NoNode) => missing.push(level),
                Err(failure) => {
                    return Err(ParentFailure { path: level.to_owned(), failure });
                }
            }
        }
        for level in missing.into_iter().rev() {
            server
                .make_parent(level, acls)
                .await
                .map_err(|failure| ParentFailure { path: level.to_owned(), failure })?;
        }
        Ok(())
    }

    async fn make_parent(&self, path: &str, acls: &[Acl]) -> Result<(), Failure> {
        let made = match self.create(path, &[], acls, Mode::Container).await {
            Err(Failure::Refused(e)) if e.is_unimplemented() => {
                self.create(path, &[], acls, Mode::Persistent).await
            }
            made => made,
        };
        match made {
            Err(Failure::NodeExists) => Ok(()),
            // Who may not create it may still use it: the server looks at permissions first.
            Err(Failure::Refused(e)) if e.is_no_auth() => match self.exists(path).await? {
                true => Ok(()),
                false => Err(Failure::Refused(e)),
            },
            made => made.map(drop),
        }
    }
}

/// How a node is created that belongs to no session.
#[derive(Clone, Copy, Debug)]
enum Mode {
    Persistent,
    Container,
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

/// A node above the contenders that could not be made.
#[derive(Debug)]
pub(crate) struct ParentFailure {
    /// As the server knows it.
    pub(crate) path: String,
    pub(crate) failure: Failure,
}

/// The largest frame a server takes unless it is told otherwise (`jute.maxbuffer`): it cuts the
/// connection of a client that sends a larger one, again and again.
const LARGEST_FRAME: usize = 0xf_ffff;

/// What the server would say of a create that is too large, if it said anything.
///
/// `option` is what `bytes` of data were given for.
pub(crate) fn check_frame(
    option: &'static str,
    path: &LockPath,
    bytes: usize,
    acls: &[Acl],
) -> Result<(), ConfigError> {
    const HEADERS: usize = 256;
    const LONGEST_NAME: usize = 64;
    let acls: usize = acls.iter().map(|acl| 12 + acl.scheme().len() + acl.id().len()).sum();
    let frame = HEADERS + path.as_str().len() + LONGEST_NAME + bytes + acls;
    if frame <= LARGEST_FRAME {
        return Ok(());
    }
    Err(ConfigError::InvalidOption {
        option,
        value: format!("of {bytes} bytes for {path}"),
        reason: "a request may take 1 MiB in all, and the server cuts the connection at a larger one",
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
    fn a_create_over_the_frame_limit_is_refused() {
        let path = LockPath::parse("lock path", "/locks/orders").unwrap();
        let acls = open_to_anyone();
        assert!(check_frame("identity", &path, LARGEST_FRAME - 1024, &acls).is_ok());
        let error = check_frame("identity", &path, 1 << 20, &acls).unwrap_err().to_string();
        assert!(error.contains("identity") && error.contains("/locks/orders"), "{error}");
    }
}
