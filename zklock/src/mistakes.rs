//! Explains a mistake on the command line better than `clap` does: a bad variable, and a missing `--`.

use std::env;
use std::ffi::OsString;

use clap::error::{ContextKind, ErrorKind};

use crate::arguments::command;

/// The advice if a command was taken for paths and options.
pub(crate) const DASHES: &str = "write -- before the command, as in zklock run PATH -- COMMAND";

/// Returns the message about the mistake, if it is one of these.
pub(crate) fn explained(error: &clap::Error) -> Option<String> {
    of_variable(error).or_else(|| of_missing_dashes(error))
}

/// Returns the message about a bad variable, which `clap` takes for an option, if there is one.
fn of_variable(error: &clap::Error) -> Option<String> {
    use ErrorKind::{InvalidUtf8, InvalidValue, ValueValidation};
    let all = command();
    let mut variables =
        all.get_arguments().filter_map(|argument| Some((argument, argument.get_env()?.to_str()?)));
    let value_of = |variable: &str| env::var_os(variable);
    match error.kind() {
        InvalidUtf8 => {
            let is_text =
                |variable| value_of(variable).is_none_or(|value| value.to_str().is_some());
            let (_, variable) = variables.find(|(_, variable)| !is_text(variable))?;
            Some(format!("{variable} is not UTF-8"))
        }
        InvalidValue | ValueValidation => {
            let named = error.get(ContextKind::InvalidArg)?.to_string();
            let (argument, variable) =
                variables.find(|(argument, _)| argument.to_string() == named)?;
            let option = format!("--{}", argument.get_long()?);
            let is_given = |word: OsString| word.to_string_lossy().starts_with(&option);
            let value = value_of(variable).filter(|_| !env::args_os().any(is_given))?;
            if value.is_empty() {
                return Some(empty(variable));
            }
            let text = error.to_string();
            Some(first_paragraph(&text).replace(&format!("'{named}'"), variable))
        }
        _ => None,
    }
}

/// Returns the message about a command without `--` before it, if there is one: `clap` took its words and options for those of
/// `zklock`.
fn of_missing_dashes(error: &clap::Error) -> Option<String> {
    let text = error.to_string();
    let is_of = |command: &str| text.contains(&format!("Usage: zklock {command} "));
    let has = |word: &str| env::args_os().any(|other| other == word);
    let needs_command = is_of("run") && !has("-c") && !has("--shell");
    let may_be_command = is_of("elect") && error.kind() == ErrorKind::UnknownArgument;
    let is_misspelt = text.contains("a similar argument exists");
    let lacks_dashes = (needs_command || may_be_command) && !has("--") && !is_misspelt;
    (lacks_dashes && error.use_stderr()).then(|| format!("{}; {DASHES}", first_paragraph(&text)))
}

/// Returns what is wrong, without tips and usage.
fn first_paragraph(text: &str) -> &str {
    let wrong = text.split("\n\n").next().unwrap_or_default();
    wrong.strip_prefix("error: ").unwrap_or(wrong)
}

/// The message about an empty variable: a script often sets it from another variable, which is unset by mistake.
pub(crate) fn empty(variable: &str) -> String {
    format!("{variable} is empty: give it a value, or unset it")
}
