//! The processes that do the work: ours, and Curator's.

use std::fmt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::Failure;
use crate::class_path::class_path;

/// The argument that makes this program our worker.
pub(crate) const WORKER: &str = "worker";

/// Small, so that what is resident is what is in use; and answers as long as the servers give them.
const FLAGS: [&str; 6] = [
    "-Xmx4g",
    "-Xms64m",
    "-Xmn32m",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Djute.maxbuffer=67108864",
];

/// On a quiet machine the longest command takes half a minute.
const PATIENCE: Duration = Duration::from_secs(120);
const LINUX_PAGE: f64 = 4096.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Ours,
    Curator,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ours => "ours",
            Self::Curator => "curator",
        })
    }
}

/// Who is there to be measured.
pub(crate) struct Peers {
    /// Where `CuratorWorker` was compiled to, and the jars.
    class_path: Option<String>,
}

impl Peers {
    pub(crate) async fn prepare() -> Result<Self, Failure> {
        let jars = match class_path() {
            Ok(jars) => jars,
            Err(missing) => {
                eprintln!("growth: Curator is not measured: there is no {missing}");
                return Ok(Self { class_path: None });
            }
        };
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/growth/CuratorWorker.java");
        let classes = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("growth");
        let compiler = Command::new("javac")
            .args(["--class-path", &jars, "-d"])
            .arg(&classes)
            .arg(source)
            .output();
        let class_path = match compiler.await {
            Ok(output) if output.status.success() => Some(format!("{}:{jars}", classes.display())),
            Ok(output) => return Err(String::from_utf8_lossy(&output.stderr).into()),
            Err(error) => {
                eprintln!("growth: Curator is not measured: no javac ({error})");
                None
            }
        };
        Ok(Self { class_path })
    }

    pub(crate) fn both(&self) -> impl Iterator<Item = Peer> + use<> {
        let curator = self.class_path.as_ref().map(|_| Peer::Curator);
        std::iter::once(Peer::Ours).chain(curator)
    }

    /// Starts a worker.
    pub(crate) fn start(&self, peer: Peer) -> Result<Worker, Failure> {
        let mut command = match (peer, &self.class_path) {
            (Peer::Ours, _) => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg(WORKER);
                command
            }
            (Peer::Curator, Some(class_path)) => {
                let mut command = Command::new("java");
                command.args(FLAGS).args(["--class-path", class_path, "CuratorWorker"]);
                command
            }
            (Peer::Curator, None) => return Err("Curator is not installed".into()),
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn()?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("the worker has no pipes".into());
        };
        Ok(Worker { process, input, output: BufReader::new(output).lines() })
    }
}

/// A worker's process. Dropping it kills it.
pub(crate) struct Worker {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// Gives the number that a command is answered with, mostly seconds.
    pub(crate) async fn ask(&mut self, command: &str) -> Result<f64, Failure> {
        Ok(self.ask_both(command).await?.0)
    }

    pub(crate) async fn ask_both(&mut self, command: &str) -> Result<(f64, f64), Failure> {
        self.input.write_all(format!("{command}\n").as_bytes()).await?;
        let answer = timeout(PATIENCE, self.output.next_line()).await;
        let answer = answer.map_err(|_| format!("`{command}` took {PATIENCE:?}"))??;
        let answer = answer.ok_or("the worker has ended")?;
        let words: Vec<_> = answer.split(' ').collect();
        match words[..] {
            ["ok", number, count] => Ok((number.parse()?, count.parse()?)),
            _ => Err(format!("`{command}`: {answer}").into()),
        }
    }

    /// Bytes that it says are in use, and that are resident.
    pub(crate) async fn memory(&mut self) -> Result<(f64, f64), Failure> {
        let used = self.ask("memory").await?;
        let id = self.process.id().ok_or("the worker has ended")?;
        let sizes = std::fs::read_to_string(format!("/proc/{id}/statm"))?;
        let pages: f64 = sizes.split(' ').nth(1).ok_or("no resident size")?.parse()?;
        Ok((used, pages * LINUX_PAGE))
    }

    /// Ends its sessions, and itself.
    pub(crate) async fn end(mut self) -> Result<(), Failure> {
        self.input.write_all(b"end\n").await?;
        // Past that it is killed, and its sessions expire.
        let _ = timeout(PATIENCE, self.process.wait()).await;
        Ok(())
    }
}
