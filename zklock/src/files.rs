//! The limit of open files.

use std::io;
use std::os::fd::AsFd;

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
