//! Only the demo lets a reader watch, in a minute, how several processes share one lock on a real ZooKeeper while some of them are
//! killed and stopped: `make demo`. The soak shows more, to a checker.
//!
//! It starts a server (or uses `ZOOKEEPER_CONNECT`) and six workers that contend for `/locks/demo`. In about a minute it kills two
//! holders and a waiter, stops two holders until their sessions have expired, and resumes them. Each worker logs, with the
//! fencing token, from when until when it saw itself as the holder. It exits with 1 if two holds overlap by their
//! times or by the order of their tokens, or if a resumed worker did not notice that it had lost the lock.
#![allow(clippy::disallowed_methods)] // its processes and tasks are its own

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, timeout_at};
use tools::{Failure, PipedProcess, now};
use zookeeper_recipes::Curator;
use zookeeper_recipes::session::RetryPolicy;
use zookeeper_testkit::TestServer;

const WORKERS: usize = 6;
/// Short, so that the lock of a dead worker passes on soon.
const SESSION_TIMEOUT: Duration = Duration::from_secs(2);
/// Without a disturbance, before each of them and at the end.
const CALM: Duration = Duration::from_secs(7);
/// Longer than any session lives, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    if let Some(servers) = std::env::args().nth(1) {
        let mut input = tokio::io::stdin();
        tokio::select! {
            result = work(&servers) => result?,
            // The demo has ended, or wants us to end.
            _ = input.read_u8() => {}
        }
        return Ok(ExitCode::SUCCESS);
    }
    println!("starting a ZooKeeper server …");
    let server = TestServer::start().await?;
    println!("{} at {}", server.backend(), server.connect_string());
    let result = Demo::run(server.connect_string()).await;
    server.close().await?;
    result
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum What {
    /// Holds the lock, from here on.
    Holds,
    /// Held it here: `is_held` was called after this moment.
    Works,
    /// `is_held` is false.
    Lost,
    Releases,
}

/// What a worker logs, a line each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Event {
    what: What,
    at: Duration,
    token: i64,
}

/// A worker takes the lock, works for a tenth of a second and releases it, again and again.
async fn work(servers: &str) -> Result<(), Failure> {
    let log = |what: What, at: Duration, token: i64| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&Event { what, at, token })?)?;
        out.flush()
    };
    let curator = Curator::builder()
        .session_timeout(SESSION_TIMEOUT)
        .retry(RetryPolicy::forever(Duration::from_millis(200)))
        .connect(servers)
        .await?;
    let mutex = curator.mutex("/locks/demo")?;
    loop {
        let guard = mutex.acquire().await?;
        let token = guard.fencing_token().value();
        for step in 0..=10 {
            let at = now();
            if !guard.is_held() {
                log(What::Lost, now(), token)?;
                break;
            }
            log(if step == 0 { What::Holds } else { What::Works }, at, token)?;
            sleep(Duration::from_millis(10)).await;
        }
        log(What::Releases, now(), token)?;
        if let Err(error) = guard.release().await {
            eprintln!("token {token}: {error}");
        }
    }
}

/// A hold as its worker saw it.
#[derive(Clone, Copy, Debug)]
struct Hold {
    worker: usize,
    token: i64,
    from: Duration,
    until: Duration,
    released: Option<Duration>,
}

/// Pairs of holds that overlap by their times, or whose tokens do not grow with the time.
fn overlaps(holds: &[Hold]) -> Vec<(Hold, Hold)> {
    let mut by_time = holds.to_vec();
    by_time.sort_by_key(|hold| hold.from);
    let mut overlaps = Vec::new();
    let mut latest: Option<Hold> = None;
    for hold in by_time {
        if let Some(before) = latest
            && (hold.from <= before.until || hold.token <= before.token)
        {
            overlaps.push((before, hold));
        }
        latest = latest.filter(|before| before.until >= hold.until).or(Some(hold));
    }
    overlaps
}

struct Demo {
    /// Each ends with its input.
    workers: BTreeMap<usize, (Child, ChildStdin)>,
    events: UnboundedReceiver<(usize, Event)>,
    began: Duration,
    holds: Vec<Hold>,
}

impl Demo {
    async fn run(servers: &str) -> Result<ExitCode, Failure> {
        let (sender, events) = unbounded_channel();
        let workers = (0..WORKERS).map(|worker| Ok((worker, start(worker, servers, &sender)?)));
        let workers = workers.collect::<Result<_, Failure>>()?;
        drop(sender);
        let mut demo = Self { workers, events, began: now(), holds: Vec::new() };
        demo.say(&format!("{WORKERS} worker processes contend for /locks/demo"));
        let mut unnoticed = 0;
        for disturbance in ["kill", "stop", "kill a waiter", "stop", "kill"] {
            demo.watch(CALM).await?;
            match disturbance {
                "kill" => demo.kill(true).await?,
                "kill a waiter" => demo.kill(false).await?,
                _ => unnoticed += usize::from(!demo.stop().await?),
            }
        }
        demo.watch(CALM).await?;
        let overlaps = overlaps(&demo.holds);
        for (one, other) in &overlaps {
            println!("OVERLAP: {one:?} and {other:?}");
        }
        let (holds, bad) = (demo.holds.len(), overlaps.len());
        println!("\n{holds} holds, {bad} overlaps, {unnoticed} losses not noticed");
        Ok(ExitCode::from(u8::from(bad + unnoticed > 0)))
    }

    fn say(&self, what: &str) {
        println!("{:7.3} s  {what}", now().saturating_sub(self.began).as_secs_f64());
    }

