//! The command from the side of `zklock`: its supervisor, and the socket between them.

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
use crate::log;
use crate::signals::{self, PASSED_ON};

#[derive(Debug)]
pub(super) struct Supervised {
    supervisor: Child,
    control: Control,
    /// The command's group, once it was started.
    group: Option<Pid>,
    /// The terminal, if the command was put into its foreground.
    terminal: Option<Terminal>,
    inherited: Inherited,
}

impl Supervised {
    /// Starts the supervisor, which starts the command.
    pub(super) fn start(
        command: &[OsString],
        environment: Vec<(&str, String)>,
        plan: Plan,
    ) -> io::Result<Self> {
        processes::check()?;
        // If the supervisor is killed, the processes that it had adopted come to us.
        set_child_subreaper(Some(getpid()))?;
        let inherited = Inherited::now()?;
        let (control, theirs) = pair()?;
        // Until the supervisor has handlers for these signals, one that is sent to all our processes would end it.
        let mask = signals::keep(&PASSED_ON)?;
        let mut supervisor = Command::new("/proc/self/exe");
        log::bequeath(&mut supervisor);
        let supervisor = supervisor
            .arg0(NAME)
            .arg(SUPERVISE)
            .args(command)
            .envs(environment)
            .stdin(Stdio::from(theirs))
            .process_group(0)
            .spawn();
        mask.thread_set_mask()?;
        let supervisor = supervisor?;
        // In a group with others, a pipeline or a script reads the terminal, and the command gets it when it asks for
        // it.
        let terminal = Terminal::in_foreground().filter(|_| processes::alone_in_group());
        let begin = Order::Begin { plan, foreground: terminal.is_some() };
        send_with(&control, &begin, &io::stdin().as_fd())?;
        let control = Control::new(control)?;
        Ok(Self { supervisor, control, group: None, terminal, inherited })
    }

    /// Returns the next report; `None` if the supervisor has ended.
    pub(super) async fn report(&mut self) -> Option<Report> {
        let report = self.control.report().await;
        if let Some(Report::Started(pid)) = report {
            self.group = Pid::from_raw(pid);
        }
        report
    }

    /// Sends an order. A stopped supervisor is continued, so that it reads the order.
    pub(super) fn order(&mut self, order: Order) {
        self.control.order(order);
        self.keep_going();
    }

    /// Continues a supervisor that another process stopped.
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

    /// Returns true if the command has the foreground, or had it.
    pub(super) fn has_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// Kills all processes of the command directly, not through the supervisor.
    pub(super) fn kill(&self) {
        self.family().signal(self.which(), &[Signal::KILL]);
    }

    /// Returns the processes whose ids must not be reused: the supervisor, and a command that it left behind.
    pub(super) fn kept(&self) -> [Option<Pid>; 2] {
        [Some(self.supervisor()), self.group]
    }

    /// Returns true if a process of the command lives, or may live.
    pub(super) fn lives(&self) -> bool {
        self.family().lives(self.which())
    }

    fn family(&self) -> Family {
        let leader = self.group;
        let supervisor = Some(self.supervisor());
        Family { leader, supervisor, inherited: self.inherited.clone() }
    }

    /// The first process of a container also adopts processes that have nothing to do with the command.
    fn which(&self) -> Which {
        if std::process::id() == 1 { Which::Work } else { Which::All }
    }

    fn supervisor(&self) -> Pid {
        Pid::from_child(&self.supervisor)
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        // If the supervisor has not ended by itself, it now kills all processes of the command.
        self.control.close();
        self.keep_going();
        let _ = self.supervisor.wait();
        if let Some(terminal) = &self.terminal {
            terminal.take_back();
        }
        orphans::reap_the_rest();
    }
}

/// Closes our standard input and output, which the command has: the processes at their other ends notice when the
/// command is done with them.
pub(super) fn close_input_and_output() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    Ok(())
}
