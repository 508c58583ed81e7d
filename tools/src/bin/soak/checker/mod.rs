//! The judge. It reads what the workers logged and what was found in ZooKeeper at the end, and knows nothing of how
//! the run was made. It is pure: the same evidence, the same verdict.
//!
//! # What a log proves
//!
//! All stamps are of one clock, which all processes of the machine share. `is_held()` said *yes* at some moment between
//! the stamp before the question and the stamp after the answer; a process can be stopped between any two of its
//! instructions, so the two may lie seconds apart and nothing better is known of a single answer. But a guard that once
//! said *no* never says yes again (checked, rule 3), so whoever said yes at two moments claimed all the time between.
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
//!    readers; a write hold and the read that was taken beside it are one holder. Of a semaphore no more leases are claimed at one moment than there are.
//! 2. Tokens rise in the order of claims that exclude each other, and none is given twice; but holds in turn by one node
//!    (a leader's terms, a lock that retained it) share its token, do not overlap, and no other token is claimed in between.
//! 3. After a no, a reported loss or a release there is no yes.
//! 4. A hold ends by a release or is reported lost, except with its process.
//! 5. Each counter is one chain of increments: every accepted write is in it, every refused one is not, one of unknown
//!    outcome may be, each read what the one before wrote, and tokens never fall (`chain.rs`).
//! 6. At the end, with all faults healed and nobody contending, no contender is left under the paths of the lock.
//! 7. After the healing everybody gets the lock again within the bound.
//! 8. While a reader holds, the counter that writers count in does not change, but by the writer that it reads beside.
//! 9. Who leads again by the same node has the same token.
//! 10. After the healing there is a leader within 1.5 session timeouts and some (`leaders.rs`).
//! 11. Who observes the leaders is never told of a smaller token after a greater one, nor of a token with another worker's
//!     identity; it is told of somebody, and in the end of nobody.
//!
//! 1 to 4, 9 and most of 11 count as `double`, 5 and 8 as `stale_writes`, 6 as `orphans`, 7, 10 and the end of 11 as `hung`.
//!
//! # What is excused
//!
//! Who deletes the node of a holder, or closes its session from a second
//! connection, lets the next one in at once: no lock can tell the holder in advance (docs/guide/guarantees.md, "To know before
//! somebody acts"). So an overlap is excused if the hold with the *smaller* token is the one that was struck (of leases
//! beyond the limit: so many of those before the youngest that the others are within it), and the whole overlap lies
//! between the moment the strike was sent and the moment it was confirmed plus a grace. The grace is how long the holder
//! may believe when nothing else tells it, for its link can be disturbed at the same time. With the first probe of its
//! lease after the deletion it asks for its node; that is handed over `T/7` later at most, and `T/6` leaves room for a
//! late timer. If just that one is answered and nothing after it, the lease ends `2T/3` after its stamp: `T/6 + 2T/3`.
//! Of a closed session no probe is answered: `2T/3`. A claim beyond the grace breaks rule 1 also where nobody overlaps.
//! Excused overlaps are counted and measured.
//!
//! # Who was wrong
//!
//! Contenders of other libraries log the same. In a mixed fleet the worker of each hold lists the nodes after it was admitted and
//! before it claims anything. Of two holds that overlap the younger one was admitted too early if it saw the node of the older one
//! in its listing. Otherwise the node of the older one was deleted before, and the older one believed wrongly. A finding is of the
//! library that was wrong, and only those of this crate fail the run.

mod chain;
mod claims;
mod evidence;
mod holds;
mod leaders;
mod servers;
mod strikes;

use crate::log::{Event, Nanos, SECOND, What};

pub(crate) use claims::Excused;
pub(crate) use evidence::{Evidence, Finding, Kind, Value, WorkerLog};
pub(crate) use holds::{End, Hold};
pub(crate) use leaders::Leaders;

/// How long after the healing everybody must have had the lock: some sessions have to expire first, everybody gets it in
/// turn, and a busy machine makes each hold longer, which lasts for a number of steps.
pub(crate) const PATIENCE: Nanos = 90 * SECOND;

#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) faults: usize,
    pub(crate) holds: Vec<Hold>,
    pub(crate) findings: Vec<Finding>,
    /// Holds by a node that its owner had held by before.
    pub(crate) again: usize,
    pub(crate) excused: Vec<Excused>,
    /// Strikes whose outcome is not known, so that they excuse without end.
    pub(crate) unknown_strikes: usize,
    /// What tells that the servers lost what they had confirmed.
    pub(crate) went_back: Vec<String>,
    /// From the healing to each row's next hold.
    pub(crate) after_healing: Vec<Nanos>,
    pub(crate) leaders: Option<Leaders>,
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
        self.holds.iter().filter(|hold| matches!(hold.end, End::Lost(..))).count()
    }
}

pub(crate) fn judge(evidence: &Evidence) -> Verdict {
    let mut findings = Vec::new();
    let mut holds = Vec::new();
    for log in &evidence.workers {
        holds.extend(holds::read(log, &mut findings));
    }
    holds.sort_by_key(|hold| (hold.token, hold.from));
    let strikes = strikes::strikes(evidence);
    let excused = claims::judge(&holds, evidence.limit, &strikes, &mut findings);
    chain::judge(evidence, &mut findings);
    chain::readers_see_no_change(&holds, &strikes, &mut findings);
    for child in &evidence.children {
        findings.push(orphan(evidence, child, None));
    }
    for (child, peer) in &evidence.peers_children {
        findings.push(orphan(evidence, child, Some(peer.clone())));
    }
    let after_healing = after_healing(evidence, &holds, &mut findings);
    let leaders = leaders::judge(evidence, &holds, healed(evidence), &mut findings);
    findings.sort_by_key(|finding| finding.at);
    let begun = |event: &&Event| matches!(event.1, What::Begins { .. });
    Verdict {
        faults: evidence.faults.iter().filter(begun).count(),
        unknown_strikes: strikes.iter().filter(|strike| strike.done == Nanos::MAX).count(),
        again: holds.windows(2).filter(|pair| pair[1].is_again(&pair[0])).count(),
        went_back: servers::went_back(&holds),
        after_healing,
        leaders,
        holds,
        findings,
        excused,
    }
}

fn orphan(evidence: &Evidence, child: &str, peer: Option<String>) -> Finding {
    let at = last_moment(evidence);
    Finding { kind: Kind::Orphan, peer, at, text: format!("left over: {child}") }
}

fn last_moment(evidence: &Evidence) -> Nanos {
    evidence.faults.last().map_or(0, |event| event.0)
}

fn healed(evidence: &Evidence) -> Nanos {
    let healed = evidence.faults.iter().rev().find(|event| event.1 == What::Healed);
    healed.map_or_else(|| last_moment(evidence), |event| event.0)
}

/// Rule 7. One finding for a row at most.
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
