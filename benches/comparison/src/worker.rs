//! Worker processes: one order a line on their standard input, one answer a line back. They end with their input.

use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, stdin};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;

use crate::lock::{Failure, Lock};
use crate::server::dies_with_us;

/// The first argument of such a process.
pub(crate) const ROLE: &str = "worker";

/// Of each lock, or of the session that it belongs to.
pub(crate) const LEASE: Duration = Duration::from_secs(3);

/// For an answer, on a busy machine. A waiter on Redis or MariaDB may also lose many times in a row.
const PATIENCE: Duration = Duration::from_secs(60);

/// Obeys until its input ends: `acquire`, `cycles COUNT`, `contend MILLISECONDS`.
pub(crate) async fn run<L: Lock>(servers: &[String], name: &str) -> Result<(), Failure> {
    let lock = L::connect(servers, name, LEASE).await?;
    let mut held = Vec::new();
    println!("ready");
    let mut orders = BufReader::new(stdin()).lines();
    while let Some(order) = orders.next_line().await? {
        match order.split_once(' ').unwrap_or((&order, "")) {
            ("acquire", _) => {
                held.push(lock.acquire().await?);
                println!("held");
            }
            ("cycles", count) => {
                let mut times = Vec::new();
                for _ in 0..count.parse::<usize>()? {
                    let began = Instant::now();
                    let hold = lock.acquire().await?;
                    lock.release(hold).await?;
                    times.push(began.elapsed().as_nanos().to_string());
                }
                println!("{}", times.join(" "));
            }
            ("contend", milliseconds) => {
                let end = Instant::now() + Duration::from_millis(milliseconds.parse()?);
                let mut holds = 0;
                // A contender may wait at the end of the time, and wins nothing then.
                while let Some(left) = end.checked_duration_since(Instant::now()) {
                    let Ok(hold) = timeout(left, lock.acquire()).await else { break };
                    lock.release(hold?).await?;
                    holds += 1;
                }
                println!("{holds}");
            }
            _ => return Err(format!("no such order: {order}").into()),
        }
    }
    Ok(())
}

pub(crate) struct LockProcess {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl LockProcess {
    /// One that is connected.
    pub(crate) async fn hire(way: &str, servers: &str, lock: &str) -> Result<Self, Failure> {
        let mut command = dies_with_us(&std::env::current_exe()?.to_string_lossy());
        command.args([ROLE, way, servers, lock]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("a worker has no pipes".into());
        };
        let mut worker = Self { process, input, output: BufReader::new(output).lines() };
        worker.answer().await?;
        Ok(worker)
    }

    async fn tell(&mut self, order: &str) -> Result<(), Failure> {
        Ok(self.input.write_all(format!("{order}\n").as_bytes()).await?)
    }

    async fn answer(&mut self) -> Result<String, Failure> {
        let line = timeout(PATIENCE, self.output.next_line()).await??;
        line.ok_or_else(|| "a worker has ended".into())
    }

    pub(crate) async fn acquire(&mut self) -> Result<(), Failure> {
        self.tell("acquire").await
    }

    pub(crate) async fn held(&mut self) -> Result<(), Failure> {
        self.answer().await.map(drop)
    }

    pub(crate) async fn cycles(&mut self, count: usize) -> Result<Vec<Duration>, Failure> {
        self.tell(&format!("cycles {count}")).await?;
        let times = self.answer().await?;
        Ok(times.split(' ').flat_map(str::parse).map(Duration::from_nanos).collect())
    }

    /// How many holds it had.
    pub(crate) async fn contend(&mut self, time: Duration) -> Result<usize, Failure> {
        self.tell(&format!("contend {}", time.as_millis())).await?;
        Ok(self.answer().await?.parse()?)
    }

    pub(crate) async fn kill(mut self) -> Result<(), Failure> {
        Ok(self.process.kill().await?)
    }
}
