//! The lines on stderr: text for people, or one JSON object for each.
//!
//! A line says which lock it is about. A process takes part in one lock, or in several at once, so it notes the paths and
//! the tokens here, and no message has to bring them along.
//!
//! `tracing-subscriber` formats the text of a library's message. Its own JSON has other keys than the lines of `zklock`, and no
//! option renames them.

use std::env;
use std::fmt;
use std::io::{self, IsTerminal};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use serde::{Deserialize, Serialize, Serializer};
use tracing::{Event as Record, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{self, Format, Full, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::arguments::LogFormat;
use crate::exit;
use crate::stderr::{self, Stderr};
use crate::text;

/// The kind of a message, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Event {
    /// A message of a library that `zklock` uses.
    Library,
    /// Any other message.
    Notice,
    /// Something went wrong, and `zklock` continues.
    Warning,
    Waiting,
    Started,
    /// The command is being ended.
    Ending,
    Ended,
    /// Another process asked for the lock.
    Revoked,
    /// No server has confirmed a release.
    Unconfirmed,
    /// The key of `run --once` is recorded.
    Done,
    Busy,
    Lost,
    /// Wrong usage.
    Usage,
    Unavailable,
    /// An error of `zklock` itself.
    Internal,
    /// The command cannot be executed.
    NotExecuted,
    /// A signal ended `zklock`.
    Signal,
    /// Any other failure.
    Failed,
}

impl Event {
    /// Returns the kind of a failure with this exit code.
    pub(crate) fn of(code: u8) -> Self {
        match code {
            exit::USAGE => Self::Usage,
            exit::UNAVAILABLE => Self::Unavailable,
            exit::INTERNAL => Self::Internal,
            exit::BUSY => Self::Busy,
            exit::LOST => Self::Lost,
            exit::CANNOT_EXECUTE | exit::NOT_FOUND => Self::NotExecuted,
            129.. => Self::Signal,
            _ => Self::Failed,
        }
    }

    /// A busy lock is no error: on most machines of a fleet it is the usual end.
    fn level(self) -> &'static str {
        use Event::{
            Busy, Done, Ended, Ending, Library, Notice, Revoked, Signal, Started, Unconfirmed,
            Waiting, Warning,
        };
        match self {
            Library | Notice | Waiting | Started | Ended | Revoked | Done | Busy => "info",
            Warning | Ending | Unconfirmed | Signal => "warn",
            _ => "error",
        }
    }

    /// Writes one line to stderr. A missing reader is not an error.
    pub(crate) fn say(self, text: &str) {
        self.write(None, text);
    }

    /// Writes the line about the end with this exit code.
    pub(crate) fn exits(self, code: u8, text: &str) {
        self.write(Some(code), text);
    }

    fn write(self, exit_code: Option<u8>, text: &str) {
        let log = Log::current();
        let line = match log.format {
            LogFormat::Text => {
                let time = if log.is_timed { now() + " " } else { String::new() };
                format!("{time}zklock: {}\n", text::visible(text.as_bytes()))
            }
            LogFormat::Json => Line { exit_code, ..log.line(self, self.level(), text) }.json(),
        };
        stderr::write(line.as_bytes());
    }
}

/// What each line of this process is about.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Log {
    format: LogFormat,
    /// True if text has the time before it.
    is_timed: bool,
    paths: Vec<String>,
    /// The fencing tokens, in the order of the paths; none while no lock is held.
    tokens: Vec<i64>,
}

static LOG: Mutex<Log> = Mutex::new(Log {
    format: LogFormat::Text,
    is_timed: false,
    paths: Vec::new(),
    tokens: Vec::new(),
});

/// The variable by which the other processes of a run get the state of the log. The command does not get it.
pub(crate) const INHERITED: &str = "LOCK_SUPERVISOR_LOG";

