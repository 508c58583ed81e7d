//! One Redis, as Redisson's `RLock` does it: a hash that counts the owner's holds, a watchdog that renews the lease at a
//! third of it, and waiters that subscribe to a channel on which a release is published.
//!
//! By <https://redisson.pro/docs/data-and-services/locks-and-synchronizers/>. Redisson tells a holder nothing of a lost
//! lock; here the watchdog's own answer is kept to look at, which is more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::ConnectionManager;
use redis::{Client, RedisResult, Script};
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval_at, sleep, timeout};

use super::{Hold, Place, Way, redis as shared};
use crate::Failure;
use crate::event::{Look, Released};

/// Nothing if it is ours now; how long to wait at the most, in milliseconds, if it is another's.
const TAKE: &str = "
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
return redis.call('pttl', KEYS[1])";
const RENEW: &str = "
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return 0 end
redis.call('pexpire', KEYS[1], ARGV[1])
return 1";
const RELEASE: &str = "
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return 0 end
if redis.call('hincrby', KEYS[1], ARGV[2], -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[1])
else
  redis.call('del', KEYS[1])
  redis.call('publish', KEYS[2], 'released')
end
return 1";

#[derive(Clone)]
struct Lock {
    connection: ConnectionManager,
    key: String,
    channel: String,
    /// Of the process: it re-enters.
    owner: String,
    lease: Duration,
}

pub(crate) struct Watchdog {
    lock: Lock,
    client: Client,
}

pub(crate) struct WatchdogHold {
    lock: Lock,
    lost: Arc<AtomicBool>,
    watchdog: JoinHandle<()>,
}

impl Lock {
    /// Redisson tries each command again, too (`retryAttempts`).
    async fn run<T: redis::FromRedisValue>(&self, script: &str) -> RedisResult<T> {
        let script = Script::new(script);
        let mut invocation = script.key(&self.key);
        invocation.key(&self.channel).arg(shared::milliseconds(self.lease)).arg(&self.owner);
        let invocation = &invocation;
        let run = |mut connection| async move { invocation.invoke_async(&mut connection).await };
        shared::retried(&self.connection, run).await
    }

    fn hold(&self) -> WatchdogHold {
        let lost = Arc::new(AtomicBool::new(false));
        let watchdog = tokio::spawn(renew(self.clone(), lost.clone()));
        WatchdogHold { lock: self.clone(), lost, watchdog }
    }
}

async fn renew(lock: Lock, lost: Arc<AtomicBool>) {
    let third = lock.lease / 3;
    let mut ticks = interval_at(Instant::now() + third, third);
    loop {
        ticks.tick().await;
        // An error is not an answer: the next try may get one.
        if let Ok(false) = lock.run(RENEW).await {
            lost.store(true, Ordering::Relaxed);
            return;
        }
    }
}

impl Way for Watchdog {
    type Hold = WatchdogHold;

    async fn connect(place: &Place) -> Result<Self, Failure> {
        let address = place.servers.first().ok_or("no server")?;
        let connection = shared::connect_lazily(address, Duration::from_secs(2))?;
        let (key, channel) = (place.name.clone(), format!("channel:{}", place.name));
        let lock = Lock { connection, key, channel, owner: shared::owner(), lease: place.lease };
        Ok(Self { lock, client: Client::open(format!("redis://{address}/"))? })
    }

    async fn acquire(&self) -> Result<WatchdogHold, Failure> {
        if let Ok(None) = self.lock.run::<Option<u64>>(TAKE).await {
            return Ok(self.lock.hold());
        }
        loop {
            // Before the next try, so that no release falls between them.
            let subscribed = async {
                let mut subscriber = self.client.get_async_pubsub().await?;
                subscriber.subscribe(&self.lock.channel).await?;
                RedisResult::Ok(subscriber.into_on_message())
            };
            let Ok(mut releases) = subscribed.await else {
                sleep(Duration::from_millis(100)).await;
                continue;
            };
            while let Ok(left) = self.lock.run::<Option<u64>>(TAKE).await {
                let Some(left) = left else { return Ok(self.lock.hold()) };
                // A holder that is dead publishes nothing.
                if let Ok(None) = timeout(Duration::from_millis(left.max(1)), releases.next()).await
                {
                    break; // the subscription has ended
                }
            }
        }
    }
}

impl Hold for WatchdogHold {
    fn token(&self) -> Option<i64> {
        None // Redisson has `RFencedLock` for this
    }

    fn look(&self) -> Look {
        if self.lost.load(Ordering::Relaxed) { Look::Lost } else { Look::Held }
    }

    async fn ask(&mut self) -> Result<bool, Failure> {
        let mut command = redis::cmd("HEXISTS");
        command.arg(&self.lock.key).arg(&self.lock.owner);
        let command = &command;
        let ask = |mut connection| async move { command.query_async(&mut connection).await };
        Ok(shared::retried(&self.lock.connection, ask).await?)
    }

    async fn release(self) -> Result<Released, Failure> {
        self.watchdog.abort();
        let was_ours: bool = self.lock.run(RELEASE).await?;
        Ok(if was_ours { Released::Ours } else { Released::NotOurs })
    }
}

impl Drop for WatchdogHold {
    fn drop(&mut self) {
        self.watchdog.abort();
    }
}
