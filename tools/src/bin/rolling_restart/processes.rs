//! The candidates' processes.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc::UnboundedSender;

use crate::candidate::ROLE;
use crate::class_path::class_path;
use crate::event::now;
use crate::log::{Entry, Kind};
use crate::{CANDIDATES, Failure, SESSION_TIMEOUT};

#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// It ends when this is dropped.
    _input: Option<ChildStdin>,
}

impl Process {
    pub(crate) fn ours(
        number: usize,
        servers: &str,
        path: &str,
        log: UnboundedSender<Entry>,
    ) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        let timeout = SESSION_TIMEOUT.as_millis().to_string();
        command.args([ROLE, &number.to_string(), servers, path, &timeout]);
        Self::start(command, Kind::Ours, log)
    }

    /// All of Curator's candidates, with a session each; `None` where Curator or a JDK is not installed.
    pub(crate) fn curators(
        servers: &str,
        path: &str,
        log: UnboundedSender<Entry>,
    ) -> Result<Option<Self>, Failure> {
        let class_path = match class_path() {
            Ok(class_path) => class_path,
            Err(missing) => {
                println!("Curator is not measured: there is no {missing}");
                return Ok(None);
            }
        };
        let source =
            concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin/rolling_restart/CuratorCandidates.java");
        let mut command = Command::new("java");
        let (timeout, count) = (SESSION_TIMEOUT.as_millis().to_string(), CANDIDATES.to_string());
        command.args(["-Xmx256m", "--class-path", &class_path, source]);
        command.args([servers, path, &timeout, &count]).stderr(Stdio::null());
        Self::start(command, Kind::Curator, log).map(Some)
    }

    fn start(
        mut command: Command,
        kind: Kind,
        log: UnboundedSender<Entry>,
    ) -> Result<Self, Failure> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or("a candidate without an output")?;
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            // The last line of one that was killed may be cut: then it is none.
            while let Ok(Some(line)) = lines.next_line().await {
                if let Ok(event) = line.parse() {
                    let _ = log.send((kind, event));
                }
            }
        });
        Ok(Self { child, _input: input })
    }

    /// By `SIGKILL`; says when.
    pub(crate) async fn kill(&mut self) -> Result<Duration, Failure> {
        let killed = now();
        self.child.kill().await?;
        Ok(killed)
    }
}
