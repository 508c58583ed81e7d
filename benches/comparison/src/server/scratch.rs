//! Folders for the servers' data, removed with their values; and those that a killed run has left.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::Failure;

const PREFIX: &str = "zookeeper-recipes.comparison.";

pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn create(root: &Path) -> Result<Self, Failure> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let us = std::process::id();
        let started = started(us).unwrap_or_default();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = root.join(format!("{PREFIX}{us}.{started}.{number}"));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What its server, which was just killed, had begun to write may still come.
        for _ in 0..100 {
            if fs::remove_dir_all(&self.0).is_ok() || !self.0.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Removes the folders of runs that are dead.
pub(crate) fn sweep(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some((pid, began)) = name.to_str().and_then(owner) else { continue };
        if started(pid) != Some(began) {
            let _ = fs::remove_dir_all(entry.path()); // another's, perhaps
        }
    }
}

/// The process that made the folder, and when that was started.
fn owner(name: &str) -> Option<(u32, u64)> {
    let mut parts = name.strip_prefix(PREFIX)?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// In ticks since the boot. A number alone is given out again.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold spaces; this is field 22, and what follows it begins with field 3.
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_tells_its_owner() {
        let us = std::process::id();
        let folder = Scratch::create(&std::env::temp_dir()).expect("a folder");
        let name = folder.path().file_name().and_then(|name| name.to_str()).expect("a name");
        assert_eq!(owner(name), Some((us, started(us).expect("we are running"))));
        assert_eq!(owner("zookeeper-recipes.data.1.2.3"), None);
    }

    #[test]
    fn only_folders_of_the_dead_are_swept() {
        let root = Scratch::create(&std::env::temp_dir()).expect("a folder");
        let alive = Scratch::create(root.path()).expect("a folder");
        let dead = root.path().join(format!("{PREFIX}{}.1.0", std::process::id()));
        let other = root.path().join("something.else");
        for folder in [&dead, &other] {
            fs::create_dir(folder).expect("a folder");
        }
        sweep(root.path());
        assert!(alive.path().exists() && other.exists() && !dead.exists());
    }
}
