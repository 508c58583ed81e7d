//! Redis: `SET key owner NX PX lease`, and a delete that compares the owner, on one server or on a majority of several.
//!
//! By <https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>: "Correct implementation with a single
//! instance", and "The Redlock algorithm". With one server the second is the first.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, RedisResult, Script};
use tokio::time::sleep;

use crate::lock::{Failure, Lock};

static DELETE_OURS: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
    )
});

/// Connects with the first command. `limit` is for a connection and for an answer.
pub(crate) fn connect(address: &str, limit: Duration) -> Result<ConnectionManager, Failure> {
    let config = ConnectionManagerConfig::new()
        .set_connection_timeout(Some(limit))
        .set_response_timeout(Some(limit))
        .set_max_delay(Duration::from_millis(100));
    let client = Client::open(format!("redis://{address}/"))?;
    Ok(ConnectionManager::new_lazy_with_config(client, config)?)
}

pub(crate) struct Redlock {
    connections: Vec<ConnectionManager>,
    key: String,
    lease: Duration,
}

impl Redlock {
    async fn delete(&self, owner: &str) {
        let delete = |mut one: ConnectionManager| async move {
            DELETE_OURS.key(&self.key).arg(owner).invoke_async::<bool>(&mut one).await
        };
        join_all(self.connections.iter().cloned().map(delete)).await;
    }

    async fn set(&self, mut one: ConnectionManager, owner: &str) -> RedisResult<bool> {
        let milliseconds = u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX);
        let mut command = redis::cmd("SET");
        command.arg(&self.key).arg(owner).arg("NX").arg("PX").arg(milliseconds);
        Ok(command.query_async::<Option<String>>(&mut one).await?.is_some())
    }
}

impl Lock for Redlock {
    /// The owner.
    type Hold = String;

    async fn connect(servers: &[String], name: &str, lease: Duration) -> Result<Self, Failure> {
        // Of several, each is asked within a time that is small compared with the lease: "~ 5-50 milliseconds".
        let limit = if servers.len() > 1 { 50 } else { 2_000 };
        let connect = |address: &String| connect(address, Duration::from_millis(limit));
        let connections: Vec<_> = servers.iter().map(connect).collect::<Result<_, _>>()?;
        let lock = Self { connections, key: name.to_owned(), lease };
        // The first command connects, which the limit for an answer is not meant for.
        lock.delete("nobody").await;
        Ok(lock)
    }

    async fn acquire(&self) -> Result<String, Failure> {
        loop {
            let (owner, sent) = (uuid::Uuid::new_v4().to_string(), Instant::now());
            let set = self.connections.iter().map(|one| self.set(one.clone(), &owner));
            let answers = join_all(set).await;
            let have = answers.iter().filter(|answer| matches!(answer, Ok(true))).count();
            // Less an allowance for clocks, as the page's own implementation has it.
            let valid = self.lease - self.lease / 100 - Duration::from_millis(2);
            if have > self.connections.len() / 2 && sent.elapsed() < valid {
                return Ok(owner);
            }
            if have > 0 || self.connections.len() > 1 {
                self.delete(&owner).await;
            }
            // "It should try again after a random delay"; the times of the page's implementation for Node.js.
            sleep(Duration::from_millis(fastrand::u64(200..400))).await;
        }
    }

    async fn release(&self, owner: String) -> Result<(), Failure> {
        self.delete(&owner).await;
        Ok(())
    }
}
