//! `zklock`: ZooKeeper locks and elections for the shell. See `docs/guide/zklock.md`.

#[cfg(not(target_os = "linux"))]
compile_error!("zklock needs Linux: it asks the kernel that no command outlives it");

mod arguments;
mod background;
mod breaking;
mod check;
mod connection;
mod contenders;
mod diagnosis;
mod elect;
mod exit;
mod files;
mod log;
mod ls;
mod metrics;
mod mistakes;
mod mixed;
mod nesting;
mod observe;
mod output;
mod pages;
mod panics;
mod records;
mod revoke;
mod run;
mod settings;
mod signals;
mod stderr;
mod supervision;
mod text;
mod tls;
mod tree;
mod waiting;

use std::env;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

use signal_hook::consts::{SIGINT, SIGTTIN, SIGTTOU};

use crate::arguments::{Arguments, Command};
use crate::exit::{Failure, Outcome};
use crate::settings::Settings;
use crate::supervision::Terminal;

fn main() -> ExitCode {
    panics::report_in_one_line();
    let mut stage = env::args_os().skip(1);
    match stage.next() {
        Some(name) if name == supervision::SUPERVISE => {
            log::inherit();
            return supervision::supervise(stage);
        }
        Some(name) if name == supervision::EXECUTE => {
            log::inherit();
            return supervision::execute(stage);
        }
        _ => {}
    }
    let read = Arguments::read();
    let connection = match &read {
        Ok(arguments) => arguments.connection.clone(),
        Err(_) => settings::of_wrong_line(),
    };
    log::begin(settings::log_format(&connection), connection.verbose);
    let arguments = match read {
        Ok(arguments) => arguments,
        Err(error) => return exit::usage(&error),
    };
    if matches!(arguments.command, Command::Run(_) | Command::Elect(_)) {
        // Blocked before other threads start, because a terminal could stop them, and this one with them.
        let _ = signals::block(&[SIGTTIN, SIGTTOU]); // this cannot fail for valid signals
    }
    stderr::in_background();
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| execute(arguments)));
    let outcome = outcome.unwrap_or_else(|_| Err(Failure::reported(exit::INTERNAL)));
    metrics::ended(&outcome);
    let code = exit::report(outcome);
    if code == exit::of_signal(SIGINT) && Terminal::of_this_process().is_some() {
        signals::end_as_interrupted();
    }
    ExitCode::from(code)
}

fn execute(arguments: Arguments) -> Outcome {
    log::about(arguments.command.paths());
    files::check()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    metrics::begin(&arguments.command)?;
    let dispatched = AssertUnwindSafe(|| runtime.block_on(dispatch(arguments)));
    let outcome = panic::catch_unwind(dispatched);
    // Do not wait for a reader of our stdout that does not read, also after a panic.
    runtime.shutdown_background();
    outcome.unwrap_or_else(|panic| panic::resume_unwind(panic))
}

async fn dispatch(arguments: Arguments) -> Outcome {
    let Arguments { connection, command } = arguments;
    // An error matters only to a command that uses them: a mistake in the file must not prevent printing the manual.
    let settings = Settings::read(connection);
    let sent = settings.as_ref().map(Settings::credentials_sent).unwrap_or_default();
    let outcome = match command {
        Command::Run(arguments) => run::run(arguments, &settings?).await,
        Command::Elect(arguments) => elect::elect(arguments, &settings?).await,
        Command::Observe(arguments) => observe::observe(&arguments, &settings?).await,
        Command::Ls(arguments) => ls::ls(&arguments, &settings?).await,
        Command::Revoke(arguments) => revoke::revoke(&arguments, &settings?).await,
        Command::Break(arguments) => breaking::break_lock(&arguments, &settings?).await,
        Command::Check(arguments) => check::check(&arguments, &settings?).await,
        Command::Completions { shell } => pages::completions(shell),
        Command::Man { dir } => pages::man(dir.as_deref()),
    };
    outcome.map_err(|failure| failure.with_credentials(&sent))
}
