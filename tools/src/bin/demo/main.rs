//! Several processes share one lock on a real ZooKeeper, while some of them are killed and stopped.
//!
//! `make demo` runs it: it starts a server (or uses `ZOOKEEPER_CONNECT`), six workers that contend on
//! `/locks/demo`, kills one that holds and one that waits, stops one that holds until its session is
//! over, and resumes it. At the end it reckons, from what the workers logged, whether ever two held.
//! Nothing is disturbed for `CALM` seconds (10) before, between and after.
#![allow(clippy::disallowed_methods)] // its processes and tasks are its own

mod log;
mod script;
mod summary;
mod worker;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let result = match std::env::args().nth(1) {
        None => script::run().await,
        Some(name) => worker::run(&name).await.map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        let mut source = error.source();
        while let Some(cause) = source {
            eprintln!("  because: {cause}");
            source = cause.source();
        }
        ExitCode::FAILURE
    })
}
