//! The servers and the credentials: from the command line and the environment, both by `clap`, then from the configuration files.
//!
//! `figment` and `config` merge such layers as well, but their errors name no line of the file, and `clap` has read two of the layers.

mod acl;
mod log_format;
mod secrets;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use self::log_format::{log_format, of_wrong_line};
pub(crate) use self::secrets::Credentials;
use toml::Table;
use zookeeper_recipes::zookeeper_client::Acl;

use crate::arguments::Connection;
use crate::exit::Failure;
use crate::mistakes;

/// The settings of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) server: String,
    pub(crate) namespace: String,
    pub(crate) id: Option<String>,
    pub(crate) auths: Vec<Credentials>,
    pub(crate) tls: Option<Tls>,
    pub(crate) acls: Vec<Acl>,
    pub(crate) verbose: bool,
    /// The session timeout to request from the servers.
    pub(crate) session_timeout: Duration,
    pub(crate) connection_timeout: Duration,
}

/// The files of a TLS connection.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(crate) authority: PathBuf,
    /// Our certificate and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

const SERVER: &str = "localhost:2181";
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(15);

impl Settings {
    /// Reads the settings that are not in `given` from the environment and the configuration files.
    ///
    /// # Errors
    ///
    /// A setting or a file that cannot be read or used.
    pub(crate) fn read(given: Connection) -> Result<Self, Failure> {
        Self::of(given, env::var_os("ZKLOCK_AUTH"), &folders())
    }

    /// Says which credentials the servers get, without the secrets.
    pub(crate) fn credentials_sent(&self) -> String {
        let schemes = self.auths.iter().map(|one| format!("{} credentials", one.scheme));
        let certificate = self.tls.as_ref().and_then(|tls| tls.identity.as_ref());
        let mut sent: Vec<_> =
            schemes.chain(certificate.map(|_| "a client certificate".to_owned())).collect();
        sent.dedup();
        match sent.as_slice() {
            [] => "no credentials were sent".to_owned(),
            sent => format!("{} were sent", sent.join(" and ")),
        }
    }

    fn of(given: Connection, auth: Option<OsString>, folders: &[PathBuf]) -> Result<Self, Failure> {
        // The variable and the option each replace the file's credentials.
        let of_files = given.auth_file.is_none() && auth.is_some();
        let all = with_files(given, folders)?;
        let mut auths = Vec::new();
        if let Some(value) = auth {
            if value.is_empty() {
                return Err(Failure::usage(mistakes::empty("ZKLOCK_AUTH")));
            }
            auths.push(Credentials::of_variable("ZKLOCK_AUTH", &value)?);
        }
        if let Some(file) = all.auth_file.filter(|_| !of_files) {
            auths.extend(secrets::read(&file, all.verbose)?);
        }
        let tls = match (all.tls_ca, all.tls_cert, all.tls_key) {
            (None, None, None) => None,
            (Some(authority), None, None) => Some(Tls { authority, identity: None }),
            (Some(authority), Some(certificate), Some(key)) => {
                Some(Tls { authority, identity: Some((certificate, key)) })
            }
            (None, ..) => return Err(Failure::usage("tls-cert and tls-key need a tls-ca")),
            _ => return Err(Failure::usage("tls-cert and tls-key need each other")),
        };
        Ok(Self {
            server: all.server.unwrap_or_else(|| SERVER.to_owned()),
            namespace: all.namespace.unwrap_or_else(|| "/".to_owned()),
            id: all.id,
            auths,
            tls,
            acls: all.acl.iter().map(|spec| acl::parse(spec)).collect::<Result<_, _>>()?,
            verbose: all.verbose,
            session_timeout: all.session_timeout.unwrap_or(SESSION_TIMEOUT),
            connection_timeout: all.connection_timeout.unwrap_or(CONNECTION_TIMEOUT),
        })
    }
}

/// Returns a variable of the environment that is not empty.
fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns the folders of the user's file and of the machine's.
fn folders() -> Vec<PathBuf> {
    let home = || variable("HOME").map(|home| PathBuf::from(home).join(".config"));
    let base = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let base = base.filter(|base| base.is_absolute()).or_else(home);
    base.into_iter().chain([PathBuf::from("/etc")]).collect()
}

/// Returns the named file, or else the user's and the machine's.
fn files(given: &Connection, folders: &[PathBuf]) -> Vec<PathBuf> {
    match &given.config {
        Some(file) => vec![file.clone()],
        None => folders.iter().map(|folder| folder.join("zklock.toml")).collect(),
    }
}

