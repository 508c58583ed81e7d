//! Rules 5 and 8: the counters. Each value names the token it was written with, and each try says what it read, so what was
//! written when can be followed back from the last value to the first.

use std::collections::{BTreeMap, BTreeSet};

use super::evidence::{Evidence, Finding, Kind, Value, WorkerLog};
use super::holds::Hold;
use super::strikes::Strike;
use crate::log::{Counter, Event, Nanos, Outcome, What};

#[derive(Clone, Copy, Debug)]
struct Write {
    at: Nanos,
    row: usize,
    read: Value,
    outcome: Outcome,
}

pub(super) fn judge(evidence: &Evidence, findings: &mut Vec<Finding>) {
    let ends = [(Counter::ZooKeeper, evidence.zookeeper), (Counter::Store, evidence.store)];
    for (counter, end) in ends {
        let mut writes = BTreeMap::new();
        for log in &evidence.workers {
            read(log, counter, &mut writes);
        }
        follow(counter, end, &writes, findings);
    }
}

/// By what was written, and with which token.
fn read(log: &WorkerLog, wanted: Counter, writes: &mut BTreeMap<Value, Write>) {
    let mut last: Option<Value> = None;
    for Event(at, what) in &log.events {
        match what {
            What::Tries { counter, token, read, by } if *counter == wanted => {
                let (row, read, outcome) = (log.row, (*read, *by), Outcome::Unknown);
                let value = (read.0 + 1, *token);
                writes.insert(value, Write { at: *at, row, read, outcome });
                last = Some(value);
            }
            What::Wrote { counter, outcome, .. } if *counter == wanted => {
                if let Some(write) = last.take().and_then(|value| writes.get_mut(&value)) {
                    write.outcome = *outcome;
                }
            }
            _ => {}
        }
    }
}

fn follow(
    counter: Counter,
    end: Value,
    writes: &BTreeMap<Value, Write>,
    findings: &mut Vec<Finding>,
) {
    let mut stale = |at, text| {
        let text = format!("{counter:?}: {text}");
        findings.push(Finding { kind: Kind::StaleWrite, peer: None, at, text });
    };
    let mut chain = BTreeSet::new();
    let mut value = end;
    while value.0 > 0 {
        let (number, token) = value;
        let Some(write) = writes.get(&value) else {
            stale(0, format!("nobody wrote {number} with token {token}"));
            break;
        };
        chain.insert(value);
        if write.outcome == Outcome::Refused {
            stale(write.at, format!("{number} with token {token} was refused, and is there"));
        }
        if token < write.read.1 {
            stale(write.at, format!("{number} has token {token}, after {}", write.read.1));
        }
        value = write.read;
    }
    for (value, write) in writes {
        if write.outcome == Outcome::Accepted && !chain.contains(value) {
            let ((number, token), row) = (value, write.row);
            stale(write.at, format!("{number} with token {token}, of worker {row}, is lost"));
        }
    }
}

/// Rule 8. What was read before a yes was read under the lock, but for those that were struck.
pub(super) fn readers_see_no_change(
    holds: &[Hold],
    strikes: &[Strike],
    findings: &mut Vec<Finding>,
) {
    for hold in holds {
        let Some((_, last)) = hold.claim else { continue };
        let hit = strikes.iter().filter(|strike| strike.hits(hold)).map(|strike| strike.sent).min();
        let seen: Vec<_> =
            hold.seen.iter().filter(|(at, _)| *at <= hit.unwrap_or(last).min(last)).collect();
        for pair in seen.windows(2) {
            let ((_, one), (at, other)) = (pair[0], pair[1]);
            // The write hold that it was taken beside has the same token.
            let (_, by) = other;
            if one == other || *by == hold.token {
                continue;
            }
            let text = format!("{} saw {one:?} become {other:?}", hold.name());
            findings.push(Finding { kind: Kind::StaleWrite, peer: None, at: *at, text });
        }
    }
}
