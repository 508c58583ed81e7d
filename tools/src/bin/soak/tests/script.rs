//! Logs that are written down. Times are in milliseconds.
//!
//! `0 write 10-20#5 | 1 read 10#6 y10#6` are the logs of two workers. Words, of a hold with token 5:
//!
//! | word | the worker |
//! | --- | --- |
//! | `lock`, `read`, `write`, `lease` | has holds of this mode from here on, at first `lock` |
//! | `10#5`, `10#5@6` | holds, by the node `/5` or `/6` |
//! | `10-20#5` | holds, says yes at the begin and the end, and releases |
//! | `c10-20#5` | says yes at both moments and releases what it has |
//! | `y10#5`, `y10-12#5` | is asked at 10 and says yes, at 10 or 12 |
//! | `n10#5`, `x10#5`, `l10#5` | says no and reports the loss, or only says no, or only reports it |
//! | `curator` | is one of Curator |
//! | `b10#6@5` | saw the node `/5` before its own |
//! | `r10#5`, `?10` | releases, asks for the lock |
//!
//! A `+` after the number of the worker makes it the next process of that row.

use crate::checker::{Evidence, Kind, Verdict, WorkerLog, judge};
use crate::log::{Event, MILLISECOND, Mode, Name, Nanos, What};

pub(super) const PEER: &str = "curator";
/// Of a semaphore.
const LEASES: usize = 2;

pub(super) fn ms(time: u64) -> Nanos {
    time * MILLISECOND
}

/// The log of one worker.
#[derive(Clone, Debug)]
pub(super) struct Script {
    row: usize,
    generation: usize,
    peer: Option<String>,
    mode: Mode,
    pub(super) events: Vec<Event>,
}

pub(super) fn logs(text: &str) -> Vec<Script> {
    text.split('|').map(log).collect()
}

pub(super) fn log(text: &str) -> Script {
    let (row, words) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    let generation = usize::from(row.ends_with('+'));
    let row = row.trim_end_matches('+').parse().unwrap();
    let script = Script { row, generation, peer: None, mode: Mode::Lock, events: Vec::new() };
    words.split_whitespace().fold(script, Script::word)
}

fn moments(text: &str) -> (u64, u64) {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    (from.parse().unwrap(), to.parse().unwrap())
}

impl Script {
    pub(super) fn then(mut self, at: u64, what: What) -> Self {
        self.events.push(Event(ms(at), what));
        self
    }

    pub(super) fn word(mut self, word: &str) -> Self {
        let modes = [Mode::Lock, Mode::Read, Mode::Write, Mode::Lease];
        let named = |mode: &Mode| format!("{mode:?}").eq_ignore_ascii_case(word);
        if let Some(mode) = modes.into_iter().find(named) {
            self.mode = mode;
            return self;
        }
        if word == PEER {
            self.peer = Some(PEER.to_owned());
            return self;
        }
        let (when, token) = word.split_once('#').unwrap_or((word, "0"));
        let (token, node) = token.split_once('@').unwrap_or((token, token));
        let token: i64 = token.parse().unwrap();
        let kind = when.chars().next().filter(|first| !first.is_ascii_digit());
        let (from, to) = moments(when.trim_start_matches(|c: char| !c.is_ascii_digit()));
        let (hold, how) = (Name(self.mode, token), "why".to_owned());
        match kind {
            None => {
                let holds = self.holds(from, token, &format!("/{node}"));
                if when.contains('-') { holds.claims(from, to, token) } else { holds }
            }
            Some('c') => self.claims(from, to, token),
            Some('y') => self.then(from, What::Yes { hold, after: ms(to) }),
            Some('n') => self.then(from, What::No { hold }).then(from, What::Lost { hold, how }),
            Some('x') => self.then(from, What::No { hold }),
            Some('l') => self.then(from, What::Lost { hold, how }),
            Some('r') => self.then(from, What::Releases { hold, how }),
            Some('b') => self.then(from, What::Behind { hold, nodes: vec![format!("/{node}")] }),
            Some('?') => self.then(from, What::Asks { how }),
            Some(other) => panic!("no word begins with {other}: {word}"),
        }
    }

    fn holds(self, at: u64, token: i64, node: &str) -> Self {
        let (hold, node) = (Name(self.mode, token), node.to_owned());
        self.then(at, What::Holds { hold, node })
    }

    fn claims(self, from: u64, to: u64, token: i64) -> Self {
        [format!("y{from}#{token}"), format!("y{to}#{token}"), format!("r{to}#{token}")]
            .iter()
            .fold(self, |script, word| script.word(word))
    }

    /// Holds by a node of this path.
    pub(super) fn holds_by(self, from: u64, token: i64, path: &str) -> Self {
        self.holds(from, token, path).claims(from, from + 5, token)
    }
}

/// The scripts, with all workers holding after the healing, and at rest.
pub(super) fn evidence(scripts: &[Script], faults: &[(u64, What)]) -> Evidence {
    let healed = 1_000_000;
    let mut faults: Vec<_> = faults.iter().map(|(at, what)| Event(ms(*at), what.clone())).collect();
    faults.push(Event(ms(healed), What::Healed));
    let mut workers = Vec::new();
    for (mut script, place) in scripts.iter().cloned().zip(0_u64..) {
        let (row, generation, at) = (script.row, script.generation, healed + 100 * place);
        if !scripts.iter().any(|other| other.row == row && other.generation > generation) {
            let (asked, end, token) = (at - 1, at + 10, healed + place);
            script = script.word("lock").word(&format!("?{asked}"));
            script = script.word(&format!("{at}-{end}#{token}")).then(at + 1000, What::Quiet);
        }
        workers.push(WorkerLog { row, generation, peer: script.peer, events: script.events });
    }
    Evidence { workers, limit: LEASES, faults, ..Evidence::default() }
}

pub(super) fn verdict(scripts: &[Script], faults: &[(u64, What)]) -> Verdict {
    judge(&evidence(scripts, faults))
}

/// How often two held at one moment.
pub(super) fn doubles(text: &str) -> usize {
    verdict(&logs(text), &[]).count(Kind::Double)
}
