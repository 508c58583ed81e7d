//! What a worker that wants to lead does in its turn.

use std::time::Duration;

use tokio::time::sleep;

use crate::Result;
use crate::candidate::{Candidate, Led, Manner, Wait};
use crate::guards::Guard;
use crate::hand::Hand;
use crate::hold::Plan;
use crate::log::{Mode, Name, What};
use crate::settings::{Candidates, Sabotage};

impl Hand<'_> {
    /// A new candidate, for some terms.
    pub(crate) async fn lead(&mut self, kind: Candidates) -> Result<()> {
        let manner = Manner {
            suspended_is_lost: self.rng.u8(..3) == 0,
            tells_its_watches: self.rng.bool(),
            requeues: self.rng.bool(),
        };
        let mut candidate = Candidate::start(kind, self.curator, manner)?;
        let mut tried = None;
        for _ in 0..self.rng.u8(1..4) {
            let wait = self.way_to_wait();
            self.log.now(What::Asks { how: format!("{wait:?}") })?;
            let term = match candidate.wait(wait).await {
                Ok(term) => term,
                Err(why) => {
                    self.log.now(What::GaveUp { why })?;
                    break;
                }
            };
            let led = Led::new(candidate, term);
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
                true => return self.let_go(led, Mode::Leader, &plan).await,
                false => candidate = self.goes_on(led, leads).await?,
            }
        }
        self.resign(candidate).await
    }

    fn way_to_wait(&mut self) -> Wait {
        let limit = self.limit();
        match self.rng.u8(..100) {
            ..60 => Wait::Await,
            60..75 => Wait::Watch,
            75..90 => Wait::Timeout(limit),
            _ => Wait::Dropped(limit),
        }
    }

    /// Works to the end of the plan, or of the term, or until it is asked to step down. Says whether it leads then.
    async fn term(&mut self, led: &Led, plan: &Plan) -> Result<bool> {
        let asked = led.leadership.cancellation_token();
        let honest = self.settings.sabotage == Sabotage::None;
        let heeds = honest && self.rng.u8(..3) > 0;
        let disturbed = honest && self.rng.u8(..4) == 0;
        let (interrupt, moment) = (self.rng.bool(), Duration::from_millis(self.rng.u64(..400)));
        let disturb = async {
            if disturbed {
                sleep(moment).await;
                led.candidate.disturb(interrupt).await;
            }
        };
        let work = async {
            tokio::select! {
                leads = self.work(led, Mode::Leader, plan) => leads,
                () = asked.cancelled(), if heeds => Ok(led.is_held()),
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
