//! The format of the lines on stderr. It is read before everything else, also from a command line or a file with mistakes,
//! because the message about a mistake has that format.

use std::env;
use std::fs;
use std::path::PathBuf;

use clap::ValueEnum;
use toml::Table;

use super::{files, folders};
use crate::arguments::{Connection, LogFormat};

/// Returns the format that was given, or else that of the first file with one.
pub(crate) fn log_format(given: &Connection) -> LogFormat {
    let of_files = || files(given, &folders()).into_iter().find_map(of_file);
    given.log_format.or_else(of_files).unwrap_or_default()
}

fn of_file(file: PathBuf) -> Option<LogFormat> {
    let all: Table = toml::from_str(&fs::read_to_string(file).ok()?).ok()?;
    LogFormat::from_str(all.get("log-format")?.as_str()?, false).ok()
}

/// Returns the options that shape a message, from a command line with any mistake. `clap` returns none of them then.
pub(crate) fn of_wrong_line() -> Connection {
    let words = env::args_os().skip(1).take_while(|word| word != "--");
    let words: Vec<_> = words.filter_map(|word| word.into_string().ok()).collect();
    let value_of = |option: &str, variable: &str| {
        let joined = |word: &String| Some(word.strip_prefix(option)?.strip_prefix('=')?.to_owned());
        let behind = words.iter().skip_while(|word| *word != option).nth(1).cloned();
        let given = words.iter().find_map(joined).or(behind);
        given.or_else(|| env::var(variable).ok())
    };
    let log_format = value_of("--log-format", "ZKLOCK_LOG_FORMAT");
    Connection {
        config: value_of("--config", "ZKLOCK_CONFIG").map(PathBuf::from),
        log_format: log_format.and_then(|value| LogFormat::from_str(&value, false).ok()),
        verbose: words.iter().any(|word| word == "-v" || word == "--verbose"),
        ..Connection::default()
    }
}
