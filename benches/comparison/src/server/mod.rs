//! Servers of our own: on free ports of the loopback, with their data in a folder of ours. None of the system's is
//! touched.
//!
//! ZooKeeper too, though the crate's testkit has one: that keeps its data in memory and waits for no disk, and it would
//! have to be built with all that it needs for containers. Here all are started, ended and counted in the same way.

mod etcd;
mod mariadb;
mod port;
mod redis;
mod scratch;
mod zookeeper;

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::Failure;

pub(crate) use self::mariadb::options as mariadb_options;
pub(crate) use self::port::free_port;
pub(crate) use self::scratch::{Scratch, sweep};

/// Until a server answers, and until it has ended.
const PATIENCE: Duration = Duration::from_secs(60);
/// For one that serves, on a machine that is busy.
const ANSWER: Duration = Duration::from_secs(2);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Zookeeper,
    Redis,
    Etcd,
    Mariadb,
}

/// What survives the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// As its own defaults have it.
    Packaged,
    /// Each write is on the disk before it is answered. All but Redis do that by default.
    EachWrite,
}

pub(crate) struct Server {
    kind: Kind,
    durability: Durability,
    port: u16,
    process: Option<Child>,
    folder: Scratch,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Zookeeper, Self::Redis, Self::Etcd, Self::Mariadb];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Zookeeper => "ZooKeeper",
            Self::Redis => "Redis",
            Self::Etcd => "etcd",
            Self::Mariadb => "MariaDB",
        }
    }

    /// What it says of itself; the reason, if it cannot be had here.
    pub(crate) fn version(self) -> Result<String, String> {
        let version = match self {
            Self::Zookeeper => zookeeper::version(),
            Self::Redis => redis::version(),
            Self::Etcd => etcd::version(),
            Self::Mariadb => mariadb::version(),
        };
        version.map_err(|error| format!("{error}: scripts/setup.sh comparison"))
    }

    /// Whether its default is [`Durability::EachWrite`].
    pub(crate) fn is_durable(self) -> bool {
        self != Self::Redis
    }
}

impl Server {
    /// Starts one with nothing in it, and waits until it serves.
    pub(crate) async fn start(
        kind: Kind,
        durability: Durability,
        root: &Path,
    ) -> Result<Self, Failure> {
        let folder = Scratch::create(root)?;
        if kind == Kind::Mariadb {
            mariadb::install(folder.path()).await?;
        }
        let mut server = Self { kind, durability, port: free_port()?, process: None, folder };
        server.start_again().await?;
        if kind == Kind::Mariadb {
            mariadb::create_tables(&server.address()).await?;
        }
        Ok(server)
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn command(&self) -> Result<Command, Failure> {
        let (port, folder) = (self.port, self.folder.path());
        match self.kind {
            Kind::Zookeeper => zookeeper::command(port, folder),
            Kind::Redis => Ok(redis::command(port, folder, self.durability)),
            Kind::Etcd => etcd::command(port, folder),
            Kind::Mariadb => Ok(mariadb::command(port, folder)),
        }
    }

    async fn serves(&self) -> bool {
        let address = self.address();
        let serves = async {
            match self.kind {
                Kind::Zookeeper => zookeeper::serves(&address).await,
                Kind::Redis => redis::serves(&address).await,
                Kind::Etcd => etcd::serves(&address).await,
                Kind::Mariadb => mariadb::serves(&address).await,
            }
        };
        // One that is just starting may accept a connection and forget it.
        timeout(ANSWER, serves).await.unwrap_or(false)
    }

    /// On the same port, with the same data; until it serves.
    pub(crate) async fn start_again(&mut self) -> Result<(), Failure> {
        let log = self.folder.path().join("server.log");
        let file = File::options().create(true).append(true).open(&log)?;
        let mut command = self.command()?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let mut process = command.spawn()?;
        let deadline = Instant::now() + PATIENCE;
        while !self.serves().await {
            let ended = process.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                let log = std::fs::read_to_string(&log).unwrap_or_default();
                let lines: Vec<_> = log.lines().rev().take(5).collect();
                let name = self.kind.name();
                return Err(format!("{name} does not serve ({ended:?}): {lines:?}").into());
            }
            sleep(BETWEEN_LOOKS).await;
        }
        self.process = Some(process);
        Ok(())
    }

    /// `SIGTERM` is the graceful end of each, `SIGKILL` of course not. Returns when it has ended.
    pub(crate) async fn end(&mut self, signal: Signal) -> Result<(), Failure> {
        self.signal(signal)?;
        if let Some(mut process) = self.process.take() {
            timeout(PATIENCE, process.wait()).await??;
        }
        Ok(())
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let pid = self.process.as_ref().and_then(Child::id).ok_or("the server is not running")?;
        Ok(kill(Pid::from_raw(i32::try_from(pid)?), signal)?)
    }

    /// Requests that it has received since it was started, as far as it counts them.
    pub(crate) async fn requests(&self) -> Result<u64, Failure> {
        let address = self.address();
        match self.kind {
            Kind::Zookeeper => zookeeper::requests(&address).await,
            Kind::Redis => redis::requests(&address).await,
            Kind::Etcd => etcd::requests(&address).await,
            Kind::Mariadb => mariadb::requests(&address).await,
        }
    }
}

/// The first line that a program prints.
fn first_line(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = std::process::Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("there is no {program} ({error})"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().map(str::to_owned).ok_or_else(|| format!("{program} says nothing"))
}
