//! Candidates for the leadership, latches and runs of a selector, by what they have in common; and what a worker that wants to lead does in its turn.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tools::Result;
use zookeeper_recipes::interop::LossPolicy;
use zookeeper_recipes::leader::{LeaderLatch, LeaderRun, LeaderSelector};
use zookeeper_recipes::{Curator, Error, ErrorKind, Fenced, Hold};

use crate::guards::{Held, Holding, node_of, outcome};
use crate::hand::Hand;
use crate::hold::{GIVEN_UP, Plan};
use crate::log::{Mode, Name, Node, What};
use crate::settings::{Candidates, LOCK, Sabotage};

/// Of a body that does not end when it is asked to: shorter than many terms.
const GRACE: Duration = Duration::from_millis(400);

pub(crate) enum Candidate {
    Latch(LeaderLatch),
    Run(Run),
}

/// The body of each term tells that it began, and ends when it is told.
pub(crate) struct Run {
    run: LeaderRun<()>,
    begun: mpsc::UnboundedReceiver<Term>,
    requeues: bool,
}

struct Term {
    leadership: Hold,
    end: End,
}

/// Ends the body: with a value, by a panic, and if it is dropped as well.
type End = oneshot::Sender<bool>;

/// One that leads, or did.
pub(crate) struct Led {
    pub(crate) candidate: Candidate,
    pub(crate) leadership: Hold,
    end: Option<End>,
}

/// How a candidate is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// Each disturbance ends the term, and the same node leads again.
    pub(crate) suspended_is_lost: bool,
    pub(crate) requeues: bool,
}

/// How it waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    Await,
    Timeout(Duration),
    Dropped(Duration),
}

impl Candidate {
    /// It has entered when this returns.
    pub(crate) fn start(kind: Candidates, curator: &Curator, manner: Manner) -> Result<Self> {
        let policy = match manner.suspended_is_lost {
            true => LossPolicy::Suspended,
            false => LossPolicy::Lease,
        };
        let curator = curator.with_loss_policy(policy);
        Ok(match kind {
            Candidates::Latches => Self::Latch(curator.leader_latch(LOCK)?),
            Candidates::Selectors => {
                let selector = curator.leader_selector(LOCK)?.with_grace(GRACE);
                let requeues = manner.requeues;
                Self::Run(run(&if requeues { selector.auto_requeue() } else { selector }, requeues))
            }
        })
    }

    /// None if it does not come to lead; and why.
    pub(crate) async fn wait(&mut self, wait: Wait) -> Result<(Hold, Option<End>), String> {
        match self {
            Self::Latch(latch) => {
                let waited = wait_for(latch, wait).await.map_err(|error| error.to_string())?;
                Ok((waited.ok_or("busy")?, None))
            }
            Self::Run(run) => {
                let term = match wait {
                    Wait::Await => run.term().await?,
                    Wait::Timeout(limit) | Wait::Dropped(limit) => {
                        timeout(limit, run.term()).await.map_err(|_| "busy")??
                    }
                };
                Ok((term.leadership, Some(term.end)))
            }
        }
    }

    fn is_leader(&self) -> bool {
        match self {
            Self::Latch(latch) => latch.is_leader(),
            Self::Run(run) => run.run.is_leader(),
        }
    }

    pub(crate) async fn close(&self) -> String {
        match self {
            Self::Latch(latch) => outcome(latch.close()).await,
            Self::Run(run) => outcome(run.run.close()).await,
        }
    }

    /// From elsewhere, while it leads: it is closed, or told to end its term.
    pub(crate) async fn disturb(&self, interrupt: bool) {
        match self {
            Self::Run(run) if interrupt => _ = run.run.step_down(),
            _ => _ = self.close().await,
        }
    }
}

async fn wait_for(latch: &LeaderLatch, wait: Wait) -> Result<Option<Hold>, Error> {
    match wait {
        Wait::Await => latch.leadership().await.map(Some),
        Wait::Timeout(limit) | Wait::Dropped(limit) => {
            timeout(limit, latch.leadership()).await.ok().transpose()
        }
    }
}

fn run(selector: &LeaderSelector, requeues: bool) -> Run {
    let (begins, begun) = mpsc::unbounded_channel();
    let run = selector.run(move |leadership| {
        let (end, ended) = oneshot::channel();
        let _ = begins.send(Term { leadership, end });
        async move {
            // It does not listen to its token: the worker does, mostly.
            if ended.await.unwrap_or(false) {
                std::panic::resume_unwind(Box::new("a body that panics"));
            }
        }
    });
    Run { run, begun, requeues }
}

impl Run {
    async fn term(&mut self) -> Result<Term, String> {
        loop {
            tokio::select! {
                biased;
                Some(term) = self.begun.recv() => return Ok(term),
                report = self.run.next() => match report {
                    None => return Err("closed".to_owned()),
                    // Of the term before.
                    Some(Ok(())) => {}
                    Some(Err(ended)) => {
                        let of_a_term =
                            [ErrorKind::Lost, ErrorKind::BodyPanicked, ErrorKind::BodyDropped];
                        if !of_a_term.contains(&ended.error.kind()) {
                            return Err(ended.to_string());
                        }
                    }
                },
            }
        }
    }
}

impl Led {
    pub(crate) fn new(candidate: Candidate, (leadership, end): (Hold, Option<End>)) -> Self {
        Self { candidate, leadership, end }
    }

    /// Not led any more, or a body that ends: it goes on as a candidate. Says how the term ended. A latch only gives up
    /// its place with itself.
    pub(crate) async fn ends(mut self, panics: bool) -> (Candidate, String) {
        let mut outcome = "lost".to_owned();
        if let Candidate::Run(run) = &self.candidate {
            _ = self.end.take().map(|end| end.send(panics));
            outcome = match run.run.next().await {
                Some(Ok(())) => "the body has ended".to_owned(),
                Some(Err(error)) => error.to_string(),
                None => "closed".to_owned(),
            };
            if !run.requeues {
                // Closed, perhaps: who waits for the next term is told.
                let _ = run.run.requeue();
            }
        }
        (self.candidate, outcome)
    }
}

impl Holding for Led {
    fn nodes(&self) -> Vec<Node> {
        vec![node_of(&self.leadership)]
    }

    /// What everybody would ask; and whether that is of this term.
    fn is_held(&self) -> bool {
        self.candidate.is_leader() && self.leadership.is_held()
    }

    fn why(&self) -> String {
        self.leadership.loss().map_or_else(|| GIVEN_UP.to_owned(), |loss| format!("{loss:?}"))
    }

    async fn lost(&self) {
        // Also when it is given up from elsewhere, and not when it is only asked to step down.
        self.leadership.cancellation_token().cancelled().await;
        while self.leadership.is_held() {
            sleep(Duration::from_millis(1)).await;
        }
    }

    fn fenced(&self) -> Option<Fenced> {
        Some(self.leadership.fenced())
    }
}

impl Held for Led {
    async fn release(self) -> String {
        let Self { candidate, end, .. } = self;
        drop(end);
        candidate.close().await
    }
}

impl Hand<'_> {
    /// A new candidate, for some terms.
    pub(crate) async fn lead(&mut self, kind: Candidates) -> Result<()> {
        let manner = Manner { suspended_is_lost: self.rng.u8(..3) == 0, requeues: self.rng.bool() };
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
            60..80 => Wait::Timeout(limit),
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
