//! `zklock`: ZooKeeper locks and elections for the shell. See `docs/zklock.md`.

mod arguments;
mod connection;
mod contenders;
mod elect;
mod exit;
mod run;
mod settings;
mod signals;
mod supervision;
mod waiting;

use std::env;
use std::process::ExitCode;

use crate::arguments::{Arguments, Command};
use crate::exit::{Failure, Outcome};
use crate::settings::Settings;

fn main() -> ExitCode {
    let mut stage = env::args_os().skip(1);
    match stage.next() {
        Some(name) if name == supervision::SUPERVISE => return supervision::supervise(stage),
        Some(name) if name == supervision::EXECUTE => return supervision::execute(stage),
        _ => {}
    }
    let arguments = match Arguments::read() {
        Ok(arguments) => arguments,
        Err(error) => return exit::usage(&error),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = runtime
        .map_err(|error| Failure::internal(format!("no runtime: {error}")))
        .and_then(|runtime| runtime.block_on(dispatch(arguments)));
    exit::report(outcome)
}

async fn dispatch(arguments: Arguments) -> Outcome {
    let Arguments { connection, command } = arguments;
    let settings = Settings::read(&connection)?;
    match command {
        Command::Run(arguments) => run::run(arguments, &settings).await,
        Command::Elect(arguments) => elect::elect(arguments, &settings).await,
        Command::Observe(_)
        | Command::Ls(_)
        | Command::Revoke(_)
        | Command::Break(_)
        | Command::Completions(_)
        | Command::Man(_) => Err(Failure::internal("not there yet")),
    }
}
