//! Our end of a worker: orders to it, and what it logs.

use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::Failure;
use crate::belief::Belief;
use crate::clock::now;
use crate::event::{Event, Order, What};
use crate::process::dies_with_us;
use crate::ways::Place;

/// For what takes no longer than a server needs to answer, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Hand {
    child: Child,
    input: ChildStdin,
    events: mpsc::UnboundedReceiver<Event>,
    log: Vec<Event>,
}

impl Hand {
    /// A worker that is connected.
    pub(crate) async fn hire(place: &Place) -> Result<Self, Failure> {
        let ourselves = std::env::current_exe()?;
        let mut command = dies_with_us(&ourselves.to_string_lossy());
        command.args(["worker", &serde_json::to_string(place)?]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a worker has no pipes".into());
        };
        let (sender, events) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                // A line that was cut off by a kill is none.
                let Ok(event) = serde_json::from_str(&line) else { continue };
                if sender.send(event).is_err() {
                    return;
                }
            }
        });
        let mut hand = Self { child, input, events, log: Vec::new() };
        hand.must(|what| *what == What::Ready, "be ready").await?;
        Ok(hand)
    }

    pub(crate) async fn tell(&mut self, order: Order) -> Result<(), Failure> {
        let line = format!("{}\n", serde_json::to_string(&order)?);
        Ok(self.input.write_all(line.as_bytes()).await?)
    }

    /// The next event of a kind; `None` if it does not come in time. What comes before it is only logged.
    pub(crate) async fn within(
        &mut self,
        limit: Duration,
        is_it: impl Fn(&What) -> bool,
    ) -> Option<Event> {
        let found = async {
            loop {
                let event = self.events.recv().await?;
                self.log.push(event.clone());
                if is_it(&event.what) {
                    return Some(event);
                }
            }
        };
        timeout(limit, found).await.ok().flatten()
    }

    async fn must(&mut self, is_it: impl Fn(&What) -> bool, what: &str) -> Result<Event, Failure> {
        let event = self.within(PATIENCE, is_it).await;
        event.ok_or_else(|| {
            format!("a worker did not {what}; it ended with {:?}", self.log.last()).into()
        })
    }

    /// Acquires what is free. When it held, and with which token.
    pub(crate) async fn acquire(&mut self) -> Result<(Duration, Option<i64>), Failure> {
        self.tell(Order::Acquire).await?;
        self.held(PATIENCE).await?.ok_or_else(|| "a worker did not get a free lock".into())
    }

    /// Queues up.
    pub(crate) async fn ask_for(&mut self, order: Order) -> Result<Event, Failure> {
        self.tell(order).await?;
        self.must(|what| *what == What::Asks, "ask").await
    }

    /// When it held, if it does in time.
    pub(crate) async fn held(
        &mut self,
        limit: Duration,
    ) -> Result<Option<(Duration, Option<i64>)>, Failure> {
        let is_end = |what: &What| matches!(what, What::Holds { .. } | What::Failed(_));
        match self.within(limit, is_end).await {
            Some(Event { at, what: What::Holds { token } }) => Ok(Some((at, token))),
            Some(Event { what: What::Failed(error), .. }) => Err(error.into()),
            _ => Ok(None),
        }
    }

    /// What the server answers, and when.
    pub(crate) async fn ask(&mut self) -> Result<(Duration, Result<bool, String>), Failure> {
        self.tell(Order::Ask).await?;
        match self.must(|what| matches!(what, What::Asked(_)), "ask its server").await? {
            Event { at, what: What::Asked(answer) } => Ok((at, answer)),
            _ => Err("not an answer".into()),
        }
    }

    /// When it began to release, and what became of that.
    pub(crate) async fn release(
        &mut self,
    ) -> Result<(Duration, Result<crate::event::Released, String>), Failure> {
        self.tell(Order::Release).await?;
        let begun = self.must(|what| *what == What::Releases, "release").await?.at;
        match self.must(|what| matches!(what, What::Released(_)), "have released").await? {
            Event { what: What::Released(released), .. } => Ok((begun, released)),
            _ => Err("not a release".into()),
        }
    }

    pub(crate) async fn cycles(&mut self, count: usize) -> Result<Vec<Duration>, Failure> {
        self.tell(Order::Cycles(count)).await?;
        match self.must(|what| matches!(what, What::Cycles(_)), "do its cycles").await?.what {
            What::Cycles(times) => Ok(times.into_iter().map(Duration::from_nanos).collect()),
            _ => Err("not cycles".into()),
        }
    }

    /// Just before the signal.
    pub(crate) fn signal(&self, signal: Signal) -> Result<Duration, Failure> {
        let pid = self.child.id().ok_or("a worker has ended")?;
        let at = now();
        kill(Pid::from_raw(i32::try_from(pid)?), signal)?;
        Ok(at)
    }

    /// Reckoned from what it has logged.
    pub(crate) fn belief(&mut self) -> Option<Belief> {
        while let Ok(event) = self.events.try_recv() {
            self.log.push(event);
        }
        Belief::of(&self.log)
    }

    pub(crate) fn log(&self) -> &[Event] {
        &self.log
    }
}
