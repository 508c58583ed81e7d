//! This crate: `InterProcessMutex`.

use std::time::Duration;

use zookeeper_recipes::{Curator, InterProcessMutex, MutexGuard, RetryPolicy};

use crate::lock::{Failure, Lock};

pub(crate) struct Mutex(InterProcessMutex);

impl Lock for Mutex {
    type Hold = MutexGuard;

    async fn connect(servers: &[String], name: &str, lease: Duration) -> Result<Self, Failure> {
        let curator = Curator::builder()
            .session_timeout(lease)
            .retry(RetryPolicy::forever(Duration::from_millis(200)))
            .connect(&servers.join(","))
            .await?;
        Ok(Self(InterProcessMutex::new(&curator, &format!("/locks/{name}"))?))
    }

    async fn acquire(&self) -> Result<MutexGuard, Failure> {
        Ok(self.0.acquire().await?)
    }

    async fn release(&self, hold: MutexGuard) -> Result<(), Failure> {
        hold.release().await?;
        Ok(())
    }
}
