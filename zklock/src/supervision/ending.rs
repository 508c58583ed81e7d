//! Decides when a command gets TERM, and when it is killed. Pure: the current time is an argument.
//!
//! The lease ends at least `T/24` before the servers can give the lock away, where `T` is the session timeout
//! (`session/lease` of the library). So a command that is killed at the end of the lease is dead before that. The
//! command gets TERM some time ahead of that. A supervisor that was frozen sees what is due as soon as it runs again.

use serde::{Deserialize, Serialize};

use super::clock::BootInstant;
use crate::arguments::{Grace, OnLost};

/// The rules by which a command is supervised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) on_lost: OnLost,
    pub(crate) grace: Grace,
    /// The end of the lease.
    pub(crate) lease_end: BootInstant,
}

/// The reason why a command was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cause {
    /// The lease was about to end.
    LeaseEnding,
    /// The lock was lost without a warning.
    Lost,
    /// `zklock` has ended.
    Orphaned,
}

/// The action that is due.
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
    /// TERM is due.
    TermDue,
    /// KILL is due at the given instant.
    Terminated(BootInstant),
    Killed,
}

impl Ending {
    pub(super) fn new(plan: Plan) -> Self {
        Self { plan, cause: None, phase: Phase::Running }
    }

    /// Returns the reason why the command was ended, if it was.
    pub(super) fn cause(&self) -> Option<Cause> {
        self.cause
    }

    pub(super) fn is_killed(&self) -> bool {
        self.phase == Phase::Killed
    }

    /// Returns the end of the lease, unless a loss is only reported.
    pub(super) fn lease_end(&self) -> Option<BootInstant> {
        (self.plan.on_lost != OnLost::Warn).then_some(self.plan.lease_end)
    }

    /// Extends the lease until `end`. An outdated order does not shorten it.
    pub(super) fn lease(&mut self, end: BootInstant) {
        self.plan.lease_end = self.plan.lease_end.max(end);
    }

    /// Handles the loss of the lock.
    pub(super) fn lost(&mut self) {
        match self.plan.on_lost {
            OnLost::Warn => {}
            OnLost::Term => self.terminate(Cause::Lost),
            OnLost::Kill => self.kill(Cause::Lost),
        }
    }

    /// Handles the end of `zklock`: no process is left to report a loss.
    pub(super) fn orphaned(&mut self) {
        self.kill(Cause::Orphaned);
    }

    /// Handles the command's own end: its remaining processes have to end, too.
    pub(super) fn command_ended(&mut self) {
        if self.phase == Phase::Running {
            self.phase = Phase::TermDue;
        }
    }

    fn terminate(&mut self, cause: Cause) {
        self.cause.get_or_insert(cause);
        if self.phase == Phase::Running {
            self.phase = Phase::TermDue;
        }
    }

    fn kill(&mut self, cause: Cause) {
        self.cause.get_or_insert(cause);
        if self.phase != Phase::Killed {
            self.phase = Phase::Terminated(BootInstant::default());
        }
    }

    /// Returns the action that is due at this instant; each action once.
    pub(super) fn due(&mut self, now: BootInstant) -> Due {
        if self.lease_end().is_some_and(|end| end <= now) {
            self.cause.get_or_insert(Cause::LeaseEnding);
        }
        if self.phase == Phase::Killed {
            return Due::Nothing;
        }
        if self.kill_at().is_some_and(|at| at <= now) {
            self.phase = Phase::Killed;
            return Due::Kill;
        }
        if self.phase == Phase::Running && self.term_at().is_some_and(|at| at <= now) {
            self.terminate(Cause::LeaseEnding);
        }
        if self.phase == Phase::TermDue {
            self.phase = Phase::Terminated(now.after(self.plan.grace.kill_after));
            return Due::Term;
        }
        Due::Nothing
    }

    /// Returns the time of the next action.
    pub(super) fn next(&self) -> Option<BootInstant> {
        match self.phase {
            Phase::Killed => None,
            Phase::TermDue => Some(BootInstant::default()),
            Phase::Running => self.term_at().or(self.kill_at()),
            Phase::Terminated(_) => self.kill_at(),
        }
    }

    fn term_at(&self) -> Option<BootInstant> {
        let has_term = self.plan.on_lost == OnLost::Term;
        has_term.then(|| self.plan.lease_end.before(self.plan.grace.notice))
    }

    fn kill_at(&self) -> Option<BootInstant> {
        let terminated = match self.phase {
            Phase::Terminated(kill_at) => Some(kill_at),
            _ => None,
        };
        self.lease_end().into_iter().chain(terminated).min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u32) -> BootInstant {
        BootInstant::default().after(SECOND * seconds)
    }

    /// The lease ends at 20, and TERM comes 5 before KILL.
    fn ending(on_lost: OnLost) -> Ending {
        let grace = Grace { kill_after: SECOND * 5, notice: SECOND * 5 };
        Ending::new(Plan { on_lost, grace, lease_end: at(20) })
    }

