//! Only the soak shows that the locks exclude on real servers: real processes, killed and stopped, beside contenders of Curator and
//! kazoo, while random faults hit links, workers and members of an ensemble. A checker judges what all of them logged.
//!
//! `make soak RECIPE=mutex FAULTS=1000 SEED=7` runs it (docs/internals/testing.md, "The soak"). `RECIPE=threads SECONDS=300`
//! hammers the locks of one process instead. `RECIPE=upgrade`, which upgrades the servers under holders, is a part of `margins`.
//! `SABOTAGE=ignores-lease` has the workers believe until they release, and `PEERS=curator-5.9.0,kazoo` has contenders of other
//! libraries among them: `settings.rs` has all of them.
#![allow(clippy::disallowed_methods)] // its processes and tasks are its own
#![allow(clippy::future_not_send)] // they stay on the thread that began them

mod admin;
mod checker;
mod faults;
mod hold;
mod links;
mod log;
mod peers;
mod report;
mod rows;
mod run;
mod schedule;
mod settings;
#[cfg(test)]
mod tests;
mod threads;
mod worker;

use std::process::ExitCode;
use tools::Result;

fn main() -> Result<ExitCode> {
    if settings::is_of_threads() {
        return Ok(exit_code(threads::run(settings::seconds()?)?));
    }
    contend()
}

fn exit_code(is_clean: bool) -> ExitCode {
    if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[tokio::main]
async fn contend() -> Result<ExitCode> {
    if let Some(worker) = settings::WorkerSettings::from_environment()? {
        worker::run(worker).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let verdict = run::run(&settings::Settings::from_environment()?).await?;
    Ok(exit_code(verdict.is_clean()))
}
