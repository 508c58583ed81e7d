//! `zklock`'s part while a command runs: it passes on what it learns of the lock, signals, and requests.

use std::ffi::OsString;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGCONT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU};
use tokio::time::{Interval, MissedTickBehavior, Sleep, interval, sleep};
use zookeeper_recipes::Loss;

use super::clock::Moment;
use super::command::{Supervised, let_go_of_input_and_output};
use super::ending::{Cause, Plan};
use super::orphans::Orphans;
use super::watched::Watched;
use super::wire::{Ended, Order, Report};
use crate::arguments::{OnLost, OnRevoke};
use crate::exit::{CANNOT_EXECUTE, Failure, INTERNAL, LOST, say};
use crate::signals::{self, Signals};

/// How often those are killed who should be dead.
const AGAIN: Duration = Duration::from_millis(50);
/// One that hangs in the kernel is not worth more.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How often a terminal is looked at for whose turn it is.
const LOOK: Duration = Duration::from_secs(1);

/// The exit code of what was killed, as a shell has it.
const KILLED: u8 = 128 + 9;

/// How a command is supervised.
#[derive(Clone, Debug)]
pub(crate) struct Supervisor {
    pub(crate) on_lost: OnLost,
    pub(crate) kill_after: Duration,
    pub(crate) on_revoke: OnRevoke,
    /// Whether there is no other command to come, which would want our input and output.
    pub(crate) only: bool,
    pub(crate) verbose: bool,
}

/// How a command ended. Nothing is left of it.
#[derive(Debug)]
pub(crate) struct End {
    path: String,
    /// Its exit code, as a shell has it.
    pub(crate) code: u8,
    /// Why it was ended, if it did not end by itself.
    pub(crate) cause: Option<Cause>,
    /// How the lock was lost while it ran, if it was.
    loss: Option<Loss>,
    /// Whether that was said when it happened.
    is_told: bool,
    /// Whether the command ended before the lease did.
    in_time: bool,
    /// Whether one of its processes could not be ended.
    is_refused: bool,
}

impl Supervisor {
    /// Runs the command until nothing is left of it.
    pub(crate) async fn run(
        &self,
        command: &[OsString],
        hold: &Watched,
        signals: &mut Signals,
    ) -> Result<End, Failure> {
        let Self { on_lost, kill_after, .. } = *self;
        let lease_end = lease_end(hold);
        let plan = Plan { on_lost, kill_after, lease_end };
        go_on_at_ctrl_z()?;
        let supervised =
            Supervised::start(command, hold.environment(), plan).map_err(cannot_start)?;
        if self.only {
            let _ = let_go_of_input_and_output(); // who writes to it learns later that nobody reads
        }
        let mut watch = Watch {
            supervisor: self,
            path: hold.path(),
            supervised,
            lease_end,
            loss: None,
            overdue: None,
            wants_terminal: false,
            is_refused: false,
            looks: looks(),
            orphans: Orphans::new(),
            pause: AGAIN,
        };
        let last = watch.follow(hold, signals).await;
        let (code, cause, at) = match last {
            Some(Report::Ended(Ended { code, interrupted, cause, at })) => {
                if interrupted && watch.supervised.has_terminal() {
                    signals::interrupted_alone();
                }
                (code, cause, Some(at))
            }
            Some(Report::Failed { code, why }) => return Err(Failure::new(code, why)),
            _ => {
                watch.end_orphans().await;
                if watch.loss.is_none() {
                    let text = "the supervisor is gone; the command was ended";
                    return Err(Failure::internal(text));
                }
                (KILLED, Some(Cause::Lost), None)
            }
        };
        let Watch { path, loss, lease_end, is_refused, .. } = watch;
        let is_told = loss.is_some() && on_lost == OnLost::Warn;
        let in_time = at.is_some_and(|at| at <= lease_end);
        Ok(End { path, code, cause, loss, is_told, in_time, is_refused })
    }
}

impl End {
    /// What is to be said if the lock was not held to the end: it was lost as the supervision knows, or as `now` has it.
    pub(crate) fn failure(&self, now: Option<Loss>) -> Option<Failure> {
        let Self { path, code, cause, .. } = self;
        if self.is_told {
            return Some(Failure::told(LOST));
        }
        // The command had ended before; we may have slept since.
        let in_time = self.in_time && cause.is_none();
        let now = now.filter(|loss| !(in_time && *loss == Loss::LeaseEnded));
        let why = match (self.loss.or(now), cause) {
            (Some(loss), _) => format!("lost {path}: {loss}"),
            // The lease was renewed after all, when the command had been told to end.
            (None, Some(_)) => format!("no word from ZooKeeper, {path} was about to be lost"),
            (None, None) => return None,
        };
        let command = match cause {
            Some(_) if self.is_refused => {
                "a process of the command could not be ended, and ended by itself".to_owned()
            }
            Some(_) => "the command was ended".to_owned(),
            None => format!("the command ended by itself with {code}"),
        };
        Some(Failure::new(LOST, format!("{why}; {command}")))
    }
}

