//! The testkit's files: data folders and claims on ports, each with the identity of its owner, and the sweep that
//! removes those of dead owners.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use super::TestkitError;
use super::owner::Owner;

const FOLDER: &str = "zookeeper-recipes.data.";
const CLAIM: &str = "zookeeper-recipes.port.";

/// Returns a name that no other server of any process has: the owner, then a number.
pub(super) fn unique_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{}.{}", Owner::current(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Returns the parent of all files: in memory where the system has such a place, as test data need not survive a
/// reboot.
fn root() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() && nix::unistd::access(memory, nix::unistd::AccessFlags::W_OK).is_ok() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    }
}

/// A folder that is removed when this value is dropped.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn create() -> Result<Self, TestkitError> {
        sweep();
        let path = root().join(format!("{FOLDER}{}", unique_name()));
        // This fails on an existing folder, so no other user can prepare one for us in a place where all users may
        // write.
        let created = DirBuilder::new().mode(0o700).create(&path);
        created
            .map_err(TestkitError::cannot(format!("create the data folder {}", path.display())))?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn remove(&self) -> Result<(), TestkitError> {
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(TestkitError::cannot(
                format!("remove the data folder {}", self.0.display()),
            )(error)),
            _ => Ok(()),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            tracing::warn!("{}", error.chain());
        }
    }
}

/// The right to a port among all testkits of this machine, also while its server is stopped.
///
/// A symbolic link is created whole or not at all, so no process ever sees a claim without its owner.
#[derive(Debug)]
pub(super) struct PortClaim(PathBuf);

impl PortClaim {
    /// Claims a port; `None` if it is taken.
    pub(super) fn take(port: u16) -> Result<Option<Self>, TestkitError> {
        sweep();
        let path = root().join(format!("{CLAIM}{port}"));
        match symlink(Owner::current().to_string(), &path) {
            Ok(()) => Ok(Some(Self(path))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(TestkitError::cannot(format!("create {}", path.display()))(error)),
        }
    }
}

impl Drop for PortClaim {
    fn drop(&mut self) {
        // A claim that stays is swept when its owner is dead.
        let _ = fs::remove_file(&self.0);
    }
}

/// Removes the folders and claims of dead owners, once in each process.
fn sweep() {
    static SWEPT: Once = Once::new();
    SWEPT.call_once(|| {
        let Ok(entries) = fs::read_dir(root()) else {
            return;
        };
        for entry in entries.flatten() {
            sweep_entry(&entry.path());
        }
    });
}

fn sweep_entry(path: &Path) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let folder = name.strip_prefix(FOLDER).and_then(|rest| Owner::parse(rest.split('.').next()?));
    let claim = || Owner::parse(&fs::read_link(path).ok()?.to_string_lossy());
    let claim = name.strip_prefix(CLAIM).and_then(|_| claim());
    let removed = if folder.is_some_and(|owner| owner.is_dead()) {
        fs::remove_dir_all(path)
    } else if claim.is_some_and(|owner| owner.is_dead()) {
        fs::remove_file(path)
    } else {
        return;
    };
    match removed {
        Ok(()) => tracing::info!("removed {}, its owner is dead", path.display()),
        // Another process sweeps at the same time, or the file is another user's.
        Err(error) => tracing::debug!("cannot remove {}: {error}", path.display()),
    }
}
