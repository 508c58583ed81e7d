//! What a lock costs as it grows: `make bench-growth`, at most a quarter of an hour; `SMALL=1` tries it in half a minute.
//!
//! Waiters on one lock, held locks, contending clients, and children that are no contenders, on one server and on
//! a quorum of three; Apache Curator beside us, where a JDK and its jars are installed. Each side works in a process of its
//! own for each size, so that its memory is its own. Gives a line for each figure,
//!
//! ```text
//! growth: <what> <n> on=<single|ensemble> ours=… curator=…
//! ```
//!
//! the page `target/bench/growth.html`, and the tables in `docs/scaling.md`. What the figures mean: there. Arguments choose among `waiters`, `holds`, `clients` and
//! `children`; the tables are left alone then.
#![allow(clippy::disallowed_methods)] // the tasks are owned; these clocks are compared within one process only

#[path = "../../../tests/interop/class_path.rs"]
mod class_path;
mod figures;
mod page;
mod peer;
mod plan;
mod servers;
mod steps;
mod tables;
mod worker;

use std::process::ExitCode;
use std::time::Instant;

use cap::Cap;

use self::figures::Figures;
use self::peer::{Peer, Peers};
use self::plan::{Plan, Stage};
use self::servers::Servers;
use self::steps::Step;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Counts what our worker has in use.
#[global_allocator]
static ALLOCATED: Cap<std::alloc::System> = Cap::new(std::alloc::System, usize::MAX);

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    // Cargo adds options of its own.
    let words: Vec<_> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if words == [peer::WORKER] {
        worker::serve().await?;
        return Ok(ExitCode::SUCCESS);
    }
    let plan = Plan::new(std::env::var_os("SMALL").is_some_and(|small| !small.is_empty()), &words);
    let peers = Peers::prepare().await?;
    let (mut figures, began) = (Figures::default(), Instant::now());
    let mut failed = 0;
    for stage in &plan.stages {
        let servers = Servers::start(stage.members).await?;
        failed += run(stage, &servers, &peers, &mut figures, began).await;
        servers.close().await?;
    }
    page::write(&figures)?;
    if plan.whole {
        tables::write(&figures)?;
    }
    eprintln!("growth: {} s, {failed} steps failed", began.elapsed().as_secs());
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// All steps on these servers; gives how many failed.
async fn run(
    stage: &Stage,
    servers: &Servers,
    peers: &Peers,
    figures: &mut Figures,
    began: Instant,
) -> usize {
    let mut failed = 0;
    for (kind, n) in stage.steps() {
        for peer in peers.both() {
            let elapsed = began.elapsed();
            let what = format!("{kind} {n} on={} {peer}", servers.name);
            if elapsed > stage.until {
                eprintln!("growth: {what}: left out, it has taken {} s", elapsed.as_secs());
                continue;
            }
            eprintln!("growth: {:>3} s  {what}", elapsed.as_secs());
            let step = Step { servers, peers, peer, n, long: stage.long };
            match step.run(kind).await {
                Ok(measured) => figures.add(servers.name, peer, n, measured),
                Err(failure) => {
                    failed += usize::from(peer == Peer::Ours);
                    eprintln!("growth: {what}: failed: {failure}");
                    if let Err(failure) = servers.are_forsaken().await {
                        eprintln!("growth: {failure}");
                    }
                }
            }
        }
        figures.print(servers.name, kind, n);
    }
    failed
}
