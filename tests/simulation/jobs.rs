//! The judge of jobs that run once, and of fenced writes: each is one transaction with a check of the hold's node.

use std::time::Duration;

use zookeeper_recipes::simulation::LoggedEntry;

use crate::judge::{Judge, State};

/// What a task writes after its hold.
pub(crate) const LATE: &[u8] = b"late";

/// A key of a job, by the path of its record.
#[derive(Debug, Default)]
pub(crate) struct Job {
    /// How often a body came to its end, and how often a process says that it ran.
    bodies: usize,
    runs: usize,
    records: Vec<Record>,
}

/// A record of a job, which may have been removed since.
#[derive(Debug)]
struct Record {
    /// The identity of the process that ran the key.
    by: String,
    /// Its contender, of whose hold there is one record.
    node: String,
    zxid: i64,
}

/// What a process says of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Said<'a> {
    Ran,
    DoneBy(&'a str),
}

impl State {
    fn fails_as_double(&mut self, failure: String) {
        self.counts.double += 1;
        self.fails(format!("double: {failure}"));
    }

    fn fails_as_stale(&mut self, failure: String) {
        self.counts.stale += 1;
        self.fails(format!("stale: {failure}"));
    }
}

impl Judge {
    /// The body of a job that runs once has come to its end.
    pub(crate) fn did(&self, record: &str) {
        self.state().jobs.entry(record.to_owned()).or_default().bodies += 1;
    }

    /// The body of a job begins. Its process has looked for a record under this node, and from then on only that process can make
    /// one. So if nothing is wrong there is none.
    pub(crate) fn job_begins(&self, record: &str, node: &str) {
        let mut state = self.state();
        let owner = state.history.get(node).map_or(0, |znode| znode.owner);
        if self.has(record) && state.is_calm() && self.leads(&state, node, owner) {
            state.fails_as_double(format!("{record} is there, and its job runs again by {node}"));
        }
    }

    /// A job ran, or had been done before.
    pub(crate) fn once(&self, record: &str, name: &str, said: Said<'_>) {
        let mut state = self.state();
        let job = state.jobs.entry(record.to_owned()).or_default();
        job.runs += usize::from(matches!(said, Said::Ran));
        let by = match said {
            Said::Ran => name,
            Said::DoneBy(by) => by,
        };
        let (runs, records) = (job.runs, job.records.len());
        let is_recorded = job.records.iter().any(|record| record.by == by);
        if runs > records || !is_recorded {
            state.fails_as_double(format!("{name} says {said:?} of {record}, which is not so"));
        }
        if let (Said::Ran, Some((done, _))) = (said, record.rsplit_once('/')) {
            let is_calm = state.is_calm();
            state.cleaned.insert(done.to_owned(), is_calm);
        }
    }

    /// Whether a contender's node is there, of this session, and first at its parent.
    fn leads(&self, state: &State, node: &str, session: i64) -> bool {
        let is_there =
            |node: &str| state.history.get(node).is_some_and(|znode| znode.deleted.is_none());
        let is_its = state.history.get(node).is_some_and(|znode| znode.owner == session);
        let Some((parent, _)) = node.rsplit_once('/') else { return false };
        let nodes = self.nodes();
        let mut others = nodes.range(format!("{parent}/")..format!("{parent}0"));
        let own = sequence(node);
        is_its && is_there(node) && !others.any(|other| is_there(other) && sequence(other) < own)
    }

    /// A record was created.
    pub(crate) fn recorded(&self, state: &mut State, path: &str, entry: &LoggedEntry) {
        let data = String::from_utf8_lossy(&entry.data).into_owned();
        let (by, node) = data.rsplit_once('\n').unwrap_or((&data, ""));
        let job = state.jobs.entry(path.to_owned()).or_default();
        // A create without an answer is repeated, even if the record has been removed as an old one since.
        job.records.retain(|record| record.node != node);
        job.records.push(Record { by: by.to_owned(), node: node.to_owned(), zxid: entry.zxid });
        let is_without_run = job.records.len() > job.bodies;
        if is_without_run {
            state.fails_as_double(format!("{path} is recorded without a run"));
        }
        let runs = path.replace("/done/", "/runs/");
        if !node.starts_with(&format!("{runs}/")) || !self.leads(state, node, entry.session) {
            state.fails_as_stale(format!("{path} is recorded by {node}, which does not lead"));
        }
    }

