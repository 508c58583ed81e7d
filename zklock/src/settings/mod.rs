//! Where ZooKeeper is, and as whom to speak to it: from the command line, the environment and the configuration files,
//! in that order.

mod config_file;
mod secrets;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::config_file::ConfigFiles;
pub(crate) use self::secrets::Credentials;
use crate::arguments::{Connection, duration};
use crate::exit::{Failure, say};

/// What a connection needs to know.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) server: Given<String>,
    pub(crate) namespace: Given<String>,
    pub(crate) id: Option<String>,
    pub(crate) auths: Vec<Credentials>,
    pub(crate) tls: Option<Tls>,
    verbose: bool,
    session_timeout: Duration,
    connection_timeout: Duration,
}

/// The files of a TLS connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) authority: Given<PathBuf>,
    /// Our certificate and its key.
    pub(crate) identity: Option<(Given<PathBuf>, Given<PathBuf>)>,
}

/// A value, and who gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

/// Where a value is from, as a message names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Option(&'static str),
    Variable(String),
    File { file: PathBuf, line: usize, key: &'static str },
    Default(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option(key) => write!(f, "--{key}"),
            Self::Variable(name) => f.write_str(name),
            Self::File { file, line, key } => write!(f, "{}:{line}: {key}", file.display()),
            Self::Default(key) => write!(f, "the default {key}"),
        }
    }
}

impl<T> Given<T> {
    /// What is wrong with it, in the words of whoever gave it.
    pub(crate) fn wrong(&self, reason: impl fmt::Display) -> Failure {
        Failure::usage(format!("{}: {reason}", self.origin))
    }
}

/// What can be set, in the file's spelling; `--KEY` and `ZKLOCK_KEY` are the same.
pub(crate) const KEYS: [&str; 9] = [
    "server",
    "session-timeout",
    "connection-timeout",
    "namespace",
    "id",
    "auth-file",
    "tls-ca",
    "tls-cert",
    "tls-key",
];

const SERVER: &str = "localhost:2181";
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(15);
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

impl Settings {
    /// # Errors
    ///
    /// What cannot be read or used, by the name of its option, variable, or file and key.
    pub(crate) fn read(arguments: &Connection) -> Result<Self, Failure> {
        Self::read_with(arguments, &|name| std::env::var_os(name), Path::new("/etc"))
    }

    fn read_with(
        arguments: &Connection,
        environment: &dyn Fn(&str) -> Option<OsString>,
        etc: &Path,
    ) -> Result<Self, Failure> {
        let environment = Environment(environment);
        let files = ConfigFiles::find(arguments.config.as_deref(), &environment, etc)?;
        if arguments.verbose {
            files.unreadable().iter().for_each(|why| say(&format!("{why}; it is left out")));
        }
        let sources = Sources { environment: &environment, files };
        let default =
            |key, value: &str| Given { value: value.to_owned(), origin: Origin::Default(key) };
        Ok(Self {
            server: match sources.text("server", arguments.server.as_deref())? {
                Some(server) => server,
                None => sources.no_server().map_or_else(|| Ok(default("server", SERVER)), Err)?,
            },
            namespace: sources
                .text("namespace", arguments.namespace.as_deref())?
                .unwrap_or_else(|| default("namespace", "/")),
            id: sources.text("id", arguments.id.as_deref())?.map(|id| id.value),
            auths: sources.credentials(arguments.auth_file.as_deref(), arguments.verbose)?,
            tls: sources.tls(arguments)?,
            verbose: arguments.verbose,
            session_timeout: sources
                .duration("session-timeout", arguments.session_timeout)?
                .unwrap_or(SESSION_TIMEOUT),
            connection_timeout: sources
                .duration("connection-timeout", arguments.connection_timeout)?
                .unwrap_or(CONNECTION_TIMEOUT),
        })
    }

    pub(crate) fn verbose(&self) -> bool {
        self.verbose
    }

    /// What the servers are asked for.
    pub(crate) fn session_timeout(&self) -> Duration {
        self.session_timeout
    }

    pub(crate) fn connection_timeout(&self) -> Duration {
        self.connection_timeout
    }
}

/// The variables; an empty one is none.
struct Environment<'a>(&'a dyn Fn(&str) -> Option<OsString>);

impl Environment<'_> {
    fn value(&self, name: &str) -> Option<OsString> {
        (self.0)(name).filter(|value| !value.is_empty())
    }

    fn text(&self, name: &str) -> Result<Option<String>, Failure> {
        let text = |value: OsString| {
            // Not the value: it may be a secret.
            value.into_string().map_err(|_| Failure::usage(format!("{name}: it is not UTF-8")))
        };
        self.value(name).map(text).transpose()
    }
}

