//! The limit of open files, and files that `zklock` replaces as a whole.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::io::Errno;

use crate::exit::Failure;

/// The number of files that `zklock` opens for one session and one command, and some to spare.
const NEEDED: usize = 16;

/// Rejects a limit that is too low for `zklock`: the libraries would panic when they cannot open a file.
pub(crate) fn check() -> Result<(), Failure> {
    let copies: io::Result<Vec<_>> =
        (0..NEEDED).map(|_| io::stdin().as_fd().try_clone_to_owned()).collect();
    let Err(error) = copies else { return Ok(()) };
    match Errno::from_io_error(&error) {
        Some(Errno::MFILE | Errno::NFILE) => Err(Failure::internal(format!(
            "cannot open {NEEDED} files: {error}: raise the limit (ulimit -n, LimitNOFILE of a unit)"
        ))),
        _ => Ok(()),
    }
}

/// Reads a file that is to be replaced. `None` if it does not exist yet. A device must not be replaced, nor a link.
pub(crate) fn read(file: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::symlink_metadata(file) {
        Ok(found) if found.is_file() => fs::read(file).map(Some),
        Ok(_) => Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces the file by one with this text. A reader finds the old text or the new one.
pub(crate) fn replace(file: &Path, text: &str) -> io::Result<()> {
    // In the same folder, and with a name that node_exporter does not read.
    let unfinished = file.with_file_name(format!(".zklock-{}", uuid::Uuid::new_v4()));
    let written = fs::write(&unfinished, text);
    let replaced = written.and_then(|()| fs::rename(&unfinished, file));
    if replaced.is_err() {
        let _ = fs::remove_file(&unfinished); // it may not exist
    }
    replaced
}
