//! The supervisor: a process between `zklock` and the command. It knows when the lease ends, and ensures on its own
//! that the command is dead by then, even if `zklock` is stopped, hangs or was killed.
//!
//! The supervisor has no threads, no runtime and no connection to ZooKeeper, only a socket to `zklock`, a timer, and
//! its child. It reaps the command last, so that the id of its group is not reused meanwhile, and adopts the orphans
//! of the command's processes, so that it finds them.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process_group, set_child_subreaper, waitid,
};
use rustix::thread::set_name;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTTIN, SIGTTOU};

use super::clock::BootInstant;
use super::ending::{Cause, Due, Ending};
use super::processes::{Family, Which};
use super::wire::{Ended, LONGEST, Order, Report, decode, encode, receive_with};
use super::{NAME, cannot_start, execute, orphans, processes};
use crate::exit;
use crate::signals::{PASSED_ON, is_ignored, unblock};

/// The name of this stage on the command line.
pub(crate) const SUPERVISE: &str = "__supervise";

/// The first interval between checks for processes that have to end. The interval doubles each time, up to the
/// longest. This has to poll, because the end of a process that is not our child causes no event.
const LOOK: Duration = Duration::from_millis(10);
const LONGEST_LOOK: Duration = Duration::from_millis(160);

const NEVER: Itimerspec = {
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    Itimerspec { it_interval: zero, it_value: zero }
};

/// Runs the supervisor. The arguments are the command, and the standard input is the socket to `zklock`.
pub(crate) fn main(command: impl Iterator<Item = OsString>) -> ExitCode {
    // A signal to all processes named `zklock` is not meant for this one.
    let _ = set_name(c"lock-supervisor"); // only people read it
    match leave_signals_to_zklock().and_then(|()| receive()) {
        // `zklock` notices our end, and reports it.
        Err(_) => ExitCode::from(exit::INTERNAL),
        Ok((mut supervisor, stdin, foreground)) => {
            match supervisor.begin(command, stdin, foreground) {
                Ok(true) => supervisor.supervise(),
                Ok(false) => {}
                Err(error) => supervisor.failed(&error),
            }
            ExitCode::SUCCESS
        }
    }
}

struct Supervisor {
    control: UnixStream,
    timer: OwnedFd,
    /// Readable after a child changed its state.
    children: UnixStream,
    command: Option<Pid>,
    /// The command's exit code, once it has ended, and the time at which that was seen.
    code: Option<(u8, BootInstant)>,
    /// True if an INT ended the command.
    interrupted: bool,
    ending: Ending,
    /// Signals that came before the command was started.
    signals: Vec<i32>,
    /// True while `zklock` runs.
    supervised: bool,
    /// True once it was reported that a process cannot be signalled.
    refused: bool,
    look: Duration,
}

/// Waits for the first order.
fn receive() -> io::Result<(Supervisor, OwnedFd, bool)> {
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (order, stdin) = receive_with(&control)?;
    let Order::Begin { plan, foreground } = order else {
        return Err(ErrorKind::InvalidData.into());
    };
    control.set_nonblocking(true)?;
    let (children, changed) = UnixStream::pair()?;
    children.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(SIGCHLD, changed)?;
    let supervisor = Supervisor {
        control,
        timer: timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?,
        children,
        command: None,
        code: None,
        interrupted: false,
        ending: Ending::new(plan),
        signals: Vec::new(),
        supervised: true,
        refused: false,
        look: LOOK,
    };
    Ok((supervisor, stdin, foreground))
}

/// Leaves the signals to `zklock`, which passes them on. This installs handlers, which an `exec` removes, and does
/// not ignore the signals.
fn leave_signals_to_zklock() -> io::Result<()> {
    for signal in PASSED_ON.into_iter().filter(|signal| !is_ignored(*signal)) {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    // `zklock` has blocked the first ones for us until now, and the program that started `zklock` may have blocked
    // the others.
    unblock(&PASSED_ON)?;
    unblock(&[SIGTTIN, SIGTTOU, SIGCHLD])
}

/// Closes our output, which the command has: a reader sees its end when the command is done with it.
fn close_output() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    Ok(())
}

