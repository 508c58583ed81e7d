//! The lease: the stretch of local time in which the servers cannot have expired an epoch's session.
//!
//! Let `T` be the session timeout. The lease ends `2T/3` after the *stamp* of the newest answered
//! probe; the stamp is taken before the probe is handed to the client. Why that is early enough: a
//! probe is a `sync` or a write, so its answer proves that the leader had heard of this session after
//! the stamp. The leader learns of live sessions at least every half tick, and expires none before
//! its timeout has passed since; with the roundings that is `stamp + 3T/4` at the earliest for
//! `T` = 2 ticks and `stamp + 5T/6` for 3 ticks and more. Reads, watch events and errors prove
//! nothing: a follower cut off from its leader gives them too.
//!
//! Taken for granted: that the newest report of the followers before the answer named this session. When a
//! probe was late, it may not have, and the margin shrinks to the rounding: see `docs/guarantees.md`.
//!
//! A lease that ended never comes back (invariant 5): a later answer starts a new *term*, and the
//! holds of the old one stay lost, even if nobody looked in between. Every function takes the
//! present as an argument, so a process that was stopped sees the truth at its first look, before any
//! timer fires.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::clock::Moment;
use crate::error::Loss;

/// One uninterrupted stretch of the lease. Every hold belongs to one.
#[derive(Debug, Default)]
pub(crate) struct Term {
    loss: OnceLock<Loss>,
    ended: CancellationToken,
}

impl Term {
    /// Fires when the term has ended; at once if it has.
    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    pub(crate) fn loss(&self) -> Option<Loss> {
        self.loss.get().copied()
    }

    fn end(&self, loss: Loss) {
        let _ = self.loss.set(loss); // the first cause stays
        self.ended.cancel();
    }
}

/// The lease of one epoch.
#[derive(Debug)]
pub(crate) struct Lease {
    length: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// `None` before the first answer, after the end of a term, and once closed.
    current: Option<(Arc<Term>, Moment)>,
    closed: bool,
}

impl Lease {
    /// `timeout` is `T`, the negotiated session timeout.
    pub(crate) fn new(timeout: Duration) -> Self {
        let state = State { current: None, closed: false };
        Self { length: timeout * 2 / 3, state: Mutex::new(state) }
    }

    /// An answered probe was handed to the client at `stamp`.
    pub(crate) fn renew(&self, stamp: Moment, now: Moment) {
        let end = stamp.after(self.length);
        let over = {
            let mut state = self.lock();
            let over = state.take_over_term(now);
            if !state.closed && end > now {
                match &mut state.current {
                    Some((_, current)) => *current = end.max(*current),
                    none => *none = Some((Arc::default(), end)),
                }
            }
            over
        };
        end_term(over, Loss::LeaseEnded);
    }

    /// The term that lasts at this instant.
    pub(crate) fn term(&self, now: Moment) -> Option<Arc<Term>> {
        let (over, term) = {
            let mut state = self.lock();
            let over = state.take_over_term(now);
            (over, state.current.as_ref().map(|(term, _)| term.clone()))
        };
        end_term(over, Loss::LeaseEnded);
        term
    }

    /// Whether `term` lasts at this instant.
    pub(crate) fn lasts(&self, term: &Arc<Term>, now: Moment) -> bool {
        self.term(now).is_some_and(|current| Arc::ptr_eq(&current, term))
    }

    /// When the present term ends unless it is renewed.
    pub(crate) fn end(&self) -> Option<Moment> {
        self.lock().current.as_ref().map(|(_, end)| *end)
    }

    /// Ends the lease for good: the epoch is over.
    pub(crate) fn close(&self, loss: Loss) {
        let over = {
            let mut state = self.lock();
            state.closed = true;
            state.current.take().map(|(term, _)| term)
        };
        end_term(over, loss);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics under this lock, and the state is whole between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take_over_term(&mut self, now: Moment) -> Option<Arc<Term>> {
        let over = self.current.as_ref().is_some_and(|(_, end)| now >= *end);
        if over { self.current.take().map(|(term, _)| term) } else { None }
    }
}

/// Outside the lock: it wakes whoever waits for the loss.
fn end_term(term: Option<Arc<Term>>, loss: Loss) {
    if let Some(term) = term {
        term.end(loss);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_millis(600);

    /// Milliseconds after an arbitrary point.
    fn at(milliseconds: u64) -> Moment {
        Moment::now_for_tests().after(Duration::from_millis(milliseconds))
    }

    impl Moment {
        fn now_for_tests() -> Self {
            use std::sync::LazyLock;
            static BASE: LazyLock<Moment> = LazyLock::new(Moment::now);
            *BASE
        }
    }

    #[test]
    fn there_is_no_term_before_the_first_answer() {
        let lease = Lease::new(T);
        assert!(lease.term(at(0)).is_none());
        assert_eq!(lease.end(), None);
    }

    #[test]
    fn it_ends_two_thirds_of_the_timeout_after_the_stamp_not_after_the_answer() {
        let lease = Lease::new(T);
        lease.renew(at(0), at(100));
        let term = lease.term(at(100)).unwrap();
        assert_eq!(lease.end(), Some(at(400)));
        assert!(lease.lasts(&term, at(399)));
        assert!(!term.ended().is_cancelled());
        assert!(!lease.lasts(&term, at(400)));
        assert!(term.ended().is_cancelled());
        assert_eq!(term.loss(), Some(Loss::LeaseEnded));
    }

    #[test]
    fn answers_extend_the_term_and_an_older_one_does_not_shorten_it() {
        let lease = Lease::new(T);
        lease.renew(at(0), at(1));
        let term = lease.term(at(1)).unwrap();
        lease.renew(at(300), at(301));
        lease.renew(at(100), at(302));
        assert_eq!(lease.end(), Some(at(700)));
        assert!(lease.lasts(&term, at(699)));
    }

    #[test]
    fn an_answer_after_the_end_starts_a_new_term_though_nobody_looked() {
        let lease = Lease::new(T);
        lease.renew(at(0), at(1));
        let old = lease.term(at(1)).unwrap();
        lease.renew(at(390), at(410));
        assert!(!lease.lasts(&old, at(411)));
        assert_eq!(old.loss(), Some(Loss::LeaseEnded));
        let new = lease.term(at(411)).unwrap();
        assert!(lease.lasts(&new, at(789)));
        assert!(!lease.lasts(&old, at(411)));
    }

    #[test]
    fn an_answer_that_comes_too_late_proves_nothing() {
        let lease = Lease::new(T);
        lease.renew(at(0), at(400));
        assert!(lease.term(at(400)).is_none());
    }

    #[test]
    fn a_closed_lease_stays_closed() {
        let lease = Lease::new(T);
        lease.renew(at(0), at(1));
        let term = lease.term(at(1)).unwrap();
        lease.close(Loss::SessionExpired);
        lease.close(Loss::Closed);
        assert_eq!(term.loss(), Some(Loss::SessionExpired));
        lease.renew(at(2), at(3));
        assert!(lease.term(at(3)).is_none());
    }
}
