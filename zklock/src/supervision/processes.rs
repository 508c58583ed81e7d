//! The processes of a command, as `/proc` shows them.
//!
//! A process counts as ended only if `/proc` shows that: any other unreadable entry may hide a living process.
//! Missing permission is the exception: where `/proc` hides the processes of other users (`hidepid`), they count as
//! ended, or no command would ever be known to have ended.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process, kill_process_group, pidfd_open,
    pidfd_send_signal, test_kill_process,
};

/// The facts about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    /// The start time on the kernel's clock, which tells the process from a later one with the same id.
    started: u64,
    /// True if the process has ended and its parent has not reaped it yet.
    zombie: bool,
}

impl Process {
    /// Parses `/proc/PID/stat`. The name, in parentheses, may contain anything.
    fn parse(stat: &str) -> Option<Self> {
        let (pid, rest) = stat.split_once(' ')?;
        let fields: Vec<_> = rest.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        // Fields are counted from the state, which is the third one.
        let number = |field: usize| fields.get(field - 3)?.parse::<i32>().ok();
        let threads = number(20)?;
        // Other threads may still run after the first one ended.
        let zombie = matches!(*fields.first()?, "Z" | "X" | "x") && threads <= 1;
        let started = fields.get(22 - 3)?.parse().ok()?;
        let parent = number(4)?;
        let group = number(5)?;
        let session = number(6)?;
        Some(Self { pid: pid.parse().ok()?, parent, group, session, started, zombie })
    }

    /// Reads a process; `None` if it has ended, or is hidden from us.
    fn read(folder: &Path) -> io::Result<Option<Self>> {
        match fs::read(folder.join("stat")) {
            // A name need not be UTF-8.
            Ok(stat) => Self::parse(&String::from_utf8_lossy(&stat))
                .map(Some)
                .ok_or(io::ErrorKind::InvalidData.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => Ok(None),
            // The process is another user's, and may not be read.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Signals this process, and no later one with the same id. Returns false if that is not permitted.
    fn signal(&self, signal: Signal) -> io::Result<bool> {
        let Some(pid) = Pid::from_raw(self.pid) else { return Ok(true) };
        // If the kernel or a container's filter offers no handle, the id may be reused between the check and the
        // signal.
        let handle = pidfd_open(pid, PidfdFlags::empty()).ok();
        let now = Self::read(Path::new(&format!("/proc/{}", self.pid)))?;
        if now.is_none_or(|now| now.started != self.started) {
            return Ok(true);
        }
        let sent = match handle {
            Some(handle) => pidfd_send_signal(&handle, signal),
            None => kill_process(pid, signal),
        };
        match sent {
            Ok(()) | Err(Errno::SRCH) => Ok(true),
            Err(Errno::PERM) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns this process.
    fn own() -> io::Result<Self> {
        Self::read(Path::new("/proc/self"))?.ok_or(io::ErrorKind::NotFound.into())
    }
}

fn all() -> io::Result<Vec<Process>> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit)
            && let Some(process) = Process::read(&entry.path())?
        {
            processes.push(process);
        }
    }
    Ok(processes)
}

/// Checks that `/proc` shows the PID namespace of this process.
pub(super) fn check() -> io::Result<()> {
    // In the `/proc` of another PID namespace, the link cannot be read.
    match fs::read_link("/proc/self") {
        Ok(own) if own == Path::new(&std::process::id().to_string()) => Ok(()),
        _ => Err(io::Error::other("/proc is missing, or is that of another PID namespace")),
    }
}

/// Returns true if no other process is in our group, so there is no pipeline and no script.
pub(super) fn alone_in_group() -> bool {
    let alone = || -> io::Result<bool> {
        let own = Process::own()?;
        let all = all()?;
        Ok(all.iter().filter(|other| other.group == own.group && !other.zombie).count() == 1)
    };
    alone().unwrap_or_default()
}

fn children() -> io::Result<Vec<Process>> {
    let own = number(getpid());
    let all = all()?;
    Ok(all.into_iter().filter(|process| process.parent == own).collect())
}

/// Returns the zombies among the children of this process.
pub(super) fn ended_children() -> Vec<Pid> {
    let ended = children().unwrap_or_default().into_iter().filter(|process| process.zombie);
    ended.filter_map(|process| Pid::from_raw(process.pid)).collect()
}

/// Children that this process had before it started any: those of the program that it was before an `exec`.
#[derive(Clone, Debug, Default)]
pub(super) struct Inherited(Vec<Process>);

impl Inherited {
    pub(super) fn now() -> io::Result<Self> {
        Ok(Self(children()?))
    }

    fn has(&self, process: &Process) -> bool {
        self.0.iter().any(|old| old.pid == process.pid && old.started == process.started)
    }
}

/// The descendants that belong to the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// The processes of the command's group and of its session, which do its work.
    Work,
    /// All descendants, including daemons.
    All,
}

/// The processes that belong to a command, among the descendants of this process.
#[derive(Clone, Debug, Default)]
pub(super) struct Family {
    /// The command's process, and so its group. This process is not reaped, so its id is not reused.
    pub(super) leader: Option<Pid>,
    /// A child of this process that does not belong to the command, although its descendants do.
    pub(super) supervisor: Option<Pid>,
    /// Children that do not belong to the command, and neither do their descendants.
    pub(super) inherited: Inherited,
}

impl Family {
    /// Returns true if one of the processes lives, or may live.
    pub(super) fn lives(&self, which: Which) -> bool {
        // Checked twice, because a scan of the folder can miss a process that is started during it, and its parent
        // too if that ends meanwhile.
        (0..2).any(|_| self.living(which).map_or(true, |living| !living.is_empty()))
    }

