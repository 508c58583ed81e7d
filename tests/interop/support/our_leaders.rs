//! Our leaders, as the commands see them: to lead is to hold.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::sync::CancellationToken;
use zookeeper_recipes::interop::ContenderFilter;
use zookeeper_recipes::leader::{LeaderLatch, LeaderRun, LeaderSelector};
use zookeeper_recipes::{Curator, Hold, Participant};

use crate::support::our_recipes::Result;
use crate::support::role::{Role, digits, from_digits, named};

/// How to take part.
pub(crate) struct Leading {
    curator: Curator,
    kind: String,
    path: String,
    /// The last one that took part: only such a one lists the others.
    latch: Mutex<Option<LeaderLatch>>,
}

/// Of one who leads, or has led.
pub(crate) struct Term {
    leadership: Hold,
    seat: Seat,
}

enum Seat {
    Latch(LeaderLatch),
    /// Its body ends when it is told so, or when it is to step down.
    Selector {
        run: LeaderRun<()>,
        may_let_go: CancellationToken,
    },
}

impl Leading {
    /// Kinds of latches and of selectors; an id follows in hexadecimal digits, as it may have spaces. None is that of the
    /// curator.
    pub(crate) fn new(curator: &Curator, kind: &str, id: &str, path: &str) -> Result<Self> {
        let curator = match id {
            "" => curator.clone(),
            id => curator.with_identity(from_digits(id)?),
        };
        let latch = Mutex::default();
        Ok(Self { curator, kind: kind.to_owned(), path: path.to_owned(), latch })
    }

    fn last_latch(&self) -> Option<LeaderLatch> {
        self.latch.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn selector(&self) -> Result<LeaderSelector> {
        let selector = self.curator.leader_selector(&self.path)?;
        Ok(match &*self.kind {
            "selector-kazoo" => selector.with_filter(ContenderFilter::Kazoo)?,
            "selector-inclusive" => selector.with_filter(ContenderFilter::Inclusive)?,
            _ => selector,
        })
    }

    fn is_latch(&self) -> bool {
        self.kind.starts_with("latch")
    }

    pub(crate) async fn acquire(&self, limit: Option<Duration>) -> Result<Option<Term>> {
        if self.is_latch() {
            let latch = self.curator.leader_latch(&self.path)?;
            *self.latch.lock().unwrap_or_else(PoisonError::into_inner) = Some(latch.clone());
            let led = within(limit, latch.leadership()).await.transpose();
            let Ok(Some(leadership)) = led else {
                // A latch that was refused would try again, and lead as soon as it can.
                latch.close().await?;
                return Ok(led?.and(None));
            };
            return Ok(Some(Term { leadership, seat: Seat::Latch(latch) }));
        }
        let (sender, mut led) = unbounded_channel();
        let may_let_go = CancellationToken::new();
        let may = may_let_go.clone();
        let run = self.selector()?.run(async move |term: Hold| {
            let _ = sender.send(term.view());
            tokio::select! {
                () = term.cancellation_token().cancelled_owned() => {}
                () = may.cancelled() => {}
            }
        });
        let Some(leadership) = within(limit, begins(&run, &mut led)).await.transpose()? else {
            run.close().await?;
            return Ok(None);
        };
        Ok(Some(Term { leadership, seat: Seat::Selector { run, may_let_go } }))
    }

    /// The leader first.
    pub(crate) async fn participants(&self) -> Result<Vec<String>> {
        let all = match (self.is_latch(), self.last_latch()) {
            (true, Some(latch)) => latch.participants().await?,
            (true, None) => self.observed().await?.into_iter().collect(),
            (false, _) => self.selector()?.participants().await?,
        };
        Ok(all.iter().map(told).collect())
    }

    /// Empty where there is no leader.
    pub(crate) async fn leader(&self) -> Result<String> {
        let leader = match (self.is_latch(), self.last_latch()) {
            (true, Some(latch)) => latch.leader().await?,
            (true, None) => self.observed().await?,
            (false, _) => self.selector()?.leader().await?,
        };
        Ok(leader.as_ref().map(told).unwrap_or_default())
    }

    async fn observed(&self) -> Result<Option<Participant>> {
        Ok(self.curator.observe_leader(&self.path)?.changed().await?)
    }
}

fn told(one: &Participant) -> String {
    named(if one.holds { Role::Leads } else { Role::Waits }, &digits(one.data()))
}

async fn begins(run: &LeaderRun<()>, led: &mut UnboundedReceiver<Hold>) -> Result<Hold> {
    tokio::select! {
        biased;
        Some(leadership) = led.recv() => Ok(leadership),
        report = run.next_report() => match report {
            Some(Err(ended)) => Err(ended.error.into()),
            _ => Err("a term that did not begin is over".into()),
        },
    }
}

async fn within<T>(limit: Option<Duration>, future: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, future).await.ok(),
        None => Some(future.await),
    }
}

impl Term {
    /// What the latch or the selector says now.
    pub(crate) fn is_held(&self) -> bool {
        match &self.seat {
            Seat::Latch(latch) => latch.is_leader(),
            Seat::Selector { run, .. } => run.is_leader(),
        }
    }

    pub(crate) fn hold(&self) -> Hold {
        self.leadership.view()
    }

    pub(crate) async fn release(self) -> Result<()> {
        match self.seat {
            Seat::Latch(latch) => _ = latch.close().await?,
            Seat::Selector { run, may_let_go } => {
                may_let_go.cancel();
                run.await.map_err(|ended| ended.error)?;
            }
        }
        Ok(())
    }
}