impl Log {
    fn current() -> Self {
        LOG.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change(change: impl FnOnce(&mut Self)) {
        change(&mut LOG.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn line<'a>(&'a self, event: Event, level: &'a str, message: &'a str) -> Line<'a> {
        Line {
            time: now(),
            level,
            event,
            path: &self.paths,
            token: &self.tokens,
            exit_code: None,
            message,
            target: None,
        }
    }
}

/// Selects the format, and shows the log of the libraries: from level info on if `verbose`, or as `RUST_LOG` selects.
pub(crate) fn begin(format: LogFormat, verbose: bool) {
    Log::change(|log| {
        log.format = format;
        log.is_timed = verbose;
    });
    let selected = env::var("RUST_LOG").ok().filter(|selected| !selected.is_empty());
    let selected = selected.and_then(|selected| match EnvFilter::try_new(&selected) {
        Ok(filter) => Some(filter),
        Err(error) => {
            Event::Warning.say(&format!("RUST_LOG={selected} is not used: {error}"));
            None
        }
    });
    let filter = selected.or_else(|| verbose.then(|| EnvFilter::new("zookeeper_recipes=info")));
    let Some(filter) = filter else { return };
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| Stderr);
    // Each fails only if there is a subscriber already.
    let _ = if format == LogFormat::Json {
        let message = format::format().without_time().with_level(false).with_target(false);
        subscriber.with_ansi(false).event_format(Json { message }).try_init()
    } else {
        subscriber.with_ansi(io::stderr().is_terminal()).try_init()
    };
}

/// Returns true if each line is a JSON object.
pub(crate) fn is_json() -> bool {
    Log::current().format == LogFormat::Json
}

/// Notes the paths of the locks. Several locks are acquired in the order of their paths.
pub(crate) fn about(paths: &[String]) {
    let mut paths = paths.to_vec();
    paths.sort();
    Log::change(|log| log.paths = paths);
}

/// Notes the tokens of the locks that are held, in the order of their paths; none once they are released.
pub(crate) fn holds(tokens: Vec<i64>) {
    Log::change(|log| log.tokens = tokens);
}

/// Lets a process of this program write such lines as well.
pub(crate) fn bequeath(process: &mut Command) {
    if let Ok(log) = serde_json::to_string(&Log::current()) {
        process.env(INHERITED, log);
    }
}

/// Takes over what [`bequeath`] gave to this process.
pub(crate) fn inherit() {
    let inherited = env::var(INHERITED).ok().and_then(|log| serde_json::from_str(&log).ok());
    if let Some(inherited) = inherited {
        Log::change(|log| *log = inherited);
    }
}

fn now() -> String {
    text::time(SystemTime::now())
}

/// A line as JSON.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    level: &'a str,
    event: Event,
    #[serde(skip_serializing_if = "<[_]>::is_empty", serialize_with = "one_or_all")]
    path: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty", serialize_with = "one_or_all")]
    token: &'a [i64],
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<u8>,
    message: &'a str,
    /// The module of a library that wrote the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a str>,
}

impl Line<'_> {
    fn json(&self) -> String {
        text::json(self) + "\n"
    }
}

/// Most runs have one lock: its path and its token are plain values, those of several locks are arrays.
fn one_or_all<T: Serialize, S: Serializer>(all: &&[T], to: S) -> Result<S::Ok, S::Error> {
    match all {
        [one] => one.serialize(to),
        all => all.serialize(to),
    }
}

/// Formats the messages of the libraries as lines of JSON.
struct Json {
    /// Formats the message: the spans, the text and the fields.
    message: Format<Full, ()>,
}

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        record: &Record<'_>,
    ) -> fmt::Result {
        let mut message = String::new();
        self.message.format_event(context, Writer::new(&mut message), record)?;
        let level = record.metadata().level().as_str().to_lowercase();
        let log = Log::current();
        let line = Line {
            target: Some(record.metadata().target()),
            ..log.line(Event::Library, &level, message.trim_end())
        };
        writer.write_str(&line.json())
    }
}
