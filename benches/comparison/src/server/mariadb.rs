//! MariaDB, with its defaults, which are those of Debian's package but for the place of its files.

use std::path::Path;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use tokio::process::Command;

use super::first_line;
use crate::Failure;
use crate::process::dies_with_us;

const TABLES: [&str; 4] = [
    "CREATE DATABASE comparison",
    "CREATE TABLE comparison.locks (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, \
     name VARCHAR(190) NOT NULL UNIQUE, expires DATETIME(6) NOT NULL)",
    "CREATE TABLE comparison.mutexes (name VARCHAR(190) PRIMARY KEY)",
    "CREATE TABLE comparison.documents (name VARCHAR(190) PRIMARY KEY, \
     version BIGINT NOT NULL, value BIGINT NOT NULL)",
];

/// Debian's place for it is on root's path only.
fn program() -> &'static str {
    const DEBIAN: &str = "/usr/sbin/mariadbd";
    if Path::new(DEBIAN).exists() { DEBIAN } else { "mariadbd" }
}

pub(super) fn version() -> Result<String, String> {
    let line = first_line(program(), &["--no-defaults", "--version"])?;
    let version = line.split_whitespace().skip_while(|word| *word != "Ver").nth(1);
    let version = version.and_then(|word| word.split('-').next());
    Ok(version.unwrap_or(&line).to_owned())
}

/// The server refuses to run as root unless it is told to.
fn user() -> Option<&'static str> {
    nix::unistd::geteuid().is_root().then_some("--user=root")
}

/// Temporary tables go to a folder of their own: a server that starts removes those of any other in the same place.
fn with_own_temporary_files(mut command: Command, folder: &Path) -> Command {
    command.env("TMPDIR", folder);
    command
}

pub(super) async fn install(folder: &Path) -> Result<(), Failure> {
    let mut command = with_own_temporary_files(dies_with_us("mariadb-install-db"), folder);
    command.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
    command.args(["--skip-test-db", "--skip-name-resolve"]).args(user());
    command.arg(format!("--datadir={}", folder.join("data").display()));
    let output = command.output().await?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("mariadb-install-db failed: {reason}").into());
    }
    Ok(())
}

pub(super) fn command(port: u16, folder: &Path) -> Command {
    let mut command = with_own_temporary_files(dies_with_us(program()), folder);
    command.args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-name-resolve"]);
    command.args(user()).arg(format!("--port={port}"));
    command.arg(format!("--datadir={}", folder.join("data").display()));
    // A path to a socket has at most some hundred characters; it is relative to the data.
    command.args(["--socket=socket", "--pid-file=pid"]);
    command
}

/// As its root, over TCP.
pub(crate) fn options(address: &str) -> Result<OptsBuilder, Failure> {
    let (host, port) = address.split_once(':').ok_or("no port in the address")?;
    let options = OptsBuilder::default().ip_or_hostname(host).tcp_port(port.parse()?);
    Ok(options.prefer_socket(false).user(Some("root")))
}

pub(super) async fn connect(address: &str) -> Result<Conn, Failure> {
    Ok(Conn::new(options(address)?).await?)
}

pub(super) async fn serves(address: &str) -> bool {
    connect(address).await.is_ok()
}

pub(super) async fn create_tables(address: &str) -> Result<(), Failure> {
    let mut connection = connect(address).await?;
    for table in TABLES {
        connection.query_drop(table).await?;
    }
    Ok(connection.disconnect().await?)
}

pub(super) async fn requests(address: &str) -> Result<u64, Failure> {
    let mut connection = connect(address).await?;
    let row = connection.query_first("SHOW GLOBAL STATUS LIKE 'Questions'").await?;
    let (_, count): (String, u64) = row.ok_or("no such counter")?;
    connection.disconnect().await?;
    Ok(count)
}
