//! An HTTP service of which several processes run and one leads: only that one runs the background job.
//!
//! `ZOOKEEPER_CONNECT=… cargo run --example leader_service -- serve` is such a process; `LISTEN` (default: a port that
//! the system chooses) and `NAMESPACE` (default: `/leader-service`) say where. `GET /healthz` says whether it works,
//! `GET /leader` who leads. `SIGTERM` ends it in order: the job, then its place, then the HTTP server.
//!
//! Without arguments it plays a demonstration: it starts a server (or uses `ZOOKEEPER_CONNECT`) and three such processes,
//! ends the leader by `SIGTERM`, the next by `SIGKILL`, and asks all that are left who leads.
#![allow(clippy::disallowed_methods)] // its processes and tasks are its own

mod demonstration;
mod http;
mod job;
mod process;
mod service;

use std::error::Error;
use std::process::ExitCode;

type Fault = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        [] => demonstration::run().await,
        ["serve"] => service::serve().await,
        ["serve", process::WITH_PARENT] => {
            process::end_with_parent();
            service::serve().await
        }
        _ => Err("arguments: none, or `serve`".into()),
    };
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    eprintln!("error: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        eprintln!("  because: {cause}");
        source = cause.source();
    }
    ExitCode::FAILURE
}
