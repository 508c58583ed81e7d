//! `zklock`'s part while a command runs: it passes on news of the lock, signals, and revocation requests.

use std::ffi::OsString;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU};
use tokio::time::{Sleep, sleep};
use zookeeper_recipes::Loss;

use super::cannot_start;
use super::clock::BootInstant;
use super::command::{Supervised, close_input_and_output};
use super::ending::{Cause, Plan};
use super::orphans::Orphans;
use super::watched::Watched;
use super::wire::{Ended, Order, Report};
use crate::arguments::{Grace, OnLost, OnRevoke, Supervision};
use crate::exit::{Failure, LOST, say};
use crate::log::Event;
use crate::metrics;
use crate::settings::Settings;
use crate::signals::{self, Signals};
use crate::text;

/// The first pause until processes that should be dead are killed again.
const AGAIN: Duration = Duration::from_millis(50);
/// The longest such pause; a process that hangs in the kernel is not worth more.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A process that runs notices the end of the lease sooner.
const NOTICED: Duration = Duration::from_secs(1);

/// The exit code of a killed command, as in a shell.
const KILLED: u8 = 128 + 9;

/// The rules by which a command is supervised.
#[derive(Clone, Debug)]
pub(crate) struct Supervisor {
    pub(crate) on_lost: OnLost,
    pub(crate) grace: Grace,
    pub(crate) on_revoke: OnRevoke,
    /// The servers, for people to read.
    pub(crate) servers: String,
    /// The session timeout that the servers granted.
    pub(crate) session: Duration,
    /// True if no other command follows that would need our input and output.
    pub(crate) only: bool,
    pub(crate) verbose: bool,
}

/// The end of a command. No process of it is left.
#[derive(Debug)]
pub(crate) struct End {
    path: String,
    /// The command's exit code, as in a shell.
    pub(crate) code: u8,
    /// The reason why the command was ended, if it did not end by itself.
    pub(crate) cause: Option<Cause>,
    /// Why the lease was not renewed.
    silence: String,
    /// What an ended command got.
    sent: String,
    /// The loss of the lock while the command ran, if any.
    loss: Option<Loss>,
    /// True if the loss was reported when it happened.
    is_reported: bool,
    /// True if the command ended before the lease did.
    in_time: bool,
    /// True if this process was told to end while the command ran.
    pub(crate) was_told_to_end: bool,
    /// True if one of the command's processes could not be ended.
    is_refused: bool,
}

impl Supervisor {
    /// Returns the rules of the options, for a session with this timeout.
    pub(crate) fn new(
        supervision: &Supervision,
        settings: &Settings,
        session: Duration,
    ) -> Result<Self, Failure> {
        Ok(Self {
            on_lost: supervision.on_lost,
            grace: supervision.grace(session)?,
            on_revoke: OnRevoke::Term,
            servers: settings.server.clone(),
            session,
            only: false,
            verbose: settings.verbose,
        })
    }

    /// Runs the command until no process of it is left.
    pub(crate) async fn run(
        &self,
        command: &[OsString],
        hold: &Watched,
        signals: &mut Signals,
    ) -> Result<End, Failure> {
        let Self { on_lost, grace, .. } = *self;
        let lease_end = lease_end(hold);
        let plan = Plan { on_lost, grace, lease_end };
        go_on_at_ctrl_z()?;
        let supervised = Supervised::start(command, hold.environment(), plan)
            .map_err(|error| cannot_start(&error))?;
        if self.only {
            let _ = close_input_and_output(); // without that, a writer notices later that nothing reads
        }
        let mut watch = Watch {
            supervisor: self,
            path: hold.path(),
            supervised,
            lease_end,
            loss: None,
            is_late: false,
            was_told_to_end: false,
            overdue: None,
            wants_terminal: false,
            is_refused: false,
            orphans: Orphans::new(),
            pause: AGAIN,
        };
        let last = watch.follow(hold, signals).await;
        let (code, cause, at) = match last {
            Some(Report::Ended(Ended { code, interrupted, cause, at })) => {
                if interrupted && watch.supervised.has_terminal() {
                    watch.was_told_to_end = true;
                    signals::interrupted_alone();
                }
                if self.verbose {
                    Event::Ended.exits(code, &format!("the command ended with {code}"));
                }
                (code, cause, Some(at))
            }
            Some(Report::Failed { code, why }) => {
                return Err(Failure::new(code, format!("{}: {why}", watch.path)));
            }
            _ => {
                watch.end_orphans().await;
                if watch.loss.is_none() {
                    let path = &watch.path;
                    let text = "the supervisor was killed, and so the command was killed";
                    return Err(Failure::internal(format!("{path}: {text}")));
                }
                (KILLED, Some(Cause::Lost), None)
            }
        };
        let Watch { path, loss, lease_end, is_late, was_told_to_end, is_refused, .. } = watch;
        let silence = if is_late {
            "zklock was stopped, or its machine slept, until the session lease had ended".to_owned()
        } else {
            self.silence()
        };
        Ok(End {
            path,
            code,
            cause,
            silence,
            sent: self.sent(cause),
            loss,
            is_reported: loss.is_some() && on_lost == OnLost::Warn,
            in_time: at.is_some_and(|at| at <= lease_end),
            was_told_to_end,
            is_refused,
        })
    }