    /// Sends each signal to all processes; returns the id of one that may not be signalled.
    pub(super) fn signal(&self, which: Which, signals: &[Signal]) -> Option<i32> {
        if let Some(leader) = self.leader {
            for signal in signals {
                let _ = kill_process_group(leader, *signal); // this is atomic; the group may be empty
            }
        }
        let group = self.leader.map(number);
        let mut refused = None;
        for process in self.living(which).unwrap_or_default() {
            let is_refused = if Some(process.group) == group {
                // A signal to a group succeeds if one of its processes could be signalled.
                let pid = Pid::from_raw(process.pid);
                pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::PERM))
            } else {
                signals.iter().any(|signal| matches!(process.signal(*signal), Ok(false)))
            };
            if is_refused {
                refused = Some(process.pid);
            }
        }
        refused
    }

    fn living(&self, which: Which) -> io::Result<Vec<Process>> {
        Ok(self.among(&all()?, which, &Process::own()?))
    }

    fn among(&self, processes: &[Process], which: Which, own: &Process) -> Vec<Process> {
        let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
        for process in processes.iter().filter(|process| !self.inherited.has(process)) {
            children.entry(process.parent).or_default().push(process.pid);
        }
        let mut next = vec![own.pid];
        let mut descendants = HashSet::new();
        while let Some(pid) = next.pop() {
            let born = children.remove(&pid).unwrap_or_default();
            descendants.extend(born.iter().copied());
            next.extend(born);
        }
        let group = self.leader.map(number);
        let supervisor = self.supervisor.map(number);
        let belongs = |process: &&Process| {
            let of_session = which == Which::All || process.session == own.session;
            let descends = of_session && descendants.contains(&process.pid);
            !process.zombie
                && Some(process.pid) != supervisor
                && (descends || Some(process.group) == group)
        };
        processes.iter().filter(belongs).copied().collect()
    }
}

pub(super) fn number(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, group: i32, session: i32) -> Process {
        Process { pid, parent, group, session, started: 5, zombie: false }
    }

    fn stat(name: &str, state: &str, threads: i32) -> String {
        format!("42 ({name}) {state} 7 40 1 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 {threads} 0 5 9 9")
    }

    #[test]
    fn a_name_may_look_like_the_rest() {
        let living = process(42, 7, 40, 1);
        assert_eq!(Process::parse(&stat("a) Z 1 (b", "S", 1)), Some(living));
        for wrong in ["", "42", "42 (x", "42 (x)", "42 (x) S", "42 (x) S 7", "a (x) S 7 40"] {
            assert_eq!(Process::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_zombie_whose_other_threads_go_on_lives() {
        let zombie = |threads| Process::parse(&stat("x", "Z", threads)).unwrap().zombie;
        assert!(zombie(1) && zombie(0) && !zombie(2));
    }

    #[test]
    fn who_left_the_group_is_found_by_whom_it_descends_from() {
        const OWN: i32 = 10;
        let zombie = Process { zombie: true, ..process(20, OWN, 20, 1) };
        let processes = [
            process(OWN, 1, OWN, 1),
            zombie,
            process(21, 20, 20, 1),  // of the command's group
            process(22, 21, 22, 1),  // with a group of its own, as timeout has
            process(23, 22, 23, 23), // a daemon
            process(24, 1, 20, 1),   // of the group, and another process's child
            process(25, 1, 25, 1),   // unrelated
            process(26, OWN, 26, 1), // adopted
        ];
        let own = processes[0];
        let found = |which, supervisor, inherited: &[Process]| {
            let inherited = Inherited(inherited.to_vec());
            let leader = Pid::from_raw(20);
            let supervisor = Pid::from_raw(supervisor);
            let family = Family { leader, supervisor, inherited };
            let found = family.among(&processes, which, &own);
            found.iter().map(|process| process.pid).collect::<Vec<_>>()
        };
        assert_eq!(found(Which::Work, 99, &[]), [21, 22, 24, 26]);
        assert_eq!(found(Which::All, 99, &[]), [21, 22, 23, 24, 26]);
        assert_eq!(found(Which::All, 26, &[]), [21, 22, 23, 24]);
        // An inherited child does not belong to the command, but a later process with its id does.
        let mut old = processes[7];
        assert_eq!(found(Which::All, 99, &[old]), [21, 22, 23, 24]);
        old.started += 1;
        assert_eq!(found(Which::All, 99, &[old]), [21, 22, 23, 24, 26]);
    }

    #[test]
    fn this_process_is_there() {
        let own = number(getpid());
        let found = all().unwrap().into_iter().find(|process| process.pid == own).unwrap();
        assert!(!found.zombie);
        check().unwrap();
        assert!(found.signal(Signal::URG).unwrap(), "one that is ignored");
        let later = Process { started: found.started + 1, ..found };
        assert!(later.signal(Signal::KILL).unwrap(), "not this one");
    }
}
