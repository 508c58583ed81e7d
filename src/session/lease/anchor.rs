//! The length of the session lease: which answered probe is certain to have reached the leader's clock, and the proof. Pure: no
//! I/O, no clock.
//!
//! # Two points of time of a probe
//!
//! Let `T` be the session timeout. A *probe* is a `sync` or a write. Reads, watch events and errors prove nothing, because a
//! follower that is cut off from its leader gives them too. Two points of time are known of each answered probe: its *stamp*,
//! taken before the probe was handed to the client, and the moment when its answer was seen. In between the client's server
//! received the probe, and had a connection to the leader.
//!
//! That alone does not move the leader's clock for the session: a forwarded request does not restart it. The followers
//! *report* every half tick the sessions that they heard of, and a report restarts it. Half a tick is at most `T/4`
//! ([`REPORT_INTERVAL`]), because `T` is at least two ticks: *Guarantees* excludes servers that grant less. So when a probe was
//! answered, and another one that was handed over `T/4` later was answered as well, a report in between reached the leader, and
//! named the session after the stamp of the first. The newest such first probe is the *anchor*, and the leader expires the session
//! at `anchor + T` at the earliest.
//!
//! The leader takes part in opening a session, and in resuming it on another connection (`touchSession`, in Apache
//! ZooKeeper's `Leader.revalidateSession`): either is an anchor by itself. A connection was asked for after the one before it
//! was last *seen connected*, and that moment is the anchor's time. So a rolling restart of the servers, with connections in
//! between that are too short for a second probe, leaves no old anchor behind.
//!
//! # The end of the lease
//!
//! The lease ends at `2T/3` after the stamp of the newest answered probe ([`LEASE_AFTER_PROBE`]), and at `23T/24` after the
//! anchor ([`LEASE_AFTER_ANCHOR`]), whichever comes first. With a probe every `T/7` ([`PROBE_INTERVAL`]) that is answered
//! within `T/28` ([`ANSWER_TIME`]), the anchor is `2T/7` older than the newest probe, and the second bound does not shorten the
//! first. When probes were late, because the process was stopped or the link stalled, it does.
//!
//! # When a hold may begin
//!
//! A session that was opened or resumed after an outage has an anchor from before the outage. Its lease may end before two
//! probes have moved the anchor, although every probe is answered. So a hold *begins* only if probes that are sent and
//! answered on time will renew the lease before it ends ([`Anchors::can_sustain`]).
//!
//! A probe with stamp `s`, answered at `a`, becomes the anchor when a probe that was handed over at `a + T/4` or later is
//! answered. The timer hands that probe over `T/7` later at most. Where this could be too late, the next check sends an
//! *early* probe ([`Anchors::needs_early_probe`]). Checks come every `T/28` ([`CHECK_INTERVAL`]), so with `T/28` for the answer
//! the first probe is the anchor by `max(a + T/4, now) + T/14` ([`EARLY_PROBE_ANSWERED`]). That must be no later than `23T/24`
//! after the anchor before it, for each answered probe, and for the next one, which is answered by `now + T/7 + T/28`
//! ([`NEXT_PROBE_ANSWERED`]).
//!
//! A request that waited for the connection has an old stamp and a late answer, so as the anchor it would renew nothing. With
//! probes on time the condition always holds. A session that was opened within `0.6 T` fulfils it with its first answer, if
//! that takes no longer than `T/28`. A hold that joins a term that lasts has the condition as well: otherwise it could end at
//! once.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::BootInstant;

/// A follower reports its sessions to the leader at least this often: every half tick, and `T` is at least two ticks.
const REPORT_INTERVAL: Fraction = Fraction::new(1, 4);

/// The timer sends a probe each time this has passed, while a task holds or waits.
pub(crate) const PROBE_INTERVAL: Fraction = Fraction::new(1, 7);

/// While no task holds or waits, one of this number of probes is sent, so that the next hold starts with a lease.
pub(crate) const IDLE_PROBES: u32 = 2;

