//! The metrics of a lock in a file, from which node_exporter's textfile collector reads them.
//!
//! Each run is a process of its own, so values that a run does not change are taken over from the file. A thread writes
//! the file, because a disk that is full or hangs must not endanger the command.
//!
//! The format is written and read here, in 25 lines: `prometheus-client` writes OpenMetrics, whose counters the collector takes for
//! untyped values; `metrics-exporter-prometheus` needs 17 more crates, and `prometheus-parse` seven, to read the text.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::arguments::Command;
use crate::background::Background;
use crate::exit::{Failure, Outcome, PATIENCE, USAGE};
use crate::files;
use crate::log::Event;

/// Time limit for the first write.
const FIRST: Duration = Duration::from_secs(5);

/// The first characters of each file of `zklock`.
const OURS: &str = "# HELP zklock_";

const LAST_RUN: &str = "zklock_last_run_timestamp_seconds";
const LAST_SUCCESS: &str = "zklock_last_success_timestamp_seconds";
const EXIT_CODE: &str = "zklock_last_exit_code";
const LAST_WAIT: &str = "zklock_last_wait_seconds";
const HELD: &str = "zklock_held";
const LAST_HOLD: &str = "zklock_last_hold_seconds";
const LOSSES: &str = "zklock_losses_total";

/// The name of each metric, its type and its description, in the order of the file.
const METRICS: [(&str, &str, &str); 7] = [
    (LAST_RUN, "gauge", "Start of the last run, in seconds since 1970."),
    (LAST_SUCCESS, "gauge", "End of the last run with exit code 0, in seconds since 1970."),
    (EXIT_CODE, "gauge", "Exit code of the run that ended last."),
    (LAST_WAIT, "gauge", "Duration of the last wait for the lock, connecting included."),
    (HELD, "gauge", "1 while the lock is held, or else 0."),
    (LAST_HOLD, "gauge", "Duration of the last hold, up to its release or its loss."),
    (LOSSES, "counter", "Locks that were lost while they were held."),
];

/// The values in the file by name. Those that are not known yet are missing.
type Values = BTreeMap<&'static str, f64>;

/// The metrics of this process, if there is a file for them.
static OF_THIS_PROCESS: OnceLock<&'static Metrics> = OnceLock::new();

struct Metrics {
    writer: Background,
    file: PathBuf,
    /// The labels of each value, as they are in the file.
    labels: String,
    progress: Mutex<Progress>,
    /// True once a warning was given. There is only one, however often a write fails.
    is_warned: AtomicBool,
}

/// At most one of these is set.
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
        Command::Run(run) => run.metrics_file.clone(),
        Command::Elect(elect) => elect.metrics_file.clone(),
        _ => None,
    };
    let Some(file) = file else { return Ok(()) };
    let progress = Progress { waits_since: Some(Instant::now()), holds_since: None };
    // It lasts as long as this process, and the thread that writes uses it.
    let metrics: &'static Metrics = Box::leak(Box::new(Metrics {
        writer: Background::start("metrics")?,
        file,
        labels: labels(command.paths()),
        progress: Mutex::new(progress),
        is_warned: AtomicBool::new(false),
    }));
    let last_run = seconds_since_1970();
    let (written, result) = sync_channel(1);
    metrics.writer.add(move || {
        let is_written = metrics.check().and_then(|()| {
            metrics.update(|values, _| values.extend(last_run.map(|start| (LAST_RUN, start))))
        });
        let _ = written.send(is_written); // not received after the time limit
    });
    match result.recv_timeout(FIRST) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            let failure = metrics.failure(&error);
            if failure.code() == USAGE {
                return Err(failure);
            }
            metrics.warn(&error);
        }
        Err(_) => metrics.warn(&ErrorKind::TimedOut.into()),
    }
    let _ = OF_THIS_PROCESS.set(metrics); // this function is called once
    Ok(())
}

/// Records that the lock is held.
pub(crate) fn acquired() {
    record(|values, progress, now| {
        progress.end_wait(values, now);
        progress.holds_since = Some(now);
        values.insert(HELD, 1.0);
    });
}

/// Records that the lock is lost. A second call for the same hold does nothing.
pub(crate) fn lost() {
    record(|values, progress, now| {
        if progress.end_hold(values, now) {
            *values.entry(LOSSES).or_default() += 1.0;
        }
    });
}

/// Records that the hold has ended, and was not lost.
pub(crate) fn released() {
    record(|values, progress, now| {
        progress.end_hold(values, now);
    });
}

