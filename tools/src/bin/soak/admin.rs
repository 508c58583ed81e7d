//! An administrator, with a session at the servers themselves. It comes before the first fault and after the last.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tools::Result;
use zookeeper_recipes::zookeeper_client::{Acls, Client, CreateMode, Error};

use crate::settings::{LOCK, Recipe};

const PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct Admin(Client);

impl Admin {
    pub(crate) async fn connect(servers: &str) -> Result<Self> {
        Ok(Self(Client::connect(servers).await?))
    }

    /// Makes the lock path for kazoo, which does not make containers.
    pub(crate) async fn prepare(&self) -> Result<()> {
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        Ok(self.0.mkdir(LOCK, &options).await?)
    }

    /// Returns the identity that a contender's node has. A node that was deleted has none.
    pub(crate) async fn owner(&self, node: &str) -> Result<String> {
        match self.0.get_data(node).await {
            Ok((data, _)) => Ok(String::from_utf8_lossy(&data).into_owned()),
            Err(Error::NoNode) => Ok(String::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until no contender's node is left, but not beyond this time. Returns the paths of those that are.
    pub(crate) async fn left_after(&self, time: Duration, recipe: Recipe) -> Result<Vec<String>> {
        let until = Instant::now() + time;
        loop {
            self.0.sync(LOCK).await?;
            let mut left = Vec::new();
            for parent in recipe.parents() {
                match self.0.list_children(&parent).await {
                    Ok(names) => left.extend(names.iter().map(|name| format!("{parent}/{name}"))),
                    Err(Error::NoNode) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if left.is_empty() || Instant::now() > until {
                return Ok(left);
            }
            sleep(PAUSE).await;
        }
    }
}
