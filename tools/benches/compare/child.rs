//! Peers in processes of their own: one question a line on their standard input, one answer a line back.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;
use tools::{Failure, PipedProcess};
use zookeeper_recipes_dev::class_path;

use crate::load::{Held, Lap, Load, Recipe};
use crate::stranger;

/// Beyond a turn: a JVM that starts and compiles, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Child {
    worker: PipedProcess,
    log: PathBuf,
}

impl Child {
    /// Apache Curator, from Debian's package, by a program that is compiled as it starts.
    pub(crate) fn curator() -> Result<Self, Failure> {
        let missing = |jar| format!("there is no {jar}: scripts/setup.sh curator");
        let class_path = class_path().map_err(missing)?;
        let java = std::env::var("JAVA_HOME").ok().filter(|home| !home.is_empty());
        let java = java.map_or("java".into(), |home| Path::new(&home).join("bin/java"));
        let mut command = Command::new(java);
        command.args(["-Xmx512m", "--class-path", &class_path, &source("CuratorPeer.java")]);
        Self::start("curator", command)
    }

    pub(crate) fn kazoo() -> Result<Self, Failure> {
        let python = target().join("kazoo/bin/python");
        if !python.exists() {
            return Err(format!("there is no {}: scripts/setup.sh kazoo", python.display()).into());
        }
        let mut command = Command::new(python);
        command.arg(source("kazoo_peer.py"));
        Self::start("kazoo", command)
    }

    /// This crate, in another process.
    pub(crate) fn stranger() -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(stranger::ARGUMENT);
        Self::start("stranger", command)
    }

    fn start(name: &str, mut command: Command) -> Result<Self, Failure> {
        let folder = target().join("bench");
        std::fs::create_dir_all(&folder)?;
        let log = folder.join(format!("{name}.log"));
        command.stderr(File::create(&log)?);
        Ok(Self { worker: PipedProcess::start(&mut command)?, log })
    }

    /// `each`: every task has a lock object of its own, also those that share a session and a path.
    pub(crate) async fn run(
        &mut self,
        each: bool,
        link: &str,
        path: &str,
        load: Load,
    ) -> Result<Lap, Failure> {
        let Load { recipe, tasks, locks, sessions, hold, turn } = load;
        let (hold, length) = (hold.as_micros(), turn.as_millis());
        let how = if each { "each" } else { "run" };
        let question =
            format!("{how} {link} {path} {tasks} {locks} {sessions} {hold} {length} {recipe}");
        let [cycles, elapsed, hand_over] = self.ask(&question, turn).await?;
        let [elapsed, hand_over] = [elapsed, hand_over].map(Duration::from_nanos);
        Ok(Lap { cycles: usize::try_from(cycles)?, elapsed, hand_over })
    }

    /// The mean times of the first acquisition of each of the paths `0` to `count` below `place`, and of its release.
    pub(crate) async fn first(
        &mut self,
        link: &str,
        place: &str,
        count: usize,
        recipe: Recipe,
    ) -> Result<(Duration, Duration), Failure> {
        let question = format!("first {link} {place} {count} {recipe}");
        let [acquired, released] = self.ask(&question, Duration::ZERO).await?;
        Ok((Duration::from_nanos(acquired), Duration::from_nanos(released)))
    }

    /// Of the stranger: its holds, in a turn of tasks with a session each.
    pub(crate) async fn holds(
        &mut self,
        link: &str,
        path: &str,
        load: Load,
    ) -> Result<Vec<Held>, Failure> {
        let Load { recipe, tasks, hold, turn, .. } = load;
        let (hold, length) = (hold.as_nanos(), turn.as_nanos());
        let question = format!("holds {link} {path} {tasks} {hold} {length} {recipe}");
        let moments = self.answer(&question, turn).await?;
        let held = |pair: &[u64]| {
            let [acquired, released] = [pair[0], pair[1]].map(Duration::from_nanos);
            Held { acquired, released }
        };
        Ok(moments.chunks_exact(2).map(held).collect())
    }

    /// Tries a lock `count` times, and says how often it got it.
    pub(crate) async fn attempts(
        &mut self,
        link: &str,
        path: &str,
        count: usize,
    ) -> Result<u64, Failure> {
        let [acquired] = self.ask(&format!("try {link} {path} {count}"), Duration::ZERO).await?;
        Ok(acquired)
    }

    async fn ask<const N: usize>(
        &mut self,
        question: &str,
        work: Duration,
    ) -> Result<[u64; N], Failure> {
        let numbers = self.answer(question, work).await?;
        numbers.try_into().map_err(|numbers| format!("{question}: {numbers:?}").into())
    }

    async fn answer(&mut self, question: &str, work: Duration) -> Result<Vec<u64>, Failure> {
        self.worker.input.write_all(format!("{question}\n").as_bytes()).await?;
        let answer = timeout(PATIENCE + work, self.worker.output.next_line()).await;
        let Ok(Ok(Some(answer))) = answer else {
            return Err(format!("no answer to `{question}`, see {}", self.log.display()).into());
        };
        let numbers: Result<_, _> = answer.split_whitespace().map(str::parse).collect();
        numbers.map_err(|_| format!("{question}: {answer}").into())
    }

    /// Its sessions are closed, if it does that in time.
    pub(crate) async fn close(self) {
        let PipedProcess { mut process, input, .. } = self.worker;
        drop(input);
        if timeout(Duration::from_secs(10), process.wait()).await.is_err() {
            let _ = process.kill().await;
        }
    }
}

fn source(name: &str) -> String {
    format!("{}/benches/compare/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Cargo's folder for what is built.
fn target() -> PathBuf {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    scratch.parent().unwrap_or(scratch).to_owned()
}
