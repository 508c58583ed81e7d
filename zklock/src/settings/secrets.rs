//! Reads credentials, which only the servers get to see.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::exit::Failure;
use crate::log::Event;

/// Credentials of one of ZooKeeper's schemes; `sasl` is DIGEST-MD5.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) scheme: String,
    pub(crate) secret: Vec<u8>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// The error for a line. It does not quote the line, which may be the secret.
const MALFORMED: &str = "no scheme:credentials, such as digest:user:password";

impl Credentials {
    pub(super) fn of_variable(name: &str, value: &OsStr) -> Result<Self, Failure> {
        Self::parse(value.as_bytes()).ok_or_else(|| Failure::usage(format!("{name}: {MALFORMED}")))
    }

    /// Returns the user and the password if the credentials are for SASL.
    pub(crate) fn sasl(&self) -> Result<Option<(String, String)>, Failure> {
        if self.scheme != "sasl" {
            return Ok(None);
        }
        let secret = std::str::from_utf8(&self.secret).ok().and_then(|text| text.split_once(':'));
        let (user, password) = secret.ok_or_else(|| {
            Failure::usage("credentials of scheme sasl have the form sasl:user:password")
        })?;
        Ok(Some((user.to_owned(), password.to_owned())))
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let scheme = std::str::from_utf8(&line[..colon]).ok()?;
        let is_name = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let secret = line[colon + 1..].to_vec();
        (is_name && !secret.is_empty()).then(|| Self { scheme: scheme.to_owned(), secret })
    }
}

/// Reads all credentials of a file. If `verbose`, reports that all users may read it.
pub(super) fn read(file: &Path, verbose: bool) -> Result<Vec<Credentials>, Failure> {
    let shown = file.display();
    let unreadable = |error| Failure::usage(format!("auth-file: cannot read {shown}: {error}"));
    let text = fs::read(file).map_err(unreadable)?;
    let mode = fs::metadata(file).map_err(unreadable)?.permissions().mode();
    // Such a file is not refused, because secrets in a container often have this mode.
    if verbose && mode & 0o004 != 0 {
        let mode = mode & 0o7777;
        Event::Warning
            .say(&format!("{shown} has credentials, and all users may read it (mode {mode:04o})"));
    }
    let mut credentials = Vec::new();
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.trim_ascii().is_empty() || line.starts_with(b"#") {
            continue;
        }
        let parsed = Credentials::parse(line)
            .ok_or_else(|| Failure::usage(format!("{shown}:{}: {MALFORMED}", number + 1)))?;
        credentials.push(parsed);
    }
    if credentials.is_empty() {
        return Err(Failure::usage(format!("auth-file: {shown} has no credentials")));
    }
    Ok(credentials)
}
