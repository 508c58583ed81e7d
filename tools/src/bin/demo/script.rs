//! The script: starts the server and the workers, disturbs them, and sums up.

use std::error::Error;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, timeout_at};
use zookeeper_testkit::TestServer;

use crate::log::{Event, What, now};
use crate::summary::{Hold, Holds, percentile};

const WORKERS: usize = 6;
/// Past any session of the workers, with room for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often it is tried to stop a worker while it holds, which is for a tenth of a second.
const TRIES: usize = 10;

struct Worker {
    child: Child,
    /// It ends when this is dropped.
    _input: Option<ChildStdin>,
    running: bool,
}

struct Demo {
    workers: Vec<Worker>,
    events: UnboundedReceiver<(usize, Event)>,
    began: Duration,
    holds: Holds,
    /// What must not happen, and did.
    faults: Vec<String>,
}

pub(crate) async fn run() -> Result<ExitCode, Box<dyn Error + Send + Sync>> {
    println!("starting a ZooKeeper server …");
    let server = TestServer::start().await?;
    println!("{} at {}", server.backend(), server.connect_string());
    // Ctrl-C ends us all: the testkit removes the server, and the workers' input ends.
    let summed = contend(server.connect_string()).await;
    server.close().await?;
    summed
}

async fn contend(connect_string: &str) -> Result<ExitCode, Box<dyn Error + Send + Sync>> {
    let calm = std::env::var("CALM").map_or(Ok(10), |seconds| seconds.parse())?;
    let calm = Duration::from_secs(calm);
    let (sender, events) = unbounded_channel();
    let mut demo = Demo {
        workers: Vec::new(),
        events,
        began: now(),
        holds: Holds::default(),
        faults: Vec::new(),
    };
    for number in 0..WORKERS {
        demo.workers.push(start(number, connect_string, sender.clone())?);
    }
    drop(sender);
    demo.say(&format!("{WORKERS} worker processes contend on /locks/demo"));
    demo.watch_for(calm).await?;
    demo.kill_the_holder().await?;
    demo.watch_for(calm).await?;
    demo.kill_a_waiter().await?;
    demo.watch_for(calm).await?;
    demo.stop_the_holder().await?;
    demo.watch_for(calm).await?;
    Ok(demo.sum_up())
}

fn start(
    number: usize,
    connect_string: &str,
    sender: UnboundedSender<(usize, Event)>,
) -> Result<Worker, Box<dyn Error + Send + Sync>> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg(format!("worker-{number}"))
        .env("ZOOKEEPER_CONNECT", connect_string)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let input = child.stdin.take();
    let output = child.stdout.take().ok_or("a worker without an output")?;
    tokio::spawn(async move {
        let mut lines = BufReader::new(output).lines();
        // The last line of a worker that was killed may be cut: then it is none.
        while let Ok(Some(line)) = lines.next_line().await {
            if let Ok(event) = line.parse() {
                let _ = sender.send((number, event));
            }
        }
    });
    Ok(Worker { child, _input: input, running: true })
}

impl Demo {
    fn say(&self, what: &str) {
        println!("{:7.3} s  {what}", now().saturating_sub(self.began).as_secs_f64());
    }

    /// The next event, noted; a live line for each hold.
    async fn next(
        &mut self,
        until: Instant,
    ) -> Result<Option<(usize, Event)>, Box<dyn Error + Send + Sync>> {
        let Ok(next) = timeout_at(until, self.events.recv()).await else {
            return Ok(None);
        };
        let (worker, event) = next.ok_or("all workers have ended")?;
        self.holds.add(worker, event);
        if let (What::Holds, Some(hold)) = (event.what, self.holds.get(event.token)) {
            let waited = hold.from.saturating_sub(hold.asked).as_millis();
            println!(
                "{:7.3} s  worker {worker} holds    token {:<6} waited {waited:5} ms",
                event.at.saturating_sub(self.began).as_secs_f64(),
                event.token,
            );
        }
        Ok(Some((worker, event)))
    }

    async fn watch_for(&mut self, time: Duration) -> Result<(), Box<dyn Error + Send + Sync>> {
        let until = Instant::now() + time;
        while self.next(until).await?.is_some() {}
        Ok(())
    }

