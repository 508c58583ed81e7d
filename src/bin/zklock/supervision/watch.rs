//! `zklock`'s part while a command runs: it passes on what it learns of the lock, signals, and requests.

use std::ffi::OsString;
use std::pin::Pin;
use std::time::Duration;

use signal_hook::consts::{SIGCONT, SIGTERM};
use tokio::time::{Sleep, sleep};
use zookeeper_recipes::{BoxFuture, Leadership, LockGuard, Loss};

use super::clock::Moment;
use super::command::{Environment, Supervised, let_go_of_input_and_output};
use super::ending::{Cause, Plan};
use super::wire::{Ended, Order, Report};
use crate::arguments::{OnLost, OnRevoke};
use crate::exit::{Failure, LOST, say};
use crate::signals::Signals;

/// How often those are killed who should be dead.
const AGAIN: Duration = Duration::from_millis(50);
/// After so many times a supervisor that says nothing is killed, too.
const TIMES: u32 = 40;

/// The exit code of what was killed, as a shell has it.
const KILLED: u8 = 128 + 9;

/// What is held.
pub(crate) trait Watched: Sync {
    fn lease_left(&self) -> Duration;
    fn lease_renewed(&self) -> BoxFuture<'static, Result<(), Loss>>;
    fn lost(&self) -> BoxFuture<'static, Loss>;
    fn revocation_requested(&self) -> BoxFuture<'static, Result<(), Loss>>;
}

/// How a command is supervised.
#[derive(Clone, Debug)]
pub(crate) struct Supervisor {
    /// What is held, for people to read.
    pub(crate) path: String,
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
}

impl Supervisor {
    /// Runs the command until nothing is left of it, or of its supervisor.
    pub(crate) async fn run(
        &self,
        command: &[OsString],
        environment: &Environment,
        hold: &impl Watched,
        signals: &mut Signals,
    ) -> Result<End, Failure> {
        let Self { on_lost, kill_after, .. } = *self;
        let plan = Plan { on_lost, kill_after, lease_end: lease_end(hold) };
        let supervised = Supervised::start(command, environment, plan)
            .map_err(|error| Failure::internal(format!("cannot start the supervisor: {error}")))?;
        if self.only {
            let_go_of_input_and_output()?;
        }
        let mut watch = Watch { supervisor: self, supervised, loss: None, overdue: None };
        let ended = watch.follow(hold, signals).await;
        let Some(Ended { code, cause, .. }) = ended else {
            watch.end_orphans().await;
            if let Some(loss) = watch.loss {
                return Ok(self.end(KILLED, Some(Cause::Lost), Some(loss)));
            }
            return Err(Failure::internal("the supervisor is gone; the command was ended"));
        };
        Ok(self.end(code, cause, watch.loss))
    }

    fn end(&self, code: u8, cause: Option<Cause>, loss: Option<Loss>) -> End {
        let is_told = loss.is_some() && self.on_lost == OnLost::Warn;
        End { path: self.path.clone(), code, cause, loss, is_told }
    }
}

impl End {
    /// What is to be said if the lock was not held to the end: it was lost as the supervision knows, or as `now` has it.
    pub(crate) fn failure(&self, now: Option<Loss>) -> Option<Failure> {
        let Self { path, code, cause, .. } = self;
        if self.is_told {
            return Some(Failure::told(LOST));
        }
        let why = match (self.loss.or(now), cause) {
            (Some(loss), _) => format!("lost {path}: {loss}"),
            // The lease was renewed after all, when the command had been told to end.
            (None, Some(_)) => format!("no word from ZooKeeper, {path} was about to be lost"),
            (None, None) => return None,
        };
        let command = match cause {
            Some(_) => "the command was ended".to_owned(),
            None => format!("the command ended by itself with {code}"),
        };
        Some(Failure::new(LOST, format!("{why}; {command}")))
    }
}

struct Watch<'a> {
    supervisor: &'a Supervisor,
    supervised: Supervised,
    loss: Option<Loss>,
    /// When the supervisor should have ended the command by itself.
    overdue: Option<Overdue>,
}

struct Overdue {
    at: Pin<Box<Sleep>>,
    times: u32,
}

