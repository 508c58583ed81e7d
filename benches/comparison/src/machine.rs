//! What it was run on.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Seek, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::time::sleep;

use crate::Failure;
use crate::server::{Kind, Scratch};
use crate::settings::Settings;
use crate::statistics::Summary;

/// To tell what the disk costs.
const WRITES: usize = 100;
/// A share of the processors' time.
const BUSY: f64 = 0.25;

#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    processors: usize,
    model: String,
    pub(crate) versions: BTreeMap<&'static str, String>,
    /// Of the servers' data.
    disk: String,
    /// The median of a write of 4 KiB that is waited for, in milliseconds.
    synced_write_ms: Option<f64>,
    /// Of the time of all processors, in the second before we began: by work of others.
    others: f64,
    #[serde(skip)]
    before: Ticks,
    /// Of the time of all processors: given to other machines by the one that this is a part of.
    stolen: f64,
}

/// In ticks of the clock, since the boot.
#[derive(Clone, Copy, Debug, Default)]
struct Ticks {
    all: u64,
    idle: u64,
    stolen: u64,
}

impl Ticks {
    /// Zeros where there is no `/proc`.
    fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
        // user, nice, system, idle, iowait, irq, softirq, steal; guests are in the first two.
        let fields: Vec<u64> = line.split_whitespace().take(8).flat_map(str::parse).collect();
        let field = |index: usize| fields.get(index).copied().unwrap_or_default();
        Self { all: fields.iter().sum(), idle: field(3) + field(4), stolen: field(7) }
    }

    /// What passed since then.
    fn since(self, before: Self) -> Self {
        let [all, idle, stolen] = [
            self.all.saturating_sub(before.all),
            self.idle.saturating_sub(before.idle),
            self.stolen.saturating_sub(before.stolen),
        ];
        Self { all, idle, stolen }
    }

    fn share(self, ticks: u64) -> f64 {
        ticks as f64 / self.all.max(1) as f64
    }
}

impl Machine {
    /// Takes a second.
    pub(crate) async fn look(settings: &Settings, kinds: &[Kind]) -> Self {
        let before = Ticks::now();
        sleep(Duration::from_secs(1)).await;
        let begun = Ticks::now().since(before);
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
            others: begun.share(begun.all - begun.idle),
            before: Ticks::now(),
            stolen: 0.0,
        }
    }

    pub(crate) fn look_again(&mut self) {
        let passed = Ticks::now().since(self.before);
        self.stolen = passed.share(passed.stolen);
    }

    pub(crate) fn facts(&self) -> Vec<String> {
        let Self { processors, model, disk, .. } = self;
        let versions: Vec<_> =
            self.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
        let synced = self.synced_write_ms.map_or("-".to_owned(), crate::statistics::time);
        vec![
            format!("{processors} x {model}"),
            versions.join(", "),
            format!(
                "data on {disk}, where a write of 4 KiB that is waited for takes {synced} (median)"
            ),
            format!(
                "processors' time: {:.0} % in use by others before it began, {:.0} % stolen meanwhile{}",
                self.others * 100.0,
                self.stolen * 100.0,
                if self.others > BUSY { "; the machine was BUSY" } else { "" },
            ),
        ]
    }
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
