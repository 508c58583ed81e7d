//! The end of `zklock`: the exit codes, and the one line with the reason.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind as HelpKind;
use zookeeper_recipes::{Error, ErrorKind};

use crate::log::{self, Event};
use crate::stderr;

/// Wrong usage: `EX_USAGE` of `sysexits.h`.
pub(crate) const USAGE: u8 = 64;
/// ZooKeeper cannot be reached, or refuses a request: `EX_UNAVAILABLE`.
pub(crate) const UNAVAILABLE: u8 = 69;
/// `zklock` itself failed: `EX_SOFTWARE`.
pub(crate) const INTERNAL: u8 = 70;
/// Another process has the lock: `EX_TEMPFAIL`.
pub(crate) const BUSY: u8 = 75;
/// The lock was lost while the command ran.
pub(crate) const LOST: u8 = 76;
/// The command exists, but cannot be executed; the code of shells for that.
pub(crate) const CANNOT_EXECUTE: u8 = 126;
/// The command does not exist; the code of shells for that.
pub(crate) const NOT_FOUND: u8 = 127;

/// Time limit for flushing stderr.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// The exit code, or the failure that determines it.
pub(crate) type Outcome = Result<u8, Failure>;

/// The reason why `zklock` ends with an exit code of its own, in one line.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    event: Event,
    message: String,
    /// True if a server refused the credentials, an ACL that may need some, or a request for want of permission.
    is_unpermitted: bool,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, event: Event::of(code), message: message.into(), is_unpermitted: false }
    }

    /// A busy lock. The user chooses the exit code.
    pub(crate) fn busy(code: u8, message: impl Into<String>) -> Self {
        Self { event: Event::Busy, ..Self::new(code, message) }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(UNAVAILABLE, message)
    }

    /// A request for which the credentials do not suffice.
    pub(crate) fn unpermitted(message: impl Into<String>) -> Self {
        Self { is_unpermitted: true, ..Self::unavailable(message) }
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(INTERNAL, message)
    }

    /// A failure that was already reported.
    pub(crate) fn reported(code: u8) -> Self {
        Self::new(code, "")
    }

    /// A file or a folder that cannot be read or written: a usage error if it was badly chosen, and an internal one otherwise,
    /// such as for a full disk.
    pub(crate) fn unusable_file(option: &str, path: &Path, error: &io::Error) -> Self {
        use io::ErrorKind::{
            AlreadyExists, InvalidFilename, InvalidInput, IsADirectory, NotADirectory, NotFound,
            PermissionDenied, ReadOnlyFilesystem,
        };
        let wrong = format!("{option}: cannot use {}: {error}", path.display());
        match error.kind() {
            AlreadyExists | InvalidFilename | InvalidInput | IsADirectory | NotADirectory
            | NotFound | PermissionDenied | ReadOnlyFilesystem => Self::usage(wrong),
            _ => Self::internal(wrong),
        }
    }

    /// A failure by this signal, at a time when nothing has to be undone.
    pub(crate) fn signal(signal: i32) -> Self {
        let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
        Self::new(of_signal(signal), format!("ended by {name}"))
    }

    /// Adds the credentials that were sent if they do not suffice.
    pub(crate) fn with_credentials(mut self, sent: &str) -> Self {
        if self.is_unpermitted {
            self.message = format!("{}; {sent} (--auth-file)", self.message);
        }
        self
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    pub(crate) fn event(&self) -> Event {
        self.event
    }

    /// Reports a failure that does not end `zklock`.
    pub(crate) fn say(&self) {
        self.event.say(&self.to_string());
    }
}

/// The outcome of several steps, each of which is carried out even if others failed.
#[derive(Default)]
pub(crate) struct First(Option<Failure>);

impl First {
    /// Keeps the first failure as the outcome, and reports any others at once.
    pub(crate) fn note(&mut self, outcome: Outcome) {
        match (outcome, &self.0) {
            (Ok(_), _) => {}
            (Err(failure), None) => self.0 = Some(failure),
            (Err(failure), Some(_)) => failure.say(),
        }
    }

