//! An administrator's client, simulated or real.

use std::time::Duration;

use zookeeper_recipes::simulation;
use zookeeper_recipes::zookeeper_client::{Acl, Acls, Client, CreateMode, Error, Stat};

use super::alike;

/// A client of the test itself, next to the clients under test.
#[derive(Clone, Debug)]
pub enum Admin {
    Real(Client),
    Simulated(simulation::Admin),
}

impl Admin {
    /// Connects to real servers. The session outlives an outage that a test causes.
    pub(super) async fn connect(connect_string: &str) -> Self {
        let connector = Client::connector().with_session_timeout(Duration::from_secs(60));
        let client = connector.connect(connect_string).await;
        Self::Real(client.expect("an administrator's connection"))
    }

    alike! {
        async delete(path: &str, version: Option<i32>) -> ();
        async set_data(path: &str, data: &[u8], version: Option<i32>) -> Stat;
        async get_data(path: &str) -> (Vec<u8>, Stat);
        async check_stat(path: &str) -> Option<Stat>;
        async list_children(path: &str) -> Vec<String>;
        async get_acl(path: &str) -> (Vec<Acl>, Stat);
    }

    /// Returns the client of real servers.
    pub fn client(&self) -> &Client {
        let Self::Real(client) = self else { panic!("it is simulated") };
        client
    }

    /// Creates a node and returns its path. The path of a sequential node ends with the number.
    pub async fn create(
        &self,
        path: &str,
        data: &[u8],
        mode: CreateMode,
        acls: &[Acl],
    ) -> Result<String, Error> {
        match self {
            Self::Real(client) => {
                let options = mode.with_acls(Acls::new(acls));
                let (_, sequence) = client.create(path, data, &options).await?;
                let is_sequential = sequence.into_i64() >= 0;
                Ok(if is_sequential { format!("{path}{sequence}") } else { path.to_owned() })
            }
            Self::Simulated(admin) => Ok(admin.create(path, data, mode, acls).await?.0),
        }
    }

    /// Deletes all nodes, or none if one delete fails.
    pub async fn delete_all(&self, paths: &[String]) {
        match self {
            Self::Real(client) => {
                let mut writer = client.new_multi_writer();
                paths.iter().for_each(|path| writer.add_delete(path, None).unwrap());
                drop(writer.commit().await.unwrap());
            }
            Self::Simulated(admin) => admin.delete_all(paths).await.unwrap(),
        }
    }

    pub async fn set_acl(&self, path: &str, acls: &[Acl]) -> Result<(), Error> {
        match self {
            Self::Real(client) => client.set_acl(path, acls, None).await.map(drop),
            Self::Simulated(admin) => admin.set_acl(path, acls).await,
        }
    }

    /// Authenticates this client by the scheme `digest`.
    pub async fn auth(&self, credentials: &str) {
        match self {
            Self::Real(client) => client.auth("digest", credentials.as_bytes()).await.unwrap(),
            Self::Simulated(admin) => admin.auth("digest", credentials).await.unwrap(),
        }
    }
}
