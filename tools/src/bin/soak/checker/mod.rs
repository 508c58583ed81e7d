//! The judge. It reads what the workers logged and what was found in ZooKeeper at the end, and knows nothing of how
//! the run was made. It is pure: the same evidence, the same verdict.
//!
//! # What a log proves
//!
//! All stamps are of one clock, which all processes of the machine share. `is_held()` said *yes* at some moment between
//! the stamp before the question and the stamp after the answer; a process can be stopped between any two of its
//! instructions, so the two may lie seconds apart and nothing better is known of a single answer. But a guard that once
//! said *no* never says yes again (checked, rule 3), so a worker that said yes at two moments claimed all the time between.
//! Hence the **claim** of a hold: from the stamp *after* its first yes to the stamp *before* its last yes.
//!
//! * Claimed for certain: the first yes was not later than the beginning of the claim, the last not earlier than its end. So an
//!   overlap of two claims is no artefact of a stopped process: two were told that they hold, at one moment.
//! * Not cut short either: a worker asks every few milliseconds, so only these can be missing at both ends. What a
//!   process that is stopped in the middle of the very question would have been told is nobody's knowledge.
//!
//! # The rules
//!
//! 1. No two claims overlap that exclude each other. A mutex excludes all, and so does a writer; readers do not exclude
//!    readers. Of a semaphore no more leases are claimed at one moment than there are.
//! 2. Tokens rise in the order of claims that exclude each other, and none is given twice.
//! 3. After a no, a reported loss or a release there is no yes.
//! 4. A hold ends by a release or is reported lost, except with its process.
//! 5. At the end, with all faults healed and no contender, no node is left under the paths of the lock.
//! 6. After the healing every worker gets the lock again within the bound.
//!
//! 1 to 4 count as `double`, 5 as `orphans`, 6 as `hung`. No overlap is excused: no fault deletes a node or closes a session, which only
//! an operator does. The simulation judges those, and fenced writes, retention, downgrades and leaders.
//!
//! # Who was wrong
//!
//! Contenders of other libraries log the same. In a mixed fleet the worker of each hold lists the nodes after it was admitted and
//! before it claims anything. Of two holds that overlap the younger one was admitted too early if it saw the node of the older one
//! in its listing. Otherwise the node of the older one was deleted before, and the older one believed wrongly. A finding is of the
//! library that was wrong, and only those of this crate fail the run.

mod claims;
mod evidence;
mod holds;
mod servers;

use crate::log::{Event, Nanos, SECOND, What};

pub(crate) use evidence::{Evidence, Finding, Kind, WorkerLog};
pub(crate) use holds::{End, Hold};

/// How long after the healing every worker must have had the lock: some sessions have to expire first, all workers get it in
/// turn, and a busy machine makes each hold longer, which lasts for a number of steps.
pub(crate) const PATIENCE: Nanos = 90 * SECOND;

#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) faults: usize,
    pub(crate) holds: Vec<Hold>,
    pub(crate) findings: Vec<Finding>,
    /// What tells that the servers lost what they had confirmed.
    pub(crate) went_back: Vec<String>,
    /// From the healing to each row's next hold.
    pub(crate) after_healing: Vec<Nanos>,
}

impl Verdict {
    /// The findings of this crate.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.of(None).findings.iter().filter(|finding| finding.kind == kind).count()
    }

    /// The holds of this crate that were lost.
    pub(crate) fn lost(&self) -> usize {
        self.of(None).lost()
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.of(None).findings.is_empty()
    }

    /// The part of a peer, or of this crate.
    pub(crate) fn of(&self, peer: Option<&str>) -> Part<'_> {
        let holds = self.holds.iter().filter(|hold| hold.peer.as_deref() == peer);
        let findings = self.findings.iter().filter(|finding| finding.peer.as_deref() == peer);
        Part { holds: holds.collect(), findings: findings.collect() }
    }
}

/// What the contenders of one library did.
#[derive(Clone, Debug)]
pub(crate) struct Part<'a> {
    pub(crate) holds: Vec<&'a Hold>,
    pub(crate) findings: Vec<&'a Finding>,
}

impl Part<'_> {
    pub(crate) fn lost(&self) -> usize {
        self.holds.iter().filter(|hold| hold.end == End::Lost).count()
    }
}

pub(crate) fn judge(evidence: &Evidence) -> Verdict {
    let mut findings = Vec::new();
    let mut holds = Vec::new();
    for log in &evidence.workers {
        holds.extend(holds::read(log, &mut findings));
    }
    holds.sort_by_key(|hold| (hold.token, hold.from));
    claims::judge(&holds, evidence.limit, &mut findings);
    for (node, peer) in &evidence.left {
        let (kind, at) = (Kind::Orphan, last_moment(evidence));
        findings.push(Finding { kind, peer: peer.clone(), at, text: format!("left over: {node}") });
    }
    let after_healing = after_healing(evidence, &holds, &mut findings);
    findings.sort_by_key(|finding| finding.at);
    let begun = |event: &&Event| matches!(event.1, What::Begins { .. });
    Verdict {
        faults: evidence.faults.iter().filter(begun).count(),
        went_back: servers::went_back(&holds),
        after_healing,
        holds,
        findings,
    }
}

fn last_moment(evidence: &Evidence) -> Nanos {
    evidence.faults.last().map_or(0, |event| event.0)
}

fn healed(evidence: &Evidence) -> Nanos {
    let healed = evidence.faults.iter().rev().find(|event| event.1 == What::Healed);
    healed.map_or_else(|| last_moment(evidence), |event| event.0)
}

/// Rule 6. One finding for a row at most.
fn after_healing(evidence: &Evidence, holds: &[Hold], findings: &mut Vec<Finding>) -> Vec<Nanos> {
    let healed = healed(evidence);
    let rows = evidence.workers.iter().map(|log| log.row + 1).max().unwrap_or(0);
    let mut times = Vec::new();
    for row in 0..rows {
        let of_row = holds.iter().filter(|hold| hold.row == row && hold.from >= healed);
        let text = match of_row.map(|hold| hold.from - healed).min() {
            None => "never got the lock after the healing".to_owned(),
            Some(time) if time > PATIENCE => {
                format!("got the lock only {} s after the healing", time / SECOND)
            }
            Some(time) => {
                times.push(time);
                if is_at_rest(evidence, row) {
                    continue;
                }
                "did not come to rest".to_owned()
            }
        };
        let text = format!("worker {row} {text}");
        let of_row = evidence.workers.iter().find(|log| log.row == row);
        let peer = of_row.and_then(|log| log.peer.clone());
        findings.push(Finding { kind: Kind::Hung, peer, at: healed, text });
    }
    times
}

/// The last worker of the row.
fn is_at_rest(evidence: &Evidence, row: usize) -> bool {
    let of_row = evidence.workers.iter().filter(|log| log.row == row);
    let last = of_row.max_by_key(|log| log.generation);
    last.is_some_and(|log| log.events.iter().any(|event| event.1 == What::Quiet))
}
