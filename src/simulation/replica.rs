//! The replicated log of one server, and the znodes that follow from it.

use std::collections::VecDeque;
use std::sync::Arc;

use super::op::Reply;
use super::tree::{Fired, LogEntry, Tree};

pub(super) struct Replica {
    tree: Tree,
    /// The entries that some server has not applied yet. A follower that joins needs no earlier one.
    log: VecDeque<Arc<LogEntry>>,
    /// Number of entries before these.
    dropped: usize,
    /// Length of the part of the log that is committed.
    committed: usize,
    /// Length of the part of the log that is applied to the tree.
    applied: usize,
}

/// An entry that was just applied.
pub(super) struct Applied {
    pub(super) entry: Arc<LogEntry>,
    pub(super) reply: Reply,
    pub(super) fired: Vec<Fired>,
}

impl Replica {
    pub(super) fn new(tree: Tree) -> Self {
        Self { tree, log: VecDeque::new(), dropped: 0, committed: 0, applied: 0 }
    }

    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(super) fn tree_mut(&mut self) -> &mut Tree {
        &mut self.tree
    }

    /// Length of the log.
    pub(super) fn length(&self) -> usize {
        self.dropped + self.log.len()
    }

    pub(super) fn last_zxid(&self) -> i64 {
        self.log.back().map_or(self.tree.zxid(), |entry| entry.zxid)
    }

    pub(super) fn append(&mut self, entry: Arc<LogEntry>) {
        self.log.push_back(entry);
    }

    /// Takes over the log of a leader. Entries that only this server had were never committed.
    pub(super) fn copy_from(&mut self, leader: LogCopy) {
        self.log = leader.log;
        self.dropped = leader.dropped;
        self.committed = self.committed.max(leader.committed);
    }

    /// A copy of the log for a follower.
    pub(super) fn copy(&self) -> LogCopy {
        LogCopy { log: self.log.clone(), dropped: self.dropped, committed: self.committed }
    }

    pub(super) fn committed(&self) -> usize {
        self.committed
    }

    /// Commits this length of the log, as far as the server has it.
    pub(super) fn commit(&mut self, length: usize) {
        self.committed = self.committed.max(length.min(self.length()));
    }

    /// Applies the next committed entry, if there is one.
    pub(super) fn apply_next(&mut self) -> Option<Applied> {
        if self.applied >= self.committed {
            return None;
        }
        let entry = self.log[self.applied - self.dropped].clone();
        self.applied += 1;
        let (reply, fired) = self.tree.apply(&entry);
        Some(Applied { entry, reply, fired })
    }

    /// Number of entries that are applied.
    pub(super) fn applied(&self) -> usize {
        self.applied
    }

    /// Drops the entries that all servers have applied.
    pub(super) fn drop_applied(&mut self, everywhere: usize) {
        let count = everywhere.saturating_sub(self.dropped).min(self.log.len());
        self.log.drain(..count);
        self.dropped += count;
    }
}

pub(super) struct LogCopy {
    log: VecDeque<Arc<LogEntry>>,
    dropped: usize,
    committed: usize,
}
