//! An administrator beside the workers, with connections of his own to the servers themselves.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tools::Result;
use zookeeper_recipes::zookeeper_client::{Acls, Client, CreateMode, Error};

use crate::checker::Value;
use crate::hold::decode;
use crate::settings::{COUNTER, LOCK, Recipe};

const SESSION: Duration = Duration::from_secs(10);
/// Members come back sooner.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct Admin {
    servers: String,
    /// Where contenders' nodes are.
    parents: Vec<String>,
    /// Kept while it works, for a holder does not wait until somebody has connected.
    client: Mutex<Option<Client>>,
}

impl Admin {
    pub(crate) fn new(servers: &str, recipe: Recipe) -> Self {
        let parents = recipe.parents();
        Self { servers: servers.to_owned(), parents, client: Mutex::default() }
    }

    async fn client(&self) -> Result<Client, Error> {
        let mut kept = self.client.lock().await;
        if let Some(client) = &*kept {
            return Ok(client.clone());
        }
        let connector = Client::connector().with_session_timeout(SESSION);
        Ok(kept.insert(connector.connect(&self.servers).await?).clone())
    }

    /// Runs `work`, and again on a new connection while it has no answer.
    async fn ask<T>(&self, work: impl AsyncFn(&Client) -> Result<T, Error>) -> Result<T> {
        let until = Instant::now() + PATIENCE;
        loop {
            let answer = match self.client().await {
                Ok(client) => timeout(SESSION, work(&client)).await.unwrap_or(Err(Error::Timeout)),
                Err(error) => Err(error),
            };
            match answer {
                Ok(value) => return Ok(value),
                Err(error) if Instant::now() > until => return Err(error.into()),
                Err(_) => {
                    *self.client.lock().await = None;
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Makes the counter, and the lock path for what cannot make it by itself.
    pub(crate) async fn prepare(&self) -> Result<()> {
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        self.ask(async |client| {
            for path in ["/soak", COUNTER, LOCK] {
                match client.create(path, &[], &options).await {
                    Ok(_) | Err(Error::NodeExists) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })
        .await
    }

    /// Until it is gone for certain. An error if nobody knows.
    pub(crate) async fn delete(&self, node: &str) -> Result<()> {
        self.ask(async |client| match client.delete(node, None).await {
            Ok(()) | Err(Error::NoNode) => Ok(()),
            Err(error) => Err(error),
        })
        .await
    }

    /// A contender's node of a worker, by what it says of its owner.
    pub(crate) async fn node_of(&self, identity: &str) -> Result<Option<String>> {
        self.ask(async |client| {
            for node in children(client, &self.parents).await? {
                match client.get_data(&node).await {
                    Ok((data, _)) if data == identity.as_bytes() => return Ok(Some(node)),
                    Ok(_) | Err(Error::NoNode) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(None)
        })
        .await
    }

    /// What a contender's node says of its owner. Nothing if there is no such node.
    pub(crate) async fn owner(&self, node: &str) -> Result<String> {
        self.ask(async |client| match client.get_data(node).await {
            Ok((data, _)) => Ok(String::from_utf8_lossy(&data).into_owned()),
            Err(Error::NoNode) => Ok(String::new()),
            Err(error) => Err(error),
        })
        .await
    }

    /// All contenders' nodes, when there are none or after some time.
    pub(crate) async fn children_after(&self, time: Duration) -> Result<Vec<String>> {
        let until = Instant::now() + time;
        loop {
            let children = self
                .ask(async |client| {
                    client.sync(LOCK).await?;
                    children(client, &self.parents).await
                })
                .await?;
            if children.is_empty() || Instant::now() > until {
                return Ok(children);
            }
            sleep(PAUSE).await;
        }
    }

    pub(crate) async fn counter(&self) -> Result<Value> {
        let data = self
            .ask(async |client| {
                client.sync(COUNTER).await?;
                Ok(client.get_data(COUNTER).await?.0)
            })
            .await?;
        decode(&data)
    }
}

/// Their paths.
async fn children(client: &Client, parents: &[String]) -> Result<Vec<String>, Error> {
    let mut children = Vec::new();
    for parent in parents {
        match client.list_children(parent).await {
            Ok(names) => children.extend(names.iter().map(|name| format!("{parent}/{name}"))),
            Err(Error::NoNode) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(children)
}
