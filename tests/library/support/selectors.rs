//! Selectors whose bodies report their begin to the test, and end when the test says so.

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use zookeeper_recipes::leader::{LeaderSelector, TermError};

use crate::prelude::*;

/// How a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The test said so.
    Told,
    /// Its token did.
    SteppedDown,
}

pub(crate) type Report = Result<Ended, TermError<Ended>>;

/// Why a term was no success, how its place was lost, and what its body gave.
pub(crate) fn failed<T>(report: Result<T, TermError<T>>) -> (ErrorKind, Option<Loss>, Option<T>) {
    let ended = report.err().expect("a term that did not end as the leader");
    (ended.error.kind(), ended.error.loss(), ended.value)
}

/// A term that began. Its body ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Term {
    pub(crate) leadership: Hold,
    end: oneshot::Sender<()>,
    gone: CancellationToken,
}

impl Term {
    /// Tells the body to end.
    pub(crate) fn end(self) -> Hold {
        // It may have ended by itself.
        let _ = self.end.send(());
        self.leadership
    }

    /// Whether its body has returned, or was dropped.
    pub(crate) fn is_over(&self) -> bool {
        self.gone.is_cancelled()
    }
}

/// A run, and the terms that began in it.
pub(crate) struct Led {
    pub(crate) run: LeaderRun<Ended>,
    began: mpsc::UnboundedReceiver<Term>,
}

impl Led {
    /// Bodies end when the test says so, or when their token is cancelled.
    pub(crate) fn obedient(selector: &LeaderSelector) -> Self {
        Self::new(selector, true)
    }

    /// Bodies end when the test says so, whatever their token says.
    pub(crate) fn stubborn(selector: &LeaderSelector) -> Self {
        Self::new(selector, false)
    }

    fn new(selector: &LeaderSelector, obeys: bool) -> Self {
        let (begins, began) = mpsc::unbounded_channel();
        let run = selector.run(move |leadership: Hold| {
            let (end, told) = oneshot::channel();
            let (token, gone) = (leadership.cancellation_token(), CancellationToken::new());
            let running = gone.clone().drop_guard();
            // The test may be over.
            let _ = begins.send(Term { leadership, end, gone });
            async move {
                let _running = running;
                tokio::select! {
                    _ = told => Ended::Told,
                    () = token.cancelled(), if obeys => Ended::SteppedDown,
                }
            }
        });
        Self { run, began }
    }

    /// Waits for the next term.
    pub(crate) async fn leads(&mut self) -> Term {
        within("a term", self.began.recv()).await.expect("a run")
    }

    /// The next term, if it has begun.
    pub(crate) fn began(&mut self) -> Option<Term> {
        self.began.try_recv().ok()
    }

    /// Waits for the report of the next term.
    pub(crate) async fn report(&self) -> Report {
        within("a report", self.run.next_report()).await.expect("a run that is not closed")
    }

    /// Waits until this candidate leads, and until one of another client is queued behind it.
    pub(crate) async fn with_next(
        mut self,
        testbed: &Testbed,
        next: &LeaderSelector,
    ) -> (Self, Term, Self) {
        let term = self.leads().await;
        let next = Self::obedient(next);
        testbed.children_are(2).await;
        (self, term, next)
    }

    pub(crate) async fn close(&self) {
        within("the end of a run", self.run.close()).await.unwrap();
    }
}
