//! etcd's own lock service, on a lease that is kept alive.
//!
//! By <https://etcd.io/docs/v3.4/dev-guide/api_concurrency_reference_v3/>: the waiting is done in the server. The lease
//! belongs to the process, as a `concurrency.Session` of the Go client does, and is renewed at a third of it; that client
//! closes the session's `Done` when the last answer's time is over, and so does the look here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use etcd_client::{Client, LockOptions};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::{Hold, Place, Way};
use crate::Failure;
use crate::clock::now;
use crate::event::{Look, Released};

pub(crate) struct Etcd {
    client: Client,
    name: String,
    lease: i64,
    until: Until,
    keeper: JoinHandle<()>,
}

pub(crate) struct EtcdHold {
    client: Client,
    key: Vec<u8>,
    revision: Option<i64>,
    until: Until,
}

/// When the lease is over, unless it is renewed before.
#[derive(Clone)]
struct Until(Arc<AtomicU64>);

impl Until {
    fn set(&self, until: Duration) {
        self.0.store(u64::try_from(until.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        now() >= Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

impl Way for Etcd {
    type Hold = EtcdHold;

    async fn connect(place: &Place) -> Result<Self, Failure> {
        let mut client = Client::connect(&place.servers, None).await?;
        let asked = now();
        let ttl = i64::try_from(place.lease.as_secs())?;
        let granted = client.lease_grant(ttl, None).await?;
        let until = Until(Arc::default());
        let lease = Duration::from_secs(granted.ttl().unsigned_abs());
        until.set(asked + lease);
        let keeper = tokio::spawn(keep_alive(client.clone(), granted.id(), lease, until.clone()));
        Ok(Self { client, name: place.name.clone(), lease: granted.id(), until, keeper })
    }

    async fn acquire(&self) -> Result<EtcdHold, Failure> {
        let mut client = self.client.clone();
        let options = LockOptions::new().with_lease(self.lease);
        let answer = client.lock(self.name.as_bytes(), Some(options)).await?;
        let revision = answer.header().map(|header| header.revision());
        Ok(EtcdHold { client, key: answer.key().to_vec(), revision, until: self.until.clone() })
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// Until the lease is over.
async fn keep_alive(mut client: Client, id: i64, lease: Duration, until: Until) {
    while !until.is_over() {
        // It fails while the server is away.
        if let Ok(streams) = client.lease_keep_alive(id).await {
            let (mut requests, mut answers) = streams;
            loop {
                let sent = now();
                if requests.keep_alive().await.is_err() {
                    break;
                }
                match timeout(lease, answers.message()).await {
                    Ok(Ok(Some(answer))) if answer.ttl() > 0 => {
                        until.set(sent + Duration::from_secs(answer.ttl().unsigned_abs()));
                    }
                    // The server says that the lease is over.
                    Ok(Ok(Some(_))) => return until.set(Duration::ZERO),
                    _ => break,
                }
                sleep(lease / 3).await;
            }
        }
        sleep(Duration::from_millis(100)).await;
    }
}

impl Hold for EtcdHold {
    /// The store's revision when the lock was taken; a resource in etcd compares the key's in its transaction.
    fn token(&self) -> Option<i64> {
        self.revision
    }

    fn look(&self) -> Look {
        if self.until.is_over() { Look::Lost } else { Look::Held }
    }

    async fn ask(&mut self) -> Result<bool, Failure> {
        Ok(!self.client.get(self.key.clone(), None).await?.kvs().is_empty())
    }

    async fn release(mut self) -> Result<Released, Failure> {
        self.client.unlock(self.key).await?;
        Ok(Released::NotTold)
    }
}