    /// Says for how long no server has answered when TERM is sent.
    fn silence(&self) -> String {
        let lease = self.session * 2 / 3;
        let before = if self.on_lost == OnLost::Kill { Duration::ZERO } else { self.grace.notice };
        format!(
            "no answer from {} for {} of the session timeout of {}",
            self.servers,
            text::age(lease.saturating_sub(before)),
            text::age(self.session)
        )
    }

    fn sent(&self, cause: Option<Cause>) -> String {
        let Grace { kill_after, notice } = self.grace;
        match self.on_lost {
            OnLost::Term => {
                let is_late = cause == Some(Cause::LeaseEnding);
                let after = text::share(if is_late { notice } else { kill_after });
                format!("TERM, and KILL after {after}")
            }
            OnLost::Kill | OnLost::Warn => "KILL".to_owned(),
        }
    }
}

impl End {
    /// Returns the failure if the lock was not held to the end: the loss that the supervision noticed, or else `now`.
    pub(crate) fn failure(&self, now: Option<Loss>) -> Option<Failure> {
        let Self { path, code, cause, .. } = self;
        if self.is_reported {
            return Some(Failure::reported(LOST));
        }
        // The command had ended before; this process may have slept since.
        let in_time = self.in_time && cause.is_none();
        let now = now.filter(|loss| !(in_time && *loss == Loss::LeaseEnded));
        let why = match (self.loss.or(now), cause) {
            (Some(Loss::LeaseEnded), Some(_)) => format!("lost {path}: {}", self.silence),
            (Some(loss), _) => format!("lost {path}: {loss}"),
            // The lease was renewed after all, when the command had already got TERM.
            (None, Some(_)) => format!("{}, {path} was about to be lost", self.silence),
            (None, None) => return None,
        };
        let command = match cause {
            Some(_) if self.is_refused => {
                "a process of the command could not be ended, and ended by itself".to_owned()
            }
            Some(_) => format!("the command was ended ({})", self.sent),
            None => format!("the command ended by itself with {code}"),
        };
        Some(Failure::new(LOST, format!("{why}; {command}")))
    }
}

struct Watch<'a> {
    supervisor: &'a Supervisor,
    /// The held paths, for people to read.
    path: String,
    supervised: Supervised,
    /// The end of the lease, as last sent to the supervisor.
    lease_end: BootInstant,
    loss: Option<Loss>,
    /// True if this process noticed the end of the lease long after it.
    is_late: bool,
    /// True if a signal that ends programs was passed on.
    was_told_to_end: bool,
    /// Fires when the supervisor should have ended the command by itself; this process then kills the command.
    overdue: Option<Pin<Box<Sleep>>>,
    /// True while the command waits for the foreground of the terminal.
    wants_terminal: bool,
    /// True if a process of the command could not be signalled.
    is_refused: bool,
    orphans: Orphans,
    /// The pause until processes that should be dead are killed again.
    pause: Duration,
}