/// Fills in missing options from the files, key by key. A named file must exist.
fn with_files(given: Connection, folders: &[PathBuf]) -> Result<Connection, Failure> {
    use io::ErrorKind::{NotADirectory, NotFound};
    let mut all = given;
    for file in files(&all, folders) {
        let is_named = all.config.is_some();
        match fs::read(&file) {
            Ok(text) => all = all.or(parse(&file, &text)?),
            Err(error) if !is_named && matches!(error.kind(), NotFound | NotADirectory) => {}
            Err(error) => {
                let file = file.display();
                // The file is often in the folder of another user, which `su` or `sudo` left in `HOME`.
                let advice = "it may name other servers, another namespace or credentials: name a file by --config";
                let advice = if is_named { String::new() } else { format!("; {advice}") };
                return Err(Failure::usage(format!("config: cannot read {file}: {error}{advice}")));
            }
        }
    }
    Ok(all)
}

/// Parses a file. The paths in it are relative to its folder.
fn parse(file: &Path, text: &[u8]) -> Result<Connection, Failure> {
    let wrong = |at: usize, reason: &str| {
        let line = 1 + text[..at].iter().filter(|byte| **byte == b'\n').count();
        Failure::usage(format!("{}:{line}: {reason}", file.display()))
    };
    let text =
        str::from_utf8(text).map_err(|error| wrong(error.valid_up_to(), "it is not UTF-8"))?;
    let mut said: Connection = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |at| at.start);
        // The message quotes neither the line nor an unknown key, because either may be a misplaced secret.
        match error.message().rsplit_once(", expected one of ") {
            Some((_, keys)) => wrong(at, &format!("unknown key; there are {keys}")),
            None => wrong(at, error.message()),
        }
    })?;
    let all: Table = toml::from_str(text).unwrap_or_default(); // it was parsed just now
    if let Some((key, _)) = all.iter().find(|(_, value)| value.as_str() == Some("")) {
        return Err(Failure::usage(format!("{}: {key} is empty", file.display())));
    }
    let folder = file.parent().unwrap_or_else(|| Path::new(""));
    let paths = [&mut said.auth_file, &mut said.tls_ca, &mut said.tls_cert, &mut said.tls_key];
    for path in paths.into_iter().flatten() {
        *path = folder.join(&*path);
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A home folder that is removed when this value is dropped.
    struct Home(PathBuf);

    impl Home {
        fn new() -> Self {
            let home = env::temp_dir().join(format!("zklock-{}", uuid::Uuid::new_v4()));
            for folder in ["config", "etc"] {
                fs::create_dir_all(home.join(folder)).unwrap();
            }
            Self(home)
        }

        fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
            let file = self.0.join(name);
            fs::write(&file, text).unwrap();
            file
        }

        fn read(&self, given: &Connection, auth: Option<&str>) -> Result<Settings, Failure> {
            let folders = ["config", "etc"].map(|folder| self.0.join(folder));
            Settings::of(given.clone(), auth.map(OsString::from), &folders)
        }

        fn error(&self, given: &Connection, auth: Option<&str>) -> String {
            let failure = self.read(given, auth).unwrap_err();
            assert_eq!(failure.code(), crate::exit::USAGE);
            let said = failure.to_string();
            assert!(!said.contains('\n') && !said.contains("hunter"), "{said}");
            said
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_given_goes_before_the_users_file_and_that_before_the_machines_key_by_key() {
        let home = Home::new();
        let read = |given: &Connection| home.read(given, None).unwrap();
        let none = Connection::default();
        let settings = read(&none);
        assert_eq!((settings.server.as_str(), settings.namespace.as_str()), (SERVER, "/"));
        assert_eq!(settings.session_timeout, SESSION_TIMEOUT);
        assert_eq!(settings.credentials_sent(), "no credentials were sent");
        home.write("etc/zklock.toml", "namespace = '/etc'\nserver = 'etc'\nauth-file = 'auth'");
        home.write("etc/auth", "digest:user:password");
        home.write("config/zklock.toml", "id = 'home'\nnamespace = '/home'\nsession-timeout = 4");
        let settings = read(&none);
        assert_eq!((settings.id.as_deref(), settings.namespace.as_str()), (Some("home"), "/home"));
        assert_eq!((settings.server.as_str(), settings.auths.len()), ("etc", 1));
        assert_eq!(settings.session_timeout, Duration::from_secs(4));
        let given = Connection { namespace: Some("/given".to_owned()), ..none.clone() };
        assert_eq!(read(&given).namespace, "/given");
        // A named file is the only one that is read.
        let config = Some(home.write("named.toml", "namespace = '/named'"));
        let settings = read(&Connection { config, ..none.clone() });
        assert_eq!((settings.server.as_str(), settings.namespace.as_str()), (SERVER, "/named"));
        let config = Some(home.0.join("missing.toml"));
        let said = home.error(&Connection { config, ..none }, None);
        assert!(
            said.starts_with("config: cannot read ") && said.contains("missing.toml"),
            "{said}"
        );
    }

    #[test]
    fn a_file_that_cannot_be_read_is_refused() {
        for folder in ["config", "etc"] {
            let home = Home::new();
            // A folder instead of a file, because root may read every file.
            fs::create_dir(home.0.join(folder).join("zklock.toml")).unwrap();
            let server = Connection { server: Some("given".to_owned()), ..Connection::default() };
            let said = home.error(&server, None);
            let file = format!("{folder}/zklock.toml");
            assert!(said.contains(&file) && said.contains("--config"), "{said}");
        }
    }

    #[test]
    fn mistakes_in_the_file_are_named_by_line() {
        let home = Home::new();
        let rows = [
            ("server = 3", ":1: invalid type: integer `3`, expected a string"),
            ("server = ['a', 'b']", ":1: invalid type: sequence, expected a string"),
            ("id = 'a'\nserver = [\n'a']", ":2: invalid type: sequence, expected a string"),
            ("server = a:1", ":1: "),
            ("ZKLOCK_SERVER='127.0.0.1:2181'", ":1: unknown key; there are `server`, "),
            ("ZKLOCK_AUTH=digest:user:hunter2", ":1: "),
            ("acl = 'world:anyone:r'", ":1: invalid type: string"),
            ("namespace = true", ":1: invalid type: boolean `true`, expected a string"),
            ("log-format = 3", ":1: "),
            ("log-format = ''", ":1: unknown variant ``, expected `text` or `json`"),
            ("id = ''", ": id is empty"),
            ("server = ''", ": server is empty"),
            ("namespace = ''", ": namespace is empty"),
            ("auth-file = ''", ": auth-file is empty"),
            ("tls-key = ''", ": tls-key is empty"),
            ("acl = ['']", "acl : no scheme:id:perms"),
            (
                "\nsession-timeout = true",
                ":2: a timeout is a string or a number, not of type boolean",
            ),
            ("session-timeout = 'soon'", ":1: timeout soon: "),
            ("session-timeout = 0.01", ":1: timeout 0.01: it must be from 100 ms to 24 h"),
            ("log-format = 'yaml'", ":1: unknown variant `yaml`, expected `text` or `json`"),
            ("id = 'a'\nsever = 'b'", ":2: unknown key; there are `server`, "),
            ("[tls]\nca = 'x'", "unknown key; there are "),
            ("auth = 'digest:user:hunter2'", ":1: unknown key; there are "),
            ("'digest:user:hunter2' = 1", ":1: unknown key; there are "),
            ("hunter2 = 1", ":1: unknown key; there are "),
            ("id = 'a'\nserver = ", ":2: "),
            ("id = 'a'\nid = 'b'", ":2: duplicate key"),
            ("tls-cert = 'x'", "tls-cert and tls-key need a tls-ca"),
            ("tls-ca = 'x'\ntls-cert = 'x'", "tls-cert and tls-key need each other"),
        ];
        for (text, expected) in rows {
            home.write("config/zklock.toml", text);
            let said = home.error(&Connection::default(), None);
            assert!(said.contains(expected), "{text:?}: {said}");
        }
        home.write("config/zklock.toml", b"id = 'a'\nserver = '\xff'");
        let said = home.error(&Connection::default(), None);
        assert!(said.ends_with(":2: it is not UTF-8"), "{said}");
    }

    #[test]
    fn credentials_are_read_and_never_told() {
        let home = Home::new();
        let file = home.write("auth", "# ours\n\ndigest:user:hunter2 \r\nip:with:colons\n");
        home.write("config/zklock.toml", "auth-file = '../auth'");
        let auths = |given: &Connection, auth: Option<&str>| {
            let settings = home.read(given, auth).unwrap();
            assert!(!format!("{settings:?}").contains("hunter"), "{settings:?}");
            let shown = |one: Credentials| format!("{} {}", one.scheme, one.secret.escape_ascii());
            settings.auths.into_iter().map(shown).collect::<Vec<_>>()
        };
        let none = Connection::default();
        assert_eq!(auths(&none, None), ["digest user:hunter2 ", "ip with:colons"]);
        // The variable replaces the file that the configuration names, not one that is given as an option.
        let direct = Some("digest:other:hunter3");
        assert_eq!(auths(&none, direct), ["digest other:hunter3"]);
        let given = Connection { auth_file: Some(file), ..Connection::default() };
        assert_eq!(auths(&given, direct).len(), 3);
        let said = home.error(&none, Some(""));
        assert_eq!(said, "ZKLOCK_AUTH is empty: give it a value, or unset it");
        for wrong in ["hunter2", ":hunter2"] {
            let said = home.error(&none, Some(wrong));
            assert!(said.starts_with("ZKLOCK_AUTH: no scheme:credentials"), "{said}");
        }
        let sent = |auth| home.read(&none, auth).unwrap().credentials_sent();
        assert_eq!(sent(direct), "digest credentials were sent");
        assert_eq!(sent(None), "digest credentials and ip credentials were sent");
        home.write("auth", "digest:user:hunter2\nhunter2\n");
        let said = home.error(&given, None);
        let expected = "auth:2: no scheme:credentials, such as digest:user:password";
        assert!(said.ends_with(expected), "{said}");
        home.write("auth", "# nothing\n");
        assert!(home.error(&given, None).ends_with("auth has no credentials"));
    }
}
