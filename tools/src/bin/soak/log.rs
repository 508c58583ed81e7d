//! What workers and orchestrator log, a line for each event, and the clock that all processes of a machine share.
//!
//! Every event is one `write` to a file that was opened for appending. What was written stays, however the writer
//! ends; only the very line it was killed in can be missing or cut, and a cut last line is none.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Nanoseconds since the machine started, the same in every process.
pub(crate) type Nanos = u64;

pub(crate) const MILLISECOND: Nanos = 1_000_000;
pub(crate) const SECOND: Nanos = 1000 * MILLISECOND;

pub(crate) fn now() -> Nanos {
    Nanos::try_from(tools::now().as_nanos()).unwrap_or(Nanos::MAX)
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Event(pub(crate) Nanos, pub(crate) What);

/// Each kind says what its moment stands for. Without a word, it is the moment of the log entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    /// Queues up.
    Asks { how: String },
    /// Came back without the lock.
    GaveUp { why: String },
    /// Has a guard.
    Holds { hold: Name, node: String },
    /// In a mixed fleet: the nodes that a listing showed before the hold's own, when it had its guard and had claimed nothing yet.
    Behind { hold: Name, nodes: Vec<String> },
    /// The guard said that it is held. The moment is before the question, `after` is after the answer.
    Yes { hold: Name, after: Nanos },
    /// The guard said that it is not held. The moment is before the question.
    No { hold: Name },
    /// The worker knows that the hold is over, and why.
    Lost { hold: Name, how: String },
    /// Begins to release: from here on it claims nothing.
    Releases { hold: Name, how: String },
    /// Does not contend any more, and holds nothing.
    Quiet,
    /// A fault begins; `on` is what it hits.
    Begins { fault: usize, kind: String, detail: String, on: Vec<Place> },
    /// And is healed.
    Ends { fault: usize },
    /// A signal was sent to a worker.
    Signalled { row: usize, generation: usize, signal: Signal },
    /// All faults are healed, from here on.
    Healed,
}

/// What a hold entitles to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// A mutex.
    Lock,
    Write,
    Read,
    /// One of a semaphore's.
    Lease,
}

impl Mode {
    pub(crate) fn is_exclusive(self) -> bool {
        matches!(self, Self::Lock | Self::Write)
    }
}

/// A hold, among those of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Name(pub(crate) Mode, pub(crate) i64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Signal {
    Stop,
    Continue,
    Kill,
}

/// What a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Place {
    Row(usize),
    Member(usize),
}

/// Writes one log. Clones write the same.
#[derive(Clone, Debug)]
pub(crate) struct Log(Arc<File>);

impl Log {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(Arc::new(OpenOptions::new().create(true).append(true).open(path)?)))
    }

    pub(crate) fn write(&self, at: Nanos, what: What) -> io::Result<()> {
        let mut line = serde_json::to_string(&Event(at, what))?;
        line.push('\n');
        (&*self.0).write_all(line.as_bytes())
    }

    pub(crate) fn now(&self, what: What) -> io::Result<()> {
        self.write(now(), what)
    }
}

/// Reads a log while it grows, each event once.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    read: usize,
}

impl Tail {
    pub(crate) fn news(&mut self, path: &Path) -> io::Result<Vec<Event>> {
        use std::io::{Read, Seek, SeekFrom};
        let mut file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            file => file?,
        };
        file.seek(SeekFrom::Start(self.read as u64))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        self.read += whole;
        parse(&text[..whole])
    }
}

/// The events of whole lines.
pub(crate) fn parse(text: &[u8]) -> io::Result<Vec<Event>> {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| Ok(serde_json::from_slice(line)?)).collect()
}

pub(crate) fn worker_log(folder: &Path, row: usize, generation: usize) -> PathBuf {
    folder.join(format!("worker-{row}-{generation}.log"))
}

pub(crate) const FAULTS_LOG: &str = "faults.log";

/// What a worker says of who it is.
pub(crate) fn identity(row: usize, generation: usize) -> String {
    format!("{row}.{generation}")
}

/// The number that ends the name of a contender's node.
pub(crate) fn sequence_number(node: &str) -> Option<i32> {
    node.get(node.len().checked_sub(10)?..)?.parse().ok()
}