    /// A record was deleted, and by no operator: by a clean-up.
    pub(crate) fn cleaned_up(&self, state: &mut State, path: &str, session: i64) {
        let Some((done, _)) = path.rsplit_once('/') else { return };
        let created = |path: &String| {
            state.jobs.get(path).and_then(|job| job.records.last()).map(|record| record.zxid)
        };
        let own = created(&path.to_owned());
        // The one that cleans up may have seen a record that an operator has deleted since.
        let was_there = |record: &String| {
            self.has(record) || state.struck_at(record).is_some_and(|gone| !state.is_known(gone))
        };
        let records = state.jobs.range(format!("{done}/")..format!("{done}0"));
        let newer = records.filter(|(other, _)| created(other) > own && was_there(other)).count();
        let kept = state.kept;
        if newer < kept {
            state.fails_as_stale(format!("{path} is removed, though only {newer} are newer"));
        }
        let cleanup = done.replace("/done", "/cleanup");
        let nodes = self.nodes();
        let cleaners = nodes.range(format!("{cleanup}/")..format!("{cleanup}0"));
        let cleaners: Vec<_> = cleaners.cloned().collect();
        drop(nodes);
        if !cleaners.iter().any(|node| self.leads(state, node, session)) {
            state.fails_as_stale(format!(
                "{path} is removed by {session:#x}, which does not clean up"
            ));
        }
    }

    /// No more records are left than are kept, and a tenth, and one for each task.
    pub(crate) fn looks_at_records(&self, tasks: usize) {
        let mut state = self.state();
        let kept = state.kept;
        for (done, is_calm) in std::mem::take(&mut state.cleaned) {
            let count = self.nodes().range(format!("{done}/")..format!("{done}0")).count();
            if is_calm && count > kept + kept / 10 + tasks {
                state.fails_as_stale(format!(
                    "{count} records are at {done}, where {kept} are kept"
                ));
            }
        }
    }

    /// Data was written under a lock.
    pub(crate) fn written(&self, state: &mut State, path: &str, entry: &LoggedEntry) {
        if entry.data == LATE {
            state.fails_as_stale(format!("{path} was written after the hold was released"));
        }
        let Some((token, hold)) = numbers(&entry.data) else { return };
        let last = state.written.insert(path.to_owned(), (token, hold)).unwrap_or_default();
        if (token, hold) < last {
            state.fails_as_stale(format!(
                "{path} was written by {token:#x} {hold} after {:#x} {}",
                last.0, last.1
            ));
        }
        let node = state.by_zxid.get(&token).cloned().unwrap_or_default();
        if !self.leads(state, &node, entry.session) {
            let failure = format!("{path} was written by {token:#x}, but {node:?} does not lead");
            state.fails_as_stale(failure);
        }
    }
}

impl State {
    pub(crate) fn is_calm(&self) -> bool {
        let (wrong, _, since) = self.wrong;
        wrong == 0 && since.is_none_or(|since| since.elapsed() > Duration::from_secs(5))
    }
}

/// The fencing token of a write, and the number of its hold.
fn numbers(data: &[u8]) -> Option<(i64, u64)> {
    let (token, hold) = std::str::from_utf8(data).ok()?.split_once(' ')?;
    Some((token.parse().ok()?, hold.parse().ok()?))
}

fn sequence(node: &str) -> Option<i64> {
    node.get(node.len().saturating_sub(10)..)?.parse().ok()
}