struct Sources<'a> {
    environment: &'a Environment<'a>,
    files: ConfigFiles,
}

impl Sources<'_> {
    fn text(
        &self,
        key: &'static str,
        option: Option<&str>,
    ) -> Result<Option<Given<String>>, Failure> {
        if let Some(value) = option {
            let (value, origin) = (value.to_owned(), Origin::Option(key));
            return Ok(Some(Given { value, origin }));
        }
        let variable = variable(key);
        if let Some(value) = self.environment.text(&variable)? {
            return Ok(Some(Given { value, origin: Origin::Variable(variable) }));
        }
        Ok(self.files.text(key))
    }

    /// A file that cannot be read may name the servers: a lock at others would keep nobody out.
    fn no_server(&self) -> Option<Failure> {
        let why = self.files.unreadable().first()?;
        Some(Failure::usage(format!("{why}; and nothing else says the server")))
    }

    /// Those of the configuration file are seen from where that is.
    fn path(
        &self,
        key: &'static str,
        option: Option<&Path>,
    ) -> Result<Option<Given<PathBuf>>, Failure> {
        if let Some(path) = option {
            let (value, origin) = (path.to_owned(), Origin::Option(key));
            return Ok(Some(Given { value, origin }));
        }
        let variable = variable(key);
        if let Some(value) = self.environment.value(&variable) {
            return Ok(Some(Given { value: value.into(), origin: Origin::Variable(variable) }));
        }
        Ok(self.files.path(key))
    }

    fn duration(
        &self,
        key: &'static str,
        option: Option<Duration>,
    ) -> Result<Option<Duration>, Failure> {
        let given = match option {
            Some(value) => Some(Given { value, origin: Origin::Option(key) }),
            None => match self.text(key, None)? {
                Some(given) => {
                    let value = duration(&given.value).map_err(|reason| given.wrong(reason))?;
                    Some(Given { value, origin: given.origin })
                }
                None => None,
            },
        };
        let Some(given) = given else { return Ok(None) };
        if !(SHORTEST..=LONGEST).contains(&given.value) {
            return Err(given.wrong("it must be from 100 ms to 24 h"));
        }
        Ok(Some(given.value))
    }

    /// An option takes the place of the environment's, and that of the file's. In the environment there may be two.
    fn credentials(
        &self,
        option: Option<&Path>,
        verbose: bool,
    ) -> Result<Vec<Credentials>, Failure> {
        const VARIABLE: &str = "ZKLOCK_AUTH";
        let mut credentials = Vec::new();
        let direct = self.environment.value(VARIABLE).filter(|_| option.is_none());
        if let Some(value) = &direct {
            credentials.push(Credentials::of_variable(VARIABLE, value)?);
        }
        let file = self.path("auth-file", option)?;
        let is_of_config = |origin: &Origin| matches!(origin, Origin::File { .. });
        if let Some(file) = file.filter(|file| direct.is_none() || !is_of_config(&file.origin)) {
            let (more, warning) = secrets::read(&file)?;
            if let Some(warning) = warning.filter(|_| verbose) {
                say(&warning);
            }
            credentials.extend(more);
        }
        Ok(credentials)
    }

    fn tls(&self, arguments: &Connection) -> Result<Option<Tls>, Failure> {
        let authority = self.path("tls-ca", arguments.tls_ca.as_deref())?;
        let certificate = self.path("tls-cert", arguments.tls_cert.as_deref())?;
        let key = self.path("tls-key", arguments.tls_key.as_deref())?;
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(alone), None) => return Err(alone.wrong("it needs a tls-key")),
            (None, Some(alone)) => return Err(alone.wrong("it needs a tls-cert")),
        };
        match (authority, identity) {
            (Some(authority), identity) => Ok(Some(Tls { authority, identity })),
            (None, Some((certificate, _))) => Err(certificate.wrong("it needs a tls-ca")),
            (None, None) => Ok(None),
        }
    }
}

