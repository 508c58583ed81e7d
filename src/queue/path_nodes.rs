//! The znodes under one lock path, as one session knows them: our own, and whether other clients created any.
//!
//! One lock guards both. A znode is registered before its create is counted, so all of our znodes that are older than the one
//! that the [gap rule](super::rules::gap) admits are known. A znode is unregistered when its delete is handed to the client.
//! If that delete is lost, the znode keeps other contenders out until the delete is retried; no task holds by it any more.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use futures_util::future::{BoxFuture, FutureExt};

use super::driver::QueueDriver;
use super::hold::{End, HoldState};
use super::leaving::LeavingNodes;
use super::node::Znode;
use super::request::Requester;
use crate::client::{LinkWatch, Listing, NodeWatch, WatchPermit};
use crate::clock::BootInstant;
use crate::error::Loss;
use crate::lock_path::LockPath;
use crate::queue::rules::admission::{Family, Position, decide, is_busy};
use crate::queue::rules::gap::{Creates, Gap};
use crate::queue::rules::node_name::{is_retainable, is_retainable_read};
use crate::sync::Mutex;

/// The requests that have to be sent together with a create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CreateWith {
    /// The gap rule can judge the answer.
    Nothing,
    Listing,
    /// First a watch on the parent, then the listing. The caller reports the answer to
    /// [`parent_watched`](PathNodes::parent_watched).
    WatchAndListing,
}

/// The child that a semaphore at the same path has.
const SEMAPHORE: &str = "leases";

#[derive(Debug)]
pub(super) struct PathNodes {
    pub(super) path: LockPath,
    pub(super) family: Family,
    /// True once a warning of a semaphore at this path was logged.
    warned: AtomicBool,
    state: Mutex<State>,
    pub(super) leaving: LeavingNodes,
}

#[derive(Debug)]
struct State {
    /// Our own znodes, by `czxid`.
    own: BTreeMap<i64, OwnNode>,
    parent: Parent,
    /// The number of other clients' contenders in the last listing. The gap rule admits nobody while there are any,
    /// except leases, which are only counted.
    strangers: usize,
}

#[derive(Debug)]
struct OwnNode {
    znode: Arc<Znode>,
    admitted: Option<Admitted>,
    /// True if the node monitor watches or polls the znode, also while that waits again.
    monitored: bool,
}

/// The hold of a znode that was admitted.
#[derive(Debug)]
struct Admitted {
    driver: Weak<QueueDriver>,
    /// The present holds by the znode, and a few that have ended.
    holds: Vec<Arc<HoldState>>,
    /// The number of holds at which those that have ended are removed.
    sweep_at: usize,
    since: BootInstant,
}

impl PathNodes {
    pub(super) fn new(path: LockPath, family: Family) -> Self {
        let state = State { own: BTreeMap::new(), parent: Parent::new(), strangers: 0 };
        Self {
            path,
            family,
            warned: AtomicBool::new(false),
            state: Mutex::new(state),
            leaving: LeavingNodes::default(),
        }
    }

    // --- Creates and listings.

    /// Returns what has to be sent together with the next create.
    pub(super) fn next_create(&self) -> CreateWith {
        let parent = &mut self.state.lock().parent;
        if parent.knows() {
            CreateWith::Nothing
        } else if parent.asks() {
            CreateWith::WatchAndListing
        } else {
            CreateWith::Listing
        }
    }

    /// Takes the answer to the watch of [`CreateWith::WatchAndListing`].
    pub(super) fn parent_watched(&self, armed: Option<(NodeWatch, LinkWatch)>) {
        self.state.lock().parent.watched(armed);
    }

    /// Registers a znode whose create was answered.
    pub(super) fn enter(&self, znode: &Arc<Znode>) {
        let own = OwnNode { znode: znode.clone(), admitted: None, monitored: false };
        self.state.lock().own.insert(znode.czxid, own);
    }

    /// Forgets what is known of the parent, because a create without an answer may have left a znode anywhere.
    pub(super) fn unanswered(&self) {
        self.state.lock().parent.forget();
    }

    /// Counts a create that was answered. Returns the position, if the gap rule tells it.
    pub(super) fn by_gap(&self, znode: &Znode) -> Option<Position> {
        let mut state = self.state.lock();
        // Znodes of an earlier incarnation of the parent are deleted, although we may not know it yet.
        let incarnation = state.parent.created(znode.sequence, znode.czxid)?;
        if self.family == Family::Leases {
            return Some(Position::Among(state.strangers + state.own.len()));
        }
        let mut before = state.own.range(incarnation..znode.czxid).map(|(_, own)| &own.znode);
        let is_kept_out = before.any(|own| !(znode.shared && own.shared));
        (!is_kept_out).then_some(Position::First)
    }

