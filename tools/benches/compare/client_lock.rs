//! `zookeeper_client::Client::lock`. Nobody can await its release: it goes by being dropped, and the next cycle waits
//! for that if it comes too early.

use std::time::{Duration, Instant};

use zookeeper_recipes::zookeeper_client::{Acls, Client, LockPrefix};

use crate::Failure;
use crate::load::{Contender, Held, Lap, Load, turn, work};
use crate::raw::Clients;

#[derive(Default)]
pub(crate) struct ClientLock(Clients);

impl ClientLock {
    pub(crate) async fn run(&mut self, link: &str, path: &str, load: Load) -> Result<Lap, Failure> {
        let mut locks = Vec::new();
        for task in 0..load.tasks {
            let client = self.0.session(link, task % load.sessions).await?;
            locks.push(Lock { client, path: format!("{path}/{}", task % load.locks) });
        }
        turn(locks, load.hold, load.turn).await
    }
}

struct Lock {
    client: Client,
    path: String,
}

impl Contender for Lock {
    async fn cycle(&self, hold: Duration) -> Result<Held, Failure> {
        let prefix = LockPrefix::new_curator(&self.path, "lock-")?;
        let lock = self.client.lock(prefix, b"client", Acls::anyone_all()).await?;
        let acquired = Instant::now();
        work(hold).await;
        let released = Instant::now();
        drop(lock);
        Ok(Held { acquired, released })
    }
}
