//! What the tools have in common.

pub mod chart;
pub mod verdict;

use std::error::Error;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::io::{BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
pub use zookeeper_recipes_dev::class_path as curator_class_path;

/// Whatever ends a tool.
pub type Failure = Box<dyn Error + Send + Sync>;

/// What a tool does, or what ends it.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Time since the machine started, the same in every process. Java's `System.nanoTime` is this clock, too.
pub fn now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default()
}

/// A process that ends when its input does, that is with us, and at the latest when it is dropped.
#[derive(Debug)]
#[allow(clippy::exhaustive_structs)]
pub struct PipedProcess {
    /// The process.
    pub process: Child,
    /// Its orders.
    pub input: ChildStdin,
    /// Its answers, or what it reports.
    pub output: Lines<BufReader<ChildStdout>>,
}

impl PipedProcess {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// There is no such program.
    pub fn start(command: &mut Command) -> Result<Self> {
        use tokio::io::AsyncBufReadExt;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn()?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let (Some(input), Some(output)) = (input, output) else {
            return Err("a process without pipes".into());
        };
        Ok(Self { process, input, output: BufReader::new(output).lines() })
    }
}

/// Returns the folder of a distribution, such as `zookeeper-3.9.5`, and fetches it into the cache if it is not there.
///
/// # Errors
///
/// `scripts/distributions.sh` failed, and has printed what to do.
pub fn distribution(name: &str) -> Result<PathBuf> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/distributions.sh");
    let mut command = std::process::Command::new(script);
    let output = command.arg(name).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("there is no distribution {name}").into());
    }
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim_end()))
}

/// Of a run.
pub fn date_and_commit() -> String {
    let date = said("date", &["-u", "+%F"]);
    format!("{date}, commit {}", said("git", &["describe", "--always", "--dirty"]))
}

/// Of one, five and fifteen minutes.
pub fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// What a program prints, in a line.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = std::process::Command::new(program).args(arguments).output().ok();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}
