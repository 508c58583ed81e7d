//! Worker processes, and the log of what they report.

use std::fmt;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;
use tools::{Failure, PipedProcess, curator_class_path, now};

/// The first argument of a worker process of ours.
pub(crate) const ROLE: &str = "worker";
/// A JVM that starts, a server that starts or a session that ends, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Ours,
    Curator,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Side::Ours { "this crate's" } else { "Curator's" })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Holds,
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) holder: usize,
    pub(crate) what: What,
    pub(crate) at: Duration,
    /// Of `Holds` the fencing token, or zero for Curator's; of `Lost` the last moment, in nanoseconds, at which it held.
    pub(crate) more: i64,
}

impl Event {
    /// A line of a killed process may be cut off.
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split(' ').collect();
        let [holder, what, at, more] = words[..] else { return None };
        let both = [What::Holds, What::Lost];
        let what = both.into_iter().find(|known| format!("{known:?}") == what)?;
        let at = Duration::from_nanos(at.parse().ok()?);
        Some(Self { holder: holder.parse().ok()?, what, at, more: more.parse().ok()? })
    }
}

pub(crate) type Entry = (Side, Event);

/// It ends when this is dropped.
pub(crate) struct Peer {
    child: Child,
    input: ChildStdin,
}

impl Peer {
    pub(crate) fn ours(log: &UnboundedSender<Entry>) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(ROLE);
        Self::start(command, Side::Ours, log.clone())
    }

    /// `None` where Curator or a JDK is not installed.
    pub(crate) fn curator(log: &UnboundedSender<Entry>) -> Result<Option<Self>, Failure> {
        let class_path = match curator_class_path() {
            Ok(class_path) => class_path,
            Err(missing) => {
                println!("Curator is not measured: there is no {missing}");
                return Ok(None);
            }
        };
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin/margins/MarginPeer.java");
        let mut command = Command::new("java");
        command.args(["-Xmx256m", "--class-path", &class_path, source]).stderr(Stdio::null());
        Self::start(command, Side::Curator, log.clone()).map(Some)
    }

    fn start(
        mut command: Command,
        side: Side,
        log: UnboundedSender<Entry>,
    ) -> Result<Self, Failure> {
        let PipedProcess { process: child, input, output: mut lines } =
            PipedProcess::start(&mut command)?;
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some(event) = Event::parse(&line) {
                    let _ = log.send((side, event));
                }
            }
        });
        Ok(Self { child, input })
    }

    pub(crate) async fn hold(
        &mut self,
        holder: usize,
        recipe: &str,
        servers: &str,
        path: &str,
        session: Duration,
    ) -> Result<(), Failure> {
        let session = session.as_millis();
        self.tell(&format!("hold {holder} {recipe} {servers} {path} {session}")).await
    }

    /// Ends all its holders.
    pub(crate) async fn end(&mut self) -> Result<(), Failure> {
        self.tell("end").await
    }

    async fn tell(&mut self, order: &str) -> Result<(), Failure> {
        Ok(self.input.write_all(format!("{order}\n").as_bytes()).await?)
    }

    /// By `SIGKILL`; says when.
    pub(crate) async fn kill(&mut self) -> Result<Duration, Failure> {
        let killed = now();
        self.child.kill().await?;
        Ok(killed)
    }
}

/// All that the workers reported.
pub(crate) struct Log {
    incoming: UnboundedReceiver<Entry>,
    entries: Vec<Entry>,
}

impl Log {
    pub(crate) fn new() -> (UnboundedSender<Entry>, Self) {
        let (sender, incoming) = unbounded_channel();
        (sender, Self { incoming, entries: Vec::new() })
    }

    pub(crate) fn add(&mut self, side: Side, event: Event) {
        self.entries.push((side, event));
    }

    /// Of one side, in the order of their time.
    pub(crate) fn of(&mut self, side: Side) -> Vec<Event> {
        while let Ok(entry) = self.incoming.try_recv() {
            self.entries.push(entry);
        }
        let own = self.entries.iter().filter(|(other, _)| *other == side);
        let mut events: Vec<_> = own.map(|(_, event)| *event).collect();
        events.sort_by_key(|event| event.at);
        events
    }

    pub(crate) async fn wait_for<T>(
        &mut self,
        side: Side,
        patience: Duration,
        wanted: impl Fn(&[Event]) -> Option<T> + Send + Sync,
    ) -> Option<T> {
        let search = async {
            loop {
                if let Some(found) = wanted(&self.of(side)) {
                    return Some(found);
                }
                let entry = self.incoming.recv().await?;
                self.entries.push(entry);
            }
        };
        timeout(patience, search).await.ok().flatten()
    }
}
