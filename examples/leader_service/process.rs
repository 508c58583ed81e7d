//! A process of the demonstration: this program, with other arguments.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::Fault;
use crate::http::Answer;

/// For a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The argument of a process that ends with the one that started it.
pub(crate) const WITH_PARENT: &str = "with-parent";

/// Ends this process when the one that started it is gone, however that ended: then nobody has the other end of
/// our input.
pub(crate) fn end_with_parent() {
    std::thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(1);
    });
}

pub(crate) struct Process {
    pub(crate) name: char,
    pub(crate) address: String,
    child: Child,
    /// It ends when this is dropped; to wait for the child would drop the child's own.
    _input: ChildStdin,
}

impl Process {
    pub(crate) async fn start(name: char, servers: &str, namespace: &str) -> Result<Self, Fault> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", WITH_PARENT])
            .env("ZOOKEEPER_CONNECT", servers)
            .env("NAMESPACE", namespace)
            .env_remove("LISTEN") // the system chooses
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take().ok_or("a process without an input")?;
        let output = child.stdout.take().ok_or("a process without an output")?;
        let mut lines = BufReader::new(output).lines();
        let first = timeout(PATIENCE, lines.next_line()).await??.ok_or("it ended at once")?;
        println!("  {name} {first}");
        let address = first.strip_prefix("listens on ").ok_or("it says something else")?.to_owned();
        tokio::spawn(say(name, lines));
        Ok(Self { name, address, child, _input: input })
    }

    /// Sends the signal, and waits for the end.
    pub(crate) async fn end_by(mut self, signal: Signal) -> Result<ExitStatus, Fault> {
        self.signal(signal)?;
        Ok(timeout(PATIENCE, self.child.wait()).await??)
    }

    fn signal(&self, signal: Signal) -> Result<(), Fault> {
        let id = self.child.id().ok_or("it has ended")?;
        Ok(kill(Pid::from_raw(id.try_into()?), signal)?)
    }

    /// What it answers; an error if that is not 200.
    async fn get(&self, path: &str) -> Result<String, Fault> {
        let mut stream = TcpStream::connect(&self.address).await?;
        // In version 1.0 the answer ends with the connection.
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
        if head.split(' ').nth(1) != Some("200") {
            return Err(format!("{path} of {}: {head}", self.name).into());
        }
        Ok(body.to_owned())
    }

    pub(crate) async fn health(&self) -> Result<String, Fault> {
        timeout(PATIENCE, self.get("/healthz")).await?
    }

    /// Its answer, once it knows of `leader`: each hears of it by itself, a trip after it happened.
    pub(crate) async fn leader(&self, leader: &str) -> Result<Answer, Fault> {
        let asking = async {
            loop {
                let answer: Answer = serde_json::from_str(&self.get("/leader").await?)?;
                let knows = answer.leader.as_deref() == Some(leader);
                if knows && answer.leads == (self.address == leader) {
                    return Ok(answer);
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, asking).await?
    }
}

async fn say(name: char, mut lines: Lines<BufReader<ChildStdout>>) {
    while let Ok(Some(line)) = lines.next_line().await {
        println!("  {name} {line}");
    }
}