    /// Waits for an event that `wanted` wants.
    async fn wait_for(
        &mut self,
        what: &str,
        mut wanted: impl FnMut(usize, Event) -> bool,
    ) -> Result<(usize, Event), Box<dyn Error + Send + Sync>> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.next(until).await? {
                Some((worker, event)) if wanted(worker, event) => return Ok((worker, event)),
                Some(_) => {}
                None => return Err(format!("{what}: not within {PATIENCE:?}").into()),
            }
        }
    }

    async fn kill_the_holder(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let (holder, event) = self.wait_for("a hold", |_, e| e.what == What::Holds).await?;
        self.signal(holder, Signal::SIGKILL)?;
        self.workers[holder].running = false;
        self.say(&format!("worker {holder} KILLED while it held token {}", event.token));
        let others = move |worker, e: Event| worker != holder && e.what == What::Holds;
        let (next, _) = self.wait_for("the lock of a dead holder", others).await?;
        self.say(&format!("its session expired, and the lock passed on to worker {next}"));
        Ok(())
    }

    async fn kill_a_waiter(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let (holder, _) = self.wait_for("a hold", |_, e| e.what == What::Holds).await?;
        let waiter = (0..WORKERS).find(|w| *w != holder && self.workers[*w].running);
        let waiter = waiter.ok_or("no worker waits")?;
        self.signal(waiter, Signal::SIGKILL)?;
        self.workers[waiter].running = false;
        self.say(&format!("worker {waiter} KILLED while it waited"));
        Ok(())
    }

    async fn stop_the_holder(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        for _ in 0..TRIES {
            if self.stop_a_holder().await? {
                return Ok(());
            }
        }
        Err(format!("{TRIES} times no worker was stopped while it held").into())
    }

    /// False if it had let go before: what it had written by then was read too late.
    async fn stop_a_holder(&mut self) -> Result<bool, Box<dyn Error + Send + Sync>> {
        let (holder, event) = self.wait_for("a hold", |_, e| e.what == What::Holds).await?;
        self.signal(holder, Signal::SIGSTOP)?;
        self.say(&format!("worker {holder} STOPPED while it held token {}", event.token));
        let others = move |worker, e: Event| worker != holder && e.what == What::Holds;
        let (next, _) = self.wait_for("the lock of a stopped holder", others).await?;
        self.say(&format!("its session expired, and the lock passed on to worker {next}"));
        let resumed = now();
        self.signal(holder, Signal::SIGCONT)?;
        self.say(&format!("worker {holder} RESUMED"));
        let after = move |worker, e: Event| worker == holder && e.at >= resumed;
        let (_, first) = self.wait_for("a word of the resumed worker", after).await?;
        // Its words come in their order, so all from before the stop are here.
        let ended = |hold: &Hold| hold.released.is_some_and(|at| at < resumed);
        if self.holds.get(event.token).is_some_and(ended) {
            self.say(&format!("worker {holder} had released token {} before", event.token));
            return Ok(false);
        }
        if first.what == What::Lost && first.token == event.token {
            self.say(&format!("worker {holder} says that it lost token {}", event.token));
        } else {
            self.faults.push(format!("the resumed worker did not notice the loss: {first:?}"));
        }
        Ok(true)
    }

    fn signal(&self, worker: usize, signal: Signal) -> Result<(), Box<dyn Error + Send + Sync>> {
        let id = self.workers[worker].child.id().ok_or("a worker has ended")?;
        Ok(kill(Pid::from_raw(id.try_into()?), signal)?)
    }

    fn sum_up(mut self) -> ExitCode {
        for (one, other) in self.holds.overlaps() {
            self.faults.push(format!("two held: {one:?} and {other:?}"));
        }
        if self.holds.doubled() > 0 {
            self.faults.push("a fencing token was given twice".to_owned());
        }
        let handovers = self.holds.handovers();
        println!();
        println!("holds              {}", self.holds.count());
        println!("hand-over p50      {:.2} ms", millis(percentile(&handovers, 50)));
        println!("hand-over p99      {:.2} ms", millis(percentile(&handovers, 99)));
        println!("overlaps           {}", self.holds.overlaps().len());
        for fault in &self.faults {
            println!("FAULT: {fault}");
        }
        if self.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
