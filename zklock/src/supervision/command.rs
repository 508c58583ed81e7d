//! The command, as `zklock` has it: its supervisor, and the socket between them.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, getpid, kill_process, set_child_subreaper};

use super::control::Control;
use super::ending::Plan;
use super::processes::{Family, Inherited, Which};
use super::supervisor::SUPERVISE;
use super::terminal::Terminal;
use super::wire::{Order, Report, pair, send_with};
use super::{NAME, orphans, processes};
use crate::signals::{self, PASSED_ON};

#[derive(Debug)]
pub(super) struct Supervised {
    supervisor: Child,
    control: Control,
    /// Once it was started.
    group: Option<Pid>,
    /// If the command was put into its foreground.
    terminal: Option<Terminal>,
    inherited: Inherited,
}

impl Supervised {
    /// Starts it.
    pub(super) fn start(
        command: &[OsString],
        environment: [(&str, String); 3],
        plan: Plan,
    ) -> io::Result<Self> {
        processes::check()?;
        // When the supervisor is killed, what it had adopted comes to us.
        set_child_subreaper(Some(getpid()))?;
        let inherited = Inherited::now()?;
        let (control, theirs) = pair()?;
        // Until it has handlers for them, who signals all of us would end it.
        let mask = signals::keep(&PASSED_ON)?;
        let supervisor = Command::new("/proc/self/exe")
            .arg0(NAME)
            .arg(SUPERVISE)
            .args(command)
            .envs(environment)
            .stdin(Stdio::from(theirs))
            .process_group(0)
            .spawn();
        mask.thread_set_mask()?;
        let supervisor = supervisor?;
        // A pipeline reads the terminal, or a script; then the command is given it when it asks for it.
        let terminal = Terminal::in_foreground().filter(|_| processes::alone_in_group());
        let begin = Order::Begin { plan, foreground: terminal.is_some() };
        send_with(&control, &begin, &io::stdin().as_fd())?;
        let control = Control::new(control)?;
        Ok(Self { supervisor, control, group: None, terminal, inherited })
    }

    /// The next report; `None` when the supervisor is gone.
    pub(super) async fn report(&mut self) -> Option<Report> {
        let report = self.control.report().await;
        if let Some(Report::Started(pid)) = report {
            self.group = Pid::from_raw(pid);
        }
        report
    }

    /// Whoever is stopped is continued, and reads it.
    pub(super) fn order(&mut self, order: Order) {
        self.control.order(order);
        self.keep_going();
    }

    /// A supervisor that somebody stopped is continued.
    pub(super) fn keep_going(&self) {
        let _ = kill_process(self.supervisor(), Signal::CONT); // it may have ended
    }

    /// Gives the command the foreground, if we have it.
    pub(super) fn take_terminal(&mut self) -> bool {
        let Some((group, terminal)) = self.group.zip(Terminal::in_foreground()) else {
            return false;
        };
        let given = terminal.give(group).is_ok();
        if given {
            self.terminal = Some(terminal);
        }
        given
    }

    /// Whether the command has the foreground, or had it.
    pub(super) fn has_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// Kills all of the command, past the supervisor.
    pub(super) fn kill(&self) {
        self.family().signal(self.which(), &[Signal::KILL]);
    }

    /// Whose numbers nobody else is to get: the supervisor's, and that of a command which it left.
    pub(super) fn kept(&self) -> [Option<Pid>; 2] {
        [Some(self.supervisor()), self.group]
    }

    /// Whether something of it lives, or may.
    pub(super) fn lives(&self) -> bool {
        self.family().lives(self.which())
    }

    fn family(&self) -> Family {
        let (leader, supervisor) = (self.group, Some(self.supervisor()));
        Family { leader, supervisor, inherited: self.inherited.clone() }
    }

    /// A container's first process adopts what has nothing to do with the command, too.
    fn which(&self) -> Which {
        if std::process::id() == 1 { Which::Work } else { Which::All }
    }

    fn supervisor(&self) -> Pid {
        Pid::from_child(&self.supervisor)
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        // If it has not ended by itself, it kills all of the command now.
        self.control.close();
        self.keep_going();
        let _ = self.supervisor.wait();
        if let Some(terminal) = &self.terminal {
            terminal.take_back();
        }
        orphans::bury_the_rest();
    }
}

/// The command has them: who writes to it and reads of it sees when it is done with them.
pub(super) fn let_go_of_input_and_output() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    Ok(())
}
