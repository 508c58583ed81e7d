//! A contender of any recipe, behind one type.

use std::ops::Deref;

use tokio::sync::mpsc;

use crate::prelude::*;

/// A recipe at a path.
#[derive(Clone, Debug)]
pub(crate) enum Contender {
    Lock(Arc<dyn Lock>),
    Multi(InterProcessMultiLock),
    /// Leading is holding, and each acquire is a candidate of its own.
    Latch(Curator, String),
    Selector(Curator, String),
}

/// What a contender holds. It derefs to the hold, or to that of the first member.
#[derive(Debug)]
pub(crate) enum Held {
    Lock(Guard),
    Multi(Guards),
    Latch(Hold, LeaderLatch),
    Selector(Hold, LeaderRun<()>),
}

impl Contender {
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::Lock(lock) => lock.path(),
            Self::Multi(multi) => multi.path(),
            Self::Latch(_, path) | Self::Selector(_, path) => path,
        }
    }

    pub(crate) async fn acquire(&self) -> Result<Held, Error> {
        match self {
            Self::Lock(lock) => lock.acquire().await.map(Held::Lock),
            Self::Multi(multi) => multi.acquire().await.map(Held::Multi),
            Self::Latch(curator, path) => {
                let latch = curator.leader_latch(path)?;
                latch.leadership().await.map(|hold| Held::Latch(hold, latch))
            }
            Self::Selector(curator, path) => {
                let (begins, mut began) = mpsc::unbounded_channel();
                let run = curator.leader_selector(path)?.run(move |term: Hold| {
                    let stop = term.cancellation_token();
                    begins.send(term).unwrap();
                    stop.cancelled_owned()
                });
                tokio::select! {
                    Some(hold) = began.recv() => Ok(Held::Selector(hold, run)),
                    ended = run.next_report() => Err(ended.expect("a report").unwrap_err().error),
                }
            }
        }
    }

    /// An election has none.
    pub(crate) async fn try_acquire(&self) -> Result<Held, Error> {
        match self {
            Self::Lock(lock) => lock.try_acquire().await.map(Held::Lock),
            Self::Multi(multi) => multi.try_acquire().await.map(Held::Multi),
            election => unimplemented!("{election:?}"),
        }
    }

    /// The candidate of an election must be answered in time.
    pub(crate) async fn acquire_timeout(&self, limit: Duration) -> Result<Held, Error> {
        match self {
            Self::Lock(lock) => lock.acquire_timeout(limit).await.map(Held::Lock),
            Self::Multi(multi) => multi.acquire_timeout(limit).await.map(Held::Multi),
            election => timeout(limit, election.acquire()).await.expect("an answer in time"),
        }
    }
}

impl Held {
    pub(crate) async fn release(self) -> Result<Released, Error> {
        match self {
            Self::Lock(guard) => guard.release().await,
            Self::Multi(guards) => guards.release().await,
            Self::Latch(_, latch) => latch.close().await,
            Self::Selector(_, run) => run.close().await,
        }
    }
}

impl Deref for Held {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        match self {
            Self::Lock(guard) => guard,
            Self::Multi(guards) => guards.iter().next().unwrap(),
            Self::Latch(hold, _) | Self::Selector(hold, _) => hold,
        }
    }
}

/// Makes a contender of a recipe at a path.
pub(crate) type Make = fn(&Curator, &str) -> Contender;

pub(crate) fn mutex(curator: &Curator, path: &str) -> Contender {
    Contender::Lock(curator.mutex(path).unwrap().into())
}

pub(crate) fn read(curator: &Curator, path: &str) -> Contender {
    Contender::Lock(curator.read_write_lock(path).unwrap().read_half())
}

pub(crate) fn write(curator: &Curator, path: &str) -> Contender {
    Contender::Lock(curator.read_write_lock(path).unwrap().write_half())
}

pub(crate) fn semaphore(curator: &Curator, path: &str) -> Contender {
    Contender::Lock(curator.semaphore(path, 1).unwrap().into())
}

pub(crate) fn multi(curator: &Curator, path: &str) -> Contender {
    let members = ["one", "other"].map(|name| format!("{path}/{name}"));
    Contender::Multi(curator.multi_lock(members).unwrap())
}

pub(crate) fn latch(curator: &Curator, path: &str) -> Contender {
    Contender::Latch(curator.clone(), path.to_owned())
}

pub(crate) fn selector(curator: &Curator, path: &str) -> Contender {
    Contender::Selector(curator.clone(), path.to_owned())
}
