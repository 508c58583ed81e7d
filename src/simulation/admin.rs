//! A client for tests, to look at nodes and to change them.

use std::sync::Arc;
use std::time::Duration;

use super::acl::{of_plain, plain};
use super::client::Client;
use super::op::{Answer, Ids, Mode, Op};
use super::world::World;
use crate::client::{Acl, CreateMode, ServerError, Stat};

/// A client beside the recipes', with a session of a minute: what a test looks at nodes with, and changes them.
///
/// Its functions are named, and answer, as those of the client that the library is built on.
#[derive(Clone, Debug)]
pub struct Admin {
    client: Client,
}

impl Admin {
    pub(super) async fn connect(world: &Arc<World>, link: usize) -> Self {
        let (timeout, patience) = (Duration::from_secs(60), Duration::from_secs(8));
        loop {
            let dialed =
                Client::dial(world.clone(), &[link], timeout, patience, Ids::default()).await;
            if let Ok(client) = dialed {
                return Self { client };
            }
        }
    }

    async fn ask(&self, op: Op) -> Result<Answer, ServerError> {
        self.client.ask(op).await.map(|(answer, _)| answer).map_err(|refused| refused.error)
    }

    /// Creates a node, and gives its path and stat.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent may take effect.
    ///
    /// # Errors
    ///
    /// What the server refuses with. So it is of the other functions.
    pub async fn create(
        &self,
        path: &str,
        data: &[u8],
        mode: CreateMode,
        acls: &[Acl],
    ) -> Result<(String, Stat), ServerError> {
        let mode = match mode {
            CreateMode::Persistent => Mode::Persistent,
            CreateMode::PersistentSequential => Mode::PersistentSequential,
            CreateMode::Ephemeral => Mode::Ephemeral,
            CreateMode::EphemeralSequential => Mode::EphemeralSequential,
            CreateMode::Container => Mode::Container,
        };
        let op = Op::Create { path: path.to_owned(), data: data.to_vec(), acls: plain(acls), mode };
        match self.ask(op).await? {
            Answer::Created(path, stat) => Ok((path, stat)),
            _ => Err(ServerError::Unimplemented),
        }
    }

    /// Deletes a node, if it is of this version.
    ///
    /// # Cancel safety
    ///
    /// As [`create`](Self::create).
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub async fn delete(&self, path: &str, version: Option<i32>) -> Result<(), ServerError> {
        self.ask(Op::Delete { path: path.to_owned(), version }).await.map(drop)
    }

    /// Deletes several nodes, all or none.
    ///
    /// # Cancel safety
    ///
    /// As [`create`](Self::create).
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub async fn delete_all(&self, paths: &[String]) -> Result<(), ServerError> {
        let delete = |path: &String| Op::Delete { path: path.clone(), version: None };
        self.ask(Op::Multi(paths.iter().map(delete).collect())).await.map(drop)
    }

    /// Replaces a node's data.
    ///
    /// # Cancel safety
    ///
    /// As [`create`](Self::create).
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub async fn set_data(
        &self,
        path: &str,
        data: &[u8],
        version: Option<i32>,
    ) -> Result<Stat, ServerError> {
        let op = Op::SetData { path: path.to_owned(), data: data.to_vec(), version };
        match self.ask(op).await? {
            Answer::Stat(Some(stat)) => Ok(stat),
            _ => Err(ServerError::Unimplemented),
        }
    }

    /// A node's data and stat.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub async fn get_data(&self, path: &str) -> Result<(Vec<u8>, Stat), ServerError> {
        match self.ask(Op::GetData { path: path.to_owned(), watch: false }).await? {
            Answer::Data(data, stat) => Ok((data, stat)),
            _ => Err(ServerError::Unimplemented),
        }
    }

    /// A node's stat, if it is there.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub async fn check_stat(&self, path: &str) -> Result<Option<Stat>, ServerError> {
        match self.ask(Op::Exists { path: path.to_owned(), watch: false }).await? {
            Answer::Stat(stat) => Ok(stat),
            _ => Err(ServerError::Unimplemented),
        }
    }

    /// A node's children.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub async fn list_children(&self, path: &str) -> Result<Vec<String>, ServerError> {
        match self.ask(Op::List { path: path.to_owned(), watch: false }).await? {
            Answer::Children(children, _) => Ok(children),
            _ => Err(ServerError::Unimplemented),
        }
    }

    /// A node's ACLs.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub async fn get_acl(&self, path: &str) -> Result<(Vec<Acl>, Stat), ServerError> {
        match self.ask(Op::GetAcl { path: path.to_owned() }).await? {
            Answer::Acls(acls, stat) => Ok((of_plain(&acls), stat)),
            _ => Err(ServerError::Unimplemented),
        }
    }

    /// Replaces a node's ACLs.
    ///
    /// # Cancel safety
    ///
    /// As [`create`](Self::create).
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub async fn set_acl(&self, path: &str, acls: &[Acl]) -> Result<(), ServerError> {
        self.ask(Op::SetAcl { path: path.to_owned(), acls: plain(acls) }).await.map(drop)
    }

    /// Shows credentials. They are taken as they are: no password is hashed.
    ///
    /// # Cancel safety
    ///
    /// As [`create`](Self::create).
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub async fn auth(&self, scheme: &str, id: &str) -> Result<(), ServerError> {
        self.ask(Op::Auth { scheme: scheme.to_owned(), id: id.to_owned() }).await.map(drop)
    }

    /// Waits until its server has caught up with the leader.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub async fn sync(&self) -> Result<(), ServerError> {
        self.ask(Op::Sync).await.map(drop)
    }
}
