//! The configuration files.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use toml::{Spanned, Value};

use super::{Environment, Given, KEYS, Origin};
use crate::exit::Failure;

/// What it says, all of it checked.
#[derive(Debug)]
struct ConfigFile {
    file: PathBuf,
    /// With the line that each stands in.
    values: BTreeMap<&'static str, (String, usize)>,
}

/// The configuration files that count, the first of them before the others, key by key.
#[derive(Debug, Default)]
pub(super) struct ConfigFiles {
    files: Vec<ConfigFile>,
    /// What is there and cannot be read.
    unreadable: Vec<String>,
}

impl ConfigFiles {
    /// The one that is named, which must be there; else the user's and the machine's.
    pub(super) fn find(
        option: Option<&Path>,
        environment: &Environment<'_>,
        etc: &Path,
    ) -> Result<Self, Failure> {
        const VARIABLE: &str = "ZKLOCK_CONFIG";
        let named = match option {
            Some(file) => Some((file.to_owned(), "--config")),
            None => environment.value(VARIABLE).map(|file| (PathBuf::from(file), VARIABLE)),
        };
        let mut found = Self::default();
        if let Some((file, by)) = named {
            let text = std::fs::read(&file).map_err(|error| {
                Failure::usage(format!("{by}: cannot read {}: {error}", file.display()))
            })?;
            found.files.push(ConfigFile::parse(file, &text)?);
            return Ok(found);
        }
        let home = || environment.value("HOME").map(|home| PathBuf::from(home).join(".config"));
        let base = environment.value("XDG_CONFIG_HOME").map(PathBuf::from);
        let base = base.filter(|base| base.is_absolute()).or_else(home);
        for folder in base.iter().map(PathBuf::as_path).chain([etc]) {
            let file = folder.join("zklock.toml");
            match std::fs::read(&file) {
                Ok(text) => found.files.push(ConfigFile::parse(file, &text)?),
                Err(error) if is_absence(&error) => {}
                // Often another user's folder, which `su` or `sudo` left in `HOME`.
                Err(error) => {
                    found.unreadable.push(format!("cannot read {}: {error}", file.display()));
                }
            }
        }
        Ok(found)
    }

    /// What is to be said of those that are left out.
    pub(super) fn unreadable(&self) -> &[String] {
        &self.unreadable
    }

    pub(super) fn text(&self, key: &'static str) -> Option<Given<String>> {
        self.files.iter().find_map(|file| file.text(key))
    }

    pub(super) fn path(&self, key: &'static str) -> Option<Given<PathBuf>> {
        self.files.iter().find_map(|file| file.path(key))
    }
}

impl ConfigFile {
    fn parse(file: PathBuf, text: &[u8]) -> Result<Self, Failure> {
        let wrong = |line: usize, reason: &str| {
            Failure::usage(format!("{}:{line}: {reason}", file.display()))
        };
        let line_of = |at: usize| 1 + text[..at].iter().filter(|byte| **byte == b'\n').count();
        let text = std::str::from_utf8(text)
            .map_err(|error| wrong(line_of(error.valid_up_to()), "it is not UTF-8"))?;
        // The parser's own words; not the line, which may be a secret at the wrong place.
        let entries: BTreeMap<Spanned<String>, Spanned<Value>> =
            toml::from_str(text).map_err(|error| {
                wrong(error.span().map_or(1, |at| line_of(at.start)), error.message())
            })?;
        let mut values = BTreeMap::new();
        for (name, value) in entries {
            let line = line_of(name.span().start);
            let Some(key) = KEYS.into_iter().find(|key| key == name.get_ref()) else {
                let name = told(name.get_ref());
                let keys = KEYS.join(", ");
                return Err(wrong(line, &format!("unknown key{name}; there are {keys}")));
            };
            let is_number = key.ends_with("-timeout");
            let value = match value.into_inner() {
                Value::String(text) => text,
                Value::Integer(number) if is_number => number.to_string(),
                Value::Float(number) if is_number => number.to_string(),
                other => {
                    let (kind, or) =
                        (other.type_str(), if is_number { " or a number" } else { "" });
                    let reason = format!("{key}: it must be a string{or}, not of type {kind}");
                    return Err(wrong(line, &reason));
                }
            };
            if value.is_empty() {
                return Err(wrong(line, &format!("{key}: it is empty")));
            }
            values.insert(key, (value, line));
        }
        Ok(Self { file, values })
    }

    fn text(&self, key: &'static str) -> Option<Given<String>> {
        let (value, line) = self.values.get(key)?;
        let origin = Origin::File { file: self.file.clone(), line: *line, key };
        Some(Given { value: value.clone(), origin })
    }

    fn path(&self, key: &'static str) -> Option<Given<PathBuf>> {
        let Given { value, origin } = self.text(key)?;
        let folder = self.file.parent().unwrap_or_else(|| Path::new(""));
        Some(Given { value: folder.join(value), origin })
    }
}

/// A key, if it looks like one: else it may be a secret at the wrong place.
fn told(name: &str) -> String {
    let is_of_keys = |letter: u8| letter.is_ascii_lowercase() || matches!(letter, b'-' | b'_');
    let is_key = (1..=32).contains(&name.len()) && name.bytes().all(is_of_keys);
    if is_key { format!(" {name}") } else { String::new() }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
