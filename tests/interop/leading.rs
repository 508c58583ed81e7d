//! Our leaders, as the commands see them: to lead is to hold.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::sync::CancellationToken;
use zookeeper_recipes::{
    ContenderFilter, Curator, LeaderLatch, LeaderRun, LeaderSelector, Leadership, Participant,
};

use crate::ours::Result;
use crate::who::{Role, digits, from_digits, named};

/// How to take part.
pub(crate) struct Leading {
    curator: Curator,
    kind: String,
    path: String,
    /// None is that of the curator.
    id: Option<Vec<u8>>,
}

/// Of one who leads, or has led.
pub(crate) struct Term {
    leadership: Leadership,
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
    /// Kinds of latches and of selectors; an id follows in hexadecimal digits, as it may have spaces.
    pub(crate) fn new(curator: &Curator, kind: &str, id: &str, path: &str) -> Result<Self> {
        let id = if id.is_empty() { None } else { Some(from_digits(id)?) };
        Ok(Self { curator: curator.clone(), kind: kind.to_owned(), path: path.to_owned(), id })
    }

    /// One that was closed does not start again.
    fn latch(&self) -> Result<LeaderLatch> {
        let mut latch = LeaderLatch::new(&self.curator, &self.path)?;
        if let Some(id) = &self.id {
            latch = latch.with_id(id)?;
        }
        Ok(latch)
    }

    fn selector(&self) -> Result<LeaderSelector> {
        let mut selector = LeaderSelector::new(&self.curator, &self.path)?;
        if let Some(id) = &self.id {
            selector = selector.with_id(id)?;
        }
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
            return lead_by(self.latch()?, limit).await;
        }
        let (sender, mut led) = unbounded_channel();
        let may_let_go = CancellationToken::new();
        let may = may_let_go.clone();
        let run = self.selector()?.run(move |leadership| {
            let stepped_down = leadership.cancellation_token();
            let _ = sender.send(leadership);
            let may = may.clone();
            async move {
                tokio::select! {
                    () = stepped_down.cancelled() => {}
                    () = may.cancelled() => {}
                }
            }
        });
        match within(limit, begins(&run, &mut led)).await.transpose()? {
            Some(leadership) => {
                Ok(Some(Term { leadership, seat: Seat::Selector { run, may_let_go } }))
            }
            None => {
                run.close().await?;
                Ok(None)
            }
        }
    }

    /// Who leads first.
    pub(crate) async fn participants(&self) -> Result<Vec<String>> {
        let all = if self.is_latch() {
            self.latch()?.participants().await?
        } else {
            self.selector()?.participants().await?
        };
        Ok(all.iter().map(told).collect())
    }

    /// Nothing where nobody leads.
    pub(crate) async fn leader(&self) -> Result<String> {
        let leader = if self.is_latch() {
            self.latch()?.leader().await?
        } else {
            self.selector()?.leader().await?
        };
        Ok(leader.as_ref().map(told).unwrap_or_default())
    }
}

fn told(one: &Participant) -> String {
    named(if one.holds { Role::Leads } else { Role::Waits }, &digits(&one.data))
}

async fn begins(
    run: &LeaderRun<()>,
    led: &mut UnboundedReceiver<Leadership>,
) -> Result<Leadership> {
    tokio::select! {
        biased;
        Some(leadership) = led.recv() => Ok(leadership),
        report = run.next() => match report {
            Some(Err(error)) => Err(error.into()),
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

async fn lead_by(latch: LeaderLatch, limit: Option<Duration>) -> Result<Option<Term>> {
    latch.start()?;
    match within(limit, latch.await_leadership()).await.transpose()? {
        Some(leadership) => Ok(Some(Term { leadership, seat: Seat::Latch(latch) })),
        None => {
            latch.close().await?;
            Ok(None)
        }
    }
}

impl Term {
    /// What the latch or the selector says now.
    pub(crate) fn is_held(&self) -> bool {
        match &self.seat {
            Seat::Latch(latch) => latch.has_leadership(),
            Seat::Selector { run, .. } => run.has_leadership(),
        }
    }

    pub(crate) fn lost(&self) -> BoxFuture<'static, zookeeper_recipes::Loss> {
        Box::pin(self.leadership.lost())
    }

    pub(crate) async fn release(self) -> Result<()> {
        match self.seat {
            Seat::Latch(latch) => latch.close().await?,
            Seat::Selector { run, may_let_go } => {
                may_let_go.cancel();
                run.await?;
            }
        }
        Ok(())
    }
}