impl Supervisor {
    /// Starts the command, unless the lease has ended: another process may hold the lock by now.
    fn begin(
        &mut self,
        command: impl Iterator<Item = OsString>,
        stdin: OwnedFd,
        foreground: bool,
    ) -> io::Result<bool> {
        processes::check()?;
        set_child_subreaper(Some(getpid()))?;
        // This process may have been frozen, and the lease may have been renewed meanwhile.
        self.take_orders();
        let lease_end = self.ending.lease_end();
        let is_over = lease_end.is_some_and(|end| end <= BootInstant::now());
        let cause = self.ending.cause().or(is_over.then_some(Cause::LeaseEnding));
        if cause.is_some() {
            let why = "the lock was lost before the command was started".to_owned();
            self.report(&Report::Failed { code: exit::LOST, why });
            return Ok(false);
        }
        let child = Command::new("/proc/self/exe")
            .arg0(NAME)
            .args(execute::arguments(lease_end, foreground))
            .args(command)
            .stdin(Stdio::from(stdin))
            .process_group(0)
            .spawn()?;
        let pid = Pid::from_child(&child);
        self.command = Some(pid);
        self.report(&Report::Started(processes::number(pid)));
        for signal in std::mem::take(&mut self.signals) {
            self.pass_on(signal);
        }
        let _ = close_output(); // without that, a reader waits a little longer
        Ok(true)
    }

    fn failed(&self, error: &io::Error) {
        let failure = cannot_start(error);
        self.report(&Report::Failed { code: failure.code(), why: failure.to_string() });
    }

    /// Runs until no process of the command is left.
    fn supervise(&mut self) {
        loop {
            self.take_orders();
            // This comes before everything that takes time.
            self.act();
            self.check_command();
            if self.is_done() {
                break;
            }
            // End the remaining processes of a command that has just ended.
            self.act();
            self.reap_adopted();
            self.wait();
        }
        let (code, at) = self.code.unwrap_or((exit::INTERNAL, BootInstant::now()));
        let interrupted = self.interrupted;
        let cause = self.ending.cause();
        self.report(&Report::Ended(Ended { code, interrupted, cause, at }));
        // The id may be reused only from now on.
        if let Some(command) = self.command {
            let _ = waitid(WaitId::Pid(command), WaitIdOptions::EXITED);
        }
    }

    fn act(&mut self) {
        let before = self.ending.cause();
        let due = self.ending.due(BootInstant::now());
        match due {
            Due::Nothing => {}
            // A stopped process would handle TERM too late.
            Due::Term => self.signal(&[Signal::TERM, Signal::CONT]),
            Due::Kill => self.signal(&[Signal::KILL]),
        }
        if let (None, Some(cause)) = (before, self.ending.cause()) {
            self.report(&Report::Ending(cause));
        }
        if due != Due::Nothing {
            self.look = LOOK;
        }
    }

    /// Daemons are ended when the lock is lost. Those of a command that ended by itself are meant to continue.
    fn which(&self) -> Which {
        if self.ending.cause().is_some() { Which::All } else { Which::Work }
    }

    fn family(&self) -> Family {
        Family { leader: self.command, ..Family::default() }
    }

    fn signal(&mut self, signals: &[Signal]) {
        if let Some(pid) = self.family().signal(self.which(), signals)
            && !std::mem::replace(&mut self.refused, true)
        {
            self.report(&Report::Refused(pid));
        }
    }

    fn is_done(&mut self) -> bool {
        let is_killed = self.ending.is_killed();
        if self.code.is_none() && !is_killed {
            return false;
        }
        let lives = self.family().lives(self.which());
        if lives && is_killed {
            self.signal(&[Signal::KILL]); // processes that were started meanwhile
        }
        !lives && self.code.is_some()
    }

