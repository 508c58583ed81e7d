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
mod link;
mod requests;
#[cfg(feature = "simulation")]
mod simulated;
mod watch;

use std::time::Duration;

use zookeeper_client as zk;
pub(crate) use zookeeper_client::{Acl, Acls, Client as ZooKeeperClient, Connector};
#[cfg(feature = "simulation")]
pub(crate) use zookeeper_client::{AuthId, CreateMode, Error as ServerError, Permission, Stat};

pub(crate) use self::data::{Change, Listing, Node, Write};
pub(crate) use self::dialer::{DialError, Dialer};
pub use self::failure::ClientError;
pub(crate) use self::failure::{Failure, WriteFailure};
pub(crate) use self::link::{LinkState, LinkWatch};
pub(crate) use self::watch::{ChildrenWatch, NodeEvent, NodeWatch};
use crate::error::ConfigError;
use crate::lock_path::LockPath;
#[cfg(feature = "simulation")]
use crate::simulation;

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
