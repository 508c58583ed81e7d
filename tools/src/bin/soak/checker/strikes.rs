//! What somebody did to a node or a session from elsewhere, and how long the hold that was hit may believe.

use super::evidence::Evidence;
use super::holds::Hold;
use crate::log::{Event, Nanos, What};

/// An administrator deleted a node, or a second connection closed a session.
#[derive(Clone, Debug)]
pub(super) struct Strike {
    victim: Victim,
    pub(super) sent: Nanos,
    /// When it had taken effect for certain.
    pub(super) done: Nanos,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Victim {
    Node(String),
    Session(i64),
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
    pub(super) fn hits(&self, hold: &Hold) -> bool {
        match &self.victim {
            Victim::Node(path) => *path == hold.node,
            Victim::Session(session) => *session == hold.session,
        }
    }

    /// Until when the holder may believe.
    pub(super) fn until(&self, hold: &Hold) -> Nanos {
        let lease = hold.timeout * 2 / 3;
        let grace = match self.victim {
            Victim::Node(_) => hold.timeout / 6 + lease,
            Victim::Session(_) => lease,
        };
        self.done.saturating_add(grace)
    }

    pub(super) fn excuses(&self, hold: &Hold, from: Nanos, to: Nanos) -> bool {
        self.hits(hold) && self.sent <= from && to <= self.until(hold)
    }
}