    /// The next event, noted.
    async fn next(&mut self, until: Instant) -> Result<Option<(usize, Event)>, Failure> {
        let Ok(next) = timeout_at(until, self.events.recv()).await else { return Ok(None) };
        let (worker, Event { what, at, token }) = next.ok_or("all workers have ended")?;
        match what {
            What::Holds => {
                self.holds.push(Hold { worker, token, from: at, until: at, released: None });
            }
            What::Works => self.last_hold(worker)?.until = at,
            What::Releases => self.last_hold(worker)?.released = Some(at),
            What::Lost => {}
        }
        Ok(Some((worker, Event { what, at, token })))
    }

    fn last_hold(&mut self, worker: usize) -> Result<&mut Hold, Failure> {
        let hold = self.holds.iter_mut().rev().find(|hold| hold.worker == worker);
        Ok(hold.ok_or("a worker that never held the lock")?)
    }

    async fn watch(&mut self, time: Duration) -> Result<(), Failure> {
        let until = Instant::now() + time;
        while self.next(until).await?.is_some() {}
        self.say(&format!("{} holds", self.holds.len()));
        Ok(())
    }

    async fn wait_for(
        &mut self,
        wanted: impl Fn(usize, Event) -> bool,
    ) -> Result<(usize, Event), Failure> {
        let until = Instant::now() + PATIENCE;
        loop {
            let next = self.next(until).await?;
            let (worker, event) = next.ok_or_else(|| format!("not within {PATIENCE:?}"))?;
            if wanted(worker, event) {
                return Ok((worker, event));
            }
        }
    }

    /// The lock of `holder` passes on to another worker.
    async fn passes_on(&mut self, holder: usize) -> Result<(), Failure> {
        let others = |worker, event: Event| worker != holder && event.what == What::Holds;
        let (next, event) = self.wait_for(others).await?;
        self.say(&format!("worker {next} holds the lock with token {}", event.token));
        Ok(())
    }

    /// Kills the holder, or a worker that waits.
    async fn kill(&mut self, the_holder: bool) -> Result<(), Failure> {
        let (holder, event) = self.wait_for(|_, event| event.what == What::Holds).await?;
        let victim = self.workers.keys().find(|worker| (**worker == holder) == the_holder);
        let victim = *victim.ok_or("no such worker")?;
        self.workers.remove(&victim).ok_or("no such worker")?.0.kill().await?;
        let what = if the_holder { "held" } else { "waited, behind" };
        self.say(&format!("worker {victim} KILLED while it {what} token {}", event.token));
        self.passes_on(holder).await
    }

    /// Stops the holder until its session has expired. Whether it noticed that, once it was resumed.
    async fn stop(&mut self) -> Result<bool, Failure> {
        loop {
            let (holder, event) = self.wait_for(|_, event| event.what == What::Holds).await?;
            self.signal(holder, Signal::SIGSTOP)?;
            self.say(&format!("worker {holder} STOPPED while it held token {}", event.token));
            self.passes_on(holder).await?;
            let resumed = now();
            self.signal(holder, Signal::SIGCONT)?;
            self.say(&format!("worker {holder} RESUMED"));
            // Its events arrive in their order, so all from before the stop are noted by then.
            let after = |worker, e: Event| worker == holder && e.at >= resumed;
            let (_, end) = self.wait_for(after).await?;
            let hold = self.holds.iter().find(|hold| hold.token == event.token);
            if hold.and_then(|hold| hold.released).is_some_and(|at| at < resumed) {
                self.say(&format!("worker {holder} had released it before; once more"));
                continue;
            }
            let noticed = end.what == What::Lost && end.token == event.token;
            let how = if noticed { "reports" } else { "DID NOT NOTICE" };
            self.say(&format!("worker {holder} {how} that it lost token {}", event.token));
            return Ok(noticed);
        }
    }

    fn signal(&self, worker: usize, signal: Signal) -> Result<(), Failure> {
        let id = self
            .workers
            .get(&worker)
            .and_then(|(child, _)| child.id())
            .ok_or("a worker has ended")?;
        Ok(kill(Pid::from_raw(id.try_into()?), signal)?)
    }
}

fn start(
    worker: usize,
    servers: &str,
    sender: &UnboundedSender<(usize, Event)>,
) -> Result<(Child, ChildStdin), Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    let PipedProcess { process, input, output: mut lines } =
        PipedProcess::start(command.arg(servers))?;
    let sender = sender.clone();
    tokio::spawn(async move {
        while let Ok(Some(line)) = lines.next_line().await {
            // A line of a killed worker may be cut off.
            if let Ok(event) = serde_json::from_str(&line) {
                let _ = sender.send((worker, event));
            }
        }
    });
    Ok((process, input))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_overlap_by_time_or_by_token() {
        for (holds, expected) in [
            (&[(7, 2, 5), (8, 6, 9)][..], 0),
            (&[(7, 2, 5), (8, 4, 9)], 1),
            (&[(7, 2, 6), (8, 3, 3), (9, 5, 5)], 2), // the first outlasts the second
            (&[(8, 2, 3), (7, 4, 5)], 1),
            (&[(7, 2, 3), (7, 4, 5)], 1),
        ] {
            let holds = holds.iter().map(|(token, from, until)| {
                let [from, until] = [*from, *until].map(Duration::from_millis);
                Hold { worker: 0, token: *token, from, until, released: None }
            });
            let holds: Vec<_> = holds.collect();
            assert_eq!(overlaps(&holds).len(), expected, "{holds:?}");
        }
    }
}
