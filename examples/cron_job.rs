//! A cron job that is on every machine, and runs on one of them only, once a day.
//!
//! `cargo run --example cron_job -- NAME`, with `ZOOKEEPER_CONNECT` set, is what stands in the crontab of the machine
//! `NAME`. It exits with 0 if the job was done, by this machine or by another; with 75 if another is at it, and says
//! which; with 1 if it failed. Without arguments it plays a demonstration, against `ZOOKEEPER_CONNECT` or a ZooKeeper that
//! the testkit starts: two machines at the same time; one whose clock is late; a job that fails; a machine that dies.
//!
//! A lock alone is not enough. If the job takes five seconds and one machine's clock is ten seconds late, each finds
//! the lock free and runs the job. So the holder notes, under the lock, which run is done.
//!
//! The note is written after the job: a job that was cut off is done again by the next try, and must bear that. Written
//! before the job, it would be the other way round: never twice, and sometimes not at all.

use std::env;
use std::error::Error;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;
use zookeeper_recipes::zookeeper_client::Error as ClientError;
use zookeeper_recipes::{Curator, FencedError, FencingToken, InterProcessMutex, MutexGuard};
use zookeeper_testkit::{TestServer, random_path};

type Fault = Box<dyn Error + Send + Sync>;

/// "Try again later", in `sysexits.h`.
const BUSY: u8 = 75;
const LOCK: &str = "/nightly/lock";
/// A node of its own, and a persistent one. The lock's path and its parent would lose such a note: they are containers,
/// which the servers remove once they are empty.
const DONE: &str = "/nightly/done";
const DAY: u64 = 24 * 60 * 60;
/// At two o'clock, UTC.
const SCHEDULED: u64 = 2 * 60 * 60;
/// A dead machine's lock is free so long after its end. Short, for the demonstration.
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);

/// Which run is due: the number of the day whose scheduled time is nearest. All machines agree on it if no clock is
/// wrong by half a day; the date of the clock alone would differ where a job is scheduled close to midnight.
fn due(now: SystemTime) -> Result<u64, Fault> {
    let seconds = now.duration_since(UNIX_EPOCH)?.as_secs();
    Ok((seconds + DAY / 2 - SCHEDULED) / DAY)
}

/// What stands in the crontab.
async fn cron_job(machine: &str) -> Result<ExitCode, Fault> {
    let servers = env::var("ZOOKEEPER_CONNECT").map_err(|_| "ZOOKEEPER_CONNECT is not set")?;
    let curator = Curator::builder()
        .namespace(&env::var("NAMESPACE").unwrap_or_else(|_| "/cron".to_owned()))
        .session_timeout(SESSION_TIMEOUT)
        .identity(machine)
        .connect(&servers)
        .await?;
    // On every path: a node that a guard leaves behind when the program ends keeps the others out for the session timeout.
    let exit = on_one_machine(&curator).await;
    let closed = curator.close().await;
    let exit = exit?;
    closed?;
    Ok(exit)
}

async fn on_one_machine(curator: &Curator) -> Result<ExitCode, Fault> {
    let lock = InterProcessMutex::new(curator, LOCK)?;
    // `acquire` in its place makes every other machine a stand-by, that takes over from one that dies.
    Ok(match lock.try_acquire().await? {
        Some(guard) => {
            once(curator, guard, due(clock()?)?).await?;
            ExitCode::SUCCESS
        }
        None => {
            let holder = lock.participants().await?.into_iter().find(|one| one.holds);
            match &holder {
                Some(holder) => println!("busy: {} is at it", holder.id()), // its identity
                None => println!("busy: another machine was at it until now"),
            }
            ExitCode::from(BUSY)
        }
    })
}

/// Does the job, unless this run is done.
async fn once(curator: &Curator, guard: MutexGuard, run: u64) -> Result<(), Fault> {
    // Never an old answer, though a server may lag: ours has seen the node of the holder before us go, and what that one
    // wrote comes before it.
    let done = match curator.client()?.get_data(DONE).await {
        Ok((done, _)) => String::from_utf8(done)?.parse()?,
        Err(ClientError::NoNode) => 0,
        Err(error) => return Err(error.into()),
    };
    if done >= run {
        println!("run {run} was done before");
        guard.release().await?;
        return Ok(());
    }
    println!("begins run {run}");
    // The job is dropped at its next `await` when the lock is lost; and what it writes elsewhere bears the token, to be
    // compared there: see `docs/guarantees.md`, "Fenced writes".
    let held = guard.cancellation_token();
    held.run_until_cancelled(job(guard.fencing_token())).await.ok_or("the lock was lost")??;
    // Refused if the lock was lost unnoticed, so nobody overwrites the note of a later holder.
    let (fenced, note) = (guard.fenced(), run.to_string());
    match fenced.set(DONE, note.as_bytes()).await {
        Err(FencedError::NoNode { .. }) => fenced.create(DONE, note.as_bytes()).await?,
        written => written?,
    }
    println!("run {run} is done");
    guard.release().await?;
    Ok(())
}

