//! The judge of what clients see: leaders never go back, and counts are what was last written.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;
use zookeeper_recipes::interop::VersionedCount;
use zookeeper_recipes::simulation::LoggedEntry;

use crate::judge::{Judge, State};

/// How long the news of a count takes while nothing is wrong.
const NEWS: Duration = Duration::from_secs(1);

/// A count by the servers' log.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    /// The value that each transaction wrote.
    writes: BTreeMap<i64, i32>,
    last: Option<(i64, Instant)>,
    /// When the node was deleted last.
    pub(crate) deleted: Option<Instant>,
    /// The writes that a caller has heard to be its own.
    confirmed: BTreeSet<i64>,
}

impl State {
    fn sees_wrong(&mut self, failure: String) {
        self.counts.stale += 1;
        self.fails(format!("stale: {failure}"));
    }

    /// A count was created or changed.
    pub(crate) fn counted(&mut self, path: &str, entry: &LoggedEntry) {
        let Ok(bytes) = entry.data.as_slice().try_into() else { return };
        let value = i32::from_be_bytes(bytes);
        let counter = self.counters.entry(path.to_owned()).or_default();
        counter.writes.insert(entry.zxid, value);
        counter.last = Some((entry.zxid, Instant::now()));
    }

    pub(crate) fn count_deleted(&mut self, path: &str) {
        if let Some(counter) = self.counters.get_mut(path) {
            counter.last = None;
            counter.deleted = Some(Instant::now());
        }
    }
}

impl Judge {
    /// An observer reports a leader after another, or a member of the same id.
    pub(crate) fn observes(&self, name: &str, last: Option<i64>, node: &str, token: i64) {
        let mut state = self.state();
        if last.is_some_and(|last| token < last) {
            let failure = format!("{name} observes {token:#x} after {last:?}");
            state.sees_wrong(failure);
        }
        if state.by_zxid.get(&token).map(String::as_str) != Some(node) {
            let failure = format!("{name} observes {node} by {token:#x}, which it never had");
            state.sees_wrong(failure);
        }
    }

    /// An observer has followed a node for a while. If nothing has changed or was wrong for long, it knows the present one.
    pub(crate) fn still_observes(&self, name: &str, node: &str, token: Option<i64>) {
        let mut state = self.state();
        let Some(znode) = state.history.get(node).copied() else { return };
        let changed = znode.deleted.unwrap_or(znode.created);
        let there = znode.deleted.is_none().then_some(znode.zxid);
        if state.is_calm() && changed.elapsed() > NEWS && token != there {
            let failure = format!("{name} observes {token:?} at {node}, where {there:?} is");
            state.sees_wrong(failure);
        }
    }

    /// A process sees a count, which it has followed since then.
    pub(crate) fn sees(&self, name: &str, path: &str, seen: &VersionedCount, followed: Instant) {
        let mut state = self.state();
        let is_calm = state.is_calm();
        let Some(counter) = state.counters.get(path) else { return };
        let failure = if counter.writes.get(&seen.zxid) != Some(&seen.value) {
            format!("{name} sees {seen:?} at {path}, which was never written")
        } else if let Some((last, since)) = counter.last
            && is_calm
            && last != seen.zxid
            && since.elapsed() > NEWS
            && followed.elapsed() > NEWS
        {
            format!(
                "{name} sees {seen:?} at {path}, where {last:#x} wrote {:?} ago",
                since.elapsed()
            )
        } else {
            return;
        };
        state.sees_wrong(failure);
    }

    /// A process has written a count over one that it saw, or was refused.
    pub(crate) fn set(
        &self,
        name: &str,
        path: &str,
        seen: &VersionedCount,
        value: i32,
        is_set: bool,
    ) {
        let mut state = self.state();
        let Some(counter) = state.counters.get_mut(path) else { return };
        let next = counter.writes.range(seen.zxid + 1..).next();
        let next = next.map(|(zxid, value)| (*zxid, *value));
        let is_deleted = counter.last.is_none() || counter.deleted.is_some();
        let is_so = match (is_set, next) {
            (true, Some((zxid, written))) => {
                let is_first = counter.confirmed.insert(zxid);
                written == value && is_first || is_deleted
            }
            (true, None) => false,
            (false, next) => next.is_some() || is_deleted,
        };
        if !is_so {
            let failure =
                format!("{name} writes {value} to {path} over {seen:?}, says {is_set}: {next:?}");
            state.sees_wrong(failure);
        }
    }
}
