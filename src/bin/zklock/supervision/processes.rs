//! The processes of a command, as `/proc` has them.

use std::collections::HashMap;
use std::fs;

use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};

/// What is known of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    /// Has ended, and its parent does not know yet.
    zombie: bool,
}

impl Process {
    /// From `/proc/PID/stat`: the name, in parentheses, may have anything in it.
    fn parse(stat: &str) -> Option<Self> {
        let (pid, rest) = stat.split_once(' ')?;
        let mut fields = rest.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?;
        let (parent, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let zombie = matches!(state, "Z" | "X" | "x");
        Some(Self { pid: pid.parse().ok()?, parent, group, zombie })
    }
}

fn all() -> Vec<Process> {
    let folder = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = folder.filter(|entry| {
        entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit)
    });
    // Who ended meanwhile has no file any more. A name need not be UTF-8.
    let stats = numbers.filter_map(|entry| fs::read(entry.path().join("stat")).ok());
    stats.filter_map(|stat| Process::parse(&String::from_utf8_lossy(&stat))).collect()
}

/// Whether a process of the group lives.
pub(super) fn group_lives(group: Pid) -> bool {
    let group = group.as_raw_nonzero().get();
    all().iter().any(|process| process.group == group && !process.zombie)
}

/// Zombies that are children of this process.
pub(super) fn ended_children() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().get();
    let ended = all().into_iter().filter(|process| process.zombie && process.parent == own);
    ended.filter_map(|process| Pid::from_raw(process.pid)).collect()
}

/// Sends a signal to all of a group. That there is none is no error.
pub(super) fn signal(group: Pid, signal: Signal) {
    let _ = kill_process_group(group, signal);
}

/// Kills the group, and all that descends from this process, wherever it went, but `spared`. `false` when there was
/// nobody left.
pub(super) fn kill_all(group: Option<Pid>, spared: Option<Pid>) -> bool {
    if let Some(group) = group {
        signal(group, Signal::KILL);
    }
    let processes = all();
    let living = of_command(&processes, group, spared);
    for pid in &living {
        let _ = kill_process(*pid, Signal::KILL); // may have ended meanwhile
    }
    !living.is_empty()
}

fn of_command(processes: &[Process], group: Option<Pid>, spared: Option<Pid>) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for process in processes {
        children.entry(process.parent).or_default().push(process.pid);
    }
    let mut descendants = vec![getpid().as_raw_nonzero().get()];
    let mut next = 0;
    while let Some(pid) = descendants.get(next) {
        descendants.extend(children.remove(pid).unwrap_or_default());
        next += 1;
    }
    descendants.swap_remove(0);
    let group = group.map(|group| group.as_raw_nonzero().get());
    let living = processes.iter().filter(|process| !process.zombie);
    let of_it =
        living.filter(|process| Some(process.group) == group || descendants.contains(&process.pid));
    of_it
        .filter_map(|process| Pid::from_raw(process.pid))
        .filter(|pid| Some(*pid) != spared)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, group: i32, zombie: bool) -> Process {
        Process { pid, parent, group, zombie }
    }

    #[test]
    fn a_name_may_look_like_the_rest() {
        let stat = "42 (a) Z 1 (b)) S 7 40 1 0 -1 4194304";
        assert_eq!(Process::parse(stat), Some(process(42, 7, 40, false)));
        assert_eq!(Process::parse("42 (x) Z 7 40"), Some(process(42, 7, 40, true)));
        for wrong in ["", "42", "42 (x", "42 (x)", "42 (x) S", "42 (x) S 7", "a (x) S 7 40"] {
            assert_eq!(Process::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn who_left_the_group_is_found_by_whom_it_descends_from() {
        let own = getpid().as_raw_nonzero().get();
        let of = |processes: &[Process], spared| {
            let found = of_command(processes, Pid::from_raw(900_001), Pid::from_raw(spared));
            found.iter().map(|pid| pid.as_raw_nonzero().get()).collect::<Vec<_>>()
        };
        let processes = [
            process(own, 1, own, false),
            process(900_001, own, 900_001, true),
            process(900_002, 900_001, 900_001, false), // of its group
            process(900_003, 900_002, 900_003, false), // with a group of its own
            process(900_004, 1, 900_001, false),       // of its group, adopted by somebody else
            process(900_005, 1, 900_005, false),       // somebody else's
            process(900_006, own, 900_006, false),
        ];
        assert_eq!(of(&processes, 900_006), [900_002, 900_003, 900_004]);
        assert_eq!(of(&processes, 900_005), [900_002, 900_003, 900_004, 900_006]);
    }

    #[test]
    fn this_process_is_there() {
        let own = getpid().as_raw_nonzero().get();
        assert!(all().iter().any(|process| process.pid == own && !process.zombie));
    }
}
