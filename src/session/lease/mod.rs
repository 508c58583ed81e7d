//! The session lease: the stretch of local time in which the servers cannot have expired the session. [`anchor`] computes its
//! end, and has the proof.
//!
//! A lease that ended never comes back (invariant 5): a later answer starts a new *term*, and the holds of the old one stay
//! lost, even if no caller checked in between. Every function takes the present as an argument, so a process that was stopped
//! sees the truth at its first check, before any timer fires.

pub(crate) mod anchor;
mod policy;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::anchor::{Anchors, LEASE_AFTER_PROBE};
pub use self::policy::LossPolicy;
use super::observed::Holds;
use crate::clock::BootInstant;
use crate::error::Loss;
use crate::sync::{Mutex, OnceLock};

/// The kind of a hold. Holds of one kind share a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TermKind {
    pub(crate) policy: LossPolicy,
    /// The holds last while the connection is being closed, until the bodies that work under them have ended.
    pub(crate) outlasts_closing: bool,
}

impl From<LossPolicy> for TermKind {
    fn from(policy: LossPolicy) -> Self {
        Self { policy, outlasts_closing: false }
    }
}

/// One uninterrupted stretch in which the holds of one kind last. Every hold belongs to one.
#[derive(Debug)]
pub(crate) struct LeaseTerm {
    kind: TermKind,
    loss: OnceLock<Loss>,
    ended: CancellationToken,
    /// The holds of the term, for those that observe the library.
    pub(crate) holds: Holds,
}

impl LeaseTerm {
    pub(crate) fn kind(&self) -> TermKind {
        self.kind
    }

    fn new(kind: TermKind) -> Arc<Self> {
        Arc::new(Self {
            kind,
            loss: OnceLock::new(),
            ended: CancellationToken::new(),
            holds: Holds::default(),
        })
    }

    /// Fires when the term has ended; at once if it has.
    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    pub(crate) fn loss(&self) -> Option<Loss> {
        self.loss.get().copied()
    }
}

/// The lease of one session.
#[derive(Debug)]
pub(crate) struct Lease {
    timeout: Duration,
    state: Mutex<State>,
    /// Notified after each renewal.
    renewals: watch::Sender<()>,
}

#[derive(Debug)]
struct State {
    /// `None` before the first answer, after the end, and once closed.
    end: Option<BootInstant>,
    /// The terms that last. Each is created by the first caller that asks for its kind.
    terms: Vec<Arc<LeaseTerm>>,
    anchors: Anchors,
    suspended: bool,
    /// No term begins any more.
    closing: bool,
    closed: bool,
}

/// The terms of a lease, checked at one instant.
#[derive(Debug)]
pub(crate) struct LeaseTerms {
    /// The terms that have ended. Wake their holders.
    pub(crate) ended: EndedTerms,
    /// The term in which a hold may begin.
    pub(crate) current: Option<Arc<LeaseTerm>>,
}

impl Lease {
    /// `timeout` is `T`, the negotiated session timeout. The session was asked for at `opened` at the earliest.
    pub(crate) fn new(timeout: Duration, opened: BootInstant) -> Self {
        let state = State {
            end: None,
            terms: Vec::new(),
            anchors: Anchors::new(timeout, opened),
            suspended: false,
            closing: false,
            closed: false,
        };
        Self { timeout, state: Mutex::new(state), renewals: watch::Sender::new(()) }
    }

    /// A probe that was handed to the client at `stamp` is answered.
    pub(crate) fn renew(&self, stamp: BootInstant, now: BootInstant) {
        let ended = {
            let mut state = self.state.lock();
            let ended = state.end_if_over(now);
            let end = state.anchors.probe_answered(stamp, now);
            if !state.closed && end > now {
                state.end = state.end.max(Some(end));
            }
            ended
        };
        ended.wake();
        if self.renewals.receiver_count() > 0 {
            self.renewals.send_replace(());
        }
    }

    /// Notifies of each renewal from now on.
    pub(crate) fn renewals(&self) -> watch::Receiver<()> {
        self.renewals.subscribe()
    }

    /// Returns the term of `kind` that lasts at this instant. No term begins under a lease that the next probes do not renew
    /// in time: wait for one of the [`renewals`](Self::renewals), and ask again.
    pub(crate) fn term(
        &self,
        kind: impl Into<TermKind>,
        now: BootInstant,
    ) -> Option<Arc<LeaseTerm>> {
        let LeaseTerms { ended, current } = self.terms(kind.into(), now);
        ended.wake();
        current
    }

