//! Our recipes and their guards, as the commands see them: one type, whichever it is.

use std::time::Duration;

use futures_util::future::BoxFuture;
use rustix::time::{ClockId, clock_gettime};
use zookeeper_recipes::{Curator, InterProcessMutex, MutexGuard};

use crate::rules::Nanos;

pub(crate) type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

pub(crate) enum Lock {
    Mutex(InterProcessMutex),
}

pub(crate) enum Guard {
    Mutex(MutexGuard),
}

pub(crate) fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Without a limit it waits for ever.
macro_rules! acquired {
    ($lock:expr, $limit:expr, $guard:path) => {
        match $limit {
            Some(limit) => $lock.acquire_timeout(limit).await?.map($guard),
            None => Some($guard($lock.acquire().await?)),
        }
    };
}

macro_rules! each {
    ($guard:expr, $inner:ident => $do:expr) => {
        match $guard {
            Guard::Mutex($inner) => $do,
        }
    };
}

impl Lock {
    pub(crate) fn new(curator: &Curator, kind: &str, path: &str) -> Result<Self> {
        Ok(match kind {
            "mutex" => Self::Mutex(InterProcessMutex::new(curator, path)?),
            _ => return Err(format!("unknown kind: {kind}").into()),
        })
    }

    pub(crate) async fn acquire(
        &self,
        limit: Option<Duration>,
        _count: usize,
    ) -> Result<Option<Guard>> {
        Ok(match self {
            Self::Mutex(lock) => acquired!(lock, limit, Guard::Mutex),
        })
    }

    /// Paths of nodes.
    pub(crate) async fn participants(&self) -> Result<Vec<String>> {
        let participants = match self {
            Self::Mutex(lock) => lock.participants().await?,
        };
        Ok(participants.into_iter().map(|one| one.path).collect())
    }
}

impl Guard {
    pub(crate) fn is_held(&self) -> bool {
        each!(self, guard => guard.is_held())
    }

    /// How it was lost.
    pub(crate) fn lost(&self) -> BoxFuture<'static, String> {
        each!(self, guard => {
            let lost = guard.lost();
            Box::pin(async move { format!("{:?}", lost.await) })
        })
    }

    pub(crate) async fn release(self) -> Result<()> {
        each!(self, guard => guard.release().await.map(drop).map_err(Into::into))
    }
}