    /// Logs a warning if a listing shows that a semaphore uses the path as well.
    pub(super) fn warn_of_semaphore(&self, listing: &Listing) {
        if listing.children.iter().any(|child| child == SEMAPHORE)
            && !self.warned.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(path = %self.path, "a semaphore is or was at this path, which this lock does not keep out");
        }
    }

    /// Judges a listing that was sent after the create of `znode`.
    pub(super) fn judge(&self, znode: &Znode, listing: &Listing) -> Position {
        let mut state = self.state.lock();
        state.learn(&self.family, listing);
        // A node of ours that is older than `znode` and not listed was deleted. Its hold ends before another one begins.
        let missing = state.missing(znode.czxid, listing);
        if !missing.is_empty() {
            drop(state);
            missing.iter().for_each(|gone| self.gone(gone));
            state = self.state.lock();
        }
        if !state.own.contains_key(&znode.czxid) {
            return Position::Gone;
        }
        decide(&listing.children, znode.name(), &self.family)
    }

    /// Returns true if a listing shows the znode and no other contender, of this recipe or another. For a reader only a writer
    /// counts as a contender.
    pub(super) fn is_sole(&self, znode: &Znode, listing: &Listing) -> bool {
        if self.family.other_recipe(&listing.children).is_some() {
            return false;
        }
        if znode.shared {
            let mut children = listing.children.iter();
            return children.any(|name| name == znode.name())
                && !is_busy(&listing.children, &self.family, true);
        }
        self.only_contender(listing).is_some_and(|name| name == znode.name())
    }

    /// Returns true if a listing, which shows no other recipe, has a contender that keeps out a new one.
    pub(super) fn is_busy(&self, listing: &Listing, shared: bool) -> bool {
        self.state.lock().learn(&self.family, listing);
        is_busy(&listing.children, &self.family, shared)
    }

    /// Returns true if a listing shows only nodes that may be kept without a hold: one, or some of readers.
    pub(super) fn may_be_kept(&self, listing: &Listing) -> bool {
        if self.only_contender(listing).is_some_and(|name| is_retainable(name)) {
            return true;
        }
        let mut contenders = listing.children.iter().filter(|name| self.family.counts(name));
        contenders.all(|name| is_retainable_read(name))
    }

    /// The number of other sessions' nodes that a listing shows and that may be kept without a hold.
    pub(super) fn may_be_kept_by_others(&self, listing: &Listing) -> usize {
        let state = self.state.lock();
        let own: HashSet<&str> = state.own.values().map(|own| own.znode.name()).collect();
        let kept = |name: &&String| is_retainable(name) && !own.contains(name.as_str());
        listing.children.iter().filter(kept).count()
    }

    /// Returns the contender of this recipe that a listing shows, if it shows exactly one.
    fn only_contender<'a>(&self, listing: &'a Listing) -> Option<&'a String> {
        let mut contenders = listing.children.iter().filter(|name| self.family.counts(name));
        contenders.next().filter(|_| contenders.next().is_none())
    }

    // --- Own znodes.

    /// Returns true if `requester` has a hold, or keeps the guard of one that was lost.
    pub(super) fn is_held_by(&self, requester: Requester) -> bool {
        let state = self.state.lock();
        let mut admitted = state.own.values().filter_map(|own| own.admitted.as_ref());
        let is_its = |hold: &Arc<HoldState>| {
            hold.requester == requester && hold.end() != Some(End::Released)
        };
        admitted.any(|admitted| admitted.holds.iter().any(is_its))
    }

    /// Registers a hold by the znode. Returns false if the znode is deleted.
    pub(super) fn admitted(
        &self,
        znode: &Znode,
        driver: &Arc<QueueDriver>,
        hold: Arc<HoldState>,
    ) -> bool {
        let mut state = self.state.lock();
        let Some(own) = state.own.get_mut(&znode.czxid) else { return false };
        let admitted = own.admitted.get_or_insert_with(|| Admitted {
            driver: Arc::downgrade(driver),
            holds: Vec::new(),
            sweep_at: 0,
            since: BootInstant::now(),
        });
        if admitted.holds.len() >= admitted.sweep_at {
            admitted.holds.retain(|hold| !hold.ended().is_cancelled());
            admitted.sweep_at = 2 * (admitted.holds.len() + 1);
        }
        admitted.holds.push(hold);
        true
    }

    /// Unregisters a znode whose delete is handed to the client. Returns false if the znode is deleted already.
    pub(super) fn unregister(&self, znode: &Znode) -> bool {
        self.state.lock().own.remove(&znode.czxid).is_some()
    }

    /// Ends the admission of a znode that held and waits again.
    pub(super) fn waits_again(&self, znode: &Znode) {
        if let Some(own) = self.state.lock().own.get_mut(&znode.czxid) {
            own.admitted = None;
        }
    }

    /// Takes the news that the znode is deleted: its holds are lost.
    pub(super) fn gone(&self, znode: &Znode) {
        let mut state = self.state.lock();
        let own = state.own.remove(&znode.czxid);
        let Some(admitted) = own.and_then(|own| own.admitted) else { return };
        // The holds end before another task sees the path without the znode: until then a companion read must not count as a
        // contender.
        for hold in &admitted.holds {
            hold.mark_lost(Loss::NodeDeleted);
        }
        drop(state);
        for hold in &admitted.holds {
            if let End::Lost(how) = hold.mark_node_gone() {
                tracing::warn!(path = %self.path, node = znode.path, %how, "the hold's node is gone");
            }
        }
        if let Some(driver) = admitted.driver.upgrade() {
            driver.node_gone(znode.czxid);
        }
    }

    /// Takes the news that the contender `name` is deleted, which may be one of ours.
    pub(super) fn deleted(&self, name: &str) {
        let state = self.state.lock();
        let ours = state.own.values().find(|own| own.znode.name() == name);
        let ours = ours.map(|own| own.znode.clone());
        drop(state);
        if let Some(znode) = ours {
            self.gone(&znode);
        }
    }

    /// Returns true while the znode is registered.
    pub(super) fn has(&self, znode: &Znode) -> bool {
        self.state.lock().own.contains_key(&znode.czxid)
    }

    /// Ends all holds, because the session ended or is left to others. The futures resolve when the znodes are deleted.
    pub(super) fn give_up(&self, end: impl Fn(&HoldState)) -> Vec<BoxFuture<'static, ()>> {
        let mut state = self.state.lock();
        let own = state.own.iter_mut();
        let admitted = own.filter_map(|(czxid, own)| Some((*czxid, own.admitted.take()?)));
        let admitted: Vec<_> = admitted.collect();
        drop(state);
        for (_, admitted) in &admitted {
            admitted.holds.iter().for_each(|hold| end(hold));
        }
        let mut deletes = Vec::new();
        for (czxid, admitted) in &admitted {
            if let Some(driver) = admitted.driver.upgrade() {
                deletes.push(driver.give_up(*czxid).boxed());
            }
        }
        deletes
    }

    // --- The node monitor.

    /// Returns the znodes that were admitted before `since` and that no task monitors. The caller monitors them from now on.
    pub(super) fn unmonitored(&self, since: BootInstant) -> Vec<Arc<Znode>> {
        let mut unmonitored = Vec::new();
        for own in self.state.lock().own.values_mut() {
            let Some(admitted) = &own.admitted else { continue };
            let is_seen = own.monitored || own.znode.is_watched();
            if !is_seen && admitted.since <= since {
                own.monitored = true;
                unmonitored.push(own.znode.clone());
            }
        }
        unmonitored
    }

    /// Hands the znode back to [`unmonitored`](Self::unmonitored), because its watch fired or failed.
    pub(super) fn mark_unmonitored(&self, znode: &Znode) {
        let mut state = self.state.lock();
        znode.set_watched(false);
        if let Some(own) = state.own.get_mut(&znode.czxid) {
            own.monitored = false;
        }
    }

    // --- The watch on the parent.

    /// Gives the path room to watch the parent.
    pub(super) fn remember(&self, room: WatchPermit) {
        self.state.lock().parent.remember(room);
    }

    /// Returns when the path was last used, if it is remembered.
    pub(super) fn remembered(&self) -> Option<BootInstant> {
        self.state.lock().parent.remembered()
    }

    pub(super) fn forget(&self) {
        self.state.lock().parent.unwatch();
    }
}