    fn wait(&mut self) {
        let at = self.ending.next().map_or(NEVER, BootInstant::timer);
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &at); // the timer is ours, so this cannot fail
        let looking = self.code.is_some() || self.ending.is_killed();
        let look = Timespec { tv_sec: 0, tv_nsec: self.look.subsec_nanos().into() };
        if looking {
            self.look = LONGEST_LOOK.min(self.look * 2);
        }
        let mut events = [
            PollFd::new(&self.timer, PollFlags::IN),
            PollFd::new(&self.children, PollFlags::IN),
            PollFd::new(&self.control, PollFlags::IN),
        ];
        // A closed socket would wake this forever.
        let events = if self.supervised { &mut events[..] } else { &mut events[..2] };
        let _ = poll(events, looking.then_some(&look)); // if interrupted, the caller checks again
    }

    fn take_orders(&mut self) {
        let mut packet = [0; LONGEST];
        while self.supervised {
            match self.control.read(&mut packet) {
                Ok(0) => self.orphaned(),
                Ok(length) => match decode(&packet[..length]) {
                    Ok(Order::Lease(end)) => self.ending.lease(end),
                    Ok(Order::Lost) => self.ending.lost(),
                    Ok(Order::Signal(signal)) => self.pass_on(signal),
                    Ok(Order::Begin { .. }) | Err(_) => {}
                },
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // This counts as the end of `zklock`.
                Err(_) => self.orphaned(),
            }
        }
    }

    fn orphaned(&mut self) {
        self.supervised = false;
        self.ending.orphaned();
    }

    fn pass_on(&mut self, number: i32) {
        let (Some(signal), Some(command)) = (Signal::from_named_raw(number), self.command) else {
            return self.signals.push(number);
        };
        let _ = kill_process_group(command, signal); // it may have ended
        if signal == Signal::TERM || signal == Signal::HUP {
            let _ = kill_process_group(command, Signal::CONT); // a stopped process would not handle the signal
        }
    }

    /// Reaps adopted processes while the command is supervised. At the end `zklock` reaps the rest, so it does not
    /// wait for a scan of all processes.
    fn reap_adopted(&self) {
        let Some(command) = self.command else { return };
        if self.code.is_some() {
            // The command, which is not reaped, may hide children that ended after it.
            return orphans::reap(&[Some(command)]);
        }
        while let Some(pid) = an_ended_child().filter(|pid| *pid != command) {
            reap(pid);
        }
    }

    fn check_command(&mut self) {
        let mut bytes = [0; 64];
        while matches!(self.children.read(&mut bytes), Ok(1..)) {}
        let Some(command) = self.command else { return };
        let command = || WaitId::Pid(command);
        if let Ok(Some(change)) = waitid(command(), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG)
            && let Some(signal) = change.stopping_signal()
        {
            let continued = signal == Signal::TSTP.as_raw();
            if continued {
                self.signal(&[Signal::CONT]);
            }
            self.report(&Report::Stopped { signal, continued });
        }
        let looking = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if self.code.is_none()
            && let Ok(Some(change)) = waitid(command(), looking)
        {
            let code = change.exit_status().and_then(|code| u8::try_from(code).ok());
            let signal = change.terminating_signal();
            self.interrupted = signal == Some(SIGINT);
            let signal = signal.map(exit::of_signal);
            self.code = Some((code.or(signal).unwrap_or(exit::INTERNAL), BootInstant::now()));
            self.ending.command_ended();
        }
    }

    /// Sends a report. If `zklock` has ended, it needs none; if it is stopped, it reads the report later.
    fn report(&self, report: &Report) {
        use std::io::Write;

        if let Ok(packet) = encode(report) {
            let _ = (&self.control).write(&packet);
        }
    }
}

/// Returns a child that has ended, and does not reap it.
fn an_ended_child() -> Option<Pid> {
    use nix::sys::wait::{Id, WaitPidFlag, waitid};

    let looking = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::All, looking).ok()?.pid().and_then(|pid| Pid::from_raw(pid.as_raw()))
}

fn reap(child: Pid) {
    let _ = waitid(WaitId::Pid(child), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
}
