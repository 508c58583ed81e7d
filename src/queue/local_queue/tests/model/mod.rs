//! An exhaustive search of small sizes: the real [`LocalQueue`](crate::queue::local_queue::LocalQueue) and the real rules of admission, of one or two
//! processes and a contender of Curator, against a [model of the servers](servers).
//!
//! The model plays the driver and the entry: it carries out the commands, sends the requests, and reports what the answers say. A
//! step is one call of a caller, one request that the servers execute, one answer or event that a process hears, or one fault.
//! All orders of steps are visited in which the requests of a session are executed in order, and its answers are heard in order.
//!
//! In these files `p` is the number of a process, `q` of one of its queues, and `c` of one of its callers.

mod claims;
mod driving;
mod entering;
mod process;
mod search;
mod servers;
mod stepping;
mod words;
mod world;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use process::{Caller, Stage};
use search::explore;
use servers::Kind;
use world::{Faults, World};

use crate::queue::local_queue::{NodeSpec, Waiter};
use crate::session::lease::LossPolicy;

const NONE: Faults = Faults {
    lapses: 0,
    expiries: 0,
    cuts: 0,
    withdrawals: 0,
    revocations: 0,
    companions: 0,
    deletions: 0,
    fenced: 0,
    closes: 0,
    crowds: 0,
};
const CLOSE: Faults = Faults { closes: 1, ..NONE };
const COMPANION: Faults = Faults { companions: 1, ..NONE };
const CROWD: Faults = Faults { crowds: 1, ..NONE };
const CUT: Faults = Faults { cuts: 1, ..NONE };
const DELETION: Faults = Faults { deletions: 1, ..NONE };
const FENCED: Faults = Faults { fenced: 1, ..CUT };
const LAPSE: Faults = Faults { lapses: 1, expiries: 1, ..NONE };
const REVOCATION: Faults = Faults { revocations: 1, ..NONE };
const WITHDRAWAL: Faults = Faults { withdrawals: 1, ..NONE };

/// The processes, separated by commas, with their callers as [`caller`] reads them; the holds that Curator asks for; the faults.
type Size = (&'static str, &'static str, Faults);

#[test]
fn a_mutex_in_small_sizes() {
    let sizes: &[Size] = &[
        ("l2 l2", "ll", NONE),
        ("l l,l", "l", NONE),
        ("l l,l l", "", NONE),
        ("l l,l", "", CUT),
        ("l l,l", "", LAPSE),
        ("l l l", "l", WITHDRAWAL),
        ("l l lo", "l", WITHDRAWAL),
        ("l lt,l", "", WITHDRAWAL),
        ("l l", "l", FENCED),
        ("l l", "l", DELETION),
        ("l l", "l", CLOSE),
        ("l l", "l", REVOCATION),
        ("l lo", "l", NONE),
        ("l lk", "", NONE),
        ("lk lk", "l", CUT),
        ("lk lk", "l", LAPSE),
        ("lk lk", "l", CROWD),
        ("lk lk,lt", "", NONE),
    ];
    explore_all(sizes);
}

#[test]
fn a_read_write_lock_in_small_sizes() {
    let sizes: &[Size] = &[
        ("r2 r2", "w", NONE),
        ("r2 r", "rw", NONE),
        ("r r r", "w", WITHDRAWAL),
        ("r w,r", "w", NONE),
        ("r r,w", "", CUT),
        ("r r,w", "", LAPSE),
        ("r rs", "w", CUT),
        ("r rt", "w", WITHDRAWAL),
        ("r r", "w", DELETION),
        ("r r", "w", CLOSE),
        ("r r", "w", REVOCATION),
        ("r ro", "w", NONE),
        ("rk r", "w", CROWD),
        ("rk r", "rw", NONE),
        ("rk wk,r", "", NONE),
        ("w w", "w", COMPANION),
        ("w w r", "w", COMPANION),
        ("wd w ro", "w", NONE),
        ("wd r ro", "w", NONE),
    ];
    let met = explore_all(sizes);
    let all = [
        "a node drains",
        "a node is retained",
        "a node is undecided",
        "a node passed on",
        "an entry proves its session",
        "an entry searches for its node",
        "an entry waits",
        "callers wait for a node of their process",
        "readers share a node",
    ];
    assert_eq!(Vec::from_iter(met), all, "a situation was not met");
}

