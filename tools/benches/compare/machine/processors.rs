//! The processors of a machine, and what their time was used for.

use std::fs;

/// Of all processors, in ticks of the clock, since the boot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ticks {
    all: u64,
    /// Used by processes.
    pub(crate) busy: u64,
    /// Given to other machines by the one that this is a part of.
    pub(crate) stolen: u64,
}

impl Ticks {
    /// Zeros where there is no `/proc`.
    pub(crate) fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
        // user, nice, system, idle, iowait, irq, softirq, steal; guests are in the first two.
        let fields: Vec<u64> = line.split_whitespace().take(8).flat_map(str::parse).collect();
        let field = |index: usize| fields.get(index).copied().unwrap_or_default();
        let busy = field(0) + field(1) + field(2);
        Self { all: fields.iter().sum(), busy, stolen: field(7) }
    }

    /// What passed since then.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            all: self.all.saturating_sub(before.all),
            busy: self.busy.saturating_sub(before.busy),
            stolen: self.stolen.saturating_sub(before.stolen),
        }
    }

    /// So many of them, of all.
    pub(crate) fn share(self, ticks: u64) -> f64 {
        ticks as f64 / self.all.max(1) as f64
    }
}

pub(crate) fn model() -> String {
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map(|rest| rest.trim_start_matches(['\t', ':', ' ']));
    model.unwrap_or("unknown processor").to_owned()
}