/// The supervisor checks this often whether the connection is up, and whether a probe must be sent early. No request is made
/// for a check.
pub(crate) const CHECK_INTERVAL: Fraction = Fraction::new(1, 28);

/// A probe on time is answered within this time.
const ANSWER_TIME: Fraction = Fraction::new(1, 28);

/// The next probe of the timer is answered within this time (`5/28`).
const NEXT_PROBE_ANSWERED: Fraction = PROBE_INTERVAL.plus(ANSWER_TIME);

/// A probe that the next check sends is answered within this time (`1/14`).
const EARLY_PROBE_ANSWERED: Fraction = CHECK_INTERVAL.plus(ANSWER_TIME);

/// The lease ends this long after the stamp of the newest answered probe.
pub(super) const LEASE_AFTER_PROBE: Fraction = Fraction::new(2, 3);

/// The lease ends this long after the anchor. The leader expires the session `T` after the anchor, so `T/24` is left for clocks
/// of different rates.
const LEASE_AFTER_ANCHOR: Fraction = Fraction::new(23, 24);

/// This number of probes is remembered for each [`REPORT_INTERVAL`]: writes may come in thousands.
const PENDING_PER_REPORT: u32 = 16;

/// A fraction of the session timeout `T`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fraction {
    numerator: u32,
    denominator: u32,
}

impl Fraction {
    const fn new(numerator: u32, denominator: u32) -> Self {
        Self { numerator, denominator }
    }

    const fn plus(self, other: Self) -> Self {
        Self {
            numerator: self.numerator * other.denominator + other.numerator * self.denominator,
            denominator: self.denominator * other.denominator,
        }
    }

    /// This fraction of `timeout`.
    pub(crate) fn of(self, timeout: Duration) -> Duration {
        timeout * self.numerator / self.denominator
    }
}

/// The anchor of one session, and the probes that may become it.
#[derive(Debug)]
pub(super) struct Anchors {
    /// `T`.
    timeout: Duration,
    /// The newest moment at which the leader is certain to have heard of the session, or later.
    anchor: BootInstant,
    /// When the present connection was last seen up.
    last_connected: BootInstant,
    /// Later probes that are answered, in order.
    pending: VecDeque<Probe>,
}

/// An answered probe.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// Taken before the probe was handed to the client.
    stamp: BootInstant,
    /// When the answer was seen.
    answered: BootInstant,
}

impl Anchors {
    /// The session was asked for at `opened` at the earliest.
    pub(super) fn new(timeout: Duration, opened: BootInstant) -> Self {
        Self { timeout, anchor: opened, last_connected: opened, pending: VecDeque::new() }
    }

    /// Records the answer to a probe, and returns the end of the lease that it proves.
    pub(super) fn probe_answered(
        &mut self,
        stamp: BootInstant,
        answered: BootInstant,
    ) -> BootInstant {
        self.advance(stamp);
        self.remember(Probe { stamp, answered });
        let by_probe = stamp.after(LEASE_AFTER_PROBE.of(self.timeout));
        let by_anchor = self.anchor.after(LEASE_AFTER_ANCHOR.of(self.timeout));
        by_probe.min(by_anchor)
    }

    /// A probe that was handed over at `stamp` is answered: moves the anchor to the probes that were reported by then.
    fn advance(&mut self, stamp: BootInstant) {
        while let Some(probe) = self.pending.front()
            && self.reported_by(probe) <= stamp
        {
            self.anchor = self.anchor.max(probe.stamp);
            self.pending.pop_front();
        }
    }

    fn remember(&mut self, probe: Probe) {
        let apart = REPORT_INTERVAL.of(self.timeout) / PENDING_PER_REPORT;
        if self.pending.back().is_none_or(|last| last.stamp.after(apart) <= probe.stamp) {
            self.pending.push_back(probe);
        }
    }

