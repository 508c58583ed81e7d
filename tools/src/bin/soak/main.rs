//! Worker processes contend for a lock on an ensemble of three, through proxies, while a thousand faults hit links,
//! members and workers; a checker judges what they logged.
//!
//! `make soak RECIPE=mutex FAULTS=1000 SEED=7` runs it (docs/testing.md, "The soak"). `SABOTAGE=no-owner-check`, and others,
//! has the workers use a lock that is broken on purpose: then the checker must find it.
#![allow(clippy::disallowed_methods)] // its processes and tasks are its own
#![allow(clippy::future_not_send)] // they stay on the thread that began them

mod admin;
mod candidate;
mod checker;
mod faults;
mod guards;
mod hand;
mod hold;
mod links;
mod log;
mod naive;
mod observer;
mod report;
mod rows;
mod run;
mod schedule;
mod settings;
mod store;
#[cfg(test)]
mod tests;
mod turns;
mod worker;

use std::process::ExitCode;
use tools::Result;

#[tokio::main]
async fn main() -> ExitCode {
    match start().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            let mut source = error.source();
            while let Some(cause) = source {
                eprintln!("  because: {cause}");
                source = cause.source();
            }
            ExitCode::FAILURE
        }
    }
}

/// Whether all is well.
async fn start() -> Result<bool> {
    if let Some(worker) = settings::WorkerSettings::from_environment()? {
        worker::run(worker).await?;
        return Ok(true);
    }
    let settings = settings::Settings::from_environment()?;
    Ok(run::run(&settings).await?.is_clean())
}
