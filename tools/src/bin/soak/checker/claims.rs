//! Rules 1 and 2.

use super::evidence::{Finding, Kind};
use super::holds::Hold;
use super::strikes::Strike;
use crate::log::{MILLISECOND, Mode, Nanos};

/// An overlap that no lock could have avoided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Excused {
    pub(crate) at: Nanos,
    pub(crate) long: Nanos,
}

/// `holds` are in the order of their tokens; `limit` is how many leases there are.
pub(super) fn judge(
    holds: &[Hold],
    limit: usize,
    strikes: &[Strike],
    findings: &mut Vec<Finding>,
) -> Vec<Excused> {
    let mut judge = Judge { strikes, findings, excused: Vec::new() };
    judge.nobody_believes_beyond_the_grace(holds);
    judge.tokens_are_given_once(holds);
    judge.tokens_rise(holds);
    let mut claims: Vec<_> =
        holds.iter().filter_map(|hold| Some(Claim { of: hold.certain()?, hold })).collect();
    claims.sort_by_key(|claim| claim.of.0);
    judge.claims_do_not_overlap(&claims);
    claims.retain(|claim| claim.hold.mode == Mode::Lease);
    judge.leases_are_within_the_limit(&claims, limit);
    judge.excused
}

struct Judge<'a> {
    strikes: &'a [Strike],
    findings: &'a mut Vec<Finding>,
    excused: Vec<Excused>,
}

#[derive(Clone, Copy)]
struct Claim<'a> {
    of: (Nanos, Nanos),
    hold: &'a Hold,
}

/// When it claims, and who does.
type First<'a> = Option<(Nanos, &'a Hold)>;

impl Judge<'_> {
    fn double(&mut self, wrong: &Hold, at: Nanos, text: String) {
        let peer = wrong.peer.clone();
        self.findings.push(Finding { kind: Kind::Double, peer, at, text });
    }

    fn is_excused(&self, hold: &Hold, from: Nanos, to: Nanos) -> bool {
        self.strikes.iter().any(|strike| strike.excuses(hold, from, to))
    }

    fn tokens_are_given_once(&mut self, holds: &[Hold]) {
        for pair in holds.windows(2) {
            let (one, other) = (&pair[0], &pair[1]);
            if one.token == other.token && !one.is_one_with(other) && !other.is_again(one) {
                let text = format!("{} and {} have the same token", one.name(), other.name());
                self.double(other, other.from, text);
            }
        }
    }

    fn nobody_believes_beyond_the_grace(&mut self, holds: &[Hold]) {
        for hold in holds {
            let Some((_, last)) = hold.claim else { continue };
            let until = self.strikes.iter().filter(|strike| strike.hits(hold));
            if let Some(until) = until.map(|strike| strike.until(hold)).min()
                && last > until
            {
                let over = (last - until) / MILLISECOND;
                self.double(
                    hold,
                    last,
                    format!("{} said yes {over} ms beyond the grace", hold.name()),
                );
            }
        }
    }

    fn claims_do_not_overlap(&mut self, by_time: &[Claim<'_>]) {
        let mut open: Vec<Claim<'_>> = Vec::new();
        for claim in by_time {
            let ((from, to), hold) = (claim.of, claim.hold);
            open.retain(|other| other.of.1 >= from);
            for other in open.iter().filter(|other| other.hold.excludes(hold)) {
                let until = to.min(other.of.1);
                let mut by_token = [hold, other.hold];
                by_token.sort_by_key(|hold| hold.token);
                let [older, younger] = by_token;
                if self.is_excused(older, from, until) {
                    self.excused.push(Excused { at: from, long: until - from });
                } else {
                    #[allow(clippy::cast_precision_loss)]
                    let ms = (until - from) as f64 / 1e6;
                    let text =
                        format!("{} and {} both, for {ms:.3} ms", other.hold.name(), hold.name());
                    let wrong = wrong(older, younger);
                    self.double(wrong, from, format!("{text}: {} is wrong", wrong.name()));
                }
            }
            open.push(*claim);
        }
    }

    /// Of so many as there must not be the youngest was let in, though those before it had not ended; if enough of
    /// them were struck, they had.
    fn leases_are_within_the_limit(&mut self, by_time: &[Claim<'_>], limit: usize) {
        let mut open: Vec<Claim<'_>> = Vec::new();
        for claim in by_time {
            let from = claim.of.0;
            open.retain(|other| other.of.1 >= from);
            open.push(*claim);
            if open.len() <= limit {
                continue;
            }
            open.sort_by_key(|claim| claim.hold.token);
            let until = open.iter().map(|claim| claim.of.1).min().unwrap_or(from);
            let older = &open[..open.len() - 1];
            let there = older.iter().filter(|claim| !self.is_excused(claim.hold, from, until));
            if there.count() < limit {
                self.excused.push(Excused { at: from, long: until - from });
            } else {
                let names: Vec<_> = open.iter().map(|claim| claim.hold.name()).collect();
                let text = format!("{} leases at once: {}", names.len(), names.join(", "));
                self.double(wrong_lease(older, claim.hold), from, text);
            }
        }
    }

    /// A greater token was claimed earlier. Of two who may hold at a time neither must be the first.
    fn tokens_rise(&mut self, holds: &[Hold]) {
        // Of those with greater tokens.
        let (mut earliest, mut earliest_exclusive): (First<'_>, First<'_>) = (None, None);
        for same in holds.chunk_by(|one, other| one.token == other.token).rev() {
            let claims = || same.iter().filter_map(|hold| Some((hold.certain()?, hold)));
            for ((from, to), hold) in claims() {
                let next = if hold.mode.is_exclusive() { earliest } else { earliest_exclusive };
                if let Some((earlier, other)) = next
                    && earlier < from
                    && !self.is_excused(hold, earlier, to)
                {
                    let text = format!("{} claims after {} did", hold.name(), other.name());
                    self.double(wrong(hold, other), from, text);
                }
            }
            for ((from, _), hold) in claims() {
                replace_later(&mut earliest, (from, hold));
                if hold.mode.is_exclusive() {
                    replace_later(&mut earliest_exclusive, (from, hold));
                }
            }
        }
    }
}

/// The one of two holds that believed wrongly. The worker of the younger one listed the nodes before it claimed anything. If the
/// older node was there, the younger one was admitted too early. Otherwise the older one believed without its node.
fn wrong<'a>(older: &'a Hold, younger: &'a Hold) -> &'a Hold {
    if younger.behind.contains(&older.node) { younger } else { older }
}

/// The lease of a peer that believed without its node, or else the one that was let in.
fn wrong_lease<'a>(older: &[Claim<'a>], younger: &'a Hold) -> &'a Hold {
    let mut older = older.iter().map(|claim| claim.hold);
    let is_gone = |hold: &&Hold| hold.peer.is_some() && !younger.behind.contains(&hold.node);
    older.find(is_gone).unwrap_or(younger)
}

fn replace_later<'a>(earliest: &mut First<'a>, with: (Nanos, &'a Hold)) {
    if earliest.is_none_or(|(from, _)| with.0 < from) {
        *earliest = Some(with);
    }
}
