//! What a worker of each recipe does in its turn.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{sleep, timeout};
use tools::Result;
use zookeeper_recipes::{
    Curator, Guard, Guards, InterProcessReadWriteLock, InterProcessSemaphoreV2, Lock, WriteGuard,
};

use crate::candidate::{Candidate, Led, Manner};
use crate::hand::{Hand, LONG, acquired, dropped, way};
use crate::hold::Plan;
use crate::log::{Mode, Name, What};
use crate::settings::{Candidates, LIMIT, LOCK, Recipe, Sabotage, Settings};

/// Longer than most pauses of a worker that retains.
const RETENTION: Duration = Duration::from_secs(5);

pub(crate) enum Locks {
    Mutex(Arc<dyn Lock>),
    ReadWrite(Box<InterProcessReadWriteLock>),
    Semaphore(Arc<InterProcessSemaphoreV2>),
    Leader(Candidates),
}

impl Locks {
    pub(crate) fn new(settings: &Settings, curator: &Curator) -> Result<Self> {
        let retention = if settings.retains { RETENTION } else { Duration::ZERO };
        Ok(match settings.recipe {
            Recipe::Mutex => Self::Mutex(curator.mutex(LOCK)?.with_retention(retention).into()),
            Recipe::Rw => {
                let lock = curator.read_write_lock(LOCK)?.with_retention(retention);
                Self::ReadWrite(Box::new(lock))
            }
            Recipe::Semaphore => {
                let semaphore = curator.semaphore(LOCK, LIMIT)?.with_retention(retention);
                Self::Semaphore(Arc::new(semaphore))
            }
            Recipe::Leader => Self::Leader(Candidates::of(settings.seed)),
        })
    }

    pub(crate) async fn turn(&self, hand: &mut Hand<'_>) -> Result<()> {
        match self {
            Self::Mutex(mutex) => hand.turn(&**mutex, Mode::Lock).await,
            Self::ReadWrite(lock) => match hand.rng.u8(..10) {
                0..5 => hand.turn(&*lock.read_half(), Mode::Read).await,
                5..7 if hand.settings.run.sabotage == Sabotage::None => {
                    hand.write_and_read(lock).await
                }
                _ if hand.settings.run.sabotage == Sabotage::WritesAsReader => {
                    hand.turn(&*lock.read_half(), Mode::Write).await
                }
                _ => hand.turn(&*lock.write_half(), Mode::Write).await,
            },
            Self::Leader(kind) => hand.lead(*kind).await,
            Self::Semaphore(semaphore) => match hand.rng.usize(..10) {
                0..5 => hand.turn(&**semaphore, Mode::Lease).await,
                several => hand.several(semaphore, 1 + several % LIMIT).await,
            },
        }
    }
}

