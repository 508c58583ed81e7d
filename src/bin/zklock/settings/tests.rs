//! Which source wins, and what the messages name.

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
fn the_first_configuration_file_that_is_there_is_read() {
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
    home.write("xdg/zklock.toml", "namespace = '/xdg'");
    let xdg = home.0.join("xdg").to_str().unwrap().to_owned();
    assert_eq!(namespace(&none(), &[("XDG_CONFIG_HOME", &xdg)]), "/xdg");
    let named = home.write("named.toml", "namespace = '/named'");
    let variable = [("ZKLOCK_CONFIG", named.to_str().unwrap())];
    assert_eq!(namespace(&none(), &variable), "/named");
    let other = home.write("other.toml", "namespace = '/other'");
    let option = Connection { config: Some(other), ..none() };
    assert_eq!(namespace(&option, &variable), "/other");
    let missing = home.0.join("missing.toml");
    let text = error(&home, &Connection { config: Some(missing), ..none() }, &[]);
    assert!(text.starts_with("--config: cannot read ") && text.contains("missing.toml"), "{text}");
}

#[test]
fn mistakes_in_the_file_are_named_by_line_and_key() {
    let home = Home::new();
    let rows = [
        ("server = 3", ":1: server: it must be a string, not of type integer"),
        ("\nsession-timeout = true", ":2: session-timeout: it must be a string or a number, not"),
        ("session-timeout = 'soon'", ":1: session-timeout: "),
        ("session-timeout = 0.01", ":1: session-timeout: it must be from 100 ms to 24 h"),
        ("id = 'a'\nsever = 'b'", ":2: unknown key sever; there are server, "),
        ("[tls]\nca = 'x'", "unknown key tls; "),
        ("auth = 'digest:user:hunter2'", ":1: unknown key auth; "),
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
        assert!(command.get_arguments().any(|argument| argument.get_long() == Some(key)), "{key}");
    }
}