    /// Returns by when a follower that answered `probe`, and is still connected to the leader, has reported the session.
    fn reported_by(&self, probe: &Probe) -> BootInstant {
        probe.answered.after(REPORT_INTERVAL.of(self.timeout))
    }

    /// The present connection was still up at `moment`.
    pub(super) fn seen_connected(&mut self, moment: BootInstant) {
        self.last_connected = self.last_connected.max(moment);
    }

    /// The session was resumed on another connection.
    pub(super) fn resumed(&mut self) {
        self.anchor = self.anchor.max(self.last_connected);
    }

    /// Returns true if probes on time will renew the lease from now on: each becomes the anchor before the lease that the one
    /// before it proves ends.
    pub(super) fn can_sustain(&self, now: BootInstant) -> bool {
        let next = Probe { stamp: now, answered: now.after(NEXT_PROBE_ANSWERED.of(self.timeout)) };
        let mut anchor = self.anchor;
        for probe in self.pending.iter().chain([&next]) {
            let moved =
                self.reported_by(probe).max(now).after(EARLY_PROBE_ANSWERED.of(self.timeout));
            if moved > anchor.after(LEASE_AFTER_ANCHOR.of(self.timeout)) {
                return false;
            }
            anchor = anchor.max(probe.stamp);
        }
        true
    }

