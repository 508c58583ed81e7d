//! Our recipes and their guards, as the commands see them: one type, whichever it is.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use zookeeper_recipes::interop::{ContenderFilter, SharedCount};
use zookeeper_recipes::{
    Curator, Guard as One, Guards, Hold, InterProcessMultiLock, InterProcessMutex,
    InterProcessReadWriteLock, InterProcessSemaphoreV2, WriteGuard,
};

use crate::support::commands::Nanos;
use crate::support::our_leaders::{Leading, Term};

pub(crate) type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// How long an idle node is kept.
const RETENTION: Duration = Duration::from_secs(600);

pub(crate) enum Lock {
    Mutex(InterProcessMutex),
    Read(InterProcessReadWriteLock),
    Write(InterProcessReadWriteLock),
    Semaphore(InterProcessSemaphoreV2),
    Multi(InterProcessMultiLock),
    Leader(Leading),
}

pub(crate) enum Guard {
    One(One),
    Write(WriteGuard),
    Many(Guards),
    Term(Term),
}

pub(crate) fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Within `$limit`, or however long it takes.
macro_rules! asked {
    ($limit:ident, $lock:ident.$acquire:ident, $within:ident($($count:ident)?), $guard:ident) => {
        match $limit {
            Some(limit) => match $lock.$within($($count,)? limit).await {
                Err(error) if error.is_busy() => None,
                answer => Some(Guard::$guard(answer?)),
            },
            None => Some(Guard::$guard($lock.$acquire($($count)?).await?)),
        }
    };
}

impl Lock {
    pub(crate) fn new(curator: &Curator, kind: &str, path: &str) -> Result<Self> {
        let mutex = |filter| curator.mutex(path)?.with_filter(filter);
        let (kind, detail) = kind.split_once(':').unwrap_or((kind, ""));
        Ok(match kind {
            "mutex" => Self::Mutex(curator.mutex(path)?),
            "kazoo" => Self::Mutex(mutex(ContenderFilter::Kazoo)?),
            "inclusive" => Self::Mutex(mutex(ContenderFilter::Inclusive)?),
            "retained" => Self::Mutex(curator.mutex(path)?.with_retention(RETENTION)),
            "read" => Self::Read(curator.read_write_lock(path)?),
            "write" => Self::Write(curator.read_write_lock(path)?),
            "retained-read" => Self::Read(curator.read_write_lock(path)?.with_retention(RETENTION)),
            "retained-write" => {
                Self::Write(curator.read_write_lock(path)?.with_retention(RETENTION))
            }
            "semaphore" => Self::Semaphore(curator.semaphore(path, detail.parse()?)?),
            "retained-semaphore" => {
                let semaphore = curator.semaphore(path, detail.parse()?)?;
                Self::Semaphore(semaphore.with_retention(RETENTION))
            }
            "multi" => Self::Multi(curator.multi_lock(path.split(','))?),
            _ if kind.starts_with("latch") || kind.starts_with("selector") => {
                Self::Leader(Leading::new(curator, kind, detail, path)?)
            }
            _ => return Err(format!("unknown kind: {kind}").into()),
        })
    }

    pub(crate) fn counted(curator: &Curator, path: &str, limit: &SharedCount) -> Result<Self> {
        let semaphore = InterProcessSemaphoreV2::with_shared_count(curator, path, limit)?;
        Ok(Self::Semaphore(semaphore))
    }

    pub(crate) async fn acquire(
        &self,
        limit: Option<Duration>,
        count: usize,
    ) -> Result<Option<Guard>> {
        Ok(match self {
            Self::Mutex(lock) => asked!(limit, lock.acquire, acquire_timeout(), One),
            Self::Read(lock) => asked!(limit, lock.read, read_timeout(), One),
            Self::Write(lock) => asked!(limit, lock.write, write_timeout(), Write),
            Self::Semaphore(lock) => {
                asked!(limit, lock.acquire_many, acquire_many_timeout(count), Many)
            }
            Self::Multi(lock) => asked!(limit, lock.acquire, acquire_timeout(), Many),
            Self::Leader(leading) => leading.acquire(limit).await?.map(Guard::Term),
        })
    }

    /// Empty where there is no leader.
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
        Ok(participants.into_iter().map(|one| one.node).collect())
    }
}

impl Guard {
    pub(crate) fn is_held(&self) -> bool {
        match self {
            Self::One(guard) => guard.is_held(),
            Self::Write(guard) => guard.is_held(),
            Self::Many(guards) => guards.is_held(),
            Self::Term(term) => term.is_held(),
        }
    }

    /// The first stands for all.
    pub(crate) fn hold(&self) -> Hold {
        match self {
            Self::One(guard) => guard.view(),
            Self::Write(guard) => guard.view(),
            Self::Many(guards) => guards.iter().next().expect("one at least").view(),
            Self::Term(term) => term.hold(),
        }
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
            Self::One(guard) => _ = guard.release().await?,
            Self::Write(guard) => _ = guard.release().await?,
            Self::Many(guards) => _ = guards.release().await?,
            Self::Term(term) => term.release().await?,
        }
        Ok(())
    }
}