#[test]
#[ignore = "make model"]
fn larger_sizes() {
    let sizes: &[Size] = &[
        ("l l,l", "l", CUT),
        ("l l,l", "l", LAPSE),
        ("l l,l l", "l", NONE),
        ("l l,l l", "", CUT),
        ("l l l,l l l", "", NONE),
        ("l l,l", "", Faults { withdrawals: 1, ..CUT }),
        ("l l", "l", Faults { lapses: 1, expiries: 1, ..CUT }),
        ("l l", "l", Faults { cuts: 2, ..LAPSE }),
        ("lk l,l", "l", WITHDRAWAL),
        ("w w r ro", "w", WITHDRAWAL),
        ("wd w r ro", "w", NONE),
        ("w w,r", "w", COMPANION),
        ("r r,w r", "", NONE),
        ("r r r,w", "w", NONE),
        ("r r,w", "w", CUT),
        ("r r,w", "w", LAPSE),
        ("r r,w", "", Faults { withdrawals: 1, ..CUT }),
        ("r r", "w", Faults { cuts: 2, ..LAPSE }),
    ];
    explore_all(sizes);
}

/// A caller, by letters: `l` asks for a lock, `w` for a write, `r` for a read; then `t` for a try, `k` to keep the node after the
/// hold, `s` for a hold that a broken connection ends, `o` for other content, `d` for a caller that may be dropped, `2` for two
/// turns.
fn caller(letters: &str) -> Caller {
    let has = |letter| letters.contains(letter);
    let content = u8::from(has('o'));
    let policy = if has('s') { LossPolicy::Suspended } else { LossPolicy::Lease };
    let waiter = Waiter {
        node: NodeSpec { data: Arc::from([content]), acls: Arc::from([]) },
        shares_queue: true,
        shared: has('r'),
        no_wait: has('t'),
        retention: Duration::from_secs(u64::from(has('k'))),
        term: policy.into(),
    };
    Caller {
        queue: usize::from(has('r')),
        waiter: Arc::new(waiter),
        content,
        turns: if has('2') { 2 } else { 1 },
        may_leave: has('d'),
        stage: Stage::Idle,
    }
}

fn kind(letter: char) -> Kind {
    match letter {
        'l' => Kind::Lock,
        'w' => Kind::Write,
        _ => Kind::Read,
    }
}

/// Explores each size, and prints it. Returns the situations that were met.
fn explore_all(sizes: &[Size]) -> BTreeSet<&'static str> {
    let mut met = BTreeSet::new();
    for (processes, curator, faults) in sizes {
        let callers = processes.split(',').map(|process| process.split(' ').map(caller).collect());
        let kinds = match processes.contains('l') {
            true => &[Kind::Lock][..],
            false => &[Kind::Write, Kind::Read],
        };
        let world =
            World::new(kinds, callers.collect(), curator.chars().map(kind).collect(), *faults);
        let size = format!("{processes} | Curator: {curator:1} | {}", in_words(*faults));
        match explore(&world) {
            Ok(explored) => {
                println!(
                    "{size:50} {:9} states {:9} steps, {:4} at rest, depth {}",
                    explored.states, explored.steps, explored.at_rest, explored.depth
                );
                met.extend(explored.met);
            }
            Err(finding) => panic!("{size}: {}\n{}", finding.claim, finding.trace),
        }
    }
    met
}

fn in_words(faults: Faults) -> String {
    let text = format!("{faults:?}");
    let counts = text.trim_start_matches("Faults { ").trim_end_matches(" }").split(", ");
    let counts: Vec<_> = counts.filter(|count| !count.ends_with(": 0")).collect();
    counts.join(", ")
}
