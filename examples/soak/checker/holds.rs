//! Holds, from the log of the worker that had them. Rules 3 and 4.

use super::{Finding, Kind, WorkerLog};
use crate::log::{Event, MILLISECOND, Nanos, What};

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
    pub(crate) token: i64,
    pub(crate) session: i64,
    pub(crate) node: String,
    /// Of the session.
    pub(crate) timeout: Nanos,
    /// When the worker had its guard.
    pub(crate) from: Nanos,
    /// After the first yes, before the last yes. The first can be the later one, if there was only one yes.
    pub(crate) claim: Option<(Nanos, Nanos)>,
    pub(crate) end: End,
}

impl Hold {
    /// When it is certain that the worker was told that it held.
    pub(crate) fn certain(&self) -> Option<(Nanos, Nanos)> {
        self.claim.filter(|(from, to)| from <= to)
    }

    pub(crate) fn name(&self) -> String {
        format!("worker {}.{} token {}", self.row, self.generation, self.token)
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
            What::Holds { token, session, node } => {
                self.must_have_ended(*at);
                self.holds.push(Hold {
                    row: self.log.row,
                    generation: self.log.generation,
                    token: *token,
                    session: *session,
                    node: node.clone(),
                    timeout: self.timeout,
                    from: *at,
                    claim: None,
                    end: End::Open,
                });
            }
            What::Yes { token, after } => self.yes(*at, *token, *after),
            What::No { token } => self.ends(*token, End::Lost(*at, String::new())),
            What::Lost { token, how } => self.ends(*token, End::Lost(*at, how.clone())),
            What::Releases { token, .. } => self.ends(*token, End::Released(*at)),
            _ => {}
        }
    }

    fn yes(&mut self, at: Nanos, token: i64, after: Nanos) {
        let Some(hold) = self.holds.iter_mut().rev().find(|hold| hold.token == token) else {
            return self.finding(at, format!("worker {}: a yes of no hold", self.log.row));
        };
        hold.claim = Some((hold.claim.map_or(after, |(first, _)| first), at));
        if hold.end != End::Open {
            let text = format!("{} said yes after its end", hold.name());
            self.finding(at, text);
        }
    }

    fn ends(&mut self, token: i64, end: End) {
        // A loss is logged twice: when it was first seen, and with its reason.
        let hold = self.holds.iter_mut().rev().find(|hold| hold.token == token);
        if let Some(hold) = hold {
            match (&hold.end, end) {
                (End::Open, end) => hold.end = end,
                (End::Lost(at, why), End::Lost(_, how)) if why.is_empty() => {
                    hold.end = End::Lost(*at, how);
                }
                _ => {}
            }
        }
    }

    fn must_have_ended(&mut self, at: Nanos) {
        if let Some(hold) = self.holds.last_mut().filter(|hold| hold.end == End::Open) {
            hold.end = End::Lost(at, "not reported".to_owned());
            let text = format!("{} ended without release and without a report", hold.name());
            self.finding(at, text);
        }
    }

    fn finding(&mut self, at: Nanos, text: String) {
        self.findings.push(Finding { kind: Kind::Double, at, text });
    }
}
