//! Taking a lock in all the ways there are, working under it, releasing it in all the ways there are.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::timeout;
use tools::Result;
use zookeeper_recipes::{Curator, Error, Guard, Hold, Lock};

use crate::candidate::{Candidate, outcome};
use crate::hold::{self, Held, Plan};
use crate::log::{Log, Mode, Name, What};
use crate::settings::{Sabotage, WorkerSettings};

/// More than any run takes.
pub(crate) const LONG: Duration = Duration::from_secs(3600);

pub(crate) struct Hand<'a> {
    pub(crate) settings: &'a WorkerSettings,
    pub(crate) log: &'a Log,
    pub(crate) curator: &'a Curator,
    pub(crate) rng: Rng,
}

impl Hand<'_> {
    pub(crate) fn plan(&mut self) -> Plan {
        let plan = hold::plan(&mut self.rng, self.settings.timeout);
        match self.settings.run.sabotage {
            Sabotage::IgnoresLease => Plan { steps: self.rng.u32(100..200), counts: 1, ..plan },
            _ => plan,
        }
    }

    /// The lock once, if it can be had.
    pub(crate) async fn turn(&mut self, lock: &dyn Lock, mode: Mode) -> Result<()> {
        let plan = self.plan();
        if self.settings.run.sabotage != Sabotage::IgnoresLease && self.rng.u8(..100) < 20 {
            return self.with(lock, mode, plan).await;
        }
        if let Some(guard) = self.acquire(lock).await? {
            self.work(&guard, mode, &plan).await?;
            self.let_go(guard, mode, &plan).await?;
        }
        Ok(())
    }

    async fn acquire(&mut self, lock: &dyn Lock) -> Result<Option<Guard>> {
        let limit = self.limit();
        let how = self.rng.u8(..100);
        self.log.now(What::Asks { how: way(how).to_owned() })?;
        self.answered(match how {
            ..75 => lock.acquire().await.map(Some),
            75..85 => acquired(lock.acquire_timeout(limit).await),
            85..93 => acquired(lock.try_acquire().await),
            _ => dropped(limit, lock.acquire()).await,
        })
    }

    pub(crate) fn limit(&mut self) -> Duration {
        Duration::from_millis(self.rng.u64(..2500))
    }

    pub(crate) fn answered<G>(&self, answer: Result<Option<G>, Error>) -> Result<Option<G>> {
        match &answer {
            Ok(Some(_)) => {}
            Ok(None) => self.log.now(What::GaveUp { why: "busy".to_owned() })?,
            Err(error) => self.log.now(What::GaveUp { why: error.to_string() })?,
        }
        Ok(answer.unwrap_or(None))
    }

    /// Sometimes dropped on its way.
    async fn with(&mut self, lock: &dyn Lock, mode: Mode, mut plan: Plan) -> Result<()> {
        let short = self.rng.u8(..4) == 0;
        let limit = if short { Duration::from_millis(self.rng.u64(..1500)) } else { LONG };
        if short && self.settings.run.retains {
            // The next hold can have the same token, and the store cannot tell a late write of this one from its own.
            plan.counts = 0;
        }
        self.log.now(What::Asks { how: "with".to_owned() })?;
        let with = lock.with(async |hold| self.work(&hold, mode, &plan).await);
        let why = match timeout(limit, with).await {
            Err(_) => "dropped".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Ok(Ok(result)) => return result.map(|_| ()),
        };
        Ok(self.log.now(What::GaveUp { why })?)
    }

    /// Says whether it still held at the end.
    pub(crate) async fn work(&self, hold: &Hold, mode: Mode, plan: &Plan) -> Result<bool> {
        self.held(hold, mode, None).run(plan).await
    }

    pub(crate) fn held<'a>(
        &'a self,
        hold: &'a Hold,
        mode: Mode,
        candidate: Option<&'a Candidate>,
    ) -> Held<'a> {
        let ignores_lease = self.settings.run.sabotage == Sabotage::IgnoresLease;
        let is_mixed = !self.settings.run.peers.is_empty();
        let (curator, log, store) = (self.curator, self.log, self.settings.store);
        Held { hold, mode, candidate, ignores_lease, is_mixed, curator, log, store }
    }

    pub(crate) async fn let_go(&self, guard: Guard, mode: Mode, plan: &Plan) -> Result<()> {
        let hold = Name(mode, guard.fencing_token().value());
        self.leave(hold, guard, plan, async |guard| outcome(guard.release()).await).await
    }

    pub(crate) async fn leave<G: Send + 'static>(
        &self,
        hold: Name,
        guard: G,
        plan: &Plan,
        release: impl AsyncFnOnce(G) -> String,
    ) -> Result<()> {
        let outcome = match plan.leave {
            0..6 => release(guard).await,
            6 => {
                drop(release(guard));
                "release dropped".to_owned()
            }
            7 => {
                let _ = timeout(Duration::ZERO, release(guard)).await;
                "release dropped after a poll".to_owned()
            }
            8 => {
                std::thread::spawn(move || drop(guard));
                "guard dropped outside the runtime".to_owned()
            }
            _ => {
                drop(guard);
                "guard dropped".to_owned()
            }
        };
        self.released(hold, outcome)
    }

    pub(crate) fn released(&self, hold: Name, outcome: String) -> Result<()> {
        Ok(self.log.now(What::Released { hold, outcome })?)
    }
}

/// What becomes of a number below a hundred.
pub(crate) fn way(how: u8) -> &'static str {
    match how {
        ..75 => "acquire",
        75..85 => "acquire_timeout",
        85..93 => "try_acquire",
        _ => "acquire, dropped",
    }
}

/// Waits no longer than the limit, by dropping the future.
pub(crate) async fn dropped<G>(
    limit: Duration,
    acquiring: impl Future<Output = Result<G, Error>>,
) -> Result<Option<G>, Error> {
    timeout(limit, acquiring).await.map_or(Ok(None), |answer| answer.map(Some))
}

/// The guard; `None` if the lock is busy.
pub(crate) fn acquired<G>(answer: Result<G, Error>) -> Result<Option<G>, Error> {
    match answer {
        Err(error) if error.is_busy() => Ok(None),
        answer => answer.map(Some),
    }
}
