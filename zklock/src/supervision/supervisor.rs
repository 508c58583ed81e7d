//! The supervisor: a process between `zklock` and the command. It knows when the lease ends, and sees to it by itself
//! that the command is dead by then, also when `zklock` is stopped, hangs or was killed.
//!
//! It has no threads, no runtime and no connection to ZooKeeper: a socket to `zklock`, a timer, and its child. It reaps
//! the command last of all, so that nobody else gets the number of its group meanwhile, and adopts what the command's
//! processes leave behind, so that it finds them.

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
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process_group, set_child_subreaper, waitid,
};
use rustix::thread::set_name;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTTIN, SIGTTOU};

use super::clock::Moment;
use super::ending::{Cause, Due, Ending};
use super::processes::{Family, Which};
use super::wire::{Ended, LONGEST, Order, Report, decode, encode, receive_with};
use super::{NAME, execute, orphans, processes};
use crate::exit;
use crate::signals::{PASSED_ON, is_ignored, unblock};

/// The name of this stage on the command line.
pub(crate) const SUPERVISE: &str = "__supervise";

/// How often those who have to go are looked for: the end of a process that is nobody's child here is no event.
/// Twice as long each time, up to the longest.
const LOOK: Duration = Duration::from_millis(10);
const LONGEST_LOOK: Duration = Duration::from_millis(160);

const NEVER: Itimerspec = {
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    Itimerspec { it_interval: zero, it_value: zero }
};

/// Arguments: the command. The socket to `zklock` is the standard input.
pub(crate) fn main(command: impl Iterator<Item = OsString>) -> ExitCode {
    // Who signals everything of that name has not us in mind.
    let _ = set_name(c"lock-supervisor"); // for people
    match leave_signals_to_zklock().and_then(|()| receive()) {
        // Its end tells `zklock`, which says so.
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
    /// Has something to read when a child changed its state.
    children: UnixStream,
    command: Option<Pid>,
    /// Its exit code, once it has ended, and when that was seen.
    code: Option<(u8, Moment)>,
    /// Whether it died of an INT.
    interrupted: bool,
    ending: Ending,
    /// What came before there was a command.
    signals: Vec<i32>,
    /// Whether `zklock` is there.
    supervised: bool,
    /// Whether it was said that one cannot be signalled.
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

/// They are for `zklock`, which passes them on. A handler, which an `exec` takes away, not to ignore them.
fn leave_signals_to_zklock() -> io::Result<()> {
    for signal in PASSED_ON.into_iter().filter(|signal| !is_ignored(*signal)) {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    // It keeps them from us until now; whoever started it may keep the last.
    unblock(&PASSED_ON)?;
    unblock(&[SIGTTIN, SIGTTOU, SIGCHLD])
}

/// The command has it: who reads it sees its end when the command is done with it.
fn let_go_of_the_output() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    Ok(())
}

impl Supervisor {
    /// Starts the command; not if the lease has ended: another may hold the lock by now.
    fn begin(
        &mut self,
        command: impl Iterator<Item = OsString>,
        stdin: OwnedFd,
        foreground: bool,
    ) -> io::Result<bool> {
        processes::check()?;
        set_child_subreaper(Some(getpid()))?;
        // This process may have been frozen, and the lease been renewed meanwhile.
        self.take_orders();
        let lease_end = self.ending.lease_end();
        let is_over = lease_end.is_some_and(|end| end <= Moment::now());
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
        let _ = let_go_of_the_output(); // who reads it waits a little longer, then
        Ok(true)
    }

    fn failed(&self, error: &io::Error) {
        let too_long = Errno::from_io_error(error) == Some(Errno::TOOBIG);
        let code = if too_long { exit::CANNOT_EXECUTE } else { exit::INTERNAL };
        let why = format!("the command cannot be started: {error}");
        self.report(&Report::Failed { code, why });
    }

    /// Until nothing of the command is left.
    fn supervise(&mut self) {
        loop {
            self.take_orders();
            // Ahead of all that takes time.
            self.act();
            self.look_after_command();
            if self.is_done() {
                break;
            }
            // What is left of a command that has just ended.
            self.act();
            self.bury_adopted();
            self.wait();
        }
        let (code, at) = self.code.unwrap_or((exit::INTERNAL, Moment::now()));
        let (interrupted, cause) = (self.interrupted, self.ending.cause());
        self.report(&Report::Ended(Ended { code, interrupted, cause, at }));
        // Only now somebody else may get its number.
        if let Some(command) = self.command {
            let _ = waitid(WaitId::Pid(command), WaitIdOptions::EXITED);
        }
    }

    fn act(&mut self) {
        let before = self.ending.cause();
        let due = self.ending.due(Moment::now());
        match due {
            Due::Nothing => {}
            // Who is stopped would hear of it too late.
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

    /// Daemons go when the lock is lost. Of a command that ended by itself they are meant to go on.
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
            self.signal(&[Signal::KILL]); // who was born meanwhile
        }
        !lives && self.code.is_some()
    }

    fn wait(&mut self) {
        let at = self.ending.next().map_or(NEVER, Moment::timer);
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &at); // it is ours, and cannot fail
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
        // That it is gone would be told for ever.
        let events = if self.supervised { &mut events[..] } else { &mut events[..2] };
        let _ = poll(events, looking.then_some(&look)); // interrupted: look again
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
                // As if it were gone.
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
            let _ = kill_process_group(command, Signal::CONT); // who is stopped would not hear of it
        }
    }

    /// Only while it goes on: at the end `zklock` buries them, and nobody waits for a look at all processes.
    fn bury_adopted(&self) {
        let Some(command) = self.command else { return };
        if self.code.is_some() {
            // The command, which is kept, may hide those who ended after it.
            return orphans::bury(&[Some(command)]);
        }
        while let Some(pid) = an_ended_child().filter(|pid| *pid != command) {
            reap(pid);
        }
    }

    fn look_after_command(&mut self) {
        let mut told = [0; 64];
        while matches!(self.children.read(&mut told), Ok(1..)) {}
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
            self.code = Some((code.or(signal).unwrap_or(exit::INTERNAL), Moment::now()));
            self.ending.command_ended();
        }
    }

    /// Whoever is gone does not want to know, and who is stopped learns it later.
    fn report(&self, report: &Report) {
        use std::io::Write;

        if let Ok(packet) = encode(report) {
            let _ = (&self.control).write(&packet);
        }
    }
}

/// One of those who have ended, which stays as it is.
fn an_ended_child() -> Option<Pid> {
    use nix::sys::wait::{Id, WaitPidFlag, waitid};

    let looking = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::All, looking).ok()?.pid().and_then(|pid| Pid::from_raw(pid.as_raw()))
}

fn reap(child: Pid) {
    let _ = waitid(WaitId::Pid(child), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
}
