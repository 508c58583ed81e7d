//! [`Client`]: the client of one session. Its paths start at the chroot and the namespace.

use std::time::Duration;

use zookeeper_client::{self as zk, Acl, CreateMode};

use super::failure::{ClientError, Failed, Failure};
use super::link::LinkWatch;
use crate::error::Error;
use crate::lock_path::LockPath;
#[cfg(feature = "simulation")]
use crate::simulation;

/// The client of one session, rooted at the chroot and the namespace. Clones are cheap. The session ends when the last clone is
/// dropped.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(super) backend: Backend,
    /// Chroot and namespace joined, as the server knows it.
    root: LockPath,
}

/// The number of times that missing parents are created without a pause: an operator may delete them as fast as we create them.
pub(crate) const PARENTS_AT_ONCE: usize = 3;

/// Where requests are sent: a rooted client of real servers, or a client of simulated servers, which takes whole paths.
#[derive(Clone, Debug)]
pub(super) enum Backend {
    Real(zk::Client),
    #[cfg(feature = "simulation")]
    Simulated(simulation::Client),
}

impl Client {
    /// Takes over a connected client and moves its root down by `namespace`.
    pub(crate) fn new(client: zk::Client, namespace: &LockPath) -> Result<Self, Error> {
        let root = LockPath::parse("chroot", client.path())?.join(namespace);
        let rooted = client.chroot(root.as_str().to_owned()).map_err(|_| {
            Error::invalid("namespace", format_args!("{root:?}"), "the client refuses it")
        })?;
        Ok(Self { backend: Backend::Real(rooted), root })
    }

    /// Takes a client of simulated servers. `root` is chroot and namespace joined.
    #[cfg(feature = "simulation")]
    pub(crate) fn simulated(client: simulation::Client, root: LockPath) -> Self {
        Self { backend: Backend::Simulated(client), root }
    }

    /// Returns `path` as the server knows it.
    #[cfg(feature = "simulation")]
    pub(super) fn at(&self, path: &str) -> String {
        match (self.root.is_root(), path) {
            (true, _) => path.to_owned(),
            (false, "/") => self.root.to_string(),
            (false, _) => format!("{}{path}", self.root),
        }
    }

    /// Returns true if the session is one of a read-only server. Such a session gets another id when the client finds a server
    /// that writes.
    pub(crate) fn is_read_only(client: &zk::Client) -> bool {
        client.session().is_readonly() || client.state() == zk::SessionState::ConnectedReadOnly
    }

    /// Returns the foreign client itself, for other work on the same session. `None` for simulated servers.
    pub(crate) fn inner(&self) -> Option<&zk::Client> {
        match &self.backend {
            Backend::Real(client) => Some(client),
            #[cfg(feature = "simulation")]
            Backend::Simulated(_) => None,
        }
    }

    pub(crate) fn root(&self) -> &LockPath {
        &self.root
    }

    pub(crate) fn session_id(&self) -> i64 {
        match &self.backend {
            Backend::Real(client) => client.session_id().0,
            #[cfg(feature = "simulation")]
            Backend::Simulated(client) => client.session_id(),
        }
    }

    pub(crate) fn session_timeout(&self) -> Duration {
        match &self.backend {
            Backend::Real(client) => client.session_timeout(),
            #[cfg(feature = "simulation")]
            Backend::Simulated(client) => client.session_timeout(),
        }
    }

    pub(crate) fn watch_link(&self) -> LinkWatch {
        match &self.backend {
            Backend::Real(client) => LinkWatch::Real(client.state_watcher()),
            #[cfg(feature = "simulation")]
            Backend::Simulated(client) => LinkWatch::Simulated(client.watch_link()),
        }
    }

    /// Returns a client of the same session that takes whole paths.
    fn unrooted(&self) -> Self {
        let backend = match &self.backend {
            Backend::Real(client) => {
                Backend::Real(client.clone().chroot("/").unwrap_or_else(|client| client))
            }
            #[cfg(feature = "simulation")]
            Backend::Simulated(client) => Backend::Simulated(client.clone()),
        };
        Self { backend, root: LockPath::root() }
    }

    /// Creates the missing parents of `path`, as [`make_path`](Self::make_path) does.
    pub(crate) async fn make_parents(&self, path: &LockPath, acls: &[Acl]) -> Result<(), Failed> {
        match path.parent() {
            Some(parent) => self.make_path(&parent, acls).await,
            None => Ok(()),
        }
    }

    /// Creates the node `path` and its missing parents, chroot and namespace included: as containers, or as persistent nodes if
    /// the server does not know containers.
    pub(crate) async fn make_path(&self, path: &LockPath, acls: &[Acl]) -> Result<(), Failed> {
        let path = self.root.join(path);
        let server = self.unrooted();
        let failed = |level, failure| Failed::at(level, "create", failure);
        let mut missing = Vec::new();
        // Upwards first: a client that has no permission near the root may not need it.
        for level in path.ancestors() {
            match server.make_parent(level, acls).await {
                Ok(()) => break,
                Err(Failure::NoNode) => missing.push(level),
                Err(failure) => return Err(failed(level, failure)),
            }
        }
        for level in missing.into_iter().rev() {
            server.make_parent(level, acls).await.map_err(|failure| failed(level, failure))?;
        }
        Ok(())
    }

    async fn make_parent(&self, path: &str, acls: &[Acl]) -> Result<(), Failure> {
        let made = match self.create(path, &[], acls, CreateMode::Container).await {
            Err(Failure::Refused(ClientError(zk::Error::Unimplemented))) => {
                self.create(path, &[], acls, CreateMode::Persistent).await
            }
            made => made,
        };
        match made {
            Err(Failure::NodeExists) => Ok(()),
            // A client without the permission to create may still use an existing node. The server checks permissions first.
            Err(Failure::Refused(e)) if e.is_no_auth() => match self.exists(path).await? {
                true => Ok(()),
                false => Err(Failure::Refused(e)),
            },
            made => made.map(drop),
        }
    }
}
