//! The watches of a simulated client.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::op::{Happened, WatchKind};
use super::world::World;

/// A one-shot watch. Resolves with `None` when the session has ended.
pub(crate) struct Watch {
    /// The number of its world.
    world: u64,
    client: usize,
    id: u64,
    happened: oneshot::Receiver<Happened>,
    has_fired: bool,
}

impl Watch {
    pub(super) fn new(
        world: u64,
        client: usize,
        id: u64,
        happened: oneshot::Receiver<Happened>,
    ) -> Self {
        Self { world, client, id, happened, has_fired: false }
    }
}

impl Future for Watch {
    type Output = Option<Happened>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let happened = Pin::new(&mut self.happened).poll(context);
        self.has_fired |= happened.is_ready();
        happened.map(Result::ok)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let is_its_own = |world: &Arc<World>| !self.has_fired && world.number == self.world;
        if let Some(world) = World::here().filter(is_its_own) {
            world.change(|state| state.unwatch(self.client, self.id));
        }
    }
}

/// The client's end of a [`Watch`].
struct Watcher {
    id: u64,
    kind: WatchKind,
    happened: oneshot::Sender<Happened>,
}

impl Watcher {
    /// Returns true if both are watches on the children of a node, or both on the node itself.
    fn is_alike(&self, kind: WatchKind) -> bool {
        (self.kind == WatchKind::Child) == (kind == WatchKind::Child)
    }
}

#[derive(Default)]
pub(super) struct ClientWatches {
    by_path: BTreeMap<String, Vec<Watcher>>,
    added: u64,
}

/// A watch that was removed.
pub(super) struct Removed {
    pub(super) path: String,
    pub(super) kind: WatchKind,
    /// True if no other watch of the client is of the same path and kind.
    pub(super) is_last: bool,
}

impl ClientWatches {
    /// Adds a watch. Returns its id, and the receiver of the event.
    pub(super) fn add(
        &mut self,
        path: &str,
        kind: WatchKind,
    ) -> (u64, oneshot::Receiver<Happened>) {
        let (sender, receiver) = oneshot::channel();
        self.added += 1;
        let watcher = Watcher { id: self.added, kind, happened: sender };
        self.by_path.entry(path.to_owned()).or_default().push(watcher);
        (self.added, receiver)
    }

    /// Removes the watches that an event fires, and returns their senders.
    pub(super) fn take_fired(
        &mut self,
        path: &str,
        happened: Happened,
    ) -> Vec<oneshot::Sender<Happened>> {
        let is_meant = |kind: WatchKind| match happened {
            Happened::Children => kind == WatchKind::Child,
            Happened::Deleted => true,
            Happened::Created | Happened::Changed => kind != WatchKind::Child,
        };
        let Some(watches) = self.by_path.get_mut(path) else { return Vec::new() };
        let mut fired = Vec::new();
        // The last watch fires first. The order of the remaining watches changes, as in the real client.
        for nth in (0..watches.len()).rev() {
            if is_meant(watches[nth].kind) {
                fired.push(watches.swap_remove(nth).happened);
            }
        }
        if watches.is_empty() {
            self.by_path.remove(path);
        }
        fired
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Removed> {
        let (path, watcher) = self.by_path.iter_mut().find_map(|(path, watches)| {
            let nth = watches.iter().position(|watcher| watcher.id == id)?;
            Some((path.clone(), watches.swap_remove(nth)))
        })?;
        let kind = watcher.kind;
        let left = &self.by_path[&path];
        let is_last = !left.iter().any(|other| other.is_alike(kind));
        if left.is_empty() {
            self.by_path.remove(&path);
        }
        Some(Removed { path, kind, is_last })
    }

    /// All watches, to be set again after a reconnect.
    pub(super) fn all(&self) -> BTreeSet<(WatchKind, String)> {
        let mut all = BTreeSet::new();
        for (path, watches) in &self.by_path {
            all.extend(watches.iter().map(|watcher| (watcher.kind, path.clone())));
        }
        all
    }
}