impl Watch<'_> {
    /// Until the command has ended; `None` if the supervisor went before.
    async fn follow(&mut self, hold: &impl Watched, signals: &mut Signals) -> Option<Ended> {
        let (mut lost, mut asked) = (hold.lost(), hold.revocation_requested());
        let mut is_asked = false;
        loop {
            // Before it is asked for what is left: so no renewal is missed.
            let renewed = hold.lease_renewed();
            if self.loss.is_none() {
                self.supervised.order(&Order::Lease(lease_end(hold)));
            }
            tokio::select! {
                biased;
                report = self.supervised.report() => match report? {
                    Report::Ended(ended) => return Some(ended),
                    report => self.tell(&report),
                },
                loss = &mut lost, if self.loss.is_none() => self.lost(loss),
                () = overdue(&mut self.overdue) => self.kill(),
                signal = signals.any() => self.pass_on(signal),
                request = &mut asked, if !is_asked => {
                    is_asked = true;
                    if request.is_ok() {
                        self.asked();
                    }
                }
                _ = renewed, if self.loss.is_none() => {}
            }
        }
    }

    fn lost(&mut self, loss: Loss) {
        self.loss = Some(loss);
        self.supervised.order(&Order::Lost);
        let wait = match (self.supervisor.on_lost, loss) {
            (OnLost::Warn, _) => {
                let path = &self.supervisor.path;
                return say(&format!("lost {path}: {loss}; the command goes on"));
            }
            (OnLost::Term, loss) if loss != Loss::LeaseEnded => self.supervisor.kill_after,
            _ => Duration::ZERO,
        };
        self.overdue = Some(Overdue { at: Box::pin(sleep(wait)), times: 0 });
    }

    /// Others may have the lock by now. The supervisor has killed the command, unless it is stopped itself.
    fn kill(&mut self) {
        self.supervised.kill();
        if let Some(overdue) = &mut self.overdue {
            overdue.at = Box::pin(sleep(AGAIN));
            overdue.times += 1;
            if overdue.times > TIMES {
                self.supervised.kill_supervisor();
            }
        }
    }

    fn pass_on(&mut self, signal: i32) {
        if signal == SIGCONT {
            self.supervised.continued();
        }
        self.supervised.order(&Order::Signal(signal));
    }

    fn asked(&self) {
        match self.supervisor.on_revoke {
            OnRevoke::Ignore => say("asked to give the lock back; ignored"),
            OnRevoke::Term => {
                say("asked to give the lock back: the command is told to end");
                self.supervised.order(&Order::Signal(SIGTERM));
            }
        }
    }

    fn tell(&self, report: &Report) {
        match report {
            Report::Stopped { continued: true, .. } => {
                say("the command cannot be suspended while it holds the lock");
            }
            _ if !self.supervisor.verbose => {}
            Report::Started(pid) => say(&format!("the command runs as process {pid}")),
            Report::Ending(cause) => say(&format!("the command is ended: {}", why(*cause))),
            Report::Stopped { signal, .. } => {
                let name = signal_hook::low_level::signal_name(*signal).unwrap_or("a signal");
                say(&format!("the command was stopped by {name}"));
            }
            Report::Ended(_) => {}
        }
    }

    async fn end_orphans(&mut self) {
        while self.supervised.kill() {
            sleep(AGAIN).await;
        }
    }
}

fn why(cause: Cause) -> &'static str {
    match cause {
        Cause::LeaseEnding => "no word from ZooKeeper, the lease is about to end",
        Cause::Lost => "the lock is lost",
        Cause::Orphaned => "nobody supervises it",
    }
}

/// On the safe side: the clock is read first.
fn lease_end(hold: &impl Watched) -> Moment {
    let now = Moment::now();
    now.after(hold.lease_left())
}

async fn overdue(overdue: &mut Option<Overdue>) {
    match overdue {
        Some(overdue) => overdue.at.as_mut().await,
        None => std::future::pending().await,
    }
}

impl Watched for Box<dyn LockGuard> {
    fn lease_left(&self) -> Duration {
        (**self).lease_left()
    }

    fn lease_renewed(&self) -> BoxFuture<'static, Result<(), Loss>> {
        (**self).lease_renewed()
    }

    fn lost(&self) -> BoxFuture<'static, Loss> {
        (**self).lost()
    }

    fn revocation_requested(&self) -> BoxFuture<'static, Result<(), Loss>> {
        (**self).revocation_requested()
    }
}

impl Watched for Leadership {
    fn lease_left(&self) -> Duration {
        Self::lease_left(self)
    }

    fn lease_renewed(&self) -> BoxFuture<'static, Result<(), Loss>> {
        Box::pin(Self::lease_renewed(self))
    }

    fn lost(&self) -> BoxFuture<'static, Loss> {
        Box::pin(Self::lost(self))
    }

    fn revocation_requested(&self) -> BoxFuture<'static, Result<(), Loss>> {
        Box::pin(Self::revocation_requested(self))
    }
}
