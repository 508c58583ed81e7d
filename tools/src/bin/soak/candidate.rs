//! Candidates for the leadership, latches and runs of a selector, by what they have in common.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tools::Result;
use zookeeper_recipes::interop::LossPolicy;
use zookeeper_recipes::leader::{LeaderLatch, LeaderRun, LeaderSelector};
use zookeeper_recipes::{Curator, ErrorKind, Hold};

use crate::settings::{Candidates, LOCK};

/// Of a body that does not end when it is asked to: shorter than many terms.
const GRACE: Duration = Duration::from_millis(400);

pub(crate) enum Candidate {
    Latch(LeaderLatch),
    Run(Run),
}

/// The body of each term reports that it began, and ends when the worker says so.
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

    /// The candidate again, and why it does not lead, if it does not within the limit.
    pub(crate) async fn leads(mut self, limit: Duration) -> Result<Led, (Self, String)> {
        let term = match &mut self {
            Self::Latch(latch) => {
                let led = timeout(limit, latch.leadership()).await;
                led.map(|led| led.map(|hold| (hold, None)).map_err(|error| error.to_string()))
            }
            Self::Run(run) => {
                let led = timeout(limit, run.term()).await;
                led.map(|led| led.map(|term| (term.leadership, Some(term.end))))
            }
        };
        match term.unwrap_or_else(|_| Err("busy".to_owned())) {
            Ok((leadership, end)) => Ok(Led { candidate: self, leadership, end }),
            Err(why) => Err((self, why)),
        }
    }

    pub(crate) fn is_leader(&self) -> bool {
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

    /// From elsewhere, while it leads: it is closed, or asked to end its term.
    pub(crate) async fn disturb(&self, interrupt: bool) {
        match self {
            Self::Run(run) if interrupt => _ = run.run.step_down(),
            _ => _ = self.close().await,
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
        const OF_A_TERM: [ErrorKind; 3] =
            [ErrorKind::Lost, ErrorKind::BodyPanicked, ErrorKind::BodyDropped];
        loop {
            tokio::select! {
                biased;
                Some(term) = self.begun.recv() => return Ok(term),
                report = self.run.next_report() => match report {
                    None => return Err("closed".to_owned()),
                    Some(Err(ended)) if !OF_A_TERM.contains(&ended.error.kind()) => {
                        return Err(ended.to_string());
                    }
                    // Of the term before.
                    Some(_) => {}
                },
            }
        }
    }
}

impl Led {
    /// The term is lost, or its body ends: the candidate goes on. Says how the term ended. A latch only gives up its place
    /// with itself.
    pub(crate) async fn ends(mut self, panics: bool) -> (Candidate, String) {
        let mut outcome = "lost".to_owned();
        if let Candidate::Run(run) = &self.candidate {
            _ = self.end.take().map(|end| end.send(panics));
            outcome = match run.run.next_report().await {
                Some(Ok(())) => "the body has ended".to_owned(),
                Some(Err(error)) => error.to_string(),
                None => "closed".to_owned(),
            };
            if !run.requeues {
                // If it is closed, the wait for the next term reports that.
                let _ = run.run.requeue();
            }
        }
        (self.candidate, outcome)
    }

    pub(crate) async fn release(self) -> String {
        let Self { candidate, end, .. } = self;
        drop(end);
        candidate.close().await
    }
}

pub(crate) async fn outcome<T: std::fmt::Debug, E: std::fmt::Display>(
    release: impl Future<Output = Result<T, E>>,
) -> String {
    match release.await {
        Ok(released) => format!("{released:?}"),
        Err(error) => error.to_string(),
    }
}
