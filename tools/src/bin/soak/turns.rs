//! What a worker of each recipe does in its turn.

use futures_util::future::join_all;
use tokio::time::timeout;
use tools::Result;
use zookeeper_recipes::{
    Curator, Guard, Guards, InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphore, WriteGuard,
};

use crate::guards::{Reading, Writing, acquired};
use crate::hand::{Hand, LONG, dropped, way};
use crate::log::{Mode, Name, What};
use crate::settings::{Candidates, LIMIT, LOCK, LOCKS, Recipe, Sabotage, WorkerSettings};

pub(crate) enum Locks {
    Mutex(InterProcessMutex),
    ReadWrite(InterProcessReadWriteLock),
    Semaphore(InterProcessSemaphore),
    /// All of the locks, two of them, and each by itself.
    Multi {
        several: Vec<InterProcessMultiLock>,
        single: Vec<InterProcessMutex>,
    },
    Leader(Candidates),
}

impl Locks {
    pub(crate) fn new(settings: &WorkerSettings, curator: &Curator) -> Result<Self> {
        Ok(match settings.recipe {
            Recipe::Mutex => Self::Mutex(curator.mutex(LOCK)?),
            Recipe::ReadWrite => Self::ReadWrite(curator.read_write_lock(LOCK)?),
            Recipe::Semaphore => Self::Semaphore(curator.semaphore(LOCK, LIMIT)?),
            Recipe::Multi => {
                let [a, b, c] = LOCKS;
                let several = [vec![c, a, b], vec![b, a], vec![c, b], vec![c, a]];
                let sorted = |locks: Vec<&str>| Ok(curator.multi_lock(locks)?);
                let single = |lock| Ok(curator.mutex(lock)?);
                Self::Multi {
                    several: several.into_iter().map(sorted).collect::<Result<_>>()?,
                    single: LOCKS.into_iter().map(single).collect::<Result<_>>()?,
                }
            }
            Recipe::Leader => Self::Leader(Candidates::of(settings.seed)),
        })
    }

    pub(crate) async fn turn(&self, hand: &mut Hand<'_>) -> Result<()> {
        match self {
            Self::Mutex(mutex) => hand.turn(mutex, Mode::Lock).await,
            Self::ReadWrite(lock) => match hand.rng.u8(..10) {
                0..5 => hand.turn(&Reading(lock), Mode::Read).await,
                5..7 if hand.settings.sabotage == Sabotage::None => hand.write_and_read(lock).await,
                _ if hand.settings.sabotage == Sabotage::WritesAsReader => {
                    hand.turn(&Reading(lock), Mode::Write).await
                }
                _ => hand.turn(&Writing(lock), Mode::Write).await,
            },
            // Mostly all.
            Self::Multi { several, single } => match hand.rng.usize(..10) {
                one @ 0..3 => hand.turn(&single[one], Mode::Lock).await,
                two @ 3..6 => hand.turn(&several[two - 2], Mode::Multi).await,
                _ => hand.turn(&several[0], Mode::Multi).await,
            },
            Self::Leader(kind) => hand.lead(*kind).await,
            Self::Semaphore(semaphore) => match hand.rng.usize(..10) {
                0..5 => hand.turn(semaphore, Mode::Lease).await,
                several => hand.several(semaphore, 1 + several % LIMIT).await,
            },
        }
    }
}

impl Hand<'_> {
    async fn write_and_read(&mut self, lock: &InterProcessReadWriteLock) -> Result<()> {
        let Some(guard) = self.acquire(&Writing(lock)).await? else { return Ok(()) };
        if self.rng.bool() { self.downgrade(guard).await } else { self.read_beside(guard).await }
    }

    /// Sometimes dropped on its way.
    async fn downgrade(&mut self, guard: WriteGuard) -> Result<()> {
        let hold = Name(Mode::Write, guard.fencing_token().value());
        let (writes, reads) = (self.plan(), self.plan());
        self.work(&guard, Mode::Write, &writes).await?;
        let limit = if self.rng.u8(..5) == 0 { self.limit() / 50 } else { LONG };
        match timeout(limit, guard.downgrade()).await {
            Err(_) => self.released(hold, "down-grade dropped".to_owned()),
            Ok(Err(error)) => self.released(hold, error.to_string()),
            Ok(Ok(read)) => {
                self.released(hold, "down-graded".to_owned())?;
                self.work(&read, Mode::Beside, &reads).await?;
                self.let_go(read, Mode::Beside, &reads).await
            }
        }
    }

    /// Either may end first.
    async fn read_beside(&mut self, guard: WriteGuard) -> Result<()> {
        let (writes, reads) = (self.plan(), self.plan());
        let read = match guard.read().await {
            Ok(read) => Some(read),
            Err(error) => {
                self.log.now(What::GaveUp { why: error.to_string() })?;
                None
            }
        };
        let write = async {
            self.work(&guard, Mode::Write, &writes).await?;
            self.let_go(guard, Mode::Write, &writes).await
        };
        let read = async {
            let Some(read) = read else { return Ok(()) };
            self.work(&read, Mode::Beside, &reads).await?;
            self.let_go(read, Mode::Beside, &reads).await
        };
        tokio::try_join!(write, read).map(|_| ())
    }

    async fn several(&mut self, semaphore: &InterProcessSemaphore, count: usize) -> Result<()> {
        let limit = self.limit();
        let how = self.rng.u8(..100);
        self.log.now(What::Asks { how: format!("{count}: {}", way(how)) })?;
        let leases = self.answered(match how {
            ..75 => semaphore.acquire_many(count).await.map(Some),
            75..85 => semaphore.acquire_many_timeout(count, limit).await.map(acquired),
            85..93 => semaphore.try_acquire_many(count).await.map(acquired),
            _ => dropped(limit, semaphore.acquire_many(count)).await,
        })?;
        match leases {
            None => Ok(()),
            Some(leases) if self.rng.bool() => self.together(leases).await,
            Some(leases) => self.one_by_one(leases).await,
        }
    }

    async fn together(&mut self, leases: Guards) -> Result<()> {
        let plan = self.plan();
        let work = leases.iter().map(|lease| self.work(lease, Mode::Lease, &plan));
        join_all(work).await.into_iter().collect::<Result<Vec<_>>>()?;
        let of = |lease: &Guard| Name(Mode::Lease, lease.fencing_token().value());
        let holds: Vec<_> = leases.iter().map(of).collect();
        let outcome = match self.rng.u8(..4) {
            0 => {
                drop(leases);
                "leases dropped".to_owned()
            }
            1 => {
                drop(leases.release());
                "release of all dropped".to_owned()
            }
            _ => match leases.release().await {
                Ok(_) => "all released".to_owned(),
                Err(error) => error.to_string(),
            },
        };
        holds.into_iter().try_for_each(|hold| self.released(hold, outcome.clone()))
    }

    async fn one_by_one(&mut self, leases: Guards) -> Result<()> {
        let plans: Vec<_> = leases.iter().map(|_| self.plan()).collect();
        let work = leases.into_iter().zip(plans).map(async |(lease, plan)| {
            self.work(&lease, Mode::Lease, &plan).await?;
            self.let_go(lease, Mode::Lease, &plan).await
        });
        join_all(work).await.into_iter().collect()
    }
}
