//! Candidates for the leadership, latches and runs of a selector, by what they have in common; and what a worker that wants to lead does in its turn.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use zookeeper_recipes::{
    CloseMode, Curator, Fenced, LeaderError, LeaderLatch, LeaderRun, LeaderSelector, LeaderState,
    Leadership, Loss, LossPolicy, TermError,
};

use crate::Result;
use crate::guards::{Guard, outcome};
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
    leadership: Leadership,
    end: End,
}

/// Ends the body: with a value, by a panic, and if it is dropped as well.
type End = oneshot::Sender<bool>;

/// One that leads, or did.
pub(crate) struct Led {
    pub(crate) candidate: Candidate,
    pub(crate) leadership: Leadership,
    end: Option<End>,
}

/// How a candidate is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// Each disturbance ends the term, and the same node leads again.
    pub(crate) suspended_is_lost: bool,
    pub(crate) tells_its_watches: bool,
    pub(crate) requeues: bool,
}

/// How it waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    Await,
    Timeout(Duration),
    Dropped(Duration),
    Watch,
}

impl Candidate {
    /// It has entered when this returns.
    pub(crate) fn start(kind: Candidates, curator: &Curator, manner: Manner) -> Result<Self> {
        let policy = match manner.suspended_is_lost {
            true => LossPolicy::Suspended,
            false => LossPolicy::Lease,
        };
        Ok(match kind {
            Candidates::Latches => {
                let mode = match manner.tells_its_watches {
                    true => CloseMode::NotifyLeader,
                    false => CloseMode::Silent,
                };
                let latch = LeaderLatch::new(curator, LOCK)?;
                let latch = latch.with_loss_policy(policy).with_close_mode(mode);
                latch.start()?;
                Self::Latch(latch)
            }
            Candidates::Selectors => {
                let selector = LeaderSelector::new(curator, LOCK)?;
                let selector = selector.with_loss_policy(policy).with_grace(GRACE);
                let requeues = manner.requeues;
                Self::Run(run(&if requeues { selector.auto_requeue() } else { selector }, requeues))
            }
        })
    }

    /// None if it does not come to lead; and why.
    pub(crate) async fn wait(&mut self, wait: Wait) -> Result<(Leadership, Option<End>), String> {
        match self {
            Self::Latch(latch) => {
                let waited = wait_for(latch, wait).await.map_err(|error| error.to_string())?;
                Ok((waited.ok_or("busy")?, None))
            }
            Self::Run(run) => {
                let term = match wait {
                    Wait::Await | Wait::Watch => run.term().await?,
                    Wait::Timeout(limit) | Wait::Dropped(limit) => {
                        timeout(limit, run.term()).await.map_err(|_| "busy")??
                    }
                };
                Ok((term.leadership, Some(term.end)))
            }
        }
    }

    fn has_leadership(&self) -> bool {
        match self {
            Self::Latch(latch) => latch.has_leadership(),
            Self::Run(run) => run.run.has_leadership(),
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
            Self::Run(run) if interrupt => _ = run.run.interrupt_leadership(),
            _ => _ = self.close().await,
        }
    }
}

async fn wait_for(latch: &LeaderLatch, wait: Wait) -> Result<Option<Leadership>, LeaderError> {
    match wait {
        Wait::Await => latch.await_leadership().await.map(Some),
        Wait::Timeout(limit) => latch.await_leadership_timeout(limit).await,
        Wait::Dropped(limit) => timeout(limit, latch.await_leadership()).await.ok().transpose(),
        Wait::Watch => {
            let mut watch = latch.watch();
            let mut state = watch.state();
            loop {
                match state {
                    LeaderState::Leader(leadership) => return Ok(Some(leadership)),
                    _ => state = watch.changed().await?,
                }
            }
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
                    Some(Err(error @ (TermError::Acquire(_) | TermError::Closed { .. }))) => {
                        return Err(error.to_string());
                    }
                    // Of the term before.
                    Some(_) => {}
                },
            }
        }
    }
}

impl Led {
    pub(crate) fn new(candidate: Candidate, (leadership, end): (Leadership, Option<End>)) -> Self {
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

impl Guard for Led {
    fn nodes(&self) -> Vec<Node> {
        let (lock, path) = (self.leadership.path().to_owned(), self.leadership.node().to_owned());
        let token = self.leadership.fencing_token().value();
        vec![Node { lock, token, path: Some(path) }]
    }

    /// What everybody would ask; and whether that is of this term.
    fn is_held(&self) -> bool {
        self.candidate.has_leadership() && self.leadership.is_held()
    }

    fn why(&self) -> String {
        match self.leadership.loss() {
            None | Some(Loss::Released) => GIVEN_UP.to_owned(),
            Some(loss) => format!("{loss:?}"),
        }
    }

    async fn lost(&self) {
        self.leadership.lost().await;
    }

    fn fenced(&self) -> Option<Fenced> {
        Some(self.leadership.fenced())
    }

    async fn release(self) -> String {
        let Self { candidate, end, .. } = self;
        drop(end);
        candidate.close().await
    }
}

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
