//! What it was run on.

#[path = "../../../tools/benches/compare/machine/processors.rs"]
mod processors;

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

use self::processors::{Ticks, model};

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
    /// Of the time of all processors, in the second before we began: by processes of others.
    others: f64,
    #[serde(skip)]
    before: Ticks,
    /// Of the time of all processors: given to other machines by the one that this is a part of.
    stolen: f64,
}

impl Machine {
    /// Takes a second.
    pub(crate) async fn look(settings: &Settings, kinds: &[Kind]) -> Self {
        let before = Ticks::now();
        sleep(Duration::from_secs(1)).await;
        let begun = Ticks::now().since(before);
        let versions =
            kinds.iter().filter_map(|kind| Some((kind.name(), kind.version().ok()?))).collect();
        let disk = settings.disk();
        Self {
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            model: model(),
            versions,
            synced_write_ms: synced_write(&disk).ok().flatten(),
            disk: file_system(&disk),
            others: begun.share(begun.busy),
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
    Ok(Summary::of_times(times).map(|summary| summary.median))
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
