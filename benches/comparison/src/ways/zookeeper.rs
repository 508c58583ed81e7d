//! This crate: `InterProcessMutex`.

use std::time::Duration;

use zookeeper_recipes::session::RetryPolicy;
use zookeeper_recipes::{Curator, Guard, InterProcessMutex};

use crate::lock::{Failure, Lock};

pub(crate) struct Mutex(InterProcessMutex);

impl Lock for Mutex {
    type Hold = Guard;

    async fn connect(servers: &[String], name: &str, lease: Duration) -> Result<Self, Failure> {
        let curator = Curator::builder()
            .session_timeout(lease)
            .retry(RetryPolicy::forever(Duration::from_millis(200)))
            .connect(&servers.join(","))
            .await?;
        Ok(Self(curator.mutex(format!("/locks/{name}"))?))
    }

    async fn acquire(&self) -> Result<Guard, Failure> {
        Ok(self.0.acquire().await?)
    }

    async fn release(&self, hold: Guard) -> Result<(), Failure> {
        hold.release().await?;
        Ok(())
    }
}