impl State {
    /// Returns the znodes of holds that are older than `czxid` and not in the listing.
    fn missing(&self, czxid: i64, listing: &Listing) -> Vec<Arc<Znode>> {
        let older = self.own.range(..czxid).filter(|(_, own)| own.admitted.is_some());
        let older: Vec<_> = older.map(|(_, own)| &own.znode).collect();
        if older.is_empty() {
            return Vec::new();
        }
        let listed: HashSet<_> = listing.children.iter().map(String::as_str).collect();
        older.into_iter().filter(|znode| !listed.contains(znode.name())).cloned().collect()
    }

    /// Learns from a listing how many contenders of other clients there are. Znodes whose create was not answered are not
    /// registered, and count as another client's.
    fn learn(&mut self, family: &Family, listing: &Listing) {
        let leases = *family == Family::Leases;
        let knows = self.parent.knows();
        if (knows && !leases) || !self.parent.can_learn(listing) {
            return;
        }
        let ours: HashSet<_> = self.own.values().map(|own| own.znode.name()).collect();
        let counts = |name: &&String| leases || family.counts(name);
        let names = listing.children.iter().filter(counts);
        let strangers = names.filter(|name| !ours.contains(name.as_str())).count();
        let is_unmixed = || family.other_recipe(&listing.children).is_none();
        let can_learn = leases || strangers == 0 && is_unmixed();
        // A stale listing may miss a newer contender.
        if !can_learn || self.parent.learn(listing) {
            self.strangers = strangers;
        }
    }
}

