//! Rules 1 and 2, and what is excused.

use super::{Evidence, Finding, Hold, Kind};
use crate::log::{Event, MILLISECOND, Nanos, What};

/// An administrator deleted a node, or a second connection closed a session.
#[derive(Clone, Debug)]
pub(super) struct Strike {
    victim: Victim,
    sent: Nanos,
    /// When it had taken effect for certain.
    pub(super) done: Nanos,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Victim {
    Node(String),
    Session(i64),
}

/// An overlap that no lock could have avoided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Excused {
    pub(crate) at: Nanos,
    pub(crate) long: Nanos,
}

pub(super) fn strikes(evidence: &Evidence) -> Vec<Strike> {
    let logs = evidence.workers.iter().map(|log| &log.events).chain([&evidence.faults]);
    let mut strikes = Vec::new();
    for events in logs {
        let begin = strikes.len();
        for Event(at, what) in events {
            match what {
                What::Kills { session } => strikes.push(strike(Victim::Session(*session), *at)),
                What::Deletes { node } => strikes.push(strike(Victim::Node(node.clone()), *at)),
                What::Killed { session, known: true } => {
                    confirm(&mut strikes[begin..], &Victim::Session(*session), *at);
                }
                What::Deleted { node, known: true } => {
                    confirm(&mut strikes[begin..], &Victim::Node(node.clone()), *at);
                }
                _ => {}
            }
        }
    }
    strikes
}

fn strike(victim: Victim, sent: Nanos) -> Strike {
    Strike { victim, sent, done: Nanos::MAX }
}

fn confirm(strikes: &mut [Strike], victim: &Victim, done: Nanos) {
    if let Some(strike) = strikes.iter_mut().rev().find(|strike| strike.victim == *victim) {
        strike.done = done;
    }
}

impl Strike {
    fn hits(&self, hold: &Hold) -> bool {
        match &self.victim {
            Victim::Node(node) => *node == hold.node,
            Victim::Session(session) => *session == hold.session,
        }
    }

    /// Until when the holder may believe.
    fn until(&self, hold: &Hold) -> Nanos {
        let lease = hold.timeout * 2 / 3;
        let grace = match self.victim {
            Victim::Node(_) => hold.timeout / 6 + lease,
            Victim::Session(_) => lease,
        };
        self.done.saturating_add(grace)
    }

    fn excuses(&self, hold: &Hold, from: Nanos, to: Nanos) -> bool {
        self.hits(hold) && self.sent <= from && to <= self.until(hold)
    }
}

/// `holds` are in the order of their tokens.
pub(super) fn judge(
    holds: &[Hold],
    strikes: &[Strike],
    findings: &mut Vec<Finding>,
) -> Vec<Excused> {
    let mut judge = Judge { strikes, findings, excused: Vec::new() };
    judge.tokens_are_given_once(holds);
    judge.nobody_believes_beyond_the_grace(holds);
    judge.claims_do_not_overlap(holds);
    judge.tokens_rise(holds);
    judge.excused
}

struct Judge<'a> {
    strikes: &'a [Strike],
    findings: &'a mut Vec<Finding>,
    excused: Vec<Excused>,
}

impl Judge<'_> {
    fn double(&mut self, at: Nanos, text: String) {
        self.findings.push(Finding { kind: Kind::Double, at, text });
    }

    fn is_excused(&self, hold: &Hold, from: Nanos, to: Nanos) -> bool {
        self.strikes.iter().any(|strike| strike.excuses(hold, from, to))
    }

    fn tokens_are_given_once(&mut self, holds: &[Hold]) {
        for pair in holds.windows(2).filter(|pair| pair[0].token == pair[1].token) {
            let text = format!("{} and {} have the same token", pair[0].name(), pair[1].name());
            self.double(pair[1].from, text);
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
                self.double(last, format!("{} said yes {over} ms beyond the grace", hold.name()));
            }
        }
    }

    fn claims_do_not_overlap(&mut self, holds: &[Hold]) {
        let mut by_time: Vec<_> =
            holds.iter().filter_map(|hold| Some((hold.certain()?, hold))).collect();
        by_time.sort_by_key(|((from, _), _)| *from);
        let mut open: Vec<((Nanos, Nanos), &Hold)> = Vec::new();
        for ((from, to), hold) in by_time {
            open.retain(|((_, end), _)| *end >= from);
            for ((_, end), other) in &open {
                let until = to.min(*end);
                let older = if other.token < hold.token { *other } else { hold };
                let long = until - from;
                if self.is_excused(older, from, until) {
                    self.excused.push(Excused { at: from, long });
                } else {
                    #[allow(clippy::cast_precision_loss)]
                    let ms = long as f64 / 1e6;
                    let text = format!("{} and {} both, for {ms:.3} ms", other.name(), hold.name());
                    self.double(from, text);
                }
            }
            open.push(((from, to), hold));
        }
    }

    /// A greater token was claimed earlier.
    fn tokens_rise(&mut self, holds: &[Hold]) {
        let mut next: Option<(Nanos, &Hold)> = None;
        for hold in holds.iter().rev() {
            let Some((from, to)) = hold.certain() else { continue };
            if let Some((earlier, other)) = next
                && earlier < from
                && !self.is_excused(hold, earlier, to)
            {
                let text = format!("{} claims after {} did", hold.name(), other.name());
                self.double(from, text);
            }
            if next.is_none_or(|(earliest, _)| from < earliest) {
                next = Some((from, hold));
            }
        }
    }
}