    /// As [`term`](Self::term), for a caller that wakes the holders when it has released its own locks.
    pub(crate) fn terms(&self, kind: TermKind, now: BootInstant) -> LeaseTerms {
        let mut state = self.state.lock();
        let ended = state.end_if_over(now);
        let current = state.term(kind, now);
        LeaseTerms { ended, current }
    }

    /// Returns true if a probe must be sent now, ahead of the timer.
    pub(crate) fn needs_early_probe(&self, now: BootInstant) -> bool {
        self.state.lock().anchors.needs_early_probe(now)
    }

    /// Returns how `term` has ended, if it has at this instant.
    pub(crate) fn loss(&self, term: &LeaseTerm, now: BootInstant) -> Option<Loss> {
        self.check(now).wake();
        term.loss()
    }

    /// Ends the terms that are over at this instant, for a caller that wakes the holders when it has released its own locks.
    pub(crate) fn check(&self, now: BootInstant) -> EndedTerms {
        self.state.lock().end_if_over(now)
    }

    /// Returns when the lease ends unless it is renewed.
    pub(crate) fn end(&self) -> Option<BootInstant> {
        self.state.lock().end
    }

    /// Returns which part of a whole lease is left; `None` without one.
    pub(crate) fn left_ratio(&self, now: BootInstant) -> Option<f64> {
        let left = self.end().filter(|end| *end > now)?.since(now);
        Some(left.as_secs_f64() / LEASE_AFTER_PROBE.of(self.timeout).as_secs_f64())
    }

    /// The session's connection was up after `moment`, and it was the same one until then.
    pub(crate) fn seen_connected(&self, moment: BootInstant) {
        self.state.lock().anchors.seen_connected(moment);
    }

    /// The connection broke.
    pub(crate) fn suspend(&self) {
        let ended = {
            let mut state = self.state.lock();
            state.suspended = true;
            state.end_terms(Loss::Suspended, |kind| kind.policy == LossPolicy::Suspended)
        };
        ended.wake();
    }

    /// The session has another connection.
    pub(crate) fn resume(&self) {
        let mut state = self.state.lock();
        state.suspended = false;
        state.anchors.resumed();
    }

    /// The connection is to be closed: no term begins any more, and the only holds that last are those under which bodies work. The
    /// lease is renewed for them.
    pub(crate) fn begin_closing(&self) {
        let ended = {
            let mut state = self.state.lock();
            state.closing = true;
            state.end_terms(Loss::Closed, |kind| !kind.outlasts_closing)
        };
        ended.wake();
    }

    /// Ends the lease for good: the session is over.
    pub(crate) fn close(&self, loss: Loss) {
        let ended = {
            let mut state = self.state.lock();
            state.closed = true;
            state.end = None;
            state.end_terms(loss, |_| true)
        };
        ended.wake();
    }
}

impl State {
    fn term(&mut self, kind: TermKind, now: BootInstant) -> Option<Arc<LeaseTerm>> {
        self.end?;
        if self.closing || self.suspended && kind.policy == LossPolicy::Suspended {
            return None;
        }
        if !self.anchors.can_sustain(now) {
            return None;
        }
        let existing = self.terms.iter().find(|term| term.kind == kind).cloned();
        Some(existing.unwrap_or_else(|| {
            let term = LeaseTerm::new(kind);
            self.terms.push(term.clone());
            term
        }))
    }

    fn end_if_over(&mut self, now: BootInstant) -> EndedTerms {
        match self.end {
            Some(end) if now >= end => {
                self.end = None;
                let ends = |kind: TermKind| kind.policy != LossPolicy::SessionExpired;
                let ended = self.end_terms(Loss::LeaseEnded, ends);
                EndedTerms { since: Some(end), ..ended }
            }
            _ => EndedTerms { terms: Vec::new(), since: None },
        }
    }

    /// Ends the terms of these kinds. A caller that asks for their loss from now on gets this cause.
    fn end_terms(&mut self, loss: Loss, which: impl Fn(TermKind) -> bool) -> EndedTerms {
        let ended: Vec<_> = self.terms.extract_if(.., |term| which(term.kind)).collect();
        for term in &ended {
            // The list had the term until now, so no cause is set yet.
            let _ = term.loss.set(loss);
        }
        EndedTerms { terms: ended, since: None }
    }
}

/// Terms that have ended, and whose holders are not notified yet. To notify them runs callers' code, so a caller of the lease
/// does it when no lock is held.
#[derive(Debug)]
#[must_use]
pub(crate) struct EndedTerms {
    terms: Vec<Arc<LeaseTerm>>,
    /// When the lease ended, if that ended the terms.
    since: Option<BootInstant>,
}