/// The parent of the contenders: what the gap rule knows of it, and the watch that says when this is no longer true.
#[derive(Debug)]
struct Parent {
    gap: Gap,
    watch: ParentWatch,
    /// Room for the watch, while the path is remembered.
    room: Option<WatchPermit>,
    used: BootInstant,
}

/// The watch on the parent's data.
#[derive(Debug)]
enum ParentWatch {
    None,
    /// A task waits for the answer.
    Asked,
    Armed {
        watch: NodeWatch,
        /// The connection as it was before the watch was asked for.
        link: LinkWatch,
    },
}

impl Parent {
    fn new() -> Self {
        Self { gap: Gap::default(), watch: ParentWatch::None, room: None, used: BootInstant::now() }
    }

    /// Returns true if the gap rule has a baseline that is still true.
    fn knows(&mut self) -> bool {
        self.used = BootInstant::now();
        let incarnation = self.incarnation();
        if incarnation.is_none() || self.gap.incarnation() != incarnation {
            self.gap.forget();
            return false;
        }
        true
    }

    /// Returns the incarnation of the parent, while the watch proves that it has not changed.
    fn incarnation(&mut self) -> Option<i64> {
        let ParentWatch::Armed { watch, link } = &mut self.watch else {
            return None;
        };
        if watch.fired().is_none() && !link.has_changed() {
            return Some(watch.czxid());
        }
        self.watch = ParentWatch::None;
        None
    }

    /// Returns true if the next task that lists has to watch the parent first.
    fn asks(&mut self) -> bool {
        let asks = self.incarnation().is_none()
            && self.room.is_some()
            && matches!(self.watch, ParentWatch::None);
        if asks {
            self.watch = ParentWatch::Asked;
        }
        asks
    }

    /// Takes the answer, after [`asks`](Self::asks).
    fn watched(&mut self, armed: Option<(NodeWatch, LinkWatch)>) {
        if matches!(self.watch, ParentWatch::Asked) {
            self.watch = match armed {
                Some((watch, link)) => ParentWatch::Armed { watch, link },
                None => ParentWatch::None,
            };
        }
    }

    /// Returns true if a listing is of the incarnation that is watched.
    fn can_learn(&mut self, listing: &Listing) -> bool {
        self.incarnation() == Some(listing.czxid)
    }

    /// Takes the count of a listing that showed only our own znodes, or only leases. Returns false if the listing is older
    /// than the baseline.
    fn learn(&mut self, listing: &Listing) -> bool {
        let creates = Creates::of(listing.cversion, listing.num_children);
        self.gap.learn(listing.czxid, creates)
    }

    /// Counts a create of ours. Returns the incarnation of the parent, if only our own znodes can be before the new one.
    fn created(&mut self, sequence: i64, czxid: i64) -> Option<i64> {
        self.knows();
        let sequence = i32::try_from(sequence).unwrap_or(-1);
        if self.gap.created(sequence, czxid) { self.gap.incarnation() } else { None }
    }

    /// Forgets the baseline.
    fn forget(&mut self) {
        self.gap.forget();
    }

    fn remember(&mut self, room: WatchPermit) {
        self.room = Some(room);
    }

    fn remembered(&self) -> Option<BootInstant> {
        self.room.as_ref().map(|_| self.used)
    }

    fn unwatch(&mut self) {
        self.gap.forget();
        self.room = None;
        self.watch = ParentWatch::None;
    }
}
