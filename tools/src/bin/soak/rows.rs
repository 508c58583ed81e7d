//! The worker processes, one at a time in each row, and what their logs say of this moment.

use std::fs::File;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal as Unix, kill};
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;
use tools::Result;

use crate::log::{Event, Log, Name, Nanos, Signal, Tail, What};
use crate::peers::MODULES;
use crate::settings::{LIMIT, LOCK, WorkerSettings};

/// How long a worker may take to end when it is told.
const END: Duration = Duration::from_secs(60);

pub(crate) struct Row {
    pub(crate) settings: WorkerSettings,
    child: Child,
    input: Option<ChildStdin>,
    tail: Tail,
    /// What it holds at this moment.
    pub(crate) held: Vec<Name>,
    pub(crate) holds: usize,
    pub(crate) last_hold: Nanos,
    pub(crate) quiet: bool,
}

fn command(settings: &WorkerSettings) -> Result<Command> {
    if let Some(peer) = settings.peer() {
        let mut command = Command::new(&peer.program[0]);
        command.args(&peer.program[1..]).arg(settings.log()).arg(settings.identity());
        let timeout = settings.timeout.as_millis().to_string();
        let (recipe, limit) = (settings.run.recipe.name(), LIMIT.to_string());
        command.args([&settings.connect_string, LOCK, &timeout, &recipe, &limit]);
        command.env("PYTHONPATH", MODULES);
        return Ok(command);
    }
    let mut command = Command::new(std::env::current_exe()?);
    let (variable, value) = settings.environment()?;
    command.args(&settings.run.worker_arguments).env(variable, value);
    Ok(command)
}

impl Row {
    pub(crate) fn start(settings: WorkerSettings) -> Result<Self> {
        let mut child = command(&settings)?
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(settings.log().with_extension("err"))?)
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take();
        Ok(Self {
            settings,
            child,
            input,
            tail: Tail::default(),
            held: Vec::new(),
            holds: 0,
            last_hold: 0,
            quiet: false,
        })
    }

    /// What the log says that was not read before.
    pub(crate) fn look(&mut self) -> Result<()> {
        for Event(at, what) in self.tail.news(&self.settings.log())? {
            match what {
                What::Holds { hold, .. } => {
                    self.held.push(hold);
                    self.holds += 1;
                    self.last_hold = at;
                }
                What::Lost { hold, .. } | What::Releases { hold, .. } => {
                    self.held.retain(|held| *held != hold);
                }
                What::Quiet => self.quiet = true,
                _ => {}
            }
        }
        Ok(())
    }

    pub(crate) async fn tell(&mut self, order: &str) -> Result<()> {
        if let Some(input) = &mut self.input {
            input.write_all(format!("{order}\n").as_bytes()).await?;
        }
        Ok(())
    }

    pub(crate) fn signal(&self, signal: Signal, log: &Log) -> Result<()> {
        let Some(id) = self.child.id() else { return Ok(()) };
        let unix = match signal {
            Signal::Stop => Unix::SIGSTOP,
            Signal::Continue => Unix::SIGCONT,
            Signal::Kill => Unix::SIGKILL,
        };
        kill(Pid::from_raw(id.try_into()?), unix)?;
        let WorkerSettings { row, generation, .. } = self.settings;
        Ok(log.now(What::Signalled { row, generation, signal })?)
    }

    /// Kills the worker; the next one takes its row.
    pub(crate) async fn replace(&mut self, log: &Log) -> Result<()> {
        self.signal(Signal::Kill, log)?;
        self.child.wait().await?;
        self.look()?;
        let mut settings = self.settings.clone();
        settings.generation += 1;
        let next = Self::start(settings)?;
        let (holds, last_hold) = (self.holds, self.last_hold);
        *self = Self { holds, last_hold, ..next };
        Ok(())
    }

    /// Tells it to end, and waits for that.
    pub(crate) async fn end(&mut self) -> Result<()> {
        self.input = None;
        match timeout(END, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(_) => Err(format!("worker {} failed: {}", self.settings.row, self.errors()).into()),
            Err(_) => {
                self.child.kill().await?;
                Err(format!("worker {} did not end within {END:?}", self.settings.row).into())
            }
        }
    }

    fn errors(&self) -> String {
        std::fs::read_to_string(self.settings.log().with_extension("err")).unwrap_or_default()
    }
}