/// Stands for the work: done when its input ends, under cron at once. It fails if the input says why.
async fn job(_token: FencingToken) -> Result<(), Fault> {
    let mut why = String::new();
    tokio::io::stdin().read_to_string(&mut why).await?;
    if why.is_empty() { Ok(()) } else { Err(why.into()) }
}

/// The machine's clock; the demonstration's machines have others.
fn clock() -> Result<SystemTime, Fault> {
    match env::var("CLOCK") {
        Ok(seconds) => Ok(UNIX_EPOCH + Duration::from_secs(seconds.parse()?)),
        Err(_) => Ok(SystemTime::now()),
    }
}

// From here on: the demonstration.

/// A machine on which cron has started the job, by its own clock.
struct Machine {
    name: &'static str,
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Machine {
    fn start(
        name: &'static str,
        clock: u64,
        (servers, namespace): (&str, &str),
    ) -> Result<Self, Fault> {
        let mut process = Command::new(env::current_exe()?)
            .arg(name)
            .env("ZOOKEEPER_CONNECT", servers)
            .env("NAMESPACE", namespace)
            .env("CLOCK", clock.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = process.stdout.take().ok_or("a process without an output")?;
        Ok(Self { name, process, lines: BufReader::new(output).lines() })
    }

    /// Its next line.
    async fn says(&mut self) -> Result<String, Fault> {
        let line = self.lines.next_line().await?.ok_or("it ended")?;
        println!("{:8} {line}", self.name);
        Ok(line)
    }

    /// Ends its input, and so its job. With which code it exited.
    async fn ends(mut self) -> Result<Option<i32>, Fault> {
        drop(self.process.stdin.take());
        while let Some(line) = self.lines.next_line().await? {
            println!("{:8} {line}", self.name);
        }
        let code = self.process.wait().await?.code();
        println!("{:8} exits with {}", self.name, code.map_or("none".into(), |c| c.to_string()));
        Ok(code)
    }
}

async fn demonstrate(servers: &str) -> Result<(), Fault> {
    let namespace = random_path("cron");
    let start = |name, clock| Machine::start(name, clock, (servers, &namespace));
    let night = 20_000 * DAY + SCHEDULED;

    println!("at two o'clock; the clock of bern is 90 s late, and it starts while arles is at it");
    let mut arles = start("arles", night)?;
    assert_eq!(arles.says().await?, "begins run 20000");
    let mut bern = start("bern", night - 90)?;
    assert_eq!(bern.says().await?, "busy: arles is at it");
    assert_eq!(bern.ends().await?, Some(BUSY.into()));
    assert_eq!(arles.ends().await?, Some(0));

    println!("the clock of cork is ten minutes late: arles has ended");
    let mut cork = start("cork", night - 600)?;
    assert_eq!(cork.says().await?, "run 20000 was done before");
    assert_eq!(cork.ends().await?, Some(0));

    println!("the next night; the job fails on arles, which leaves the lock free at once");
    let mut arles = start("arles", night + DAY)?;
    assert_eq!(arles.says().await?, "begins run 20001");
    if let Some(mut input) = arles.process.stdin.take() {
        input.write_all(b"the disk is full").await?;
    }
    assert_eq!(arles.ends().await?, Some(1));
    let mut bern = start("bern", night + DAY)?;
    assert_eq!(bern.says().await?, "begins run 20001");
    assert_eq!(bern.ends().await?, Some(0));

    println!("the night after; arles dies in the middle of it");
    let mut arles = start("arles", night + 2 * DAY)?;
    assert_eq!(arles.says().await?, "begins run 20002");
    arles.process.kill().await?;
    println!("bern tries until arles' session is over; cron tries as often as its table says");
    loop {
        let mut bern = start("bern", night + 2 * DAY)?;
        let said = bern.says().await?;
        let code = bern.ends().await?;
        if code != Some(BUSY.into()) {
            assert_eq!((said.as_str(), code), ("begins run 20002", Some(0)));
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    // The note stays, else; the rest goes by itself.
    let curator = Curator::builder().namespace(&namespace).connect(servers).await?;
    curator.client()?.delete(DONE, None).await?;
    Ok(curator.close().await?)
}

#[tokio::main]
async fn main() -> Result<ExitCode, Fault> {
    if let Some(machine) = env::args().nth(1) {
        return cron_job(&machine).await.or_else(|error| {
            eprintln!("{machine}: {error}"); // in a sentence: cron sends it by mail
            Ok(ExitCode::FAILURE)
        });
    }
    // An existing server if `ZOOKEEPER_CONNECT` names one, else a container or a local process.
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());
    let done = timeout(Duration::from_secs(120), demonstrate(server.connect_string())).await;
    server.close().await?;
    done??;
    Ok(ExitCode::SUCCESS)
}
