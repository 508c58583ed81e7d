//! This crate: `InterProcessMutex`.

use zookeeper_recipes::{Curator, InterProcessMutex, MutexGuard, ReleaseError, RetryPolicy};

use super::{Hold, Place, Way};
use crate::Failure;
use crate::event::{Look, Released};

pub(crate) struct ZooKeeper {
    curator: Curator,
    mutex: InterProcessMutex,
}

pub(crate) struct ZooKeeperHold {
    curator: Curator,
    guard: MutexGuard,
}

impl Way for ZooKeeper {
    type Hold = ZooKeeperHold;

    async fn connect(place: &Place) -> Result<Self, Failure> {
        let curator = Curator::builder()
            .session_timeout(place.lease)
            .retry(RetryPolicy::forever(std::time::Duration::from_millis(200)))
            .connect(&place.servers.join(","))
            .await?;
        let mutex = InterProcessMutex::new(&curator, &format!("/locks/{}", place.name))?;
        Ok(Self { curator, mutex })
    }

    async fn acquire(&self) -> Result<ZooKeeperHold, Failure> {
        let guard = self.mutex.acquire().await?;
        Ok(ZooKeeperHold { curator: self.curator.clone(), guard })
    }
}

impl Hold for ZooKeeperHold {
    fn token(&self) -> Option<i64> {
        Some(self.guard.fencing_token().value())
    }

    fn look(&self) -> Look {
        if self.guard.is_held() { Look::Held } else { Look::Lost }
    }

    async fn ask(&mut self) -> Result<bool, Failure> {
        Ok(self.curator.client()?.check_stat(self.guard.node()).await?.is_some())
    }

    async fn release(self) -> Result<Released, Failure> {
        match self.guard.release().await {
            Ok(_) => Ok(Released::Ours),
            Err(ReleaseError::Lost { .. }) => Ok(Released::NotOurs),
            Err(error) => Err(error.into()),
        }
    }

    fn reenter(&self) -> Option<Self> {
        Some(Self { curator: self.curator.clone(), guard: self.guard.reenter() })
    }
}
