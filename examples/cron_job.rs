//! A cron job that is on every machine, and runs on one of them only, once a day.
//!
//! `cargo run --example cron_job -- NAME`, with `ZOOKEEPER_CONNECT` set, is the command for the crontab of the machine
//! `NAME`. It exits with 0 if the job was done, by this machine or by another; with 75 if another machine runs it; with 1
//! if it failed. Without arguments it plays a demonstration, against `ZOOKEEPER_CONNECT` or a ZooKeeper that the testkit
//! starts: two machines at the same time, one whose clock is late, a job that fails, a machine that dies.
//!
//! A lock alone is not enough: if the job takes five seconds and the clock of one machine is ten seconds late, that machine
//! finds the lock free and runs the job again. `Curator::once` records the run when the job has succeeded. A job that was
//! cut off is run again by the next try, so it must be idempotent.

use std::env;
use std::error::Error;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;
use zookeeper_recipes::{Curator, Hold, OnceOutcome};
use zookeeper_testkit::{TestServer, random_path};

type Fault = Box<dyn Error + Send + Sync>;

/// "Try again later", in `sysexits.h`.
const BUSY: u8 = 75;
const JOB: &str = "/nightly";
const DAY: u64 = 24 * 60 * 60;
/// At two o'clock, UTC.
const SCHEDULED: u64 = 2 * 60 * 60;
/// How long the job of a dead machine counts as running. Short, for the demonstration.
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);

/// Which run is due: the number of the day whose scheduled time is nearest. All machines agree on it if no clock is
/// wrong by half a day. The date of the clock alone would differ where a job is scheduled close to midnight.
fn due(now: SystemTime) -> Result<u64, Fault> {
    let seconds = now.duration_since(UNIX_EPOCH)?.as_secs();
    Ok((seconds + DAY / 2 - SCHEDULED) / DAY)
}

/// The command in the crontab.
async fn cron_job(machine: &str) -> Result<ExitCode, Fault> {
    let servers = env::var("ZOOKEEPER_CONNECT").map_err(|_| "ZOOKEEPER_CONNECT is not set")?;
    let curator = Curator::builder()
        .namespace(&env::var("NAMESPACE").unwrap_or_else(|_| "/cron".to_owned()))
        .session_timeout(SESSION_TIMEOUT)
        .identity(machine)
        .connect(&servers)
        .await?;
    let exit = on_one_machine(&curator).await;
    curator.close().await; // also after an error: else the next machine waits for the session timeout
    exit
}

async fn on_one_machine(curator: &Curator) -> Result<ExitCode, Fault> {
    let run = due(clock()?)?;
    let nightly = curator.once(JOB, run.to_string())?;
    // `run` in its place makes every other machine a standby, which takes over from one that dies.
    let outcome = nightly.try_run(async |hold| {
        println!("begins run {run}");
        job(hold).await
    });
    match outcome.await {
        Ok(OnceOutcome::Ran(())) => println!("run {run} is done"),
        Ok(OnceOutcome::AlreadyDone { by, .. }) => println!("{by} had done run {run}"),
        Err(error) if is_busy(&error) => {
            let runner = nightly.participants().await?.into_iter().find(|one| one.holds);
            let runner = runner.and_then(|runner| runner.identity);
            println!("busy: {} runs it", runner.as_deref().unwrap_or("another machine"));
            return Ok(ExitCode::from(BUSY));
        }
        Err(error) => return Err(error),
    }
    Ok(ExitCode::SUCCESS)
}

/// The error is of the job or of its lock. The job itself tries no lock.
fn is_busy(error: &Fault) -> bool {
    error.downcast_ref().is_some_and(zookeeper_recipes::Error::is_busy)
}

/// Stands for the work: done when its input ends, under cron at once. It fails with the text of its input.
async fn job(_hold: Hold) -> Result<(), Fault> {
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

    /// Ends its input, and so its job. Returns its exit code.
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

    println!(
        "at two o'clock; the clock of bern is 90 s late, and it starts while arles runs the job"
    );
    let mut arles = start("arles", night)?;
    assert_eq!(arles.says().await?, "begins run 20000");
    let mut bern = start("bern", night - 90)?;
    assert_eq!(bern.says().await?, "busy: arles runs it");
    assert_eq!(bern.ends().await?, Some(BUSY.into()));
    assert_eq!(arles.ends().await?, Some(0));

    println!("the clock of cork is ten minutes late: arles has ended");
    let mut cork = start("cork", night - 600)?;
    assert_eq!(cork.says().await?, "arles had done run 20000");
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

    // The records are persistent.
    let curator = Curator::builder().namespace(&namespace).connect(servers).await?;
    let client = curator.client()?;
    for record in client.list_children(&format!("{JOB}/done")).await? {
        client.delete(&format!("{JOB}/done/{record}"), None).await?;
    }
    curator.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<ExitCode, Fault> {
    if let Some(machine) = env::args().nth(1) {
        return cron_job(&machine).await.or_else(|error| {
            eprintln!("{machine}: {error}"); // cron sends it by mail
            Ok(ExitCode::FAILURE)
        });
    }
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());
    let done = timeout(Duration::from_secs(120), demonstrate(server.connect_string())).await;
    server.close().await?;
    done??;
    Ok(ExitCode::SUCCESS)
}
