//! The owner of a container, a data folder or a port: an identity that outlives the process, so that others can check
//! whether the process is dead.
//!
//! A process id alone is not enough, because ids are reused. The start time tells two processes with one id apart,
//! the boot id two runs of the machine, and the namespace two containers that share a Docker daemon or a folder.
//! Processes of two namespaces cannot see each other, so an owner in another namespace always counts as alive.

use std::fmt;
use std::fs;
use std::sync::LazyLock;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

static CURRENT: LazyLock<Owner> = LazyLock::new(|| {
    let pid = std::process::id();
    Owner {
        boot: boot_id(),
        namespace: pid_namespace(),
        pid,
        started: start_time(pid).unwrap_or(0),
    }
});

/// The permanent identity of a process. As text: `BOOT-NAMESPACE-PID-STARTED`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    boot: String,
    namespace: u64,
    pid: u32,
    started: u64,
}

impl Owner {
    pub(super) fn current() -> &'static Self {
        &CURRENT
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let owner = Self {
            boot: parts.next()?.to_owned(),
            namespace: parts.next()?.parse().ok()?,
            pid: parts.next()?.parse().ok()?,
            started: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(owner)
    }

    /// Returns true if the process is certainly dead.
    pub(super) fn is_dead(&self) -> bool {
        let current = Self::current();
        if self.boot != current.boot {
            // Everything that we check is on this machine, so it is from an earlier boot.
            return true;
        }
        self.namespace == current.namespace && !is_alive(self.pid, self.started)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}-{}", self.boot, self.namespace, self.pid, self.started)
    }
}

fn is_alive(pid: u32, started: u64) -> bool {
    if started != 0 {
        return start_time(pid) == Some(started);
    }
    // Without /proc there is only the process id.
    i32::try_from(pid).is_ok_and(|pid| kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH))
}

/// Returns the start time in ticks since the boot; `None` for a process that does not exist, or is a zombie.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain spaces and parentheses of its own; the state follows the last one.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    // The start time is field 22 of the line, and the state is field 3.
    fields.nth(18)?.parse().ok()
}

fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let id: String = id.chars().filter(char::is_ascii_hexdigit).collect();
    if id.is_empty() { "0".to_owned() } else { id }
}

fn pid_namespace() -> u64 {
    // `pid:[4026531836]`
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let digits: String = link.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let owner = Owner::current();
        assert_eq!(Owner::parse(&owner.to_string()).as_ref(), Some(owner));
        for bad in ["", "a", "a-1-2", "a-1-2-x", "a-1-2-3-4", "a-x-2-3"] {
            assert_eq!(Owner::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_what_is_surely_dead_is_dead() {
        let me = Owner::current().clone();
        let table = [
            ("me", me.clone(), false),
            ("my number, used before", Owner { started: me.started + 1, ..me.clone() }, true),
            ("a number beyond all", Owner { pid: i32::MAX as u32, ..me.clone() }, true),
            (
                "another namespace",
                Owner { namespace: me.namespace + 1, pid: i32::MAX as u32, ..me.clone() },
                false,
            ),
            ("an earlier boot", Owner { boot: "b".to_owned(), ..me }, true),
        ];
        for (name, owner, dead) in table {
            assert_eq!(owner.is_dead(), dead, "{name}");
        }
    }
}
