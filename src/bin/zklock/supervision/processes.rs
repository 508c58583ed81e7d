//! The processes of a command, as `/proc` has them.
//!
//! That a process is gone is only what `/proc` says of it: whatever else cannot be read may hide one that lives.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, getsid, kill_process_group, pidfd_open, pidfd_send_signal,
};

/// What is known of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    /// By the kernel's clock: tells it from another one that has its number later.
    started: u64,
    /// Has ended, and its parent does not know yet.
    zombie: bool,
}

impl Process {
    /// From `/proc/PID/stat`: the name, in parentheses, may have anything in it.
    fn parse(stat: &str) -> Option<Self> {
        let (pid, rest) = stat.split_once(' ')?;
        let fields: Vec<_> = rest.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        // Counted from the state, which is the third of all.
        let number = |field: usize| fields.get(field - 3)?.parse::<i32>().ok();
        let threads = number(20)?;
        // Of one whose first thread ended, others may go on.
        let zombie = matches!(*fields.first()?, "Z" | "X" | "x") && threads <= 1;
        let started = fields.get(22 - 3)?.parse().ok()?;
        let (parent, group, session) = (number(4)?, number(5)?, number(6)?);
        Some(Self { pid: pid.parse().ok()?, parent, group, session, started, zombie })
    }

    /// `None` if it is gone.
    fn read(folder: &Path) -> io::Result<Option<Self>> {
        match fs::read(folder.join("stat")) {
            // A name need not be UTF-8.
            Ok(stat) => Self::parse(&String::from_utf8_lossy(&stat))
                .map(Some)
                .ok_or(io::ErrorKind::InvalidData.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Signals this process and no other that has got its number. `false` if we may not.
    fn signal(&self, signal: Signal) -> io::Result<bool> {
        let gone = |error: Errno| if error == Errno::SRCH { Ok(true) } else { Err(error.into()) };
        let Some(pid) = Pid::from_raw(self.pid) else { return Ok(true) };
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(error) => return gone(error),
        };
        let now = Self::read(Path::new(&format!("/proc/{}", self.pid)))?;
        if now.is_none_or(|now| now.started != self.started) {
            return Ok(true);
        }
        match pidfd_send_signal(&handle, signal) {
            Ok(()) => Ok(true),
            Err(Errno::PERM) => Ok(false),
            Err(error) => gone(error),
        }
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

/// Whether `/proc` is that of the processes among which we are.
pub(super) fn check() -> io::Result<()> {
    let own = fs::read_link("/proc/self")?;
    if own == Path::new(&std::process::id().to_string()) {
        return Ok(());
    }
    Err(io::Error::other("the /proc that is mounted here is that of other processes"))
}

/// Whether no other process is in our group: no pipeline, no script.
pub(super) fn alone_in_group() -> bool {
    let own = number(getpid());
    let group = |processes: &[Process]| {
        let own = processes.iter().find(|process| process.pid == own)?;
        Some(processes.iter().filter(|other| other.group == own.group && !other.zombie).count())
    };
    all().is_ok_and(|processes| group(&processes) == Some(1))
}

/// Zombies that are children of this process.
pub(super) fn ended_children() -> Vec<Pid> {
    let own = number(getpid());
    let all = all().unwrap_or_default().into_iter();
    let ended = all.filter(|process| process.zombie && process.parent == own);
    ended.filter_map(|process| Pid::from_raw(process.pid)).collect()
}

/// Whose descendants belong to the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// Those of the command's group and those of its session: what is its work.
    Work,
    /// Whatever descends from it, daemons as well.
    All,
}

/// The processes that belong to a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family {
    /// The command's process, and so its group. Not reaped, so nobody else has its number.
    pub(super) leader: Option<Pid>,
    /// A child of this process that does not belong to it.
    pub(super) spared: Option<Pid>,
}

impl Family {
    /// Whether one of them lives, or may live.
    pub(super) fn lives(&self, which: Which) -> bool {
        // Twice: who is born while the folder is read can be missed, as its parent is when that ends meanwhile.
        (0..2).any(|_| self.living(which).map_or(true, |living| !living.is_empty()))
    }

    /// Signals all of them; gives one that we may not signal.
    pub(super) fn signal(&self, which: Which, signal: Signal) -> Option<i32> {
        // In one moment; there may be none.
        let in_one = self.leader.map(|leader| kill_process_group(leader, signal));
        let group = self.leader.map(number);
        let living = self.living(which).unwrap_or_default();
        let others = living.iter().filter(|process| Some(process.group) != group);
        let mut refused = group.filter(|_| in_one == Some(Err(Errno::PERM)));
        for process in others {
            if let Ok(false) = process.signal(signal) {
                refused = Some(process.pid);
            }
        }
        refused
    }

    fn living(&self, which: Which) -> io::Result<Vec<Process>> {
        Ok(self.among(&all()?, which, number(getpid()), getsid(None).map(number)?))
    }

    fn among(&self, processes: &[Process], which: Which, own: i32, session: i32) -> Vec<Process> {
        let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
        for process in processes {
            children.entry(process.parent).or_default().push(process.pid);
        }
        let (mut next, mut descendants) = (vec![own], HashSet::new());
        while let Some(pid) = next.pop() {
            let born = children.remove(&pid).unwrap_or_default();
            descendants.extend(born.iter().copied());
            next.extend(born);
        }
        let (group, spared) = (self.leader.map(number), self.spared.map(number));
        let belongs = |process: &&Process| {
            let of_session = which == Which::All || process.session == session;
            let descends = of_session && descendants.contains(&process.pid);
            !process.zombie
                && Some(process.pid) != spared
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
            process(24, 1, 20, 1),   // of the group, and somebody else's child
            process(25, 1, 25, 1),   // none of ours
            process(26, OWN, 26, 1), // adopted
        ];
        let family = |spared| Family { leader: Pid::from_raw(20), spared: Pid::from_raw(spared) };
        let found = |which, spared| {
            let found = family(spared).among(&processes, which, OWN, 1);
            found.iter().map(|process| process.pid).collect::<Vec<_>>()
        };
        assert_eq!(found(Which::Work, 99), [21, 22, 24, 26]);
        assert_eq!(found(Which::All, 99), [21, 22, 23, 24, 26]);
        assert_eq!(found(Which::All, 26), [21, 22, 23, 24]);
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
