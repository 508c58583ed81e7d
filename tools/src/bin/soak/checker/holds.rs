//! Holds, from the log of the worker that had them. Rules 3 and 4.

use super::evidence::{Finding, Kind, WorkerLog};
use crate::log::{Event, Mode, Name, Nanos, What};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Released,
    Lost,
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
    /// Its path.
    pub(crate) node: String,
    /// When the worker had its guard.
    pub(crate) from: Nanos,
    /// After the first yes, before the last yes. The first can be the later one, if there was only one yes.
    pub(crate) claim: Option<(Nanos, Nanos)>,
    /// Nodes that were before its own when its worker had its guard.
    pub(crate) behind: Vec<String>,
    pub(crate) end: End,
}

impl Hold {
    /// When it is certain that `is_held` was true.
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

    /// Whether they must not both hold what both are of.
    pub(super) fn excludes(&self, other: &Self) -> bool {
        self.mode.is_exclusive() || other.mode.is_exclusive()
    }
}

pub(super) fn read(log: &WorkerLog, findings: &mut Vec<Finding>) -> Vec<Hold> {
    let mut reader = Reader { log, holds: Vec::new(), findings };
    for event in &log.events {
        reader.event(event);
    }
    reader.holds
}

struct Reader<'a> {
    log: &'a WorkerLog,
    holds: Vec<Hold>,
    findings: &'a mut Vec<Finding>,
}

impl Reader<'_> {
    fn event(&mut self, Event(at, what): &Event) {
        match what {
            What::Asks { .. } | What::Quiet => self.must_have_ended(*at),
            What::Holds { hold: Name(mode, token), node } => self.holds.push(Hold {
                row: self.log.row,
                generation: self.log.generation,
                peer: self.log.peer.clone(),
                mode: *mode,
                token: *token,
                node: node.clone(),
                from: *at,
                claim: None,
                behind: Vec::new(),
                end: End::Open,
            }),
            What::Yes { hold, after } => self.yes(*at, *hold, *after),
            What::Behind { hold, nodes } => {
                if let Some(hold) = self.last(*hold) {
                    hold.behind.clone_from(nodes);
                }
            }
            What::No { hold } | What::Lost { hold, .. } => self.ends(*hold, End::Lost),
            What::Releases { hold, .. } => self.ends(*hold, End::Released),
            _ => {}
        }
    }

    fn last(&mut self, name: Name) -> Option<&mut Hold> {
        self.holds.iter_mut().rev().find(|hold| hold.is(name))
    }

    fn yes(&mut self, at: Nanos, name: Name, after: Nanos) {
        let row = self.log.row;
        let Some(hold) = self.last(name) else {
            return self.finding(at, format!("worker {row}: a yes of no hold"));
        };
        hold.claim = Some((hold.claim.map_or(after, |(first, _)| first), at));
        if hold.end != End::Open {
            let text = format!("{} said yes after its end", hold.name());
            self.finding(at, text);
        }
    }

    /// A loss is logged twice: when it was first seen, and with its reason.
    fn ends(&mut self, name: Name, end: End) {
        if let Some(hold) = self.last(name).filter(|hold| hold.end == End::Open) {
            hold.end = end;
        }
    }

    fn must_have_ended(&mut self, at: Nanos) {
        let mut findings = Vec::new();
        for hold in self.holds.iter_mut().filter(|hold| hold.end == End::Open) {
            hold.end = End::Lost;
            findings.push(format!("{} ended without release and without a report", hold.name()));
        }
        findings.into_iter().for_each(|text| self.finding(at, text));
    }

    fn finding(&mut self, at: Nanos, text: String) {
        let peer = self.log.peer.clone();
        self.findings.push(Finding { kind: Kind::Double, peer, at, text });
    }
}