struct Watch<'a> {
    supervisor: &'a Supervisor,
    /// What is held, for people to read.
    path: String,
    supervised: Supervised,
    /// As the supervisor was told last.
    lease_end: Moment,
    loss: Option<Loss>,
    /// When the supervisor should have ended the command by itself, and is helped.
    overdue: Option<Pin<Box<Sleep>>>,
    /// Whether the command waits for the foreground of the terminal.
    wants_terminal: bool,
    /// Whether a process of the command could not be signalled.
    is_refused: bool,
    looks: Interval,
    orphans: Orphans,
    /// Until those are killed again who should be dead.
    pause: Duration,
}

impl Watch<'_> {
    /// Gives the last report: the command has ended, or cannot be started; `None` if the supervisor went before.
    async fn follow(&mut self, hold: &Watched, signals: &mut Signals) -> Option<Report> {
        let (mut lost, mut asked) = (pin!(hold.lost()), pin!(hold.revocation_requested()));
        let mut is_asked = false;
        loop {
            // Before it is asked for what is left: so no renewal is missed.
            let renewed = hold.lease_renewed();
            let kept = self.supervised.kept();
            if self.loss.is_none() {
                self.lease_end = self.lease_end.max(lease_end(hold));
                self.supervised.order(Order::Lease(self.lease_end));
            }
            tokio::select! {
                biased;
                report = self.supervised.report() => match report? {
                    last @ (Report::Ended(_) | Report::Failed { .. }) => return Some(last),
                    report => self.take(&report),
                },
                loss = &mut lost, if self.loss.is_none() => self.lost(loss),
                () = due(&mut self.overdue) => self.kill(),
                signal = signals.any() => self.pass_on(signal),
                () = &mut asked, if !is_asked => {
                    is_asked = true;
                    self.asked();
                }
                // Who puts us into the foreground need not say so.
                _ = self.looks.tick(), if self.wants_terminal => self.offer_terminal(),
                never = self.orphans.bury(&kept) => match never {},
                () = renewed, if self.loss.is_none() => {}
            }
        }
    }

    fn lost(&mut self, loss: Loss) {
        self.loss = Some(loss);
        self.supervised.order(Order::Lost);
        let wait = match (self.supervisor.on_lost, loss) {
            (OnLost::Warn, _) => {
                let path = &self.path;
                return say(&format!("lost {path}: {loss}; the command goes on"));
            }
            (OnLost::Term, loss) if loss != Loss::LeaseEnded => self.supervisor.kill_after,
            _ => Duration::ZERO,
        };
        self.overdue = Some(Box::pin(sleep(wait)));
    }

    /// Others may have the lock by now. The supervisor has killed the command, unless somebody stopped it.
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
        self.supervised.order(Order::Signal(signal));
    }

    /// If we are in the foreground.
    fn offer_terminal(&mut self) {
        if self.supervised.take_terminal() && std::mem::take(&mut self.wants_terminal) {
            self.supervised.order(Order::Signal(SIGCONT));
        }
    }

    fn asked(&mut self) {
        match self.supervisor.on_revoke {
            OnRevoke::Ignore => say("asked to give the lock back; ignored"),
            OnRevoke::Term => {
                self.supervised.order(Order::Signal(SIGTERM));
                say("asked to give the lock back: the command is told to end");
            }
        }
    }

    fn take(&mut self, report: &Report) {
        match report {
            Report::Stopped { continued: true, .. } => {
                say("the command cannot be suspended while it holds the lock");
            }
            Report::Refused(pid) => {
                self.is_refused = true;
                say(&format!("process {pid} of the command cannot be ended: it is another user's"));
            }
            Report::Stopped { signal: SIGTTIN | SIGTTOU, .. } => {
                self.wants_terminal = true;
                self.offer_terminal();
            }
            _ if !self.supervisor.verbose => {}
            Report::Started(pid) => say(&format!("the command runs as process {pid}")),
            Report::Ending(cause) => say(&format!("the command is ended: {}", why(*cause))),
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

fn cannot_start(error: io::Error) -> Failure {
    let too_long = error.kind() == io::ErrorKind::ArgumentListTooLong;
    let code = if too_long { CANNOT_EXECUTE } else { INTERNAL };
    Failure::new(code, format!("the command cannot be started: {error}"))
}

/// Who is suspended renews nothing, and keeps all others waiting.
fn go_on_at_ctrl_z() -> io::Result<()> {
    static ONCE: AtomicBool = AtomicBool::new(false);
    if !ONCE.swap(true, Ordering::Relaxed) {
        // A handler, which an `exec` takes away, not to ignore it.
        signal_hook::flag::register(SIGTSTP, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}

fn why(cause: Cause) -> &'static str {
    match cause {
        Cause::LeaseEnding => "no word from ZooKeeper, the lease is about to end",
        Cause::Lost => "the lock is lost",
        Cause::Orphaned => "nobody supervises it",
    }
}

/// Nobody may have looked for hours.
fn looks() -> Interval {
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}

/// On the safe side: the clock is read first.
fn lease_end(hold: &Watched) -> Moment {
    let now = Moment::now();
    now.after(hold.lease_left())
}

async fn due(time: &mut Option<Pin<Box<Sleep>>>) {
    match time {
        Some(time) => time.await,
        None => std::future::pending().await,
    }
}
