//! What it was run on.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Seek, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::Failure;
use crate::server::{Kind, Scratch};
use crate::settings::Settings;
use crate::statistics::Summary;

/// To tell what the disk costs.
const WRITES: usize = 100;

#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    processors: usize,
    model: String,
    pub(crate) versions: BTreeMap<&'static str, String>,
    /// Of the servers' data.
    disk: String,
    /// The median of a write of 4 KiB that is waited for, in milliseconds.
    synced_write_ms: Option<f64>,
    load_before: String,
    load_after: String,
}

impl Machine {
    pub(crate) fn look(settings: &Settings, kinds: &[Kind]) -> Self {
        let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = information.lines().find_map(|line| line.strip_prefix("model name"));
        let model = model.map_or("unknown", |rest| rest.trim_start_matches(['\t', ':', ' ']));
        let versions =
            kinds.iter().filter_map(|kind| Some((kind.name(), kind.version().ok()?))).collect();
        let disk = settings.disk();
        Self {
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            model: model.to_owned(),
            versions,
            synced_write_ms: synced_write(&disk).ok().flatten(),
            disk: file_system(&disk),
            load_before: load(),
            load_after: String::new(),
        }
    }

    pub(crate) fn look_again(&mut self) {
        self.load_after = load();
    }

    pub(crate) fn facts(&self) -> Vec<String> {
        let Self { processors, model, disk, load_before, load_after, .. } = self;
        let versions: Vec<_> =
            self.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
        let synced = self.synced_write_ms.map_or("-".to_owned(), crate::statistics::time);
        vec![
            format!("{processors} x {model}"),
            versions.join(", "),
            format!(
                "data on {disk}, where a write of 4 KiB that is waited for takes {synced} (median)"
            ),
            format!("load average before {load_before}, after {load_after}"),
        ]
    }
}

fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn synced_write(root: &Path) -> Result<Option<f64>, Failure> {
    let folder = Scratch::create(root)?;
    let mut file = File::create(folder.path().join("synced"))?;
    // As logs do it: what is written to has its place on the disk already.
    file.write_all(&[0; 4096 * WRITES])?;
    file.sync_all()?;
    file.rewind()?;
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..WRITES {
        let begun = Instant::now();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        times.push(begun.elapsed());
    }
    Ok(Summary::of(times).map(|summary| summary.median))
}

/// Of the longest mount point that the folder is below.
fn file_system(folder: &Path) -> String {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let below = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (point, kind) = (fields.next()?, fields.next()?);
        folder.starts_with(point).then_some((point.len(), kind))
    });
    below.max_by_key(|(length, _)| *length).map_or("unknown", |(_, kind)| kind).to_owned()
}
