//! Rules 1 and 2.

use super::evidence::{Finding, Kind};
use super::holds::Hold;
use crate::log::{Mode, Nanos};

/// `holds` are in the order of their tokens; `limit` is how many leases there are.
pub(super) fn judge(holds: &[Hold], limit: usize, findings: &mut Vec<Finding>) {
    let mut judge = Judge { findings };
    judge.tokens_are_given_once(holds);
    judge.tokens_rise(holds);
    let mut claims: Vec<_> =
        holds.iter().filter_map(|hold| Some(Claim { of: hold.certain()?, hold })).collect();
    claims.sort_by_key(|claim| claim.of.0);
    judge.claims_do_not_overlap(&claims);
    claims.retain(|claim| claim.hold.mode == Mode::Lease);
    judge.leases_are_within_the_limit(&claims, limit);
}

struct Judge<'a> {
    findings: &'a mut Vec<Finding>,
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

    fn tokens_are_given_once(&mut self, holds: &[Hold]) {
        for pair in holds.windows(2) {
            let (one, other) = (&pair[0], &pair[1]);
            if one.token == other.token {
                let text = format!("{} and {} have the same token", one.name(), other.name());
                self.double(other, other.from, text);
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
                let wrong = wrong(older, younger);
                #[allow(clippy::cast_precision_loss)]
                let ms = (until - from) as f64 / 1e6;
                let both = format!("{} and {} both", other.hold.name(), hold.name());
                self.double(
                    wrong,
                    from,
                    format!("{both}, for {ms:.3} ms: {} is wrong", wrong.name()),
                );
            }
            open.push(*claim);
        }
    }

    /// The youngest lease of too many was admitted, though those before it had not ended.
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
            let older = &open[..open.len() - 1];
            let names: Vec<_> = open.iter().map(|claim| claim.hold.name()).collect();
            let text = format!("{} leases at once: {}", names.len(), names.join(", "));
            self.double(wrong_lease(older, claim.hold), from, text);
        }
    }

    /// A greater token was claimed earlier. Of two that may hold at a time neither must be the first.
    fn tokens_rise(&mut self, holds: &[Hold]) {
        // Of those with greater tokens.
        let (mut earliest, mut earliest_exclusive): (First<'_>, First<'_>) = (None, None);
        for hold in holds.iter().rev() {
            let Some((from, _)) = hold.certain() else { continue };
            let next = if hold.mode.is_exclusive() { earliest } else { earliest_exclusive };
            if let Some((earlier, other)) = next
                && earlier < from
            {
                let text = format!("{} claims after {} did", hold.name(), other.name());
                self.double(wrong(hold, other), from, text);
            }
            replace_later(&mut earliest, (from, hold));
            if hold.mode.is_exclusive() {
                replace_later(&mut earliest_exclusive, (from, hold));
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
