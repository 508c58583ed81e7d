//! A client for tests, to read nodes and to change them.

use std::sync::Arc;
use std::time::Duration;

use super::client::{Client, Target};
use super::op::{Answer, Ids, Op};
use super::world::World;
use crate::client::{Acl, CreateMode, ServerError, Stat};

/// A client for tests, to read nodes and to change them. Its session timeout is a minute.
///
/// The methods have the names and results of the methods of `zookeeper-client`.
#[derive(Clone, Debug)]
pub struct Admin {
    client: Client,
}

impl Admin {
    pub(super) async fn connect(world: &Arc<World>, link: usize) -> Self {
        let target = Target {
            world: world.clone(),
            links: vec![link],
            timeout: Duration::from_secs(60),
            ids: Ids::default(),
        };
        loop {
            if let Ok(client) = target.dial().await {
                return Self { client };
            }
        }
    }

    async fn ask(&self, op: Op) -> Result<Answer, ServerError> {
        self.client.ask(op).await.map(|(answer, _)| answer).map_err(|refused| refused.error)
    }

    /// Creates a node, and returns its path and stat.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent may take effect.
    ///
    /// # Errors
    ///
    /// The error with which the server refuses the request.
    pub async fn create(
        &self,
        path: &str,
        data: &[u8],
        mode: CreateMode,
        acls: &[Acl],
    ) -> Result<(String, Stat), ServerError> {
        let op = Op::create(path.to_owned(), data, acls, mode);
        let Answer::Created(path, stat) = self.ask(op).await? else { return unexpected() };
        Ok((path, stat))
    }

    /// Deletes a node, if its version is `version` or none is given.
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
        let Answer::Stat(Some(stat)) = self.ask(op).await? else { return unexpected() };
        Ok(stat)
    }

    /// Returns a node's data and stat.
    ///
    /// # Cancel safety
    ///
    /// Cancelling changes nothing.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub async fn get_data(&self, path: &str) -> Result<(Vec<u8>, Stat), ServerError> {
        let op = Op::GetData { path: path.to_owned(), watch: false };
        let Answer::Data(data, stat) = self.ask(op).await? else { return unexpected() };
        Ok((data, stat))
    }

    /// Returns a node's stat, or `None` if the node does not exist.
    ///
    /// # Cancel safety
    ///
    /// Cancelling changes nothing.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub async fn check_stat(&self, path: &str) -> Result<Option<Stat>, ServerError> {
        let op = Op::Exists { path: path.to_owned(), watch: false };
        let Answer::Stat(stat) = self.ask(op).await? else { return unexpected() };
        Ok(stat)
    }

    /// Returns the names of a node's children.
    ///
    /// # Cancel safety
    ///
    /// Cancelling changes nothing.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub async fn list_children(&self, path: &str) -> Result<Vec<String>, ServerError> {
        let op = Op::List { path: path.to_owned(), watch: false };
        let Answer::Children(children, _) = self.ask(op).await? else { return unexpected() };
        Ok(children)
    }

    /// Returns a node's ACLs and stat.
    ///
    /// # Cancel safety
    ///
    /// Cancelling changes nothing.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub async fn get_acl(&self, path: &str) -> Result<(Vec<Acl>, Stat), ServerError> {
        let op = Op::GetAcl { path: path.to_owned() };
        let Answer::Acls(acls, stat) = self.ask(op).await? else { return unexpected() };
        Ok((acls.to_vec(), stat))
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
        self.ask(Op::SetAcl { path: path.to_owned(), acls: acls.into() }).await.map(drop)
    }

    /// Adds credentials. Passwords are not hashed.
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

    /// Waits until the client's server has caught up with the leader.
    ///
    /// # Cancel safety
    ///
    /// Cancelling changes nothing.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub async fn sync(&self) -> Result<(), ServerError> {
        self.ask(Op::Sync).await.map(drop)
    }
}

fn unexpected<T>() -> Result<T, ServerError> {
    Err(ServerError::Unimplemented)
}