    #[test]
    fn the_end_of_a_lease_is_told_later_than_a_loss() {
        let grace = Grace { kill_after: SECOND * 5, notice: SECOND };
        let plan = Plan { on_lost: OnLost::Term, grace, lease_end: at(20) };
        let mut ending = Ending::new(plan.clone());
        assert_eq!((ending.due(at(18)), ending.next()), (Due::Nothing, Some(at(19))));
        assert_eq!((ending.due(at(19)), ending.due(at(20))), (Due::Term, Due::Kill));
        let mut lost = Ending::new(plan);
        lost.lost();
        assert_eq!(
            (lost.due(at(3)), lost.due(at(7)), lost.due(at(8))),
            (Due::Term, Due::Nothing, Due::Kill)
        );
    }

    #[test]
    fn the_command_is_told_ahead_of_the_end_of_the_lease_and_killed_at_it() {
        let mut ending = ending(OnLost::Term);
        assert_eq!((ending.next(), ending.due(at(14))), (Some(at(15)), Due::Nothing));
        assert_eq!((ending.due(at(15)), ending.due(at(15))), (Due::Term, Due::Nothing));
        assert_eq!((ending.next(), ending.due(at(19))), (Some(at(20)), Due::Nothing));
        assert_eq!((ending.due(at(20)), ending.due(at(21))), (Due::Kill, Due::Nothing));
        assert_eq!((ending.next(), ending.cause()), (None, Some(Cause::LeaseEnding)));
    }

    #[test]
    fn a_lease_that_is_renewed_puts_both_off_and_an_older_word_does_not_shorten_it() {
        let mut ending = ending(OnLost::Term);
        ending.lease(at(30));
        ending.lease(at(25));
        assert_eq!((ending.due(at(24)), ending.next()), (Due::Nothing, Some(at(25))));
        assert_eq!((ending.due(at(25)), ending.cause()), (Due::Term, Some(Cause::LeaseEnding)));
        ending.lease(at(60));
        assert_eq!((ending.due(at(30)), ending.is_killed()), (Due::Kill, true), "it had its time");
    }

    #[test]
    fn who_was_frozen_over_the_end_kills_at_its_first_look() {
        for on_lost in [OnLost::Term, OnLost::Kill] {
            let mut ending = ending(on_lost);
            assert_eq!(ending.due(at(100)), Due::Kill);
            assert_eq!(ending.cause(), Some(Cause::LeaseEnding));
        }
    }

    #[test]
    fn without_term_there_is_only_the_kill() {
        let mut ending = ending(OnLost::Kill);
        assert_eq!((ending.next(), ending.due(at(19))), (Some(at(20)), Due::Nothing));
        assert_eq!(ending.due(at(20)), Due::Kill);
    }

    #[test]
    fn a_lock_that_is_lost_at_once_is_told_at_once() {
        let mut term = ending(OnLost::Term);
        term.lost();
        assert_eq!((term.due(at(3)), term.cause()), (Due::Term, Some(Cause::Lost)));
        assert_eq!((term.due(at(7)), term.due(at(8))), (Due::Nothing, Due::Kill));
        let mut kill = ending(OnLost::Kill);
        kill.lost();
        kill.lease(at(40));
        assert_eq!((kill.due(at(3)), kill.cause()), (Due::Kill, Some(Cause::Lost)));
    }

    #[test]
    fn the_lease_bounds_the_time_that_a_command_is_given() {
        let mut ending = ending(OnLost::Term);
        ending.lost();
        assert_eq!((ending.due(at(18)), ending.next()), (Due::Term, Some(at(20))));
        assert_eq!(ending.due(at(20)), Due::Kill);
    }

    #[test]
    fn who_only_warns_ends_nothing_but_what_is_orphaned() {
        let mut ending = ending(OnLost::Warn);
        ending.lost();
        assert_eq!(
            (ending.due(at(100)), ending.next(), ending.cause()),
            (Due::Nothing, None, None)
        );
        ending.orphaned();
        assert_eq!((ending.due(at(100)), ending.cause()), (Due::Kill, Some(Cause::Orphaned)));
    }

    #[test]
    fn what_a_command_leaves_behind_is_given_time_and_has_no_cause() {
        let mut ending = ending(OnLost::Term);
        ending.command_ended();
        assert_eq!((ending.due(at(3)), ending.next()), (Due::Term, Some(at(8))));
        assert_eq!((ending.due(at(8)), ending.cause()), (Due::Kill, None));
    }

    #[test]
    fn a_command_that_ends_when_it_was_told_gets_no_second_term() {
        let mut ending = ending(OnLost::Term);
        assert_eq!(ending.due(at(15)), Due::Term);
        ending.command_ended();
        assert_eq!((ending.due(at(16)), ending.due(at(20))), (Due::Nothing, Due::Kill));
    }

    #[test]
    fn whoever_supervises_may_go_at_any_time() {
        type Before = fn(&mut Ending);
        let before: [Before; 4] = [
            |_| {},
            |ending| ending.lost(),
            |ending| ending.command_ended(),
            |ending| assert_eq!(ending.due(at(15)), Due::Term),
        ];
        for before in before {
            let mut ending = ending(OnLost::Term);
            before(&mut ending);
            ending.orphaned();
            assert_eq!(ending.next(), Some(BootInstant::default()));
            assert_eq!((ending.due(at(16)), ending.is_killed()), (Due::Kill, true));
        }
    }
}
