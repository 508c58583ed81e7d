//! The machine, and whether others disturbed the run.

use std::collections::HashMap;
use std::fs;

use zookeeper_recipes::testkit::Backend;

use crate::Failure;
use crate::comparison::Results;
use crate::crew::Peer;
use crate::stage::Link;
use crate::statistics::Summary;
use crate::works::Kind;

/// Shares from which on a run is called noisy.
const OTHERS: f64 = 0.10;
const STOLEN: f64 = 0.02;
const SPREAD: f64 = 0.30;

#[derive(Debug)]
pub(crate) struct Machine {
    cpus: usize,
    model: String,
    load_before: String,
    load_after: String,
    before: Ticks,
    backend: Option<Backend>,
    /// Of the time of all processors: used by processes that are not ours.
    others: Option<f64>,
    /// Of the time of all processors: given to other machines by the one that this is a part of.
    stolen: f64,
    /// Of the bare pair's rounds, from the least to the most, by its median.
    spread: Option<f64>,
}

/// In ticks of the clock, since the boot.
#[derive(Clone, Copy, Debug, Default)]
struct Ticks {
    all: u64,
    busy: u64,
    stolen: u64,
    ours: u64,
}

impl Machine {
    pub(crate) fn before() -> Result<Self, Failure> {
        let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = information.lines().find_map(|line| line.strip_prefix("model name"));
        let model =
            model.map_or("unknown processor", |rest| rest.trim_start_matches(['\t', ':', ' ']));
        Ok(Self {
            cpus: std::thread::available_parallelism()?.get(),
            model: model.to_owned(),
            load_before: load_average(),
            load_after: String::new(),
            before: Ticks::now(),
            backend: None,
            others: None,
            stolen: 0.0,
            spread: None,
        })
    }

    /// Called while our processes are still there, or have been waited for.
    pub(crate) fn after(&mut self, results: &Results, backend: Backend) {
        self.load_after = load_average();
        let (before, now) = (self.before, Ticks::now());
        let share = |ticks: u64| ticks as f64 / now.all.saturating_sub(before.all).max(1) as f64;
        let busy = now.busy.saturating_sub(before.busy);
        let ours = now.ours.saturating_sub(before.ours);
        // A container's processes are the daemon's, not ours.
        self.others = (backend == Backend::Process).then_some(share(busy.saturating_sub(ours)));
        self.stolen = share(now.stolen.saturating_sub(before.stolen));
        self.backend = Some(backend);
        let is_probe = |kind| matches!(kind, Kind::Cycle);
        let probe = results
            .measured
            .iter()
            .find(|measured| is_probe(measured.work.kind) && measured.work.link == Link::Direct);
        let probe = probe.and_then(|measured| measured.summary(Peer::Raw));
        self.spread = probe.as_ref().map(Summary::spread);
    }

    /// Why the figures are not those of a quiet machine; nothing if they are.
    pub(crate) fn noise(&self) -> Vec<String> {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let mut noise = Vec::new();
        if let Some(others) = self.others.filter(|others| *others > OTHERS) {
            noise.push(format!("other processes used {} of the processors", percent(others)));
        }
        if self.stolen > STOLEN {
            noise.push(format!("{} of the processors' time was stolen", percent(self.stolen)));
        }
        if let Some(spread) = self.spread.filter(|spread| *spread > SPREAD) {
            noise.push(format!("the bare pair's rounds differ by {}", percent(spread)));
        }
        noise
    }

    pub(crate) fn facts(&self) -> Vec<String> {
        let Self { cpus, model, load_before, load_after, .. } = self;
        let percent = |share: Option<f64>| {
            share.map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0))
        };
        let backend = self.backend.map_or("-".to_owned(), |backend| backend.to_string());
        vec![
            format!("{cpus} x {model}, server backend {backend}"),
            format!("load average before {load_before}, after {load_after}"),
            format!(
                "processors' time: {} other processes, {} stolen; spread of the bare pair's rounds {}",
                percent(self.others),
                percent(Some(self.stolen)),
                percent(self.spread),
            ),
        ]
    }

    /// Whether it was quiet.
    pub(crate) fn verdict(&self) -> String {
        let noise = self.noise();
        if noise.is_empty() {
            "the machine was quiet".to_owned()
        } else {
            format!("the machine was NOISY: {}", noise.join("; "))
        }
    }
}

/// Of one, five and fifteen minutes.
fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

impl Ticks {
    /// Zeros where there is no `/proc`.
    fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let cpu = stat.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
        let fields: Vec<u64> = cpu.split_whitespace().flat_map(str::parse).collect();
        let field = |index: usize| fields.get(index).copied().unwrap_or_default();
        // user, nice, system, idle, iowait, irq, softirq, steal; guests are in the first two.
        let busy = field(0) + field(1) + field(2);
        let all = fields.iter().take(8).sum();
        Self { all, busy, stolen: field(7), ours: of_our_tree() }
    }
}

/// Of this process, its descendants, and what those have waited for.
fn of_our_tree() -> u64 {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut processes: HashMap<u32, (u32, u64)> = HashMap::new();
    for entry in entries {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The name in parentheses may hold spaces; field 4 is the parent, 14 to 17 are times.
        let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
        let fields: Vec<i64> = rest.split(' ').skip(1).flat_map(str::parse).collect();
        let parent = fields.first().and_then(|parent| u32::try_from(*parent).ok());
        let times: i64 = fields.iter().skip(10).take(4).sum();
        processes.insert(pid, (parent.unwrap_or_default(), times.unsigned_abs()));
    }
    let us = std::process::id();
    let is_ours = |mut pid: u32| {
        while pid != us {
            match processes.get(&pid) {
                Some((parent, _)) if *parent > 1 => pid = *parent,
                _ => return false,
            }
        }
        true
    };
    processes.iter().filter(|(pid, _)| is_ours(**pid)).map(|(_, (_, times))| times).sum()
}
