//! The machine, as a note beside the figures.

use std::fs;

use tools::{date_and_commit, load_average};
use zookeeper_testkit::Backend;

/// Returns when, where and beside which load the run was.
pub(crate) fn facts(backend: Backend, load_before: &str) -> [String; 3] {
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    [
        date_and_commit(),
        format!("{processors} x {}, server backend {backend}", model()),
        format!("load average before {load_before}, after {}", load_average()),
    ]
}

fn model() -> String {
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map(|rest| rest.trim_start_matches(['\t', ':', ' ']));
    model.unwrap_or("unknown processor").to_owned()
}