impl Hand<'_> {
    async fn write_and_read(&mut self, lock: &InterProcessReadWriteLock) -> Result<()> {
        self.log.now(What::Asks { how: "write".to_owned() })?;
        let written = lock.write().await.map(Some);
        let Some(guard) = self.answered(written)? else { return Ok(()) };
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
                self.reads_beside(read, &reads).await
            }
        }
    }

    async fn reads_beside(&self, read: Guard, plan: &Plan) -> Result<()> {
        self.work(&read, Mode::Beside, plan).await?;
        self.let_go(read, Mode::Beside, plan).await
    }

    /// Either may end first.
    async fn read_beside(&mut self, guard: WriteGuard) -> Result<()> {
        let (writes, reads) = (self.plan(), self.plan());
        let read = self.answered(guard.read().await.map(Some))?;
        let write = async {
            self.work(&guard, Mode::Write, &writes).await?;
            self.let_go(guard.into(), Mode::Write, &writes).await
        };
        let read = async {
            match read {
                Some(read) => self.reads_beside(read, &reads).await,
                None => Ok(()),
            }
        };
        tokio::try_join!(write, read).map(|_| ())
    }

    async fn several(&mut self, semaphore: &InterProcessSemaphoreV2, count: usize) -> Result<()> {
        let limit = self.limit();
        let how = self.rng.u8(..100);
        self.log.now(What::Asks { how: format!("{count}: {}", way(how)) })?;
        let leases = self.answered(match how {
            ..75 => semaphore.acquire_many(count).await.map(Some),
            75..85 => acquired(semaphore.acquire_many_timeout(count, limit).await),
            85..93 => acquired(semaphore.try_acquire_many(count).await),
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

    /// A new candidate, for some terms.
    pub(crate) async fn lead(&mut self, kind: Candidates) -> Result<()> {
        let manner = Manner { suspended_is_lost: self.rng.u8(..3) == 0, requeues: self.rng.bool() };
        let mut candidate = Candidate::start(kind, self.curator, manner)?;
        let mut tried = None;
        for _ in 0..self.rng.u8(1..4) {
            let limit = if self.rng.u8(..100) < 60 { LONG } else { self.limit() };
            self.log.now(What::Asks { how: format!("lead, within {limit:?}") })?;
            let led = match candidate.leads(limit).await {
                Ok(led) => led,
                Err((candidate, why)) => {
                    self.log.now(What::GaveUp { why })?;
                    return self.resign(candidate).await;
                }
            };
            let mut plan = self.plan();
            let token = Some(led.leadership.fencing_token());
            if tried == token {
                // In an earlier term of this node it may have sent a write whose outcome it does not know. That can still
                // come, and fences do not keep it out: it is of the same node.
                plan.counts = 0;
            } else if plan.counts > 0 {
                tried = token;
            }
            let leads = self.term(&led, &plan).await?;
            match leads && (kind == Candidates::Latches || self.rng.bool()) {
                true => {
                    let hold = Name(Mode::Leader, led.leadership.fencing_token().value());
                    return self.leave(hold, led, &plan, Led::release).await;
                }
                false => candidate = self.goes_on(led, leads).await?,
            }
        }
        self.resign(candidate).await
    }

    /// Works to the end of the plan, or of the term, or until it is asked to step down. Says whether it leads then.
    async fn term(&mut self, led: &Led, plan: &Plan) -> Result<bool> {
        let asked = led.leadership.cancellation_token();
        let honest = self.settings.run.sabotage == Sabotage::None;
        let heeds = honest && self.rng.u8(..3) > 0;
        let disturbed = honest && self.rng.u8(..4) == 0;
        let (interrupt, moment) = (self.rng.bool(), Duration::from_millis(self.rng.u64(..400)));
        let disturb = async {
            if disturbed {
                sleep(moment).await;
                led.candidate.disturb(interrupt).await;
            }
        };
        let held = self.held(&led.leadership, Mode::Leader, Some(&led.candidate));
        let work = async {
            tokio::select! {
                leads = held.run(plan) => leads,
                () = asked.cancelled(), if heeds => Ok(held.is_held()),
            }
        };
        let mut work = std::pin::pin!(work);
        tokio::select! {
            leads = &mut work => leads,
            () = disturb => work.await,
        }
    }

    /// After a term that was lost, or that its body ends.
    async fn goes_on(&mut self, led: Led, leads: bool) -> Result<Candidate> {
        let hold = Name(Mode::Leader, led.leadership.fencing_token().value());
        let panics = self.rng.u8(..10) == 0;
        let (candidate, outcome) = led.ends(panics).await;
        if leads {
            self.released(hold, outcome)?;
        }
        Ok(candidate)
    }

    /// While it does not lead; it may come to, at this moment.
    async fn resign(&mut self, candidate: Candidate) -> Result<()> {
        if self.rng.bool() {
            drop(candidate);
            return Ok(());
        }
        let why = candidate.close().await;
        Ok(self.log.now(What::GaveUp { why })?)
    }
}