    pub(crate) fn outcome(self) -> Outcome {
        self.0.map_or(Ok(0), Err)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&joined(&self.message))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        use ErrorKind::{
            AuthenticationFailed, BodyDropped, BodyPanicked, InvalidInput, Lost, PermissionDenied,
            UnusablePath, WouldDeadlock,
        };
        let code = match error.kind() {
            InvalidInput | UnusablePath => USAGE,
            Lost => LOST,
            WouldDeadlock | BodyPanicked | BodyDropped => INTERNAL,
            _ => UNAVAILABLE,
        };
        let is_unpermitted = matches!(error.kind(), AuthenticationFailed | PermissionDenied)
            || error.option() == Some("acls");
        Self { is_unpermitted, ..Self::new(code, chain(&error)) }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::internal(chain(&error))
    }
}

/// The exit code of a process that a signal ended, as in shells.
pub(crate) fn of_signal(signal: i32) -> u8 {
    u8::try_from(signal).map_or(u8::MAX, |signal| signal.saturating_add(128))
}

/// Returns the texts of an error and of its causes.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        // Some errors include the text of their cause.
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}

/// Reports a failure, and returns the exit code.
pub(crate) fn report(outcome: Outcome) -> u8 {
    let code = outcome.unwrap_or_else(|failure| {
        if !failure.message.is_empty() {
            failure.event.exits(failure.code, &failure.to_string());
        }
        failure.code()
    });
    stderr::flush(PATIENCE);
    code
}

/// Prints the message of `clap`. Help is not an error.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let is_help =
        !error.use_stderr() || error.kind() == HelpKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if is_help && error.use_stderr() && log::is_json() {
        Event::Usage.exits(USAGE, "no command is given; see --help");
    } else if is_help {
        if let Err(error) = error.print()
            && error.kind() != std::io::ErrorKind::BrokenPipe
        {
            Event::Internal.exits(INTERNAL, &format!("cannot write the help: {error}"));
            return ExitCode::from(INTERNAL);
        }
    } else {
        Event::Usage.exits(USAGE, &in_one_line(&error.render().to_string()));
    }
    ExitCode::from(if error.use_stderr() { USAGE } else { 0 })
}

/// Returns the error and the first tip in one line, without the usage.
fn in_one_line(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let mut paragraphs = text.split("\n\n").take_while(|part| !part.starts_with("Usage:"));
    let wrong = paragraphs.next().unwrap_or_default();
    let mut line = joined(wrong);
    let tips = paragraphs.flat_map(str::lines);
    let mut tips = tips.filter_map(|tip| tip.trim().strip_prefix("tip: "));
    // The tip to write `--` before an unknown option is wrong, because it belongs before the command.
    if let Some(tip) = tips.find(|tip| !tip.starts_with("to pass ")) {
        line = format!("{line}; {tip}");
    }
    format!("{line}; see --help")
}

/// Joins the lines of an error into one. Blanks within a line stay, as they may be part of a path.
fn joined(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

/// Writes one line to stderr, for a message that is no special event.
pub(crate) fn say(line: &str) {
    Event::Notice.say(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_the_arguments_is_one_line() {
        let said = |words: &[&str]| {
            let error = crate::arguments::command().try_get_matches_from(words).unwrap_err();
            in_one_line(&error.render().to_string())
        };
        let rows: [(&[&str], &str); 3] = [
            (
                &["zklock", "ls", "--jso", "/a"],
                "unexpected argument '--jso' found; a similar argument exists: '--json'; see --help",
            ),
            (
                &["zklock", "ls"],
                "the following required arguments were not provided: <PATH>; see --help",
            ),
            (&["zklock", "nope"], "unrecognized subcommand 'nope'; see --help"),
        ];
        for (words, expected) in rows {
            assert_eq!(said(words), expected);
        }
    }
}
