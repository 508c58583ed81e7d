//! Logs that are written down. Times are in milliseconds.

use crate::checker::{Evidence, Kind, Verdict, WorkerLog, judge};
use crate::log::{Counter, Event, MILLISECOND, Mode, Name, Nanos, Node, Outcome, What};

/// Of the sessions.
pub(crate) const T: u64 = 2400;
/// Of a semaphore.
const LEASES: usize = 2;

pub(crate) fn ms(time: u64) -> Nanos {
    time * MILLISECOND
}

/// The log of one worker, written down.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) row: usize,
    pub(crate) generation: usize,
    /// Of the holds that follow.
    pub(crate) mode: Mode,
    pub(crate) events: Vec<Event>,
}

pub(crate) fn worker(row: usize) -> Script {
    let events = vec![Event(0, What::Starts { timeout: T })];
    Script { row, generation: 0, mode: Mode::Lock, events }
}

impl Script {
    pub(crate) fn then(mut self, at: u64, what: What) -> Self {
        self.events.push(Event(ms(at), what));
        self
    }

    pub(crate) fn asks(self, at: u64) -> Self {
        self.then(at, What::Asks { how: String::new() })
    }

    pub(crate) fn takes(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// In a session of its own, by a node of the token's name.
    pub(crate) fn holds(self, at: u64, token: i64) -> Self {
        let path = match self.mode {
            Mode::Beside => format!("/beside-{token}"),
            _ => format!("/{token}"),
        };
        self.holds_by(at, &[("/", token, Some(&path))])
    }

    /// By several nodes: the lock, the token and perhaps the path of each.
    pub(crate) fn holds_by(self, at: u64, nodes: &[(&str, i64, Option<&str>)]) -> Self {
        let nodes: Vec<_> = nodes
            .iter()
            .map(|(lock, token, path)| {
                let (lock, path) = ((*lock).to_owned(), path.map(str::to_owned));
                Node { lock, token: *token, path }
            })
            .collect();
        let token = nodes[0].token;
        let (hold, session) = (Name(self.mode, token), 100 + token);
        self.then(at, What::Holds { hold, session, nodes })
    }

    /// Asked before and answered after these.
    pub(crate) fn yes(self, before: u64, after: u64, token: i64) -> Self {
        let hold = Name(self.mode, token);
        self.then(before, What::Yes { hold, after: ms(after) })
    }

    pub(crate) fn no(self, at: u64, token: i64) -> Self {
        let hold = Name(self.mode, token);
        self.then(at, What::No { hold }).then(at, What::Lost { hold, how: "why".to_owned() })
    }

    pub(crate) fn releases(self, at: u64, token: i64) -> Self {
        let hold = Name(self.mode, token);
        self.then(at, What::Releases { hold, how: String::new() })
    }

    /// Says yes at the begin and the end of a hold that it has already, and releases it.
    pub(crate) fn claims(self, from: u64, to: u64, token: i64) -> Self {
        self.yes(from, from, token).yes(to, to, token).releases(to, token)
    }

    /// A whole hold, with a yes at its begin and its end.
    pub(crate) fn held(self, from: u64, to: u64, token: i64) -> Self {
        self.holds(from, token).claims(from, to, token)
    }

    /// Writes `read + 1`.
    pub(crate) fn counts(
        self,
        counter: Counter,
        token: i64,
        (read, by): (u64, i64),
        outcome: Outcome,
    ) -> Self {
        self.then(1, What::Tries { counter, token, read, by })
            .then(2, What::Wrote { counter, token, outcome })
    }
}

/// The scripts, with everybody holding after the healing, at rest, and no counter written.
pub(crate) fn evidence(scripts: &[Script], faults: &[(u64, What)]) -> Evidence {
    let healed = 1_000_000;
    let mut faults: Vec<_> = faults.iter().map(|(at, what)| Event(ms(*at), what.clone())).collect();
    faults.push(Event(ms(healed), What::Healed));
    let mut workers = Vec::new();
    for (place, script) in scripts.iter().cloned().enumerate() {
        let (row, generation) = (script.row, script.generation);
        let place = u64::try_from(place).unwrap();
        let at = healed + 100 * place;
        let last = !scripts.iter().any(|other| other.row == row && other.generation > generation);
        let token = 1_000_000 + i64::try_from(place).unwrap();
        let events = match last {
            true => {
                let mode = script.mode;
                script
                    .takes(if mode == Mode::Leader { mode } else { Mode::Lock })
                    .asks(at - 1)
                    .held(at, at + 10, token)
                    .then(at + 1000, What::Quiet)
                    .events
            }
            false => script.events,
        };
        workers.push(WorkerLog { row, generation, events });
    }
    Evidence { workers, limit: LEASES, faults, ..Evidence::default() }
}

pub(crate) fn verdict(scripts: &[Script], faults: &[(u64, What)]) -> Verdict {
    judge(&evidence(scripts, faults))
}

pub(crate) fn doubles(scripts: &[Script]) -> usize {
    let verdict = verdict(scripts, &[]);
    assert_eq!(verdict.excused, []);
    verdict.count(Kind::Double)
}

pub(crate) fn deletes(node: &str) -> [What; 2] {
    let node = node.to_owned();
    [What::Deletes { node: node.clone(), token: 0 }, What::Deleted { node, known: true }]
}

pub(crate) fn kills(session: i64) -> [What; 2] {
    [What::Kills { session }, What::Killed { session, known: true }]
}
