//! The checker: who held when, and whether they may have. Pure: the same logs, the same findings.
//!
//! The stamps of a hold lie within it, after the acquisition and before the release, and are of one clock. So holds that
//! overlap here were there at one moment, for certain.

/// Of `CLOCK_MONOTONIC`.
pub(crate) type Nanos = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Alone: a mutex, a write lock, a multi-lock.
    Write,
    /// With other readers, or other leases.
    Read,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) who: String,
    pub(crate) mode: Mode,
    pub(crate) from: Nanos,
    pub(crate) to: Nanos,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    /// No two holds of different owners overlap unless both read. An owner's own may: a down-grade.
    ReadersTogether,
    /// At no moment more than so many.
    AtMost(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    Overlap(Hold, Hold),
    TooMany {
        at: Nanos,
        holders: usize,
    },
    /// It ends before it begins: the stamps are not of one clock.
    Backwards(Hold),
    /// Somebody never held.
    ShutOut(usize),
}

/// `logs` has one for each side.
pub(crate) fn judge(rule: Rule, logs: &[Vec<Hold>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (side, log) in logs.iter().enumerate() {
        if log.is_empty() {
            findings.push(Finding::ShutOut(side));
        }
    }
    let mut holds: Vec<&Hold> = logs.iter().flatten().collect();
    holds.sort_by_key(|hold| hold.from);
    let mut open: Vec<&Hold> = Vec::new();
    for hold in holds {
        if hold.to < hold.from {
            findings.push(Finding::Backwards(hold.clone()));
        }
        open.retain(|other| other.to > hold.from);
        match rule {
            Rule::ReadersTogether => {
                let against = open.iter().filter(|other| excludes(other, hold));
                findings
                    .extend(against.map(|&other| Finding::Overlap(other.clone(), hold.clone())));
            }
            Rule::AtMost(most) if open.len() >= most => {
                findings.push(Finding::TooMany { at: hold.from, holders: open.len() + 1 });
            }
            Rule::AtMost(_) => {}
        }
        open.push(hold);
    }
    findings
}

fn excludes(one: &Hold, other: &Hold) -> bool {
    one.who != other.who && (one.mode == Mode::Write || other.mode == Mode::Write)
}