    /// Returns true if a probe that is sent now moves the anchor, and the next probe of the timer could be too late for that.
    pub(super) fn needs_early_probe(&self, now: BootInstant) -> bool {
        let Some(oldest) = self.pending.front() else {
            return false;
        };
        let moves_anchor = self.reported_by(oldest) <= now;
        let next_answered = now.after(NEXT_PROBE_ANSWERED.of(self.timeout));
        moves_anchor && next_answered > self.anchor.after(LEASE_AFTER_ANCHOR.of(self.timeout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::at;

    const T: Duration = Duration::from_millis(2400);

    /// Opened at 0.
    fn anchors() -> Anchors {
        Anchors::new(T, at(0))
    }

    /// The figures of the proof.
    #[test]
    fn the_fractions_are_those_of_the_proof() {
        let t = Duration::from_secs(7 * 24);
        for (fraction, numerator, denominator) in [
            (REPORT_INTERVAL, 1, 4),
            (PROBE_INTERVAL, 1, 7),
            (CHECK_INTERVAL, 1, 28),
            (ANSWER_TIME, 1, 28),
            (NEXT_PROBE_ANSWERED, 5, 28),
            (EARLY_PROBE_ANSWERED, 1, 14),
            (LEASE_AFTER_PROBE, 2, 3),
            (LEASE_AFTER_ANCHOR, 23, 24),
        ] {
            assert_eq!(fraction.of(t), t * numerator / denominator, "{fraction:?}");
        }
        // If probes are on time, the anchor is two probe intervals old, and does not shorten the lease.
        let two_probes = PROBE_INTERVAL.of(t) * 2;
        assert!(ANSWER_TIME.of(t) + REPORT_INTERVAL.of(t) <= two_probes);
        assert!(two_probes + LEASE_AFTER_PROBE.of(t) <= LEASE_AFTER_ANCHOR.of(t));
    }

    #[test]
    fn probes_on_time_renew_in_full() {
        let mut anchors = anchors();
        for stamp in (0..20).map(|n| n * 2400 / 7) {
            let end = anchors.probe_answered(at(stamp), at(stamp + 80));
            assert_eq!(end, at(stamp + 1600));
        }
    }

    /// Invariant 5: the leader may not have heard of a late probe, though its answer came through it.
    #[test]
    fn a_late_probe_counts_only_as_far_as_the_leader_must_have_heard_of_an_earlier_one() {
        let mut anchors = anchors();
        let mut answered = |stamp, now| anchors.probe_answered(at(stamp), at(now));
        answered(0, 10);
        // No report is certain within a quarter of the timeout after the answer.
        assert_eq!(answered(600, 605), at(2200));
        // The process was stopped. The probe of 600 is certain.
        assert_eq!(answered(2100, 2105), at(600 + 2300));
        // Sent while the link was stalled: received together with the next one, so it makes nothing more certain.
        assert_eq!(answered(2200, 2690), at(600 + 2300));
        assert_eq!(answered(2680, 2691), at(600 + 2300));
        assert_eq!(answered(2705, 2710), at(2705 + 1600));
    }

    /// Connections too short for two probes, as in a rolling restart: the leader hears of each.
    #[test]
    fn a_session_that_was_resumed_was_heard_of_after_its_last_connection_was_up() {
        let mut anchors = anchors();
        for from in [0, 500, 1000, 1500, 2000] {
            anchors.resumed();
            assert_eq!(anchors.probe_answered(at(from), at(from + 1)), at(from + 1600));
            anchors.seen_connected(at(from + 200));
        }
        // No check saw the last connection up.
        anchors.resumed();
        anchors.probe_answered(at(3000), at(3001));
        anchors.resumed();
        assert_eq!(anchors.probe_answered(at(3550), at(3551)), at(2200 + 2300));
    }

    /// A connection that is up proves nothing about the leader.
    #[test]
    fn a_connection_that_is_up_is_no_anchor() {
        let mut anchors = anchors();
        anchors.probe_answered(at(0), at(1));
        anchors.seen_connected(at(1500));
        assert_eq!(anchors.probe_answered(at(1500), at(1501)), at(2300));
    }

    #[test]
    fn thousands_of_writes_take_a_bounded_memory_and_little_of_the_lease() {
        let mut anchors = anchors();
        for stamp in 0..10_000 {
            let end = anchors.probe_answered(at(stamp), at(stamp + 1));
            assert!(anchors.pending.len() <= 18);
            assert!(end >= at(stamp + 1600), "{stamp}");
        }
    }

    #[test]
    fn probes_on_time_are_not_sent_early() {
        let mut anchors = anchors();
        for stamp in (0..20).map(|n| n * 2400 / 7) {
            anchors.probe_answered(at(stamp), at(stamp + 80));
            assert!((stamp..stamp + 420).all(|now| !anchors.needs_early_probe(at(now))), "{stamp}");
        }
    }

    /// The process was stopped: no hold begins until the next probes have moved the anchor, and one is sent early for that.
    #[test]
    fn a_late_probe_sustains_nothing_and_asks_for_an_early_one() {
        let mut anchors = anchors();
        anchors.probe_answered(at(0), at(10));
        assert_eq!(anchors.probe_answered(at(1590), at(1595)), at(2300));
        assert!(!anchors.can_sustain(at(1600)));
        assert!(!anchors.needs_early_probe(at(2194)));
        assert!(anchors.needs_early_probe(at(2195)));
    }

    /// `T` is a multiple of all denominators, so a point of time can be hit exactly.
    #[test]
    fn the_last_moments_that_are_in_time() {
        let t = Duration::from_millis(28 * 24);
        let mut anchors = Anchors::new(t, at(0));
        // The next probe is answered 120 ms later, reported by 168 ms after that, and the anchor 48 ms later. The lease is 644 ms.
        assert!(anchors.can_sustain(at(308)));
        assert!(!anchors.can_sustain(at(309)));
        anchors.probe_answered(at(0), at(10));
        assert!(!anchors.needs_early_probe(at(524)));
        assert!(anchors.needs_early_probe(at(525)));
    }

    /// Found by the simulation: the last request was handed over before an outage and answered after it, so neither
    /// it nor the answered probe before it renews the lease until the next one.
    #[test]
    fn a_request_that_waited_for_the_connection_sustains_nothing() {
        let mut anchors = anchors();
        anchors.probe_answered(at(0), at(10));
        anchors.probe_answered(at(160), at(165));
        assert_eq!(anchors.probe_answered(at(700), at(2001)), at(2300));
        assert!(!anchors.can_sustain(at(2002)));
    }
}
