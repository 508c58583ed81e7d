//! The reader of the servers' log, for the judge of this crate's own simulation.

use std::sync::Arc;

use super::op::{Happened, Op};
use super::tree::{Fired, LogEntry, Tree};
use crate::client::ServerError;

/// An effect of one log entry.
#[derive(Clone, Debug)]
#[doc(hidden)]
#[allow(clippy::exhaustive_enums)] // for the judge of this crate's own simulation
pub enum Logged {
    /// The path, and the session that owns the node.
    Created(String, i64),
    Deleted(String),
    Changed(String),
    SessionEnded(i64),
    /// A request was refused, because the servers believe the session to be at another server. A dial that was given up can cause
    /// that long after it, and the next write shows it (ZOOKEEPER-710).
    SessionMoved,
}

/// An effect, with its transaction.
#[derive(Clone, Debug)]
#[doc(hidden)]
#[allow(clippy::exhaustive_structs)] // for the judge of this crate's own simulation
pub struct LoggedEntry {
    pub zxid: i64,
    /// The session whose request it was.
    pub session: i64,
    pub effect: Logged,
    /// The data of a node that was created or changed.
    pub data: Vec<u8>,
}

type Callback = Arc<dyn Fn(&LoggedEntry) + Send + Sync>;

#[derive(Default)]
pub(super) struct LogObserver {
    callback: Option<Callback>,
    /// The zxid of the last entry that was reported.
    reported: i64,
}

impl LogObserver {
    pub(super) fn set(&mut self, callback: impl Fn(&LoggedEntry) + Send + Sync + 'static) {
        self.callback = Some(Arc::new(callback));
    }

    /// Returns the call that reports an entry which a server has just applied to `tree`. An entry is reported once, for
    /// the first server that applies it.
    pub(super) fn report(
        &mut self,
        entry: &LogEntry,
        fired: &[Fired],
        tree: &Tree,
    ) -> Option<impl FnOnce() + Send + use<>> {
        let callback = self.callback.clone().filter(|_| entry.zxid > self.reported)?;
        self.reported = entry.zxid;
        let (zxid, session) = (entry.zxid, entry.session);
        let mut effects = Vec::new();
        match &entry.op {
            Ok(Op::Close) => effects.push((Logged::SessionEnded(session), Vec::new())),
            Err(ServerError::SessionMoved) => effects.push((Logged::SessionMoved, Vec::new())),
            _ => {}
        }
        for fired in fired {
            let data = tree.node(&fired.path).map(|(_, data)| data.to_vec()).unwrap_or_default();
            effects.extend(logged_of(fired, tree).map(|logged| (logged, data)));
        }
        Some(move || {
            for (effect, data) in effects {
                callback(&LoggedEntry { zxid, session, effect, data });
            }
        })
    }
}

fn logged_of(fired: &Fired, tree: &Tree) -> Option<Logged> {
    let path = fired.path.clone();
    match (fired.happened, tree.node(&path)) {
        (Happened::Created, node) => {
            let owner = node.map_or(0, |(stat, _)| stat.ephemeral_owner);
            Some(Logged::Created(path, owner))
        }
        (Happened::Deleted, _) => Some(Logged::Deleted(path)),
        (Happened::Changed, _) => Some(Logged::Changed(path)),
        (Happened::Children, _) => None,
    }
}
