//! The terminal and its foreground: the group of processes that may read it and gets Ctrl-C.

use std::fs::File;
use std::io;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The terminal that this process was started from, while it is in the foreground.
#[derive(Debug)]
pub(crate) struct Terminal {
    tty: File,
}

impl Terminal {
    /// Returns the terminal of this process; `None` without a terminal, and in the background.
    pub(super) fn in_foreground() -> Option<Self> {
        let terminal = Self::of_this_process()?;
        terminal.has_foreground(own_group()?).then_some(terminal)
    }

    /// Returns the terminal of this process; `None` without a terminal.
    pub(crate) fn of_this_process() -> Option<Self> {
        let tty = File::options().read(true).write(true).open("/dev/tty").ok()?;
        Some(Self { tty })
    }

    fn has_foreground(&self, group: Pid) -> bool {
        tcgetpgrp(&self.tty).is_ok_and(|foreground| foreground == group)
    }

    /// Puts the group into the foreground.
    pub(super) fn give(&self, group: Pid) -> io::Result<()> {
        // A process in the background would be stopped for this.
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGTTOU);
        let before = mask.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let given = tcsetpgrp(&self.tty, group);
        before.thread_set_mask()?;
        Ok(given?)
    }

    /// Puts our group into the foreground again, if the group there no longer exists.
    pub(super) fn take_back(&self) {
        // The kernel reports this error if the group has no processes.
        let is_gone = |group| test_kill_process_group(group) == Err(Errno::SRCH);
        if let Some(own) = own_group().filter(|_| tcgetpgrp(&self.tty).is_ok_and(is_gone)) {
            let _ = self.give(own); // the terminal may have been closed
        }
    }
}

/// Returns our group; `None` if its leader is outside our container.
fn own_group() -> Option<Pid> {
    Pid::from_raw(nix::unistd::getpgrp().as_raw())
}
