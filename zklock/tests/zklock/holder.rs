//! A command that says from when to when it ran, by the clock that Java has, too.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::rules::Nanos;

/// The variable that names the file to write to.
pub(crate) const LOG: &str = "HOLDS";

pub(crate) fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// This executable, called to run nothing but `hold`.
pub(crate) fn command() -> Vec<String> {
    let executable: PathBuf = std::env::current_exe().unwrap();
    let arguments = ["--exact", "holder::hold", "--ignored", "--nocapture"];
    let executable = [executable.display().to_string()];
    executable.into_iter().chain(arguments.map(str::to_owned)).collect()
}

/// No test: a command that other tests run.
#[test]
#[ignore = "a process that the other tests start"]
fn hold() {
    let from = now();
    std::thread::sleep(Duration::from_millis(10).mul_f64(fastrand::f64()));
    let path = std::env::var_os(LOG).expect("where to write");
    let mut log = OpenOptions::new().create(true).append(true).open(path).unwrap();
    writeln!(log, "{from}:{}", now()).unwrap();
}
