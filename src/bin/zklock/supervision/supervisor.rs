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
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, set_child_subreaper, waitid};
use rustix::thread::set_name;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use signal_hook::consts::SIGCHLD;

use super::clock::Moment;
use super::ending::{Due, Ending};
use super::wire::{Ended, LONGEST, Order, Report, decode, encode, receive_with};
use super::{execute, processes};
use crate::exit;
use crate::signals::{PASSED_ON, is_ignored};

/// The name of this stage on the command line.
pub(crate) const SUPERVISE: &str = "__supervise";

/// How often those who have to go are looked for: the end of a process that is nobody's child here is no event.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

const NEVER: Itimerspec = {
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    Itimerspec { it_interval: zero, it_value: zero }
};

/// Arguments: the command. The socket to `zklock` is the standard input.
pub(crate) fn main(command: impl Iterator<Item = OsString>) -> ExitCode {
    // Who signals everything of that name has not us in mind.
    let _ = set_name(c"lock-supervisor"); // for people
    match begin(command) {
        Ok(mut supervisor) => {
            supervisor.supervise();
            ExitCode::SUCCESS
        }
        Err(error) => {
            exit::say(&format!("the supervisor cannot start: {error}"));
            ExitCode::from(exit::INTERNAL)
        }
    }
}

struct Supervisor {
    control: UnixStream,
    timer: OwnedFd,
    /// Has something to read when a child changed its state.
    children: UnixStream,
    command: Pid,
    /// Its exit code, once it has ended.
    code: Option<u8>,
    ending: Ending,
    /// Whether `zklock` is there.
    supervised: bool,
}

fn begin(command: impl Iterator<Item = OsString>) -> io::Result<Supervisor> {
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (order, stdin) = receive_with(&control)?;
    let Order::Begin { plan, foreground } = order else {
        return Err(ErrorKind::InvalidData.into());
    };
    set_child_subreaper(Some(getpid()))?;
    // They are for `zklock`, which passes them on. A handler, which an `exec` takes away, not to ignore them.
    for signal in PASSED_ON.into_iter().filter(|signal| !is_ignored(*signal)) {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let (children, changed) = UnixStream::pair()?;
    children.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(SIGCHLD, changed)?;
    let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?;
    let child = start(command, stdin, foreground)?;
    let command = Pid::from_child(&child);
    control.set_nonblocking(true)?;
    let ending = Ending::new(plan);
    let supervisor =
        Supervisor { control, timer, children, command, code: None, ending, supervised: true };
    supervisor.report(&Report::Started(command.as_raw_nonzero().get()));
    let_go_of_the_output()?;
    Ok(supervisor)
}

fn start(
    command: impl Iterator<Item = OsString>,
    stdin: OwnedFd,
    foreground: bool,
) -> io::Result<Child> {
    Command::new("/proc/self/exe")
        .arg0("zklock")
        .args(execute::arguments(foreground))
        .args(command)
        .stdin(Stdio::from(stdin))
        .process_group(0)
        .spawn()
}

/// The command has it: who reads it sees its end when the command is done with it.
fn let_go_of_the_output() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    Ok(())
}

impl Supervisor {
    /// Until nothing of the command is left.
    fn supervise(&mut self) {
        loop {
            self.take_orders();
            self.look_after_children();
            self.act();
            if self.is_done() {
                break;
            }
            self.wait();
        }
        let code = self.code.unwrap_or(exit::INTERNAL);
        let ended = Ended { code, cause: self.ending.cause(), at: Moment::now() };
        self.report(&Report::Ended(ended));
        // Only now somebody else may get its number.
        let _ = waitid(WaitId::Pid(self.command), WaitIdOptions::EXITED);
    }

    fn act(&mut self) {
        let before = self.ending.cause();
        let due = self.ending.due(Moment::now());
        if let (None, Some(cause)) = (before, self.ending.cause()) {
            self.report(&Report::Ending(cause));
        }
        match due {
            Due::Nothing => {}
            Due::Term => {
                processes::signal(self.command, Signal::TERM);
                // Who is stopped would hear of it too late.
                processes::signal(self.command, Signal::CONT);
            }
            Due::Kill => processes::signal(self.command, Signal::KILL),
        }
    }

    /// What left the group goes, too, unless the command ended by itself: then it is meant to go on.
    fn is_done(&self) -> bool {
        if self.ending.is_killed() && self.ending.cause().is_some() {
            return !processes::kill_all(Some(self.command), None) && self.code.is_some();
        }
        self.code.is_some() && !processes::group_lives(self.command)
    }

    fn wait(&self) {
        let at = self.ending.next().map_or(NEVER, Moment::timer);
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &at); // as it was: it is ours
        let looking = self.code.is_some() || self.ending.is_killed();
        let mut events = [
            PollFd::new(&self.timer, PollFlags::IN),
            PollFd::new(&self.children, PollFlags::IN),
            PollFd::new(&self.control, PollFlags::IN),
        ];
        // That it is gone would be told for ever.
        let events = if self.supervised { &mut events[..] } else { &mut events[..2] };
        let _ = poll(events, looking.then_some(&LOOK)); // interrupted: look again
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

    fn pass_on(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            processes::signal(self.command, signal);
        }
    }

    fn look_after_children(&mut self) {
        let mut told = [0; 64];
        while matches!(self.children.read(&mut told), Ok(1..)) {}
        self.look_after_command();
        for adopted in processes::ended_children() {
            if adopted != self.command {
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
                let _ = waitid(WaitId::Pid(adopted), options);
            }
        }
    }

    fn look_after_command(&mut self) {
        let (exited, stopped) = (WaitIdOptions::EXITED, WaitIdOptions::STOPPED);
        let command = || WaitId::Pid(self.command);
        if let Ok(Some(change)) = waitid(command(), stopped | WaitIdOptions::NOHANG)
            && let Some(signal) = change.stopping_signal()
        {
            let continued = signal == Signal::TSTP.as_raw();
            if continued {
                processes::signal(self.command, Signal::CONT);
            }
            self.report(&Report::Stopped { signal, continued });
        }
        let looking = exited | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if self.code.is_none()
            && let Ok(Some(change)) = waitid(command(), looking)
        {
            let code = change.exit_status().and_then(|code| u8::try_from(code).ok());
            let signal = change.terminating_signal().map(exit::of_signal);
            self.code = code.or(signal).or(Some(exit::INTERNAL));
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