/// Records that this process waits again, after a loss.
pub(crate) fn waits() {
    record(|_, progress, now| progress.waits_since = Some(now));
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
    let success = seconds_since_1970().filter(|_| code == 0);
    record(move |values, progress, now| {
        progress.end_wait(values, now);
        progress.end_hold(values, now);
        values.insert(EXIT_CODE, code.into());
        values.extend(success.map(|end| (LAST_SUCCESS, end)));
    });
    if let Some(metrics) = OF_THIS_PROCESS.get()
        && !metrics.writer.flush(PATIENCE)
    {
        metrics.warn(&ErrorKind::TimedOut.into());
    }
}

/// Changes the values, as of now, when the thread comes to it.
fn record(change: impl FnOnce(&mut Values, &mut Progress, Instant) + Send + 'static) {
    let Some(metrics) = OF_THIS_PROCESS.get() else { return };
    let now = Instant::now();
    metrics.writer.add(move || {
        if let Err(error) = metrics.update(|values, progress| change(values, progress, now)) {
            metrics.warn(&error);
        }
    });
}

impl Progress {
    fn end_wait(&mut self, values: &mut Values, now: Instant) {
        let since = self.waits_since.take();
        values.extend(since.map(|since| (LAST_WAIT, rounded(now - since))));
    }

    /// Returns false if the lock was not held.
    fn end_hold(&mut self, values: &mut Values, now: Instant) -> bool {
        let Some(since) = self.holds_since.take() else { return false };
        values.insert(HELD, 0.0);
        values.insert(LAST_HOLD, rounded(now - since));
        true
    }
}

fn seconds_since_1970() -> Option<f64> {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok().map(rounded)
}

/// Returns the seconds with three decimal places.
fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}

impl Metrics {
    /// Rejects a file that `zklock` must not replace, such as a device or a script.
    fn check(&self) -> io::Result<()> {
        match files::read(&self.file)? {
            Some(text) if !text.is_empty() && !text.starts_with(OURS.as_bytes()) => {
                let wrong = "zklock did not write the file that is there; name another one";
                Err(io::Error::new(ErrorKind::InvalidInput, wrong))
            }
            _ => Ok(()),
        }
    }

    /// Changes values, and replaces the file by one with all values.
    fn update(&self, change: impl FnOnce(&mut Values, &mut Progress)) -> io::Result<()> {
        let before = match fs::read_to_string(&self.file) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            read => read?,
        };
        let mut values = values(&before, &self.labels);
        change(&mut values, &mut self.progress.lock().unwrap_or_else(PoisonError::into_inner));
        files::replace(&self.file, &text(&values, &self.labels))
    }

    fn failure(&self, error: &io::Error) -> Failure {
        Failure::unusable_file("--metrics-file", &self.file, error)
    }

    fn warn(&self, error: &io::Error) {
        if !self.is_warned.swap(true, Ordering::Relaxed) {
            let failure = self.failure(error);
            Event::Warning.say(&format!("{failure}; the metrics are out of date"));
        }
    }
}

/// Reads the values with these labels. Anything else in the file is dropped.
fn values(text: &str, labels: &str) -> Values {
    let mut values = Values::from([(HELD, 0.0), (LOSSES, 0.0)]);
    for (name, ..) in METRICS {
        let of = |line: &str| line.strip_prefix(name)?.strip_prefix(labels)?.trim().parse().ok();
        values.extend(text.lines().find_map(of).map(|value| (name, value)));
    }
    values
}

fn text(values: &Values, labels: &str) -> String {
    let metric = |(name, kind, help): (&str, &str, &str)| {
        let value = values.get(name)?;
        Some(format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{labels} {value}\n"))
    };
    METRICS.into_iter().filter_map(metric).collect()
}

/// Returns the label of these paths.
fn labels(paths: &[String]) -> String {
    let paths = paths.join(", ");
    let escaped = paths.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    format!("{{path=\"{escaped}\"}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_whatever_the_path() {
        for path in ["/jobs/a", r#"/a"b\c\\"d"#, "/a\nb", "/a} 7", "/größe", ""] {
            let labels = labels(&[path.to_owned()]);
            let mut written = values("", &labels);
            written.extend([(LAST_RUN, 1_732_630_395.123), (EXIT_CODE, 76.0), (LOSSES, 3.0)]);
            let text = text(&written, &labels);
            assert_eq!(values(&text, &labels), written, "{text}");
            assert!(text.starts_with(OURS) && text.ends_with('\n'), "{text}");
            assert_eq!(text.matches("# TYPE ").count(), 4, "{text}");
            let others = values(&text, "{path=\"/other\"}");
            assert_eq!(others, values("", &labels));
        }
    }
}
