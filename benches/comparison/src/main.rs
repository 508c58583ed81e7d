//! Only this tool shows what the mutex of this crate costs next to locks on Redis, etcd and MariaDB: `make comparison`.
//!
//! Each way to lock gets a server of its own, with its data below `TMPDIR` and the server's defaults, and worker processes.
//! One table says what an uncontended cycle of acquire and release takes, how many holds eight contenders get in a second, and how
//! soon a waiter holds the lock after the holder's process was killed. `docs/internals/comparison.md` has a dated run.
//!
//! Arguments: names of ways or servers (all), `--rounds N` of kills (3), `--smoke` for a short run. Exits with 3 if a server
//! is not installed, and with 1 if a way failed.
#![allow(clippy::disallowed_methods)] // the tasks are owned; these clocks are compared within one process only

mod lock;
mod server;
mod ways;
mod worker;

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use self::lock::Failure;
use self::server::Server;
use self::ways::Way;
use self::worker::{LEASE, LockProcess};

const CONTENDERS: usize = 8;
/// Uncontended cycles that do not count: connections, prepared statements, a JVM that compiles.
const WARM_UP: usize = 100;
/// Until a waiter has sent its first request.
const SETTLED: Duration = Duration::from_millis(500);

struct Settings {
    ways: Vec<Way>,
    kills: usize,
    cycles: usize,
    contention: Duration,
}

// One thread: the kernel ends our children with the thread that started them.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Failure> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let [role, way, servers, lock] = &arguments[..]
        && role == worker::ROLE
    {
        Way::called(way)?[0].work(servers, lock).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let settings = settings(arguments.into_iter())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    // A signal drops everything, which ends all servers and workers.
    tokio::select! {
        done = compare(&settings) => Ok(done),
        _ = interrupt.recv() => Ok(ExitCode::from(130)),
        _ = terminate.recv() => Ok(ExitCode::from(143)),
    }
}

fn settings(mut arguments: impl Iterator<Item = String>) -> Result<Settings, Failure> {
    let (mut ways, mut kills, mut smoke) = (Vec::new(), 3, false);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--smoke" => smoke = true,
            "--rounds" => kills = arguments.next().ok_or("--rounds needs a number")?.parse()?,
            name => ways.extend(Way::called(name)?),
        }
    }
    if ways.is_empty() {
        ways.extend(Way::ALL);
    }
    let (kills, cycles, seconds) = if smoke { (1, 20, 1) } else { (kills, 1_000, 5) };
    Ok(Settings { ways, kills, cycles, contention: Duration::from_secs(seconds) })
}

async fn compare(settings: &Settings) -> ExitCode {
    let (mut rows, mut status) = (Vec::new(), 0);
    for way in &settings.ways {
        eprintln!("{}", way.title());
        if let Err(reason) = way.kind().version() {
            rows.push(format!("| {} | not installed: {reason} | | |", way.title()));
            status = status.max(3);
            continue;
        }
        rows.push(measure(*way, settings).await.unwrap_or_else(|error| {
            status = 1;
            format!("| {} | failed: {error} | | |", way.title())
        }));
    }
    println!("{}\n", heading(&settings.ways));
    println!(
        "| way to lock | cycle, median | {CONTENDERS} contenders, holds/s | holder killed, next holds after |\n\
         | --- | --: | --: | --: |\n{}",
        rows.join("\n")
    );
    ExitCode::from(status)
}

async fn measure(way: Way, settings: &Settings) -> Result<String, Failure> {
    let servers = try_join_all((0..way.servers()).map(|_| Server::start(way.kind()))).await?;
    let addresses: Vec<_> = servers.iter().map(Server::address).collect();
    let addresses = addresses.join(",");
    let hire = async |lock: &str| LockProcess::hire(way.name(), &addresses, lock).await;

    let mut worker = hire("alone").await?;
    worker.cycles(WARM_UP.min(settings.cycles)).await?;
    let mut cycles = worker.cycles(settings.cycles).await?;
    let cycle = median(&mut cycles).as_secs_f64() * 1e3;

    let mut workers = try_join_all((0..CONTENDERS).map(|_| hire("contended"))).await?;
    let began = Instant::now();
    let holds = try_join_all(workers.iter_mut().map(|w| w.contend(settings.contention))).await?;
    let rate = holds.iter().sum::<usize>() as f64 / began.elapsed().as_secs_f64();

    let mut kills = Vec::new();
    for round in 0..settings.kills {
        let lock = format!("killed-{round}");
        let (mut holder, mut waiter) = (hire(&lock).await?, hire(&lock).await?);
        holder.acquire().await?;
        holder.held().await?;
        waiter.acquire().await?;
        // Not always at the same distance from a renewal.
        sleep(SETTLED + LEASE.mul_f64(fastrand::f64() / 3.0)).await;
        let killed = Instant::now();
        holder.kill().await?;
        waiter.held().await?;
        kills.push(killed.elapsed());
    }
    kills.sort();
    let [least, most] = [kills.first(), kills.last()].map(|t| t.map_or(0.0, Duration::as_secs_f64));
    let title = way.title();
    Ok(format!("| {title} | {cycle:.2} ms | {rate:.0} | {least:.2}..{most:.2} s |"))
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// When, of what, and where.
fn heading(ways: &[Way]) -> String {
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().ok();
        output.map_or("?".to_owned(), |o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
    };
    let mut kinds: Vec<_> = ways.iter().map(|way| way.kind()).collect();
    kinds.dedup();
    let versions = kinds.iter().filter_map(|kind| kind.version().ok());
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!(
        "{}, commit {}, {} processors, load average {}; leases and sessions of {LEASE:?}; {}",
        said("date", &["-u", "+%F"]),
        said("git", &["describe", "--always", "--dirty"]),
        std::thread::available_parallelism().map_or(0, usize::from),
        load.split(' ').take(3).collect::<Vec<_>>().join(" "),
        versions.collect::<Vec<_>>().join("; "),
    )
}
