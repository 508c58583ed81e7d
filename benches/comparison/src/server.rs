//! Servers of our own: on free ports of the loopback, with their data in a folder of ours.
//!
//! The test kit's ZooKeeper keeps its data in memory and waits for no disk, so it has no place next to the others.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::lock::Failure;
use crate::ways::{mariadb, redis};

const PATIENCE: Duration = Duration::from_secs(60);
const ANSWER: Duration = Duration::from_secs(2);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

const TABLES: [&str; 3] = [
    "CREATE DATABASE comparison",
    "CREATE TABLE comparison.locks (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, \
     name VARCHAR(190) NOT NULL UNIQUE, expires DATETIME(6) NOT NULL)",
    "CREATE TABLE comparison.mutexes (name VARCHAR(190) PRIMARY KEY)",
];

/// Its defaults but for a short tick: sessions expire at ticks, and last at least two.
const ZOO_CFG: &str = "clientPortAddress=127.0.0.1\ntickTime=200\nminSessionTimeout=1000\n\
    maxSessionTimeout=60000\nmaxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    ZooKeeper,
    Redis,
    Etcd,
    MariaDb,
}

pub(crate) struct Server {
    port: u16,
    // Dropped before its folder.
    _process: Child,
    _folder: TempDir,
}

impl Kind {
    /// What the server prints about itself, or why it cannot be run here.
    pub(crate) fn version(self) -> Result<String, String> {
        let (program, arguments) = match self {
            Self::ZooKeeper => {
                let main = "org.apache.zookeeper.version.VersionInfoMain";
                ("java".to_owned(), vec!["-cp".to_owned(), class_path()?, main.to_owned()])
            }
            Self::Redis => ("redis-server".to_owned(), vec!["--version".to_owned()]),
            Self::Etcd => ("etcd".to_owned(), vec!["--version".to_owned()]),
            Self::MariaDb => (mariadbd().to_owned(), vec!["--version".to_owned()]),
        };
        let output = std::process::Command::new(&program).args(arguments).output();
        let output = output.map_err(|error| format!("there is no {program} ({error})"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().next().map(str::to_owned).ok_or_else(|| format!("{program} prints nothing"))
    }

    async fn command(self, port: u16, folder: &Path) -> Result<Command, Failure> {
        let data = folder.join("data");
        Ok(match self {
            Self::ZooKeeper => {
                let configuration = folder.join("zoo.cfg");
                let place = format!("dataDir={}\nclientPort={port}\n", data.display());
                fs::write(&configuration, format!("{ZOO_CFG}{place}"))?;
                let mut command = dies_with_us("java");
                command.args(["-Xmx256m", "-XX:-UsePerfData", "-cp", &class_path()?]);
                command.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg(configuration);
                command
            }
            Self::Redis => {
                let mut command = dies_with_us("redis-server");
                let port = port.to_string();
                command.args(["--bind", "127.0.0.1", "--port", &port, "--dir"]).arg(folder);
                command
            }
            Self::Etcd => {
                let clients = format!("http://127.0.0.1:{port}");
                let peers = format!("http://127.0.0.1:{}", free_port()?);
                let mut command = dies_with_us("etcd");
                command.arg("--data-dir").arg(data);
                let urls = ["--listen-client-urls", &clients, "--advertise-client-urls", &clients];
                command.args(urls).args(["--listen-peer-urls", &peers]);
                command.args(["--initial-advertise-peer-urls", &peers]);
                command.args(["--initial-cluster", &format!("default={peers}")]);
                command
            }
            Self::MariaDb => {
                install_mariadb(folder, &data).await?;
                let mut command = dies_with_us(mariadbd());
                command.args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-name-resolve"]);
                command.args(root_user()).arg(format!("--port={port}")).env("TMPDIR", folder);
                // Relative to the data: a path to a socket has at most some hundred characters.
                command.arg(format!("--datadir={}", data.display()));
                command.args(["--socket=socket", "--pid-file=pid"]);
                command
            }
        })
    }

    async fn serves(self, address: &str) -> Result<(), Failure> {
        match self {
            Self::ZooKeeper => {
                let mut stream = TcpStream::connect(address).await?;
                stream.write_all(b"srvr").await?;
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await?;
                if answer.contains("Mode:") { Ok(()) } else { Err("not serving yet".into()) }
            }
            Self::Redis => {
                let mut connection = redis::connect(address, ANSWER)?;
                let _: String = ::redis::cmd("PING").query_async(&mut connection).await?;
                Ok(())
            }
            Self::Etcd => {
                // A read that goes through the log: there is a leader.
                let mut client = etcd_client::Client::connect([address], None).await?;
                Ok(client.get("serves", None).await.map(drop)?)
            }
            Self::MariaDb => Ok(Conn::new(mariadb::options(address)?).await.map(drop)?),
        }
    }
}

impl Server {
    /// Starts one with nothing in it, and waits until it serves.
    pub(crate) async fn start(kind: Kind) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("comparison.").tempdir()?;
        let (port, log) = (free_port()?, folder.path().join("server.log"));
        let mut command = kind.command(port, folder.path()).await?;
        let file = File::create(&log)?;
        let output = file.try_clone()?;
        let mut process = command.stdin(Stdio::null()).stdout(output).stderr(file).spawn()?;
        let (address, deadline) = (format!("127.0.0.1:{port}"), Instant::now() + PATIENCE);
        // A server that starts may accept a connection and forget it.
        while !matches!(timeout(ANSWER, kind.serves(&address)).await, Ok(Ok(()))) {
            let ended = process.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                let log = fs::read_to_string(&log).unwrap_or_default();
                let lines: Vec<_> = log.lines().rev().take(5).collect();
                return Err(format!("{kind:?} does not serve ({ended:?}): {lines:?}").into());
            }
            sleep(BETWEEN_LOOKS).await;
        }
        if kind == Kind::MariaDb {
            let mut connection = Conn::new(mariadb::options(&address)?).await?;
            for table in TABLES {
                connection.query_drop(table).await?;
            }
            connection.disconnect().await?;
        }
        Ok(Self { port, _process: process, _folder: folder })
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

/// `setpriv` asks the kernel to end the program with the thread that starts it, which is our main thread.
pub(crate) fn dies_with_us(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", program]).process_group(0).kill_on_drop(true);
    command
}

/// Below the range from which the system serves outgoing connections.
fn free_port() -> Result<u16, Failure> {
    let mut ports = (0..200).map(|_| fastrand::u16(20_000..32_000));
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    ports.find(is_free).ok_or_else(|| "no free port between 20000 and 32000".into())
}

fn class_path() -> Result<String, String> {
    if let Some(home) = std::env::var("ZOOKEEPER_HOME").ok().filter(|home| !home.is_empty()) {
        return Ok(format!("{home}/lib/*"));
    }
    let jars = ["zookeeper.jar", "zookeeper-jute.jar", "slf4j-nop.jar"];
    let jars = jars.map(|jar| format!("/usr/share/java/{jar}"));
    match jars.iter().take(2).find(|jar| !Path::new(jar).is_file()) {
        Some(missing) => Err(format!("ZOOKEEPER_HOME is not set and there is no {missing}")),
        None => Ok(jars.join(":")),
    }
}

/// Debian's place is on the search path of root only.
fn mariadbd() -> &'static str {
    const DEBIAN: &str = "/usr/sbin/mariadbd";
    if Path::new(DEBIAN).exists() { DEBIAN } else { "mariadbd" }
}

/// The server refuses to run as root unless it is asked to.
fn root_user() -> Option<&'static str> {
    nix::unistd::geteuid().is_root().then_some("--user=root")
}

async fn install_mariadb(folder: &Path, data: &Path) -> Result<(), Failure> {
    let mut command = dies_with_us("mariadb-install-db");
    // A server that starts removes temporary tables of all others in the same folder.
    command.env("TMPDIR", folder).arg("--no-defaults").args(root_user());
    command.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
    command.arg("--skip-name-resolve").arg(format!("--datadir={}", data.display()));
    let output = command.output().await?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("mariadb-install-db failed: {reason}").into());
    }
    Ok(())
}
