//! `zklock`: ZooKeeper locks and elections for the shell. See `docs/zklock.md`.

mod arguments;
mod exit;

use std::process::ExitCode;

use crate::arguments::{Arguments, Command};
use crate::exit::{Failure, Outcome};

fn main() -> ExitCode {
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
    let Arguments { connection: _, command } = arguments;
    match command {
        Command::Run(_)
        | Command::Elect(_)
        | Command::Observe(_)
        | Command::Ls(_)
        | Command::Revoke(_)
        | Command::Break(_)
        | Command::Completions(_)
        | Command::Man(_) => Err(Failure::internal("not there yet")),
    }
}
