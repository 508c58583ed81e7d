//! A worker: a process of its own that locks in one of the ways, as it is told on its standard input. It ends when that
//! does.

use std::future::Future;
use std::io::Write;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::Failure;
use crate::clock::now;
use crate::event::{Event, Look, Order, What};
use crate::ways::{Hold, Place, Way};

const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
/// For an answer to a question that nothing depends on.
const PATIENCE: Duration = Duration::from_secs(5);

type Acquiring<H> = Pin<Box<dyn Future<Output = Result<H, Failure>>>>;

struct Worker<W: Way> {
    way: Rc<W>,
    /// The first is the one that is worked under.
    holds: Vec<W::Hold>,
    acquiring: Option<Acquiring<W::Hold>>,
    passes: bool,
    /// Whether no look has said yet that the lock is lost.
    believes: bool,
}

pub(crate) async fn run<W: Way + 'static>(place: Place) -> Result<(), Failure> {
    let way = Rc::new(W::connect(&place).await?);
    let mut worker =
        Worker { way, holds: Vec::new(), acquiring: None, passes: false, believes: false };
    log(What::Ready)?;
    let mut orders = BufReader::new(stdin()).lines();
    let mut looks = interval(BETWEEN_LOOKS);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            line = orders.next_line() => match line? {
                Some(line) => worker.obey(serde_json::from_str(&line)?).await?,
                None => return Ok(()),
            },
            hold = next(&mut worker.acquiring) => worker.acquired(hold).await?,
            _ = looks.tick(), if worker.believes => worker.look()?,
        }
    }
}

/// Never, if nothing is being acquired.
async fn next<H>(acquiring: &mut Option<Acquiring<H>>) -> Result<H, Failure> {
    match acquiring {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

impl<W: Way + 'static> Worker<W> {
    async fn obey(&mut self, order: Order) -> Result<(), Failure> {
        match order {
            Order::Acquire | Order::Pass => {
                self.passes = matches!(order, Order::Pass);
                log(What::Asks)?;
                let way = self.way.clone();
                self.acquiring = Some(Box::pin(async move { way.acquire().await }));
            }
            Order::Reenter => match self.holds.last().and_then(Hold::reenter) {
                Some(hold) => self.acquired(Ok(hold)).await?,
                None => log(What::Failed("there is no such thing".to_owned()))?,
            },
            Order::Ask => {
                let hold = self.holds.first_mut().ok_or("asked without a hold")?;
                let asked = timeout(PATIENCE, hold.ask()).await;
                let asked = asked.unwrap_or_else(|_| Err("no answer".into()));
                log(What::Asked(asked.map_err(|error| error.to_string())))?;
            }
            Order::Release => self.release().await?,
            Order::Cycles(count) => self.cycles(count).await?,
        }
        Ok(())
    }

    async fn acquired(&mut self, hold: Result<W::Hold, Failure>) -> Result<(), Failure> {
        self.acquiring = None;
        match hold {
            Ok(hold) => {
                log(What::Holds { token: hold.token() })?;
                self.believes |= self.holds.is_empty();
                self.holds.push(hold);
                if self.passes { self.release().await } else { Ok(()) }
            }
            Err(error) => log(What::Failed(error.to_string())),
        }
    }

    fn look(&mut self) -> Result<(), Failure> {
        let at = now();
        let Some(hold) = self.holds.first() else { return Ok(()) };
        match hold.look() {
            Look::Lost => {
                self.believes = false;
                log_at(at, What::Lost)
            }
            look => log_at(at, What::Works(look)),
        }
    }

    async fn release(&mut self) -> Result<(), Failure> {
        let hold = self.holds.pop().ok_or("released without a hold")?;
        self.believes &= !self.holds.is_empty();
        log(What::Releases)?;
        let released = timeout(PATIENCE, hold.release()).await;
        let released = released.unwrap_or_else(|_| Err("no answer".into()));
        log(What::Released(released.map_err(|error| error.to_string())))
    }

    async fn cycles(&mut self, count: usize) -> Result<(), Failure> {
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let begun = now();
            self.way.acquire().await?.release().await?;
            times.push(u64::try_from((now() - begun).as_nanos())?);
        }
        log(What::Cycles(times))
    }
}

fn log(what: What) -> Result<(), Failure> {
    log_at(now(), what)
}

fn log_at(at: Duration, what: What) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(&Event { at, what })?)?;
    Ok(out.flush()?)
}
