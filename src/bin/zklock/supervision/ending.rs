//! When a command is told to end, and when it is killed. Pure: the present is an argument.
//!
//! Let `T` be the session timeout. The lease ends `2T/3` after the servers were last heard of, the servers can give the
//! lock away `3T/4` after that at the earliest: what is killed when the lease ends is dead before. It is told to end
//! some time ahead of that. Whoever is frozen and goes on later sees at its first look what is due.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clock::Moment;
use crate::arguments::OnLost;

/// What a command is supervised by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) on_lost: OnLost,
    /// From TERM to KILL.
    pub(crate) kill_after: Duration,
    /// When the lease ends.
    pub(crate) lease_end: Moment,
}

/// Why a command was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cause {
    /// The lease was about to end.
    LeaseEnding,
    /// The lock was lost all at once.
    Lost,
    /// Whoever supervises is gone.
    Orphaned,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    Term,
    Kill,
}

#[derive(Debug)]
pub(super) struct Ending {
    plan: Plan,
    cause: Option<Cause>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// Is to be told to end.
    Told,
    /// Was told to end, and is killed then.
    Terminated(Moment),
    Killed,
}

impl Ending {
    pub(super) fn new(plan: Plan) -> Self {
        Self { plan, cause: None, phase: Phase::Running }
    }

    /// Why the command was ended, if it was.
    pub(super) fn cause(&self) -> Option<Cause> {
        self.cause
    }

    pub(super) fn is_killed(&self) -> bool {
        self.phase == Phase::Killed
    }

    /// The lease lasts until `end`. An older word does not shorten it.
    pub(super) fn lease(&mut self, end: Moment) {
        self.plan.lease_end = self.plan.lease_end.max(end);
    }

    /// The lock is lost.
    pub(super) fn lost(&mut self) {
        match self.plan.on_lost {
            OnLost::Warn => {}
            OnLost::Term => self.tell(Cause::Lost),
            OnLost::Kill => self.kill(Cause::Lost),
        }
    }

    /// Nobody is left who would say that the lock is lost.
    pub(super) fn orphaned(&mut self) {
        self.kill(Cause::Orphaned);
    }

    /// The command ended by itself; what is left of its processes is to end, too.
    pub(super) fn command_ended(&mut self) {
        if self.phase == Phase::Running {
            self.phase = Phase::Told;
        }
    }

    fn tell(&mut self, cause: Cause) {
        self.cause.get_or_insert(cause);
        if self.phase == Phase::Running {
            self.phase = Phase::Told;
        }
    }

    fn kill(&mut self, cause: Cause) {
        self.cause.get_or_insert(cause);
        if self.phase != Phase::Killed {
            self.phase = Phase::Terminated(Moment::default());
        }
    }

    /// What is due at this instant; each thing once.
    pub(super) fn due(&mut self, now: Moment) -> Due {
        if self.phase == Phase::Killed {
            return Due::Nothing;
        }
        if self.kill_at().is_some_and(|at| at <= now) {
            if self.lease_end().is_some_and(|end| end <= now) {
                self.cause.get_or_insert(Cause::LeaseEnding);
            }
            self.phase = Phase::Killed;
            return Due::Kill;
        }
        if self.phase == Phase::Running && self.tell_at().is_some_and(|at| at <= now) {
            self.tell(Cause::LeaseEnding);
        }
        if self.phase == Phase::Told {
            self.phase = Phase::Terminated(now.after(self.plan.kill_after));
            return Due::Term;
        }
        Due::Nothing
    }

    /// When something is due next.
    pub(super) fn next(&self) -> Option<Moment> {
        match self.phase {
            Phase::Killed => None,
            Phase::Told => Some(Moment::default()),
            Phase::Running => self.tell_at().or(self.kill_at()),
            Phase::Terminated(_) => self.kill_at(),
        }
    }

    fn lease_end(&self) -> Option<Moment> {
        (self.plan.on_lost != OnLost::Warn).then_some(self.plan.lease_end)
    }

    fn tell_at(&self) -> Option<Moment> {
        let tells = self.plan.on_lost == OnLost::Term;
        tells.then(|| self.plan.lease_end.before(self.plan.kill_after))
    }

    fn kill_at(&self) -> Option<Moment> {
        let terminated = match self.phase {
            Phase::Terminated(kill_at) => Some(kill_at),
            _ => None,
        };
        self.lease_end().into_iter().chain(terminated).min()
    }
}
