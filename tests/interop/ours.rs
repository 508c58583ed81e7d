//! Our recipes and their guards, as the commands see them: one type, whichever it is.

use std::time::Duration;

use futures_util::future::BoxFuture;
use rustix::time::{ClockId, clock_gettime};
use zookeeper_recipes::{
    ContenderFilter, Curator, InterProcessLock, InterProcessMultiLock, InterProcessMutex,
    InterProcessReadWriteLock, InterProcessSemaphore, InterProcessSemaphoreMutex, Leases,
    LockGuard, WriteGuard, WriteLock,
};

use crate::leading::{Leading, Term};
use crate::lock::Nanos;

pub(crate) type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

pub(crate) enum Lock {
    Mutex(InterProcessMutex),
    Write(WriteLock),
    Semaphore(InterProcessSemaphore),
    Leader(Leading),
    Other(Box<dyn InterProcessLock>),
}

pub(crate) enum Guard {
    Write(WriteGuard),
    Leases(Leases),
    Term(Term),
    Other(Box<dyn LockGuard>),
}

pub(crate) fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Of leases that were acquired together the first stands for all, except in their release.
macro_rules! each {
    ($guard:expr, $inner:ident => $do:expr) => {
        match $guard {
            Guard::Write($inner) => $do,
            Guard::Term($inner) => $do,
            Guard::Other($inner) => $do,
            Guard::Leases(leases) => {
                let $inner = &leases[0];
                $do
            }
        }
    };
}

/// Without a limit it waits for ever.
async fn acquire(lock: &dyn InterProcessLock, limit: Option<Duration>) -> Result<Option<Guard>> {
    let guard = match limit {
        Some(limit) => lock.acquire_timeout(limit).await?,
        None => Some(lock.acquire().await?),
    };
    Ok(guard.map(Guard::Other))
}

impl Lock {
    pub(crate) fn new(curator: &Curator, kind: &str, path: &str) -> Result<Self> {
        let mutex = |filter| InterProcessMutex::new(curator, path)?.with_filter(filter);
        let (kind, detail) = kind.split_once(':').unwrap_or((kind, ""));
        Ok(match kind {
            "mutex" => Self::Mutex(InterProcessMutex::new(curator, path)?),
            "kazoo" => Self::Mutex(mutex(ContenderFilter::Kazoo)?),
            "inclusive" => Self::Mutex(mutex(ContenderFilter::Inclusive)?),
            "semaphore-mutex" => {
                Self::Other(Box::new(InterProcessSemaphoreMutex::new(curator, path)?))
            }
            "read" => Self::Other(Box::new(InterProcessReadWriteLock::new(curator, path)?.read())),
            "write" => Self::Write(InterProcessReadWriteLock::new(curator, path)?.write()),
            "semaphore" => {
                Self::Semaphore(InterProcessSemaphore::new(curator, path, detail.parse()?)?)
            }
            "multi" => {
                let paths = path.split(',');
                Self::Other(Box::new(InterProcessMultiLock::from_paths(curator, paths)?))
            }
            _ if kind.starts_with("latch") || kind.starts_with("selector") => {
                Self::Leader(Leading::new(curator, kind, detail, path)?)
            }
            _ => return Err(format!("unknown kind: {kind}").into()),
        })
    }

    pub(crate) async fn acquire(
        &self,
        limit: Option<Duration>,
        count: usize,
    ) -> Result<Option<Guard>> {
        Ok(match (self, limit) {
            (Self::Mutex(lock), _) => acquire(lock, limit).await?,
            (Self::Other(lock), _) => acquire(&**lock, limit).await?,
            (Self::Leader(leading), _) => leading.acquire(limit).await?.map(Guard::Term),
            (Self::Write(lock), Some(limit)) => {
                lock.acquire_timeout(limit).await?.map(Guard::Write)
            }
            (Self::Write(lock), None) => Some(Guard::Write(lock.acquire().await?)),
            (Self::Semaphore(lock), Some(limit)) => {
                lock.acquire_many_timeout(count, limit).await?.map(Guard::Leases)
            }
            (Self::Semaphore(lock), None) => Some(Guard::Leases(lock.acquire_many(count).await?)),
        })
    }

    /// Nothing where nobody leads.
    pub(crate) async fn leader(&self) -> Result<String> {
        match self {
            Self::Leader(leading) => leading.leader().await,
            _ => Err("not of leaders".into()),
        }
    }

    /// Paths of nodes; of leaders: their ids.
    pub(crate) async fn participants(&self) -> Result<Vec<String>> {
        let participants = match self {
            Self::Mutex(lock) => lock.participants().await?,
            Self::Write(lock) => lock.participants().await?,
            Self::Leader(leading) => return leading.participants().await,
            _ => return Err("it is not asked for its participants".into()),
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

    /// It is asked to let go: what Curator asks of a mutex.
    pub(crate) fn requested(&self) -> BoxFuture<'static, Result<()>> {
        let Self::Other(guard) = self else {
            return Box::pin(async { Err("not a mutex".into()) });
        };
        let requested = guard.revocation_requested();
        Box::pin(async move { requested.await.map_err(|loss| loss.to_string().into()) })
    }

    /// Another of the same hold, to read beside it.
    pub(crate) fn writes(&self) -> Option<WriteGuard> {
        match self {
            Self::Write(guard) => Some(guard.reenter()),
            _ => None,
        }
    }

    pub(crate) async fn release(self) -> Result<()> {
        match self {
            Self::Other(guard) => drop(guard.release().await?),
            Self::Write(guard) => drop(guard.release().await?),
            Self::Leases(leases) => leases.release().await?,
            Self::Term(term) => term.release().await?,
        }
        Ok(())
    }
}