impl Watch<'_> {
    /// Returns the last report: the command has ended, or cannot be started; `None` if the supervisor ended before
    /// that.
    async fn follow(&mut self, hold: &Watched, signals: &mut Signals) -> Option<Report> {
        let mut lost = pin!(hold.lost());
        let mut asked = pin!(hold.revocation_requested());
        let mut is_asked = false;
        loop {
            // Subscribed before the remaining lease is read, so that no renewal is missed.
            let renewed = hold.lease_renewed();
            let kept = self.supervised.kept();
            if self.loss.is_none() {
                self.lease_end = self.lease_end.max(lease_end(hold));
                self.supervised.order(Order::Lease(self.lease_end));
            }
            tokio::select! {
                biased;
                report = self.supervised.report() => {
                    self.compare_clock();
                    match report? {
                        last @ (Report::Ended(_) | Report::Failed { .. }) => return Some(last),
                        report => self.take(&report),
                    }
                }
                loss = &mut lost, if self.loss.is_none() => self.lost(loss),
                () = due(&mut self.overdue) => self.kill(),
                signal = signals.any() => self.pass_on(signal),
                () = &mut asked, if !is_asked => {
                    is_asked = true;
                    self.asked();
                }
                never = self.orphans.reap(&kept) => match never {},
                () = renewed, if self.loss.is_none() => {}
            }
        }
    }

    /// Notes whether this process was asleep while the lease ended.
    fn compare_clock(&mut self) {
        let is_over = BootInstant::now() >= self.lease_end.after(NOTICED);
        self.is_late |= is_over && self.loss.is_none();
    }

    fn lost(&mut self, loss: Loss) {
        self.compare_clock();
        self.loss = Some(loss);
        metrics::lost();
        self.supervised.order(Order::Lost);
        let wait = match (self.supervisor.on_lost, loss) {
            (OnLost::Warn, _) => {
                let path = &self.path;
                return Event::Lost.say(&format!("lost {path}: {loss}; the command goes on"));
            }
            (OnLost::Term, loss) if loss != Loss::LeaseEnded => self.supervisor.grace.kill_after,
            _ => Duration::ZERO,
        };
        self.overdue = Some(Box::pin(sleep(wait)));
    }

    /// Kills the command, because another process may have the lock by now. The supervisor has already killed it,
    /// unless it was stopped.
    fn kill(&mut self) {
        self.supervised.kill();
        self.supervised.keep_going();
        self.overdue = Some(Box::pin(sleep(self.pause)));
        self.pause = LONGEST_PAUSE.min(self.pause * 2);
    }

    fn pass_on(&mut self, signal: i32) {
        if signal == SIGCONT {
            self.offer_terminal();
        }
        self.was_told_to_end |= [SIGHUP, SIGINT, SIGQUIT, SIGTERM].contains(&signal);
        self.supervised.order(Order::Signal(signal));
    }

    /// Gives the command the terminal if we are in the foreground.
    fn offer_terminal(&mut self) {
        if self.supervised.take_terminal() && std::mem::take(&mut self.wants_terminal) {
            self.supervised.order(Order::Signal(SIGCONT));
        }
    }

    fn asked(&mut self) {
        let does = match self.supervisor.on_revoke {
            OnRevoke::Ignore => "ignored",
            OnRevoke::Term => {
                self.supervised.order(Order::Signal(SIGTERM));
                "the command gets TERM"
            }
        };
        Event::Revoked.say(&format!("asked to give {} back; {does}", self.path));
    }

    fn take(&mut self, report: &Report) {
        if let Report::Ending(_) = report {
            metrics::lost();
        }
        match report {
            Report::Stopped { continued: true, .. } => {
                say("the command cannot be suspended while it holds the lock");
            }
            Report::Refused(pid) => {
                self.is_refused = true;
                Event::Warning.say(&format!(
                    "process {pid} of the command cannot be ended: it is another user's"
                ));
            }
            Report::Stopped { signal: SIGTTIN | SIGTTOU, .. } => {
                self.wants_terminal = true;
                self.offer_terminal();
            }
            _ if !self.supervisor.verbose => {}
            Report::Started(pid) => {
                Event::Started.say(&format!("the command runs as process {pid}"));
            }
            Report::Ending(cause) => {
                Event::Ending.say(&format!("the command is ended: {}", why(*cause)));
            }
            Report::Stopped { signal, .. } => {
                let name = signal_hook::low_level::signal_name(*signal).unwrap_or("a signal");
                say(&format!("the command was stopped by {name}"));
            }
            Report::Ended(_) | Report::Failed { .. } => {}
        }
    }

    async fn end_orphans(&mut self) {
        while self.supervised.lives() {
            self.supervised.kill();
            sleep(AGAIN).await;
        }
    }
}

/// Keeps Ctrl-Z from suspending this process, which would then renew no lease and keep all others waiting.
fn go_on_at_ctrl_z() -> io::Result<()> {
    static ONCE: AtomicBool = AtomicBool::new(false);
    if !ONCE.swap(true, Ordering::Relaxed) {
        // A handler, which an `exec` removes, in place of ignoring the signal.
        signal_hook::flag::register(SIGTSTP, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}

fn why(cause: Cause) -> &'static str {
    match cause {
        Cause::LeaseEnding => "no answer from ZooKeeper, the lease is about to end",
        Cause::Lost => "the lock is lost",
        Cause::Orphaned => "nobody supervises it",
    }
}

/// Returns the end of the lease. The clock is read first, to be on the safe side.
fn lease_end(hold: &Watched) -> BootInstant {
    let now = BootInstant::now();
    now.after(hold.lease_left())
}

async fn due(time: &mut Option<Pin<Box<Sleep>>>) {
    match time {
        Some(time) => time.await,
        None => std::future::pending().await,
    }
}
