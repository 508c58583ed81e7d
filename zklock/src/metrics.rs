//! The metrics of a lock in a file, from which node_exporter's textfile collector reads them.
//!
//! Each run is a process of its own, so values that a run does not change are taken over from the file. A thread writes
//! the file, because a disk that is full or hangs must not endanger the command.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::arguments::Command;
use crate::background::Background;
use crate::exit::{Failure, Outcome, PATIENCE, USAGE};
use crate::log::Event;

/// Time limit for the first write.
const FIRST: Duration = Duration::from_secs(5);

/// The metrics of this process, if there is a file for them.
static METRICS: OnceLock<Metrics> = OnceLock::new();

struct Metrics {
    writer: Background,
    textfile: Arc<Textfile>,
    progress: Mutex<Progress>,
}

/// Exactly one of these is set, until this process ends.
struct Progress {
    waits_since: Option<Instant>,
    holds_since: Option<Instant>,
}

/// Checks the file, and records the start of the run.
///
/// # Errors
///
/// A usage error for a file that cannot be written at this place. A disk that is full causes only a warning.
pub(crate) fn begin(command: &Command) -> Result<(), Failure> {
    let file = match command {
        Command::Run(run) => run.metrics_file.as_deref(),
        Command::Elect(elect) => elect.metrics_file.as_deref(),
        _ => None,
    };
    let Some(file) = file else { return Ok(()) };
    let textfile = Arc::new(Textfile::new(file, command.paths()));
    let writer = match Background::start("metrics") {
        Ok(writer) => writer,
        Err(error) => {
            textfile.warn(&error);
            return Ok(());
        }
    };
    let waits_since = Some(Instant::now());
    let first = Arc::clone(&textfile);
    let last_run = seconds_since_1970();
    let (written, result) = sync_channel(1);
    writer.add(move || {
        let is_written =
            first.check().and_then(|()| first.update(|values| values.last_run = last_run));
        let _ = written.send(is_written); // not received after the time limit
    });
    match result.recv_timeout(FIRST) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            let failure = textfile.failure(&error);
            if failure.code() == USAGE {
                return Err(failure);
            }
            textfile.warn(&error);
        }
        Err(_) => textfile.warn(&ErrorKind::TimedOut.into()),
    }
    let progress = Progress { waits_since, holds_since: None };
    let metrics = Metrics { writer, textfile, progress: Mutex::new(progress) };
    let _ = METRICS.set(metrics); // this function is called once
    Ok(())
}

/// Records that the lock is held.
pub(crate) fn acquired() {
    record(|progress| {
        let waited = elapsed(progress.waits_since.take());
        progress.holds_since = Some(Instant::now());
        move |values| {
            values.waited = waited;
            values.is_held = Some(1.0);
        }
    });
}

/// Records that the lock is lost. A second call for the same hold does nothing.
pub(crate) fn lost() {
    record(|progress| {
        let held = elapsed(progress.holds_since.take());
        progress.waits_since.get_or_insert_with(Instant::now);
        move |values| {
            if held.is_some() {
                values.held = held;
                values.is_held = Some(0.0);
                values.losses = values.losses.map_or(Some(1.0), |losses| Some(losses + 1.0));
            }
        }
    });
}

/// Records the end of this process, and waits a while until that is written.
pub(crate) fn ended(outcome: &Outcome) {
    let code = match outcome {
        Ok(code) => *code,
        Err(failure) => {
            if failure.event() == Event::Lost {
                lost();
            }
            failure.code()
        }
    };
    record(|progress| {
        let waited = elapsed(progress.waits_since.take());
        let held = elapsed(progress.holds_since.take());
        let last_success = if code == 0 { seconds_since_1970() } else { None };
        move |values| {
            values.exit_code = Some(code.into());
            values.last_success = last_success.or(values.last_success);
            values.waited = waited.or(values.waited);
            if held.is_some() {
                values.held = held;
                values.is_held = Some(0.0);
            }
        }
    });
    if let Some(Metrics { writer, textfile, .. }) = METRICS.get()
        && !writer.flush(PATIENCE)
    {
        textfile.warn(&ErrorKind::TimedOut.into());
    }
}

/// Changes the progress at once, and the file later.
fn record<Change>(step: impl FnOnce(&mut Progress) -> Change)
where
    Change: FnOnce(&mut Values) + Send + 'static,
{
    let Some(Metrics { writer, textfile, progress }) = METRICS.get() else { return };
    let change = step(&mut progress.lock().unwrap_or_else(PoisonError::into_inner));
    let textfile = Arc::clone(textfile);
    writer.add(move || {
        if let Err(error) = textfile.update(change) {
            textfile.warn(&error);
        }
    });
}

fn elapsed(since: Option<Instant>) -> Option<f64> {
    since.map(|since| rounded(since.elapsed()))
}

fn seconds_since_1970() -> Option<f64> {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok().map(rounded)
}

/// Returns the seconds with three decimal places.
fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}

struct Textfile {
    file: PathBuf,
    /// The labels of each value, as they are in the file.
    labels: String,
    /// True once a warning was given. There is only one, however often a write fails.
    is_warned: AtomicBool,
}

impl Textfile {
    fn new(file: &Path, paths: &[String]) -> Self {
        let labels = format!("{{path=\"{}\"}}", escaped(&paths.join(", ")));
        Self { file: file.to_owned(), labels, is_warned: AtomicBool::new(false) }
    }

