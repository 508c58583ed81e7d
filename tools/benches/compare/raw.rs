//! The limit: one create and one delete, by the client that this crate stands on, and nothing around them.

use std::collections::HashMap;
use std::time::Duration;

use tools::{Failure, now};
use zookeeper_recipes::zookeeper_client::{Acls, Client, CreateMode};

use crate::bench_server::SESSION_TIMEOUT;
use crate::load::{Contender, Held, Lap, Load, turn, work};

/// As long as a contender's.
const NAME: &str = "_c_00000000-0000-0000-0000-000000000000-lock-";

/// The sessions of a bare client, by link.
#[derive(Default)]
pub(crate) struct Raw(HashMap<String, Vec<Client>>);

impl Raw {
    async fn session(&mut self, link: &str, index: usize) -> Result<Client, Failure> {
        let sessions = self.0.entry(link.to_owned()).or_default();
        while sessions.len() <= index {
            let connector = Client::connector().with_session_timeout(SESSION_TIMEOUT);
            sessions.push(connector.connect(link).await?);
        }
        Ok(sessions[index].clone())
    }

    pub(crate) async fn run(&mut self, link: &str, path: &str, load: Load) -> Result<Lap, Failure> {
        let mut pairs = Vec::new();
        for task in 0..load.tasks {
            let client = self.session(link, task % load.sessions).await?;
            pairs.push(Pair { client, prefix: format!("{path}/{}/{NAME}", task % load.locks) });
        }
        turn(pairs, load.hold, load.turn).await
    }
}

struct Pair {
    client: Client,
    prefix: String,
}

impl Contender for Pair {
    async fn cycle(&self, hold: Duration) -> Result<Held, Failure> {
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let (_, sequence) = self.client.create(&self.prefix, b"raw", &options).await?;
        let acquired = now();
        work(hold).await;
        let released = now();
        self.client.delete(&format!("{}{sequence}", self.prefix), None).await?;
        Ok(Held { acquired, released })
    }
}
