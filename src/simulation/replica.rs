//! The replicated log of one server, and the znodes that follow from it.

use std::sync::Arc;

use super::op::Reply;
use super::tree::{Fired, LogEntry, Tree};

pub(super) struct Replica {
    tree: Tree,
    log: Vec<Arc<LogEntry>>,
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
        Self { tree, log: Vec::new(), committed: 0, applied: 0 }
    }

    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(super) fn tree_mut(&mut self) -> &mut Tree {
        &mut self.tree
    }

    /// Length of the log.
    pub(super) fn length(&self) -> usize {
        self.log.len()
    }

    pub(super) fn last_zxid(&self) -> Option<i64> {
        self.log.last().map(|entry| entry.zxid)
    }

    pub(super) fn append(&mut self, entry: Arc<LogEntry>) {
        self.log.push(entry);
    }

    /// Takes over the log of a leader. Entries that only this server had were never committed.
    pub(super) fn copy_from(&mut self, leader: LogCopy) {
        self.log = leader.log;
        self.committed = self.committed.max(leader.committed);
    }

    /// A copy of the log for a follower.
    pub(super) fn copy(&self) -> LogCopy {
        LogCopy { log: self.log.clone(), committed: self.committed }
    }

    pub(super) fn committed(&self) -> usize {
        self.committed
    }

    /// Commits this length of the log, as far as the server has it.
    pub(super) fn commit(&mut self, length: usize) {
        self.committed = self.committed.max(length.min(self.log.len()));
    }

    /// Applies the next committed entry, if there is one.
    pub(super) fn apply_next(&mut self) -> Option<Applied> {
        if self.applied >= self.committed {
            return None;
        }
        let entry = self.log[self.applied].clone();
        self.applied += 1;
        let (reply, fired) = self.tree.apply(&entry);
        Some(Applied { entry, reply, fired })
    }
}

pub(super) struct LogCopy {
    log: Vec<Arc<LogEntry>>,
    committed: usize,
}
