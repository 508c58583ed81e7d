//! etcd's own lock service, on a lease that is kept alive.
//!
//! By <https://etcd.io/docs/v3.4/dev-guide/api_concurrency_reference_v3/>. As a `concurrency.Session` of the Go client, the
//! lease belongs to the process and is renewed at a third of it.

use std::time::Duration;

use etcd_client::{Client, LockOptions};
use tokio::time::sleep;

use crate::lock::{Failure, Lock};

pub(crate) struct Etcd {
    client: Client,
    name: String,
    lease: i64,
}

impl Lock for Etcd {
    /// The key.
    type Hold = Vec<u8>;

    async fn connect(servers: &[String], name: &str, lease: Duration) -> Result<Self, Failure> {
        let mut client = Client::connect(servers, None).await?;
        let granted = client.lease_grant(i64::try_from(lease.as_secs())?, None).await?.id();
        let (mut keeper, mut answers) = client.lease_keep_alive(granted).await?;
        tokio::spawn(async move {
            while keeper.keep_alive().await.is_ok() && answers.message().await.is_ok() {
                sleep(lease / 3).await;
            }
        });
        Ok(Self { client, name: name.to_owned(), lease: granted })
    }

    async fn acquire(&self) -> Result<Vec<u8>, Failure> {
        let options = LockOptions::new().with_lease(self.lease);
        let answer = self.client.clone().lock(self.name.as_bytes(), Some(options)).await?;
        Ok(answer.key().to_vec())
    }

    async fn release(&self, key: Vec<u8>) -> Result<(), Failure> {
        self.client.clone().unlock(key).await?;
        Ok(())
    }
}
