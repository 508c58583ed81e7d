//! `zklock completions` and `zklock man`.

use std::fs;
use std::io;
use std::path::Path;

use clap_complete::Shell;
use clap_mangen::{Man, generate_to};

use crate::arguments::command;
use crate::exit::{Failure, Outcome};
use crate::output::print;

pub(crate) fn completions(shell: Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "zklock", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Prints the main page to stdout, or writes all pages into a folder.
pub(crate) fn man(folder: Option<&Path>) -> Outcome {
    let Some(folder) = folder else {
        let mut page = Vec::new();
        Man::new(command()).render(&mut page)?;
        return print(&String::from_utf8_lossy(&page));
    };
    let made = fs::create_dir_all(folder).and_then(|()| generate_to(command(), folder));
    made.map_err(|error| cannot_be_there(folder, &error))?;
    Ok(0)
}

/// Returns a usage error if the folder was badly chosen, and an internal one otherwise, such as for a full disk.
fn cannot_be_there(folder: &Path, error: &io::Error) -> Failure {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
    let wrong = format!("--dir: cannot write to {}: {error}", folder.display());
    match error.kind() {
        NotFound | NotADirectory | PermissionDenied | ReadOnlyFilesystem => Failure::usage(wrong),
        _ => Failure::internal(wrong),
    }
}
