//! `zklock`: ZooKeeper locks and elections for the shell. See `docs/zklock.md`.

mod arguments;
mod breaking;
mod connection;
mod contenders;
mod elect;
mod exit;
mod ls;
mod observe;
mod output;
mod pages;
mod revoke;
mod run;
mod settings;
mod signals;
mod supervision;
mod text;
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
    if connection.verbose {
        output::log();
    }
    // Only for who needs them: a mistake in the file is no reason not to print the manual.
    let settings = || Settings::read(&connection);
    match command {
        Command::Run(arguments) => run::run(arguments, &settings()?).await,
        Command::Elect(arguments) => elect::elect(arguments, &settings()?).await,
        Command::Observe(arguments) => observe::observe(&arguments, &settings()?).await,
        Command::Ls(arguments) => ls::ls(&arguments, &settings()?).await,
        Command::Revoke(arguments) => revoke::revoke(&arguments, &settings()?).await,
        Command::Break(arguments) => breaking::break_lock(&arguments, &settings()?).await,
        Command::Completions(arguments) => pages::completions(arguments.shell),
        Command::Man(arguments) => pages::man(arguments.dir.as_deref()),
    }
}
