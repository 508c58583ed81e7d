//! The last stage before the command: this process becomes the command.

use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::iter;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use nix::unistd::execvpe;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use signal_hook::consts::SIGPIPE;

use super::clock::BootInstant;
use super::terminal::Terminal;
use crate::exit::{self, CANNOT_EXECUTE, NOT_FOUND};
use crate::log::{self, Event};
use crate::{signals, text};

/// The name of this stage on the command line.
pub(crate) const EXECUTE: &str = "__execute";

/// The variables that the stages of `zklock` pass on to each other, which are not meant for the command.
const OURS: [&str; 2] = [signals::IGNORED, log::INHERITED];

/// The kernel reads at most this much of a script's first line.
const LONGEST_FIRST_LINE: u64 = 256;

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
    let error = exec(&program, arguments);
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    let missing_loader = if is_missing { missing_loader(&program) } else { None };
    let why = missing_loader.unwrap_or_else(|| error.to_string());
    let code = if is_missing { NOT_FOUND } else { CANNOT_EXECUTE };
    Event::of(code).exits(code, &format!("cannot execute {}: {why}", program.display()));
    ExitCode::from(code)
}

/// Becomes the command; returns only the error. The command gets the signals ignored that `zklock` got ignored.
fn exec(program: &OsStr, arguments: impl Iterator<Item = OsString>) -> io::Error {
    if !signals::was_ignored_at_start(SIGPIPE) {
        // This sets SIGPIPE to its default.
        let mut command = Command::new(program);
        for variable in OURS {
            command.env_remove(variable);
        }
        return command.args(arguments).exec();
    }
    // This leaves SIGPIPE ignored, as Rust's runtime made it.
    let text = |text: OsString| CString::new(text.into_vec());
    let program = text(program.to_owned());
    let rest: Result<Vec<_>, _> = arguments.map(text).collect();
    let others = env::vars_os().filter(|(name, _)| !OURS.iter().any(|ours| name == ours));
    let variables: Result<Vec<_>, _> = others
        .map(|(mut name, value)| {
            name.push("=");
            name.push(value);
            text(name)
        })
        .collect();
    match (program, rest, variables) {
        (Ok(program), Ok(rest), Ok(variables)) => {
            let words: Vec<_> = iter::once(program.clone()).chain(rest).collect();
            let Err(error) = execvpe(&program, &words, &variables);
            error.into()
        }
        // The kernel gave these texts to this process, so they contain no NUL.
        _ => io::ErrorKind::InvalidInput.into(),
    }
}

/// Names what the kernel did not find if the program itself exists: the interpreter of a script, or the loader of a binary.
fn missing_loader(program: &OsStr) -> Option<String> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let is_path = program.as_bytes().contains(&b'/');
    let mut files: Vec<_> = env::split_paths(&folders).map(|folder| folder.join(program)).collect();
    if is_path {
        files = vec![PathBuf::from(program)];
    }
    let file = files.into_iter().find(|file| file.is_file())?;
    let mut start = Vec::new();
    File::open(&file).ok()?.take(LONGEST_FIRST_LINE).read_to_end(&mut start).ok()?;
    let Some(line) = start.strip_prefix(b"#!") else {
        return Some("the file is there, but not the loader or library that it needs".to_owned());
    };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_start();
    // A carriage return is part of the name, as for the kernel.
    let name = line.split(|byte| matches!(byte, b' ' | b'\t')).next().unwrap_or_default();
    let ending = if name.ends_with(b"\r") { "; its lines end with CR LF, not LF" } else { "" };
    Some(format!("its interpreter {} is missing{ending}", text::visible(name)))
}
