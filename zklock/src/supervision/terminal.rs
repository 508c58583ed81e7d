//! The terminal: which group of processes is in the foreground, and so may read it and gets Ctrl-C.

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
    /// `None` without a terminal, and in the background.
    pub(super) fn in_foreground() -> Option<Self> {
        let terminal = Self::of_this_process()?;
        terminal.has_foreground(own_group()?).then_some(terminal)
    }

    /// `None` without a terminal.
    pub(crate) fn of_this_process() -> Option<Self> {
        let tty = File::options().read(true).write(true).open("/dev/tty").ok()?;
        Some(Self { tty })
    }

    fn has_foreground(&self, group: Pid) -> bool {
        tcgetpgrp(&self.tty).is_ok_and(|foreground| foreground == group)
    }

    /// Puts the group into the foreground.
    pub(super) fn give(&self, group: Pid) -> io::Result<()> {
        // Who is in the background would be stopped for this.
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGTTOU);
        let before = mask.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let given = tcsetpgrp(&self.tty, group);
        before.thread_set_mask()?;
        Ok(given?)
    }

    /// Puts ourselves into the foreground again, if nobody is there any more.
    pub(super) fn take_back(&self) {
        // None of the group, which would be told by the kernel to do so.
        let is_gone = |group| test_kill_process_group(group) == Err(Errno::SRCH);
        if let Some(own) = own_group().filter(|_| tcgetpgrp(&self.tty).is_ok_and(is_gone)) {
            let _ = self.give(own); // the terminal may be gone
        }
    }
}

/// `None` where it is not of our world: the leader of our group may be outside a container.
fn own_group() -> Option<Pid> {
    Pid::from_raw(nix::unistd::getpgrp().as_raw())
}
