//! The last stage before the command: this process becomes the command.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

use super::clock::BootInstant;
use super::terminal::Terminal;
use crate::exit::{self, CANNOT_EXECUTE, NOT_FOUND};
use crate::log::{self, Event};

/// The name of this stage on the command line.
pub(crate) const EXECUTE: &str = "__execute";

/// Returns the arguments that precede the command: this stage, the supervisor's process, the end of the lease, and
/// whether to go into the foreground.
pub(super) fn arguments(lease_end: Option<BootInstant>, foreground: bool) -> [OsString; 4] {
    let supervisor = std::process::id().to_string();
    let lease_end = lease_end.map_or_else(|| "never".to_owned(), BootInstant::to_argument);
    let place = if foreground { "foreground" } else { "background" };
    [EXECUTE.into(), supervisor.into(), lease_end.into(), place.into()]
}

/// Returns only if the command cannot be executed.
pub(crate) fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let supervisor = arguments.next().and_then(|pid| pid.to_str()?.parse().ok());
    let lease_end = arguments.next().and_then(|end| BootInstant::from_argument(end.to_str()?));
    let foreground = arguments.next().is_some_and(|word| word == "foreground");
    let Some(program) = arguments.next() else {
        return ExitCode::from(exit::INTERNAL);
    };
    // The kernel now kills this process when its supervisor ends …
    let prepared = set_parent_process_death_signal(Some(Signal::KILL));
    // … which may have ended before.
    let parent = getppid().map(|pid| pid.as_raw_nonzero().get());
    if prepared.is_err() || parent != supervisor {
        return ExitCode::from(exit::INTERNAL);
    }
    if foreground && let Some(terminal) = Terminal::of_this_process() {
        let _ = terminal.give(getpid()); // without it the command cannot read the terminal, and says so
    }
    // Both processes may have been frozen since the lock was acquired. The supervisor notices that as well.
    if lease_end.is_some_and(|end| end <= BootInstant::now()) {
        return ExitCode::from(exit::LOST);
    }
    let mut command = Command::new(&program);
    log::disinherit(&mut command);
    let error = command.args(arguments).exec();
    let missing = error.kind() == io::ErrorKind::NotFound;
    let code = if missing { NOT_FOUND } else { CANNOT_EXECUTE };
    Event::of(code).exits(code, &format!("cannot execute {}: {error}", program.display()));
    ExitCode::from(code)
}