impl EndedTerms {
    /// Returns true if a hold or a view of one is left in one of the terms.
    pub(crate) fn had_holds(&self) -> bool {
        self.terms.iter().any(|term| Arc::strong_count(term) > 1)
    }

    /// Notifies the holders, and then the metrics, which may take their time. Call it outside any lock.
    pub(crate) fn wake(self) {
        for term in &self.terms {
            term.ended.cancel();
        }
        for term in self.terms {
            if let Some(loss) = term.loss() {
                term.holds.ended(loss, self.since);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Wake, Waker};

    use super::*;
    use crate::clock::at;

    const T: Duration = Duration::from_millis(2400);
    const LEASE: LossPolicy = LossPolicy::Lease;

    /// Opened at 0.
    fn lease() -> Lease {
        Lease::new(T, at(0))
    }

    #[test]
    fn there_is_no_term_before_the_first_answer() {
        let lease = lease();
        assert!(lease.term(LEASE, at(0)).is_none());
        assert_eq!(lease.end(), None);
    }

    #[test]
    fn it_ends_two_thirds_of_the_timeout_after_the_stamp_not_after_the_answer() {
        let lease = lease();
        lease.renew(at(0), at(100));
        let term = lease.term(LEASE, at(100)).unwrap();
        assert_eq!(lease.end(), Some(at(1600)));
        assert_eq!(lease.loss(&term, at(1599)), None);
        assert!(!term.ended().is_cancelled());
        assert_eq!(lease.loss(&term, at(1600)), Some(Loss::LeaseEnded));
        assert!(term.ended().is_cancelled());
    }

    #[test]
    fn answers_extend_the_term_and_an_older_one_does_not_shorten_it() {
        let lease = lease();
        lease.renew(at(0), at(1));
        let term = lease.term(LEASE, at(1)).unwrap();
        lease.renew(at(300), at(301));
        lease.renew(at(100), at(302));
        assert_eq!(lease.end(), Some(at(1900)));
        assert_eq!(lease.loss(&term, at(1899)), None);
    }

    #[test]
    fn answers_after_the_end_start_a_new_term_though_no_caller_checked() {
        let lease = lease();
        lease.renew(at(0), at(1));
        let old = lease.term(LEASE, at(1)).unwrap();
        lease.renew(at(1590), at(1610));
        assert_eq!(lease.loss(&old, at(1611)), Some(Loss::LeaseEnded));
        assert!(lease.term(LEASE, at(1611)).is_none(), "the anchor is that of the old one");
        lease.renew(at(2220), at(2230));
        let new = lease.term(LEASE, at(2230)).unwrap();
        assert_eq!(lease.loss(&new, at(3819)), None);
        assert_eq!(lease.loss(&old, at(2231)), Some(Loss::LeaseEnded));
    }

    /// Probes as the supervisor sends them from `first` on, each answered 80 ms later: a term that began is not lost. Returns when
    /// it began.
    fn term_under_probes_on_time(lease: &Lease, first: u64) -> u64 {
        let mut begun: Option<(u64, Arc<LeaseTerm>)> = None;
        for check in 0..80 {
            let now = first + check * 2400 / 28;
            if check % 4 != 0 && !lease.needs_early_probe(at(now)) {
                continue;
            }
            if let Some((since, term)) = &begun {
                assert_eq!(lease.loss(term, at(now + 79)), None, "begun at {since}, {first}");
            }
            lease.renew(at(now), at(now + 80));
            let term = lease.term(LEASE, at(now + 80));
            begun = begun.or(term.map(|term| (now + 80, term)));
        }
        begun.unwrap_or_else(|| panic!("no term began, {first}")).0
    }

    /// The anchor is as old as the dial took, whether the first answer is to a probe or to a create.
    #[test]
    fn a_term_that_begins_after_a_slow_dial_lasts_while_probes_are_answered() {
        for dial in (0..6000).step_by(100) {
            for phase in (0..=340).step_by(20) {
                let lease = lease();
                lease.renew(at(dial), at(dial + 20));
                let at_once = lease.term(LEASE, at(dial + 20));
                assert_eq!(at_once.is_some(), dial <= 1500, "{dial}");
                let begun = term_under_probes_on_time(&lease, dial + phase);
                assert!(begun <= dial + 20 + 2400 * 9 / 28, "{dial} {phase}: {begun}");
                if let Some(term) = at_once {
                    assert_eq!(term.loss(), None, "{dial} {phase}");
                }
            }
        }
    }

    /// The anchor is as old as the last sight of the old connection.
    #[test]
    fn a_term_that_begins_after_an_outage_lasts_while_probes_are_answered() {
        for outage in (0..3400).step_by(100) {
            for phase in (0..=340).step_by(20) {
                let lease = lease();
                lease.renew(at(0), at(20));
                let old = lease.term(LEASE, at(20)).unwrap();
                lease.seen_connected(at(100));
                lease.suspend();
                lease.resume();
                let resumed = 100 + outage;
                lease.renew(at(resumed), at(resumed + 20));
                let at_once = lease.term(LEASE, at(resumed + 20));
                assert_eq!(at_once.is_some(), outage <= 1500, "{outage}");
                let is_lost = lease.loss(&old, at(resumed + 20)).is_some();
                assert_eq!(is_lost, outage >= 1500, "{outage}: a term that lasts is shared");
                let begun = term_under_probes_on_time(&lease, resumed + phase);
                assert!(begun <= resumed + 20 + 2400 * 9 / 28, "{outage} {phase}: {begun}");
                if let Some(term) = at_once {
                    assert_eq!(term.loss(), None, "{outage} {phase}");
                }
            }
        }
    }

    /// The process was stopped, with the effect of an outage.
    #[test]
    fn no_term_begins_after_a_late_probe_until_the_next_ones_have_moved_the_anchor() {
        let lease = lease();
        lease.renew(at(0), at(10));
        lease.renew(at(1590), at(1595));
        assert_eq!(lease.end(), Some(at(2300)));
        assert!(lease.term(LEASE, at(1600)).is_none());
        assert_eq!(term_under_probes_on_time(&lease, 1940), 2197 + 80);
    }

    #[test]
    fn an_answer_that_comes_too_late_proves_nothing() {
        let lease = lease();
        lease.renew(at(0), at(1600));
        assert_eq!(lease.end(), None);
        assert!(lease.term(LEASE, at(1600)).is_none());
    }

    #[test]
    fn what_is_left_is_a_part_of_a_whole_lease() {
        let lease = lease();
        assert_eq!(lease.left_ratio(at(0)), None);
        lease.renew(at(0), at(100));
        for (now, left) in [(0, 1.0), (400, 0.75), (1200, 0.25)] {
            let is = lease.left_ratio(at(now)).unwrap();
            assert!((is - left).abs() < 1e-9, "{is} at {now}");
        }
        assert_eq!(lease.left_ratio(at(1600)), None, "it has ended, and no caller has checked");
        lease.close(Loss::Closed);
        assert_eq!(lease.left_ratio(at(0)), None);
    }

    #[test]
    fn each_renewal_is_notified() {
        let lease = lease();
        let mut renewals = lease.renewals();
        for stamp in [0, 300] {
            assert!(!renewals.has_changed().unwrap());
            lease.renew(at(stamp), at(stamp + 1));
            assert!(renewals.has_changed().unwrap());
            renewals.mark_unchanged();
        }
        let later = lease.renewals();
        assert!(!later.has_changed().unwrap(), "an earlier renewal");
    }

    /// The anchor decides; see its tests.
    #[test]
    fn an_early_probe_is_needed_only_after_a_late_one() {
        let lease = lease();
        lease.renew(at(0), at(10));
        assert!(!lease.needs_early_probe(at(700)));
        lease.renew(at(1590), at(1595));
        assert!(lease.needs_early_probe(at(2195)));
    }

    #[test]
    fn a_closed_lease_stays_closed() {
        let lease = lease();
        lease.renew(at(0), at(1));
        let term = lease.term(LEASE, at(1)).unwrap();
        lease.close(Loss::SessionExpired);
        lease.close(Loss::Closed);
        assert_eq!(term.loss(), Some(Loss::SessionExpired));
        lease.renew(at(2), at(3));
        assert!(lease.term(LEASE, at(3)).is_none());
    }

    /// The bodies under the holds that last are cancelled when the lease ends, as ever.
    #[test]
    fn while_it_is_closing_only_holds_of_bodies_last_and_the_lease_is_renewed_for_them() {
        let lease = lease();
        lease.renew(at(0), at(1));
        let body = TermKind { policy: LEASE, outlasts_closing: true };
        let term = lease.term(LEASE, at(1)).unwrap();
        let works = lease.term(body, at(1)).unwrap();
        assert!(!Arc::ptr_eq(&term, &works));
        lease.begin_closing();
        assert_eq!((term.loss(), works.loss()), (Some(Loss::Closed), None));
        assert!(lease.term(LEASE, at(2)).is_none() && lease.term(body, at(2)).is_none());
        lease.renew(at(1500), at(1501));
        assert_eq!(lease.loss(&works, at(2299)), None);
        lease.renew(at(1800), at(1801));
        assert_eq!(lease.loss(&works, at(3800)), Some(Loss::LeaseEnded));
        assert!(works.ended().is_cancelled());
        // No term begins after the end of the lease.
        lease.renew(at(3900), at(3901));
        assert!(lease.term(body, at(3902)).is_none());
    }

    /// Records on its wake-up whether the lease was unlocked.
    #[derive(Debug)]
    struct Waiter {
        lease: Arc<Lease>,
        found_free: OnceLock<bool>,
    }

    impl Wake for Waiter {
        fn wake(self: Arc<Self>) {
            let _ = self.found_free.set(!self.lease.state.is_locked());
        }
    }

    /// A woken task may ask the lease, and must not keep another caller from asking.
    #[test]
    fn waiters_for_the_loss_are_woken_outside_the_lock() {
        type Ends = fn(&Lease, &LeaseTerm);
        let ways: [(&str, LossPolicy, Ends); 6] = [
            ("loss", LEASE, |lease, term| assert!(lease.loss(term, at(1600)).is_some())),
            ("term", LEASE, |lease, _| assert!(lease.term(LEASE, at(1600)).is_none())),
            ("renew", LEASE, |lease, _| lease.renew(at(1590), at(1610))),
            ("suspend", LossPolicy::Suspended, |lease, _| lease.suspend()),
            ("closing", LEASE, |lease, _| lease.begin_closing()),
            ("close", LEASE, |lease, _| lease.close(Loss::Closed)),
        ];
        for (way, policy, end) in ways {
            let lease = Arc::new(lease());
            lease.renew(at(0), at(1));
            let term = lease.term(policy, at(1)).unwrap();
            let waiter = Arc::new(Waiter { lease: lease.clone(), found_free: OnceLock::new() });
            let waker = Waker::from(waiter.clone());
            let mut lost = pin!(term.ended().cancelled());
            assert!(lost.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            end(&lease, &term);
            assert_eq!(waiter.found_free.get(), Some(&true), "{way}");
        }
    }

    #[test]
    fn holds_share_the_term_of_their_policy() {
        let lease = lease();
        lease.renew(at(0), at(1));
        let policies = [LEASE, LossPolicy::Suspended, LossPolicy::SessionExpired];
        let terms = || policies.map(|policy| lease.term(policy, at(1)).unwrap());
        let first = terms();
        for (term, policy) in first.iter().zip(policies) {
            assert_eq!(term.kind, policy.into());
        }
        for (term, again) in first.iter().zip(&terms()) {
            assert!(Arc::ptr_eq(term, again), "{:?}", term.kind);
        }
    }

    /// Each policy: how a suspension ends it, how the end of the lease ends it.
    #[test]
    fn each_policy_survives_its_part() {
        let table = [
            (LossPolicy::Lease, None, Some(Loss::LeaseEnded)),
            (LossPolicy::Suspended, Some(Loss::Suspended), Some(Loss::LeaseEnded)),
            (LossPolicy::SessionExpired, None, None),
        ];
        for (policy, by_suspension, by_the_lease) in table {
            let suspended = lease();
            suspended.renew(at(0), at(1));
            let term = suspended.term(policy, at(1)).unwrap();
            suspended.suspend();
            assert_eq!(term.loss(), by_suspension, "{policy:?}");
            assert_eq!(suspended.loss(&term, at(2)), by_suspension, "{policy:?}");
            suspended.resume();
            assert_eq!(suspended.loss(&term, at(2)), by_suspension, "{policy:?}");

            let ended = lease();
            ended.renew(at(0), at(1));
            let term = ended.term(policy, at(1)).unwrap();
            assert_eq!(ended.loss(&term, at(1600)), by_the_lease, "{policy:?}");
            assert!(
                ended.term(policy, at(1601)).is_none(),
                "handed out without a lease: {policy:?}"
            );
            ended.close(Loss::SessionExpired);
            assert_eq!(term.loss(), Some(by_the_lease.unwrap_or(Loss::SessionExpired)));
        }
    }

    #[test]
    fn nothing_is_handed_out_under_the_suspended_policy_while_suspended() {
        let lease = lease();
        lease.renew(at(0), at(1));
        lease.suspend();
        assert!(lease.term(LossPolicy::Suspended, at(2)).is_none());
        assert!(lease.term(LEASE, at(2)).is_some());
        lease.resume();
        assert!(lease.term(LossPolicy::Suspended, at(2)).is_some());
    }
}
