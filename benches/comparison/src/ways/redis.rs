//! What the ways on Redis have in common.

use std::sync::LazyLock;
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, RedisResult, Script};
use tokio::time::sleep;

use crate::Failure;

const TRIES: usize = 4;
const BETWEEN_TRIES: Duration = Duration::from_millis(50);

/// Deletes the key if it has our value: "a lock will be removed only if it is still the one that was set by the client
/// trying to remove it".
static DELETE_OURS: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
    )
});

/// Connects with the first command, and again after each failure. `limit` is for a connection and for an answer.
pub(crate) fn connect_lazily(address: &str, limit: Duration) -> Result<ConnectionManager, Failure> {
    let config = ConnectionManagerConfig::new()
        .set_connection_timeout(Some(limit))
        .set_response_timeout(Some(limit))
        .set_max_delay(Duration::from_millis(100));
    Ok(ConnectionManager::new_lazy_with_config(
        Client::open(format!("redis://{address}/"))?,
        config,
    )?)
}

/// A value that no other hold has.
pub(super) fn owner() -> String {
    uuid::Uuid::new_v4().to_string()
}

pub(super) async fn set_if_absent(
    mut connection: ConnectionManager,
    key: &str,
    owner: &str,
    lease: Duration,
) -> RedisResult<bool> {
    let mut command = redis::cmd("SET");
    command.arg(key).arg(owner).arg("NX").arg("PX").arg(milliseconds(lease));
    let answer: Option<String> = command.query_async(&mut connection).await?;
    Ok(answer.is_some())
}

pub(super) async fn is_ours(
    connection: &ConnectionManager,
    key: &str,
    owner: &str,
) -> RedisResult<bool> {
    let ask = |mut connection| async move {
        redis::cmd("GET").arg(key).query_async::<Option<String>>(&mut connection).await
    };
    Ok(retried(connection, ask).await?.as_deref() == Some(owner))
}

pub(super) async fn delete_ours(
    connection: &ConnectionManager,
    key: &str,
    owner: &str,
) -> RedisResult<bool> {
    let delete = |mut connection| async move {
        DELETE_OURS.key(key).arg(owner).invoke_async(&mut connection).await
    };
    retried(connection, delete).await
}

/// The first command on a connection that is broken fails, and has the next ones reconnect.
pub(super) async fn retried<T, F: Future<Output = RedisResult<T>>>(
    connection: &ConnectionManager,
    command: impl Fn(ConnectionManager) -> F,
) -> RedisResult<T> {
    for _ in 1..TRIES {
        match command(connection.clone()).await {
            Err(error) if error.is_io_error() => sleep(BETWEEN_TRIES).await,
            done => return done,
        }
    }
    command(connection.clone()).await
}

pub(super) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// "It should try again after a random delay": 200 ms and up to as much again, the example of the page's
/// implementation for Node.js.
pub(super) async fn before_the_next_try() {
    sleep(Duration::from_millis(fastrand::u64(200..400))).await;
}
