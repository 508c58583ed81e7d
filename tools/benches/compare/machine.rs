//! The machine, and whether others disturbed the run.

mod processors;

use std::collections::HashMap;
use std::fs;

use tools::{Failure, date_and_commit, load_average};
use zookeeper_testkit::Backend;

use crate::bench_server::Link;
use crate::comparison::Results;
use crate::crew::Peer;
use crate::statistics::Summary;
use crate::works::Kind;

use self::processors::{Ticks, model};

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
    /// Of the busy ones of them.
    ours_before: u64,
    backend: Option<Backend>,
    /// Of the time of all processors: used by processes that are not ours.
    others: Option<f64>,
    /// Of the time of all processors: given to other machines by the one that this is a part of.
    stolen: f64,
    /// Of the bare pair's rounds, from the least to the most, by its median.
    spread: Option<f64>,
}

impl Machine {
    pub(crate) fn before() -> Result<Self, Failure> {
        Ok(Self {
            cpus: std::thread::available_parallelism()?.get(),
            model: model(),
            load_before: load_average(),
            load_after: String::new(),
            before: Ticks::now(),
            ours_before: of_our_tree(),
            backend: None,
            others: None,
            stolen: 0.0,
            spread: None,
        })
    }

    /// Called while our processes are still there, or have been waited for.
    pub(crate) fn after(&mut self, results: &Results, backend: Backend) {
        self.load_after = load_average();
        let passed = Ticks::now().since(self.before);
        let ours = of_our_tree().saturating_sub(self.ours_before);
        let others = passed.share(passed.busy.saturating_sub(ours));
        // A container's processes are the daemon's, not ours.
        self.others = (backend == Backend::Process).then_some(others);
        self.stolen = passed.share(passed.stolen);
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
            date_and_commit(),
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
