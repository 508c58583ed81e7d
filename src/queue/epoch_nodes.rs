//! The own nodes of one epoch, by their [lock paths](super::siblings), and which of these are remembered.
//!
//! A path is remembered while a watch on it is kept for the [gap rule](super::rules::gap), and each takes some of the
//! epoch's room for watches. So they are few, and the one that was not used for longest makes room for another,
//! but not before it was idle for a session timeout: a caller that goes round many more paths than fit shall not set and
//! remove a watch for each.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedSender;

use super::by_path::ByPath;
use super::rounds::Monitored;
use super::shortcuts::Shortcuts;
use super::siblings::Siblings;
use crate::client::NodeWatch;
use crate::clock::BootInstant;
use crate::lock_path::LockPath;
use crate::queue::rules::admission::Family;
use crate::session::Session;
use crate::session::epoch::Epoch;
use crate::sync::Mutex;

/// How many lock paths are remembered.
const REMEMBERED: usize = 256;

/// How many bytes their paths may have in all: a quarter of the room for watches.
const REMEMBERED_BYTES: usize = 24 * 1024;

#[derive(Debug)]
pub(super) struct EpochNodes {
    pub(super) session: Arc<Session>,
    pub(super) epoch: Arc<Epoch>,
    rules: Shortcuts,
    paths: ByPath<Siblings>,
    remembered: Mutex<Remembered>,
    /// To the node monitor.
    watched: UnboundedSender<Watched>,
}

/// A node, and a watch on it.
pub(super) type Watched = (Monitored, NodeWatch, OwnedSemaphorePermit);

impl EpochNodes {
    pub(super) fn new(
        session: &Arc<Session>,
        epoch: &Arc<Epoch>,
        rules: Shortcuts,
        watched: UnboundedSender<Watched>,
    ) -> Self {
        let (session, epoch) = (session.clone(), epoch.clone());
        Self { session, epoch, rules, paths: ByPath::new(), remembered: Mutex::default(), watched }
    }

    /// The node monitor looks after a node by this watch. Dropping a watch that has not fired sends a request, which must
    /// not go ahead of the delete.
    pub(super) fn monitor(&self, own: Monitored, watch: NodeWatch, room: OwnedSemaphorePermit) {
        own.node.set_watched(true);
        // At the end of the epoch there is no monitor, and no hold.
        let _ = self.watched.send((own, watch, room));
    }

    /// The children of `path`; remembers the path if there is room.
    pub(super) fn at(&self, path: &LockPath, family: &Family) -> Arc<Siblings> {
        let new = || Arc::new(Siblings::new(path.clone(), family.clone(), self.rules));
        let siblings = self.paths.at(path, |it| it.family == *family, new);
        if self.rules.gap && siblings.remembered().is_none() {
            self.remember(&siblings);
        }
        siblings
    }

    /// All there are.
    pub(super) fn all(&self) -> Vec<Arc<Siblings>> {
        self.paths.all()
    }

    /// Lets go of the watches on lock paths.
    pub(super) fn forget(&self) {
        let mut remembered = self.remembered.lock();
        let paths = std::mem::take(&mut remembered.paths);
        remembered.bytes = 0;
        drop(remembered);
        paths.iter().for_each(|siblings| siblings.forget());
    }

    fn remember(&self, siblings: &Arc<Siblings>) {
        let bytes = |it: &Siblings| self.epoch.watched_bytes(it.path.as_str());
        let now = BootInstant::now();
        let mut remembered = self.remembered.lock();
        if now < remembered.full_until.unwrap_or(now)
            || remembered.paths.iter().any(|other| Arc::ptr_eq(other, siblings))
        {
            return;
        }
        let is_full = |remembered: &Remembered| {
            remembered.paths.len() >= REMEMBERED
                || remembered.bytes + bytes(siblings) > REMEMBERED_BYTES
        };
        while is_full(&remembered) {
            let paths = remembered.paths.iter().enumerate();
            let oldest = paths.min_by_key(|(_, siblings)| siblings.remembered());
            let Some((place, used)) = oldest.map(|(place, oldest)| (place, oldest.remembered()))
            else {
                return; // its path alone is too long
            };
            let idle_at = used.unwrap_or(now).after(self.epoch.timeout());
            if now < idle_at {
                remembered.full_until = Some(idle_at);
                return;
            }
            let forgotten = remembered.paths.swap_remove(place);
            remembered.bytes -= bytes(&forgotten);
            forgotten.forget();
        }
        if let Some(room) = self.epoch.room_at_once(siblings.path.as_str()) {
            siblings.remember(room);
            remembered.bytes += bytes(siblings);
            remembered.paths.push(siblings.clone());
        }
    }
}

#[derive(Debug, Default)]
struct Remembered {
    paths: Vec<Arc<Siblings>>,
    bytes: usize,
    /// Before that none of them can have been idle for long enough.
    full_until: Option<BootInstant>,
}