    /// Rejects a file that `zklock` must not replace, such as a device or a script.
    fn check(&self) -> io::Result<()> {
        let found = match fs::symlink_metadata(&self.file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            found => found?,
        };
        if !found.is_file() {
            let wrong = "it is not a regular file";
            return Err(io::Error::new(ErrorKind::InvalidInput, wrong));
        }
        let mut start = Vec::new();
        File::open(&self.file)?.take(OURS.len() as u64).read_to_end(&mut start)?;
        if start.is_empty() || start == OURS.as_bytes() {
            return Ok(());
        }
        let wrong = "zklock did not write the file that is there; name another one";
        Err(io::Error::new(ErrorKind::InvalidInput, wrong))
    }

    /// Changes values, and replaces the file by one with all values.
    fn update(&self, change: impl FnOnce(&mut Values)) -> io::Result<()> {
        let before = match fs::read_to_string(&self.file) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            read => read?,
        };
        let mut values = Values::read(&before, &self.labels);
        change(&mut values);
        // In the same folder, and with a name that node_exporter does not read.
        let unfinished = self.file.with_file_name(format!(".zklock-{}", uuid::Uuid::new_v4()));
        let written = fs::write(&unfinished, values.text(&self.labels));
        let replaced = written.and_then(|()| fs::rename(&unfinished, &self.file));
        if replaced.is_err() {
            let _ = fs::remove_file(&unfinished); // it may not exist
        }
        replaced
    }

    fn failure(&self, error: &io::Error) -> Failure {
        Failure::unwritable("--metrics-file", &self.file, error)
    }

    fn warn(&self, error: &io::Error) {
        if !self.is_warned.swap(true, Ordering::Relaxed) {
            let failure = self.failure(error);
            Event::Warning.say(&format!("{failure}; the metrics are out of date"));
        }
    }
}

/// The first characters of each file of `zklock`.
const OURS: &str = "# HELP zklock_";

/// The values in the file. Those that are not known yet are left out.
#[derive(Clone, Debug, Default, PartialEq)]
struct Values {
    last_run: Option<f64>,
    last_success: Option<f64>,
    exit_code: Option<f64>,
    waited: Option<f64>,
    is_held: Option<f64>,
    held: Option<f64>,
    losses: Option<f64>,
}

/// A metric: its value, its name, its type, and its description.
struct Metric<'a>(&'a mut Option<f64>, &'static str, &'static str, &'static str);

impl Values {
    fn metrics(&mut self) -> [Metric<'_>; 7] {
        [
            Metric(
                &mut self.last_run,
                "zklock_last_run_timestamp_seconds",
                "gauge",
                "Start of the last run, in seconds since 1970.",
            ),
            Metric(
                &mut self.last_success,
                "zklock_last_success_timestamp_seconds",
                "gauge",
                "End of the last run with exit code 0, in seconds since 1970.",
            ),
            Metric(
                &mut self.exit_code,
                "zklock_last_exit_code",
                "gauge",
                "Exit code of the run that ended last.",
            ),
            Metric(
                &mut self.waited,
                "zklock_last_wait_seconds",
                "gauge",
                "Duration of the last wait for the lock, connecting included.",
            ),
            Metric(
                &mut self.is_held,
                "zklock_held",
                "gauge",
                "1 while the lock is held, or else 0.",
            ),
            Metric(
                &mut self.held,
                "zklock_last_hold_seconds",
                "gauge",
                "Duration of the last hold, up to its release or its loss.",
            ),
            Metric(
                &mut self.losses,
                "zklock_losses_total",
                "counter",
                "Locks that were lost while they were held.",
            ),
        ]
    }

    /// Reads the values with these labels. Anything else in the file is dropped.
    fn read(text: &str, labels: &str) -> Self {
        let mut values = Self { is_held: Some(0.0), losses: Some(0.0), ..Self::default() };
        for Metric(value, name, ..) in values.metrics() {
            let of =
                |line: &str| line.strip_prefix(name)?.strip_prefix(labels)?.trim().parse().ok();
            *value = text.lines().find_map(of).or(*value);
        }
        values
    }

    fn text(&mut self, labels: &str) -> String {
        let mut text = String::new();
        for Metric(value, name, kind, help) in self.metrics() {
            if let Some(value) = value {
                text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
                text.push_str(&format!("{name}{labels} {value}\n"));
            }
        }
        text
    }
}

/// Escapes the value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_whatever_the_path() {
        for path in ["/jobs/a", r#"/a"b\c\\"d"#, "/a\nb", "/a} 7", "/größe", ""] {
            let labels = Textfile::new(Path::new("x"), &[path.to_owned()]).labels;
            let mut values = Values {
                last_run: Some(1_732_630_395.123),
                exit_code: Some(76.0),
                losses: Some(3.0),
                ..Values::read("", &labels)
            };
            let text = values.text(&labels);
            assert_eq!(Values::read(&text, &labels), values, "{text}");
            assert!(text.starts_with(OURS) && text.ends_with('\n'), "{text}");
            assert_eq!(text.matches("# TYPE ").count(), 4, "{text}");
            let others = Values::read(&text, "{path=\"/other\"}");
            assert_eq!(others, Values::read("", &labels));
        }
    }
}
