//! Worker processes contend for a lock on an ensemble of three, through proxies, while a thousand faults hit links,
//! members and workers; a checker judges what they logged.
//!
//! `make soak RECIPE=mutex FAULTS=1000 SEED=7` runs it (docs/internals/testing.md, "The soak"). `RECIPE=threads SECONDS=300`
//! hammers the locks of one process instead. `SABOTAGE=ignores-lease` has
//! the workers believe until they release, `RETAIN=1` retain the node of the mutex: `settings.rs` has all of them.
#![allow(clippy::disallowed_methods)] // its processes and tasks are its own
#![allow(clippy::future_not_send)] // they stay on the thread that began them

mod admin;
mod candidate;
mod checker;
mod faults;
mod hand;
mod hold;
mod links;
mod log;
mod observer;
mod report;
mod rows;
mod run;
mod schedule;
mod settings;
mod store;
#[cfg(test)]
mod tests;
mod threads;
mod turns;
mod worker;

use std::process::ExitCode;
use tools::Result;

fn main() -> Result<ExitCode> {
    if settings::hammers_threads() {
        let is_clean = threads::run(settings::seconds()?)?;
        return Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    contend()
}

#[tokio::main]
async fn contend() -> Result<ExitCode> {
    if let Some(worker) = settings::WorkerSettings::from_environment()? {
        worker::run(worker).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let verdict = run::run(&settings::Settings::from_environment()?).await?;
    Ok(if verdict.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
