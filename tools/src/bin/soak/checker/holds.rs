//! Holds, from the log of the worker that had them. Rules 3 and 4.

use super::evidence::{Finding, Kind, Value, WorkerLog};
use crate::log::{Event, MILLISECOND, Mode, Name, Nanos, What, identity};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Released(Nanos),
    Lost(Nanos, String),
    /// The log ends before.
    Open,
}

#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) row: usize,
    pub(crate) generation: usize,
    /// The name of the other library that it is of.
    pub(crate) peer: Option<String>,
    pub(crate) mode: Mode,
    pub(crate) token: i64,
    pub(crate) session: i64,
    /// Its path.
    pub(crate) node: String,
    /// Of the session.
    pub(crate) timeout: Nanos,
    /// When the worker had its guard.
    pub(crate) from: Nanos,
    /// After the first yes, before the last yes. The first can be the later one, if there was only one yes.
    pub(crate) claim: Option<(Nanos, Nanos)>,
    /// What a reader found in the counter, and when it had its answer.
    pub(crate) seen: Vec<(Nanos, Value)>,
    /// Nodes that were before its own when its worker had its guard.
    pub(crate) behind: Vec<String>,
    pub(crate) end: End,
}

impl Hold {
    /// When it is certain that the worker was told that it held.
    pub(crate) fn certain(&self) -> Option<(Nanos, Nanos)> {
        self.claim.filter(|(from, to)| from <= to)
    }

    pub(crate) fn name(&self) -> String {
        let Self { row, generation, mode, token, .. } = self;
        let peer = self.peer.as_ref().map(|peer| format!(" ({peer})")).unwrap_or_default();
        format!("worker {row}.{generation}{peer} {mode:?} token {token}")
    }

    fn is(&self, name: Name) -> bool {
        (self.mode, self.token) == (name.0, name.1)
    }

    /// A write hold, and the read that was taken beside it.
    pub(super) fn is_one_with(&self, other: &Self) -> bool {
        let by = |hold: &Self| (hold.row, hold.generation, hold.token);
        by(self) == by(other) && (self.mode == Mode::Beside) != (other.mode == Mode::Beside)
    }

    /// Once more by the same node: a leader whose lease had ended and whose session had not, or a lock that retained it.
    pub(super) fn is_again(&self, other: &Self) -> bool {
        fn by(hold: &Hold) -> (usize, usize, Mode, i64, i64, &str) {
            (hold.row, hold.generation, hold.mode, hold.session, hold.token, &hold.node)
        }
        self.mode != Mode::Beside && by(self) == by(other)
    }

    /// What the worker says of who it is.
    pub(super) fn identity(&self) -> String {
        identity(self.row, self.generation)
    }

    /// Whether they must not both hold what both are of.
    pub(super) fn excludes(&self, other: &Self) -> bool {
        (self.mode.is_exclusive() || other.mode.is_exclusive()) && !self.is_one_with(other)
    }
}

pub(super) fn read(log: &WorkerLog, findings: &mut Vec<Finding>) -> Vec<Hold> {
    let mut reader = Reader { log, timeout: 0, holds: Vec::new(), findings };
    for event in &log.events {
        reader.event(event);
    }
    reader.holds
}

struct Reader<'a> {
    log: &'a WorkerLog,
    timeout: Nanos,
    holds: Vec<Hold>,
    findings: &'a mut Vec<Finding>,
}

impl Reader<'_> {
    fn event(&mut self, Event(at, what): &Event) {
        match what {
            What::Starts { timeout } => self.timeout = timeout * MILLISECOND,
            What::Asks { .. } | What::Quiet => self.must_have_ended(*at),
            What::Holds { hold: Name(mode, token), session, node } => self.holds.push(Hold {
                row: self.log.row,
                generation: self.log.generation,
                peer: self.log.peer.clone(),
                mode: *mode,
                token: *token,
                session: *session,
                node: node.clone(),
                timeout: self.timeout,
                from: *at,
                claim: None,
                seen: Vec::new(),
                behind: Vec::new(),
                end: End::Open,
            }),
            What::Yes { hold, after } => self.yes(*at, *hold, *after),
            What::Sees { hold, read, by } => {
                if let Some(hold) = self.holds.iter_mut().rev().find(|one| one.is(*hold)) {
                    hold.seen.push((*at, (*read, *by)));
                }
            }
            What::Behind { hold, nodes } => {
                if let Some(hold) = self.holds.iter_mut().rev().find(|one| one.is(*hold)) {
                    hold.behind.clone_from(nodes);
                }
            }
            What::No { hold } => self.ends(*hold, End::Lost(*at, String::new())),
            What::Lost { hold, how } => self.ends(*hold, End::Lost(*at, how.clone())),
            What::Releases { hold, .. } => self.ends(*hold, End::Released(*at)),
            _ => {}
        }
    }

    fn yes(&mut self, at: Nanos, name: Name, after: Nanos) {
        let Some(hold) = self.holds.iter_mut().rev().find(|hold| hold.is(name)) else {
            return self.finding(at, format!("worker {}: a yes of no hold", self.log.row));
        };
        hold.claim = Some((hold.claim.map_or(after, |(first, _)| first), at));
        if hold.end != End::Open {
            let text = format!("{} said yes after its end", hold.name());
            self.finding(at, text);
        }
    }

    fn ends(&mut self, name: Name, end: End) {
        // A loss is logged twice: when it was first seen, and with its reason, which can be that it was let go.
        let hold = self.holds.iter_mut().rev().find(|hold| hold.is(name));
        if let Some(hold) = hold {
            match (&hold.end, end) {
                (End::Open, end) => hold.end = end,
                (End::Lost(at, why), End::Lost(_, how)) if why.is_empty() => {
                    hold.end = End::Lost(*at, how);
                }
                (End::Lost(at, why), End::Released(_)) if why.is_empty() => {
                    hold.end = End::Released(*at);
                }
                _ => {}
            }
        }
    }

    /// Several may be open: leases, or a read beside a write.
    fn must_have_ended(&mut self, at: Nanos) {
        for hold in self.holds.iter_mut().filter(|hold| hold.end == End::Open) {
            hold.end = End::Lost(at, "not reported".to_owned());
            let text = format!("{} ended without release and without a report", hold.name());
            self.findings.push(Finding { kind: Kind::Double, peer: hold.peer.clone(), at, text });
        }
    }

    fn finding(&mut self, at: Nanos, text: String) {
        let peer = self.log.peer.clone();
        self.findings.push(Finding { kind: Kind::Double, peer, at, text });
    }
}