/// `ZKLOCK_TLS_CA` of `tls-ca`.
fn variable(key: &str) -> String {
    format!("ZKLOCK_{}", key.to_ascii_uppercase().replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::*;

    /// A home folder that is gone with it.
    struct Home(PathBuf);

    impl Home {
        fn new() -> Self {
            let home = std::env::temp_dir().join(format!("zklock-{}", uuid::Uuid::new_v4()));
            fs::create_dir_all(home.join(".config")).unwrap();
            Self(home)
        }

        fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
            let file = self.0.join(name);
            fs::write(&file, text).unwrap();
            file
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn read(
        home: &Home,
        arguments: &Connection,
        variables: &[(&str, &str)],
    ) -> Result<Settings, Failure> {
        let mut variables: BTreeMap<String, OsString> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect();
        variables.entry("HOME".to_owned()).or_insert_with(|| home.0.clone().into());
        Settings::read_with(arguments, &|name| variables.get(name).cloned(), &home.0.join("etc"))
    }

    fn none() -> Connection {
        Connection {
            server: None,
            config: None,
            session_timeout: None,
            connection_timeout: None,
            namespace: None,
            id: None,
            auth_file: None,
            tls_ca: None,
            tls_cert: None,
            tls_key: None,
            verbose: false,
        }
    }

    fn error(home: &Home, arguments: &Connection, variables: &[(&str, &str)]) -> String {
        let failure = read(home, arguments, variables).unwrap_err();
        assert_eq!(failure.code(), crate::exit::USAGE);
        failure.to_string()
    }

    #[test]
    fn option_then_variable_then_file_then_default() {
        let home = Home::new();
        let server = |arguments: &Connection, variables: &[(&str, &str)]| {
            read(&home, arguments, variables).unwrap().server
        };
        assert_eq!(server(&none(), &[]).value, SERVER);
        home.write(".config/zklock.toml", "# ours\nserver = \"file\"\nsession-timeout = 4\n");
        let from_file = server(&none(), &[]);
        assert_eq!(from_file.value, "file");
        assert!(from_file.origin.to_string().ends_with("/.config/zklock.toml:2: server"));
        let variables = [("ZKLOCK_SERVER", "variable")];
        assert_eq!(server(&none(), &variables).value, "variable");
        let option = Connection { server: Some("option".to_owned()), ..none() };
        assert_eq!(server(&option, &variables).value, "option");
        // An empty variable is none.
        assert_eq!(server(&none(), &[("ZKLOCK_SERVER", "")]).value, "file");
        let settings = read(&home, &none(), &[]).unwrap();
        assert_eq!(settings.session_timeout(), Duration::from_secs(4));
        assert_eq!(settings.connection_timeout(), CONNECTION_TIMEOUT);
    }

    #[test]
    fn the_users_file_goes_before_the_machines_key_by_key() {
        let home = Home::new();
        fs::create_dir_all(home.0.join("etc")).unwrap();
        fs::create_dir_all(home.0.join("xdg")).unwrap();
        let namespace = |arguments: &Connection, variables: &[(&str, &str)]| {
            read(&home, arguments, variables).unwrap().namespace.value
        };
        home.write("etc/zklock.toml", "namespace = '/etc'");
        assert_eq!(namespace(&none(), &[]), "/etc");
        home.write(".config/zklock.toml", "namespace = '/home'");
        assert_eq!(namespace(&none(), &[]), "/home");
        home.write("etc/zklock.toml", "namespace = '/etc'\nserver = 'etc'\nauth-file = 'auth'");
        home.write("etc/auth", "digest:user:password");
        home.write(".config/zklock.toml", "id = 'home'\nnamespace = '/home'");
        let both = read(&home, &none(), &[]).unwrap();
        assert_eq!((both.id.as_deref(), both.namespace.value.as_str()), (Some("home"), "/home"));
        assert_eq!((both.server.value.as_str(), both.auths.len()), ("etc", 1));
        assert!(both.server.origin.to_string().ends_with("/etc/zklock.toml:2: server"));
        home.write("xdg/zklock.toml", "namespace = '/xdg'");
        let xdg = home.0.join("xdg").to_str().unwrap().to_owned();
        assert_eq!(namespace(&none(), &[("XDG_CONFIG_HOME", &xdg)]), "/xdg");
        // One that is named stands alone.
        let named = home.write("named.toml", "namespace = '/named'");
        let stands_alone = [("ZKLOCK_CONFIG", named.to_str().unwrap())];
        assert_eq!(read(&home, &none(), &stands_alone).unwrap().server.value, SERVER);
        let variable = [("ZKLOCK_CONFIG", named.to_str().unwrap())];
        assert_eq!(namespace(&none(), &variable), "/named");
        let other = home.write("other.toml", "namespace = '/other'");
        let option = Connection { config: Some(other), ..none() };
        assert_eq!(namespace(&option, &variable), "/other");
        let missing = home.0.join("missing.toml");
        let text = error(&home, &Connection { config: Some(missing), ..none() }, &[]);
        assert!(
            text.starts_with("--config: cannot read ") && text.contains("missing.toml"),
            "{text}"
        );
    }

    #[test]
    fn mistakes_in_the_file_are_named_by_line_and_key() {
        let home = Home::new();
        let rows = [
            ("server = 3", ":1: server: it must be a string, not of type integer"),
            (
                "\nsession-timeout = true",
                ":2: session-timeout: it must be a string or a number, not",
            ),
            ("session-timeout = 'soon'", ":1: session-timeout: "),
            ("session-timeout = 0.01", ":1: session-timeout: it must be from 100 ms to 24 h"),
            ("id = 'a'\nsever = 'b'", ":2: unknown key sever; there are server, "),
            ("[tls]\nca = 'x'", "unknown key tls; "),
            ("auth = 'digest:user:hunter2'", ":1: unknown key auth; "),
            ("'digest:user:hunter2' = 1", ":1: unknown key; there are server, "),
            ("hunter2 = 1", ":1: unknown key; there are server, "),
            ("server = ''", ":1: server: it is empty"),
            ("id = 'a'\nserver = ", ":2: "),
            ("id = 'a'\nid = 'b'", ":2: duplicate key"),
            ("tls-cert = 'x'", ":1: tls-cert: it needs a tls-key"),
        ];
        for (text, expected) in rows {
            home.write(".config/zklock.toml", text);
            let said = error(&home, &none(), &[]);
            assert!(said.contains(expected), "{text:?}: {said}");
            assert!(!said.contains('\n') && !said.contains("hunter2"), "{said}");
        }
        home.write(".config/zklock.toml", b"id = 'a'\nserver = '\xff'");
        let said = error(&home, &none(), &[]);
        assert!(said.ends_with(":2: it is not UTF-8"), "{said}");
    }

    #[test]
    fn mistakes_elsewhere_are_named_by_variable_or_option() {
        let home = Home::new();
        let rows = [
            ("ZKLOCK_SESSION_TIMEOUT", "soon", "ZKLOCK_SESSION_TIMEOUT: "),
            ("ZKLOCK_CONNECTION_TIMEOUT", "25h", "ZKLOCK_CONNECTION_TIMEOUT: it must be from"),
            ("ZKLOCK_AUTH", "hunter2", "ZKLOCK_AUTH: no scheme:credentials"),
            ("ZKLOCK_AUTH", ":hunter2", "ZKLOCK_AUTH: no scheme:credentials"),
            ("ZKLOCK_AUTH_FILE", "/no/such/file", "ZKLOCK_AUTH_FILE: cannot read /no/such/file: "),
            ("ZKLOCK_CONFIG", "/no/such/file", "ZKLOCK_CONFIG: cannot read /no/such/file: "),
            ("ZKLOCK_TLS_KEY", "/key", "ZKLOCK_TLS_KEY: it needs a tls-cert"),
        ];
        for (variable, value, expected) in rows {
            let said = error(&home, &none(), &[(variable, value)]);
            assert!(said.starts_with(expected) && !said.contains("hunter2"), "{said}");
        }
        let short = Connection { session_timeout: Some(Duration::ZERO), ..none() };
        assert!(error(&home, &short, &[]).starts_with("--session-timeout: it must be"));
    }

    #[test]
    fn credentials_are_read_and_never_told() {
        let home = Home::new();
        let text = "# ours\n\ndigest:user:hunter2 \r\nip:with:colons\n";
        let file = home.write("auth", text);
        home.write(".config/zklock.toml", "auth-file = '../auth'");
        let auths = |arguments: &Connection, variables: &[(&str, &str)]| {
            let settings = read(&home, arguments, variables).unwrap();
            assert!(!format!("{settings:?}").contains("hunter"), "{settings:?}");
            let shown = |one: Credentials| format!("{} {}", one.scheme, one.secret.escape_ascii());
            settings.auths.into_iter().map(shown).collect::<Vec<_>>()
        };
        let of_file = ["digest user:hunter2 ", "ip with:colons"];
        assert_eq!(auths(&none(), &[]), of_file);
        // One source takes the place of those behind it; in the environment there may be two.
        let direct = ("ZKLOCK_AUTH", "digest:other:hunter3");
        assert_eq!(auths(&none(), &[direct]), ["digest other:hunter3"]);
        let both = [direct, ("ZKLOCK_AUTH_FILE", file.to_str().unwrap())];
        assert_eq!(auths(&none(), &both).len(), 3);
        let option = Connection { auth_file: Some(file.clone()), ..none() };
        assert_eq!(auths(&option, &[direct]), of_file);
        home.write("auth", "digest:user:hunter2\nhunter2\n");
        let said = error(&home, &option, &[]);
        assert!(
            said.ends_with("auth:2: no scheme:credentials, such as digest:user:password"),
            "{said}"
        );
        home.write("auth", "# nothing\n");
        assert!(error(&home, &option, &[]).ends_with("auth has no credentials"));
    }

    #[test]
    fn each_key_is_an_option() {
        let command = crate::arguments::command();
        for key in KEYS {
            assert!(
                command.get_arguments().any(|argument| argument.get_long() == Some(key)),
                "{key}"
            );
        }
    }
}
