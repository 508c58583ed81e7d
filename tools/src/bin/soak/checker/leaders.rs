//! Rules 9 to 11, which are for leaders and for who observes them.

use super::evidence::{Evidence, Finding, Kind};
use super::holds::Hold;
use crate::log::{Event, MILLISECOND, Mode, Nanos, SECOND, What};

/// Beside the expiry of sessions, and mostly at the same time: a client that connects again after its back-off, the
/// hand-over, and a machine that has other work.
const AND_SOME: Nanos = 10 * SECOND;

/// What became of them, where there were any.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leaders {
    /// From the healing to the first moment at which somebody led.
    pub(crate) after_healing: Option<Nanos>,
    /// Leaders that the observer was told of.
    pub(crate) observed: usize,
}

/// `holds` are in the order of their tokens.
pub(super) fn judge(
    evidence: &Evidence,
    holds: &[Hold],
    healed: Nanos,
    findings: &mut Vec<Finding>,
) -> Option<Leaders> {
    let terms: Vec<_> = holds.iter().filter(|hold| hold.mode == Mode::Leader).collect();
    if terms.is_empty() {
        return None;
    }
    a_node_has_one_token(&terms, findings);
    Some(Leaders {
        after_healing: somebody_leads(&terms, healed, findings),
        observed: observed(evidence, &terms, findings),
    })
}

/// Rule 9.
fn a_node_has_one_token(terms: &[&Hold], findings: &mut Vec<Finding>) {
    let mut by_node = terms.to_vec();
    by_node.sort_by_key(|term| (&term.node, term.from));
    for pair in by_node.windows(2) {
        let (one, other) = (pair[0], pair[1]);
        if one.node == other.node && one.token != other.token {
            let text = format!("{} led by {}, {} does", one.name(), one.node, other.name());
            findings.push(Finding { kind: Kind::Double, peer: None, at: other.from, text });
        }
    }
}

/// Rule 10. What has to be waited for is the session of a leader that is gone. The servers expire it `T` after they last
/// heard of it, or after the ensemble came back, at the next tick; they grant no session shorter than two ticks, so that
/// is half a session more at most. The longest of the sessions is meant.
fn somebody_leads(terms: &[&Hold], healed: Nanos, findings: &mut Vec<Finding>) -> Option<Nanos> {
    let longest = terms.iter().map(|term| term.timeout).max().unwrap_or(0);
    let bound = longest * 3 / 2 + AND_SOME;
    let claims = terms.iter().filter_map(|term| term.certain());
    let led = claims.filter(|(_, to)| *to >= healed).map(|(from, _)| from.saturating_sub(healed));
    let time = led.min();
    let text = match time.map(|time| time / MILLISECOND) {
        None => "nobody led after the healing".to_owned(),
        Some(late) if late > bound / MILLISECOND => {
            format!("nobody led for {late} ms after the healing")
        }
        Some(_) => return time,
    };
    findings.push(Finding { kind: Kind::Hung, peer: None, at: healed, text });
    time
}

/// Rule 11. Says how many leaders it was told of.
fn observed(evidence: &Evidence, terms: &[&Hold], findings: &mut Vec<Finding>) -> usize {
    let Some(events) = &evidence.observed else { return 0 };
    let mut newest = 0;
    let (mut told, mut last) = (0, None);
    let mut ended = None;
    for Event(at, what) in events {
        let What::Observes { leader } = what else {
            ended = Some(what);
            continue;
        };
        last = leader.as_ref();
        let Some((id, token)) = leader else { continue };
        told += 1;
        let mut finding =
            |text| findings.push(Finding { kind: Kind::Double, peer: None, at: *at, text });
        if *token < newest {
            finding(format!("the observer was told of token {token} after {newest}"));
        }
        newest = newest.max(*token);
        let term = terms.iter().find(|term| term.token == *token);
        if let Some(term) = term.filter(|term| term.identity() != *id) {
            finding(format!("the observer was told that {id} is {}", term.name()));
        }
    }
    let at = events.last().map_or(0, |event| event.0);
    let mut hung = |text| findings.push(Finding { kind: Kind::Hung, peer: None, at, text });
    if let Some(ended) = ended {
        hung(format!("the observer ended: {ended:?}"));
    }
    if told == 0 {
        hung("the observer was told of no leader".to_owned());
    }
    if let Some((id, token)) = last {
        hung(format!("the observer takes {id} with token {token} for the leader, and all rest"));
    }
    told
}
