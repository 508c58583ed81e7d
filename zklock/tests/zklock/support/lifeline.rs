//! The pipe that a command holds: it tells what happens to it, and its end is that of the last process which has it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Instant;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;
use zookeeper_recipes_dev::within;

use crate::support::tool::{Running, Tool};

#[derive(Debug, PartialEq, Eq)]
enum Told {
    Line(String),
    End,
}

fn make_pipe(path: &Path) {
    mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
}

/// A command takes it by `exec 9>"$LIFE"`, and tells by `echo … >&9`.
pub(crate) struct Lifeline {
    pub(crate) path: PathBuf,
    told: UnboundedReceiver<(Told, Instant)>,
}

impl Lifeline {
    pub(crate) fn new(path: &Path) -> Self {
        make_pipe(path);
        let (sender, told) = unbounded_channel();
        let reading = path.to_owned();
        // It waits for somebody to write, and once more after each end, as long as the test's process lives.
        std::thread::spawn(move || {
            while let Ok(pipe) = File::open(&reading) {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    if sender.send((Told::Line(line), Instant::now())).is_err() {
                        return;
                    }
                }
                if sender.send((Told::End, Instant::now())).is_err() {
                    return;
                }
            }
        });
        Self { path: path.to_owned(), told }
    }

    /// The next process that opens it has a new pipe. In the present one, if it came before the end of the last process was
    /// read, that end would never be seen.
    pub(crate) fn renew(&self) {
        let next = self.path.with_extension("next");
        make_pipe(&next);
        std::fs::rename(next, &self.path).unwrap();
    }

    /// Starts it with this pipe, and waits until its command is there.
    pub(crate) async fn up(&mut self, tool: Tool) -> Running {
        let running = tool.env("LIFE", &self.path).start();
        self.says("up").await;
        running
    }

    async fn next(&mut self, awaited: &str) -> (Told, Instant) {
        within(awaited, self.told.recv()).await.expect("its thread lives as long as it")
    }

    /// The next line, and when it came.
    pub(crate) async fn line(&mut self) -> (String, Instant) {
        match self.next("a line of the command").await {
            (Told::Line(line), at) => (line, at),
            (Told::End, _) => panic!("the command is dead, and was to say something"),
        }
    }

    /// The next line is this one.
    pub(crate) async fn says(&mut self, expected: &str) -> Instant {
        let (line, at) = self.line().await;
        assert_eq!(line, expected);
        at
    }

    /// The next line is `NAME NUMBER`, a process.
    pub(crate) async fn process(&mut self, name: &str) -> i32 {
        let (line, _) = self.line().await;
        let number = line.strip_prefix(name).map(str::trim);
        number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{name}: {line}"))
    }

    /// Nobody has it any more: when that was, and what was told before.
    pub(crate) async fn end(&mut self) -> (Vec<String>, Instant) {
        let mut lines = Vec::new();
        loop {
            match self.next("the end of all processes of the command").await {
                (Told::Line(line), _) => lines.push(line),
                (Told::End, at) => return (lines, at),
            }
        }
    }

    /// What was told so far and not yet read.
    pub(crate) fn heard(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Ok((told, _)) = self.told.try_recv() {
            lines.push(match told {
                Told::Line(line) => line,
                Told::End => "(end)".to_owned(),
            });
        }
        lines
    }
}

/// What a command waits at, by `until read line < "$GATE"; do :; done`: a signal, also of the end of a child, makes the
/// shell give up to open it.
pub(crate) struct Gate {
    pub(crate) path: PathBuf,
}

impl Gate {
    pub(crate) fn new(path: &Path) -> Self {
        make_pipe(path);
        Self { path: path.to_owned() }
    }

    /// Waits until the command is there.
    pub(crate) async fn open(self) {
        let (sender, opened) = oneshot::channel();
        // A thread of its own: the runtime would wait for it also where nobody comes.
        std::thread::spawn(move || sender.send(std::fs::write(self.path, "go\n")));
        within("the command comes to the gate", opened).await.unwrap().unwrap();
    }
}
