//! The processes of a test, as `/proc` has them.

use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) id: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    /// `R`, `S`, `T` for stopped, `Z` for one that is dead and not yet buried.
    pub(crate) state: char,
    pub(crate) name: String,
}

impl Process {
    /// None where there is no such process (any more).
    pub(crate) fn find(id: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let (parent, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        Some(Self { id, parent, group, state, name: name.to_owned() })
    }

    pub(crate) fn is_alive(id: i32) -> bool {
        Self::find(id).is_some_and(|process| process.state != 'Z')
    }

    pub(crate) fn is_stopped(id: i32) -> bool {
        Self::find(id).is_some_and(|process| process.state == 'T')
    }

    /// All whose environment has this variable. (Of a dead one nothing can be read.)
    pub(crate) fn with(variable: &str) -> Vec<Self> {
        ids()
            .filter(|id| {
                let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
                environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
            })
            .filter_map(Self::find)
            .filter(|process| process.state != 'Z')
            .collect()
    }

    pub(crate) fn has_open(&self, file: &Path) -> bool {
        let files = fs::read_dir(format!("/proc/{}/fd", self.id)).into_iter().flatten().flatten();
        files.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|open| open == file)
    }

    pub(crate) fn children_of(parent: i32) -> Vec<Self> {
        ids().filter_map(Self::find).filter(|process| process.parent == parent).collect()
    }
}

fn ids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// To one process; that it is gone is no failure.
pub(crate) fn send(signal: Signal, id: i32) {
    let _ = kill(Pid::from_raw(id), signal);
}
