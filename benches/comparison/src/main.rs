//! ZooKeeper recipes beside other ways to lock: `make comparison`.
//!
//! Each way is run against a server of its own, by worker processes that are killed and stopped for real; what the
//! ways do is asked of all of them in the same words. What is asked, and what was seen: `docs/comparison.md`.
#![allow(clippy::disallowed_methods)] // its tasks and clocks are its own

mod belief;
mod clock;
mod event;
mod finding;
mod hand;
mod machine;
mod process;
mod progress;
mod questions;
mod report;
mod run;
mod server;
mod settings;
mod stage;
mod statistics;
mod ways;
mod worker;

use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use self::machine::Machine;
use self::server::Kind;
use self::settings::{Arguments, Role, Settings};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A server could not be had.
const MISSING: u8 = 3;

fn main() -> ExitCode {
    let Arguments { role, settings } = Arguments::parse();
    // One thread: the children ask the kernel to end them with the thread that started them.
    let done = Builder::new_current_thread().enable_all().build().map_err(Failure::from);
    let done = done.and_then(|runtime| {
        runtime.block_on(async {
            match role {
                Some(Role::Worker { place }) => {
                    let place: ways::Place = serde_json::from_str(&place)?;
                    place.way.work(place).await.map(|()| ExitCode::SUCCESS)
                }
                None => compare_until_told_to_end(&settings.in_short()).await,
            }
        })
    });
    done.unwrap_or_else(|error| {
        eprintln!("comparison: {error}");
        ExitCode::FAILURE
    })
}

/// A signal drops everything, and with that ends all servers and workers and removes their data.
async fn compare_until_told_to_end(settings: &Settings) -> Result<ExitCode, Failure> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        done = compare(settings) => done,
        _ = interrupt.recv() => Ok(ExitCode::from(130)),
        _ = terminate.recv() => Ok(ExitCode::from(143)),
    }
}

async fn compare(settings: &Settings) -> Result<ExitCode, Failure> {
    for root in settings.memory().into_iter().chain([settings.disk()]) {
        server::sweep(&root);
    }
    let mut machine = Machine::look(settings, &Kind::ALL).await;
    let results = run::all(settings).await;
    machine.look_again();
    report::print(&results, &machine);
    println!("\nreport: {}", report::write(&results, &machine, settings)?.display());
    if !results.failures.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    if !results.missing.is_empty() {
        return Ok(ExitCode::from(MISSING));
    }
    if settings.docs {
        let page = report::write_into_the_documentation(&results, &machine, settings)?;
        println!("tables: {}", page.display());
    }
    Ok(ExitCode::SUCCESS)
}
