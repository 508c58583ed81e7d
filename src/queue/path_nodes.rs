//! What a session knows of the children of one lock path: the own nodes among them, and what the
//! [parent](super::parent) tells of the others, under one lock.
//!
//! An own node is registered before its create is counted: so of the nodes that were created before one that the
//! [gap rule](super::rules::gap) lets pass, all are known. It is taken out when its delete is handed to the client. One whose
//! delete is lost keeps strangers out for longer, and own contenders that list; no task holds by it any more.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use futures_util::future::{BoxFuture, FutureExt};

use super::driver::QueueDriver;
use super::hold::{End, HoldState, Znode};
use super::parent::Parent;
use super::request::Requester;
use super::shortcuts::Shortcuts;
use crate::client::{LinkWatch, Listing, NodeWatch, WatchPermit};
use crate::clock::Moment;
use crate::error::Loss;
use crate::lock::Mutex;
use crate::lock_path::LockPath;
use crate::queue::rules::admission::{Decision, Family, decide, is_busy};
use crate::queue::rules::node_name::ContenderName;

/// Where a node stands in the queue.
#[derive(Debug)]
pub(super) enum Position {
    First,
    Behind {
        predecessor: ContenderName,
        stand_by: Option<ContenderName>,
        predecessor_is_head: bool,
    },
    /// A lease among so many at most.
    Among(usize),
    /// This child contends by the rules of another recipe.
    Mixed(String),
    /// It is not there any more.
    Gone,
}

/// A node that was admitted, and since when the node monitor has to do with it.
#[derive(Debug)]
struct Admitted {
    owner: Weak<QueueDriver>,
    /// By the node, the last one.
    hold: Arc<HoldState>,
    since: Moment,
    monitored: bool,
}

#[derive(Debug)]
struct Own {
    node: Arc<Znode>,
    admitted: Option<Admitted>,
}

/// Where a semaphore has its leases.
const SEMAPHORE: &str = "leases";

#[derive(Debug)]
pub(super) struct PathNodes {
    pub(super) path: LockPath,
    pub(super) family: Family,
    pub(super) rules: Shortcuts,
    /// Of a semaphore at the same path.
    warned: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// By their `czxid`.
    own: BTreeMap<i64, Own>,
    parent: Parent,
    /// How many of other clients were in the last listing. Where there are any, the gap rule has nothing to go by;
    /// but for leases, which are only counted.
    strangers: usize,
}

impl PathNodes {
    pub(super) fn new(path: LockPath, family: Family, rules: Shortcuts) -> Self {
        let rules = rules.of(&family);
        let state = State { own: BTreeMap::new(), parent: Parent::new(), strangers: 0 };
        Self { path, family, rules, warned: AtomicBool::new(false), state: Mutex::new(state) }
    }

    /// What has to come along with a create: a listing, and a watch on the parent before it.
    pub(super) fn lacks(&self) -> (bool, bool) {
        let mut state = self.state.lock();
        let list = !self.rules.gap || !state.parent.knows();
        (list, list && self.rules.gap && state.parent.asks())
    }

    /// The answer to the watch on the parent that [`lacks`](Self::lacks) asked for.
    pub(super) fn parent_watched(&self, armed: Option<(NodeWatch, LinkWatch)>) {
        self.state.lock().parent.watched(armed);
    }

    /// A create was answered.
    pub(super) fn enter(&self, node: &Arc<Znode>) {
        self.state.lock().own.insert(node.czxid, Own { node: node.clone(), admitted: None });
    }

    /// A create has no known outcome: its node may stand anywhere.
    pub(super) fn unanswered(&self) {
        self.state.lock().parent.forget();
    }

    /// Counts a create that was answered; says what it means, if that is known without a listing.
    pub(super) fn by_gap(&self, node: &Znode) -> Option<Position> {
        if !self.rules.gap {
            return None;
        }
        let mut state = self.state.lock();
        // Those of an earlier incarnation are gone, though we may not know it yet.
        let incarnation = state.parent.created(node.sequence, node.czxid)?;
        if self.family == Family::Leases {
            return Some(Position::Among(state.strangers + state.own.len()));
        }
        let mut before = state.own.range(incarnation..node.czxid).map(|(_, own)| &own.node);
        let is_kept_out = before.any(|own| !(node.shared && own.shared));
        (!is_kept_out).then_some(Position::First)
    }

    /// What the first listing means, and any other that may have a contender that does not keep to our rules.
    pub(super) fn judge_entering(&self, node: &Znode, listing: &Listing) -> Position {
        // Not later: one that comes to the wrong path must not end the waits of all that are there.
        if listing.children.iter().any(|child| child == SEMAPHORE)
            && !self.warned.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(path = %self.path, "a semaphore is or was at this path, which this lock does not keep out");
        }
        match self.family.other_recipe(&listing.children) {
            Some(child) => Position::Mixed(child.to_owned()),
            None => self.judge_listing(node, listing, true),
        }
    }

    /// What a listing that was sent after the own create means.
    pub(super) fn judge(&self, node: &Znode, listing: &Listing) -> Position {
        self.judge_listing(node, listing, false)
    }

    /// `unmixed`: it is known that no other recipe's are in it.
    fn judge_listing(&self, node: &Znode, listing: &Listing, unmixed: bool) -> Position {
        let mut state = self.state.lock();
        state.learn(listing, self, unmixed);
        if !state.own.contains_key(&node.czxid) {
            return Position::Gone;
        }
        if self.family == Family::Leases {
            let there = listing.children.iter().any(|name| name == node.name());
            return if there { Position::Among(listing.children.len()) } else { Position::Gone };
        }
        match decide(&listing.children, node.name(), &self.family) {
            Decision::Gone => Position::Gone,
            Decision::Admitted => Position::First,
            Decision::WaitFor { predecessor, stand_by, head } => {
                let predecessor_is_head = predecessor == head;
                Position::Behind { predecessor, stand_by, predecessor_is_head }
            }
        }
    }

    /// Whether a listing has the node, and no other contender, of this recipe or another.
    pub(super) fn is_alone(&self, node: &Znode, listing: &Listing) -> bool {
        let mut contenders = listing.children.iter().filter(|name| self.family.counts(name));
        self.family.other_recipe(&listing.children).is_none()
            && contenders.next().is_some_and(|name| name == node.name())
            && contenders.next().is_none()
    }

    /// Whether a listing, which has none of another recipe's, has a contender that keeps out one that comes now.
    pub(super) fn is_busy(&self, listing: &Listing, shared: bool) -> bool {
        self.state.lock().learn(listing, self, true);
        is_busy(&listing.children, &self.family, shared)
    }

    /// Whether `asker` has a hold.
    pub(super) fn is_held_by(&self, asker: Requester) -> bool {
        let state = self.state.lock();
        let mut admitted = state.own.values().filter_map(|own| own.admitted.as_ref());
        admitted.any(|admitted| admitted.hold.asker == asker)
    }

    /// The node is admitted, and `owner`'s; `hold` is by it. `false` if it is gone.
    pub(super) fn admitted(
        &self,
        node: &Znode,
        owner: &Arc<QueueDriver>,
        hold: Arc<HoldState>,
    ) -> bool {
        let mut state = self.state.lock();
        let Some(own) = state.own.get_mut(&node.czxid) else { return false };
        match &mut own.admitted {
            Some(admitted) => admitted.hold = hold,
            none => {
                let (owner, since) = (Arc::downgrade(owner), Moment::now());
                *none = Some(Admitted { owner, hold, since, monitored: false });
            }
        }
        true
    }

    /// Its delete is handed to the client, or it waits again: `false` if it is gone.
    pub(super) fn is_left(&self, node: &Znode) -> bool {
        self.state.lock().own.remove(&node.czxid).is_some()
    }

    /// A node that held waits again.
    pub(super) fn waits_again(&self, node: &Znode) {
        if let Some(own) = self.state.lock().own.get_mut(&node.czxid) {
            own.admitted = None;
        }
    }

    /// Its node is gone.
    pub(super) fn gone(&self, node: &Znode) {
        let Some(Own { admitted: Some(admitted), .. }) = ({
            let mut state = self.state.lock();
            let own = state.own.remove(&node.czxid);
            // Before another task sees the path without it: a read beside it counts as no contender there until then.
            if let Some(admitted) = own.as_ref().and_then(|own| own.admitted.as_ref()) {
                admitted.hold.is_over(Loss::NodeDeleted);
            }
            own
        }) else {
            return;
        };
        // First of all no task may take it for held any more.
        let how = admitted.hold.node_is_gone();
        if let End::Lost(how) = how {
            tracing::warn!(path = %self.path, node = node.path, %how, "the hold's node is gone");
        }
        if let Some(owner) = admitted.owner.upgrade() {
            owner.node_gone(node.czxid);
        }
    }

    pub(super) fn has(&self, node: &Znode) -> bool {
        self.state.lock().own.contains_key(&node.czxid)
    }

    /// The nodes that were admitted before `since`, and that no task looks after; the caller does from now on.
    pub(super) fn unmonitored(&self, since: Moment) -> Vec<Arc<Znode>> {
        let mut state = self.state.lock();
        let unmonitored = state.own.values_mut().filter_map(|own| {
            let admitted = own.admitted.as_mut()?;
            let seen = admitted.monitored || own.node.is_watched();
            let new = !seen && admitted.since <= since;
            admitted.monitored |= new;
            new.then(|| own.node.clone())
        });
        unmonitored.collect()
    }

    /// The monitor has lost sight of it, and will find it again.
    pub(super) fn is_unmonitored(&self, node: &Znode) {
        let mut state = self.state.lock();
        node.set_watched(false);
        let admitted = state.own.get_mut(&node.czxid).and_then(|own| own.admitted.as_mut());
        if let Some(admitted) = admitted {
            admitted.monitored = false;
        }
    }

    /// The session is over, or left to others: all holds are lost. Resolves when the nodes are deleted.
    pub(super) fn give_up(&self, end: impl Fn(&HoldState)) -> Vec<BoxFuture<'static, ()>> {
        let own: Vec<_> = {
            let own = &mut self.state.lock().own;
            own.iter_mut().filter_map(|(czxid, own)| Some((*czxid, own.admitted.take()?))).collect()
        };
        own.iter().for_each(|(_, admitted)| end(&admitted.hold));
        let owned =
            own.iter().filter_map(|(czxid, admitted)| Some((admitted.owner.upgrade()?, *czxid)));
        owned.map(|(owner, czxid)| owner.give_up(czxid).boxed()).collect()
    }

    /// Gives room to watch the parent.
    pub(super) fn remember(&self, room: WatchPermit) {
        self.state.lock().parent.remember(room);
    }

    /// Whether the path is remembered, and since when it was not used.
    pub(super) fn remembered(&self) -> Option<Moment> {
        self.state.lock().parent.remembered()
    }

    pub(super) fn forget(&self) {
        self.state.lock().parent.unwatch();
    }
}

impl State {
    /// Ours is what is registered. A create whose answer was not seen is not: it counts as another client's.
    fn learn(&mut self, listing: &Listing, path_nodes: &PathNodes, unmixed: bool) {
        let (knows, leases) = (self.parent.knows(), path_nodes.family == Family::Leases);
        if !path_nodes.rules.gap || knows && !leases || !self.parent.can_learn(listing) {
            return;
        }
        let counts = |name: &&String| leases || path_nodes.family.counts(name);
        let ours: HashSet<_> = self.own.values().map(|own| own.node.name()).collect();
        let names = listing.children.iter().filter(counts);
        let strangers = names.filter(|name| !ours.contains(name.as_str())).count();
        let can_learn = leases
            || strangers == 0
                && (unmixed || path_nodes.family.other_recipe(&listing.children).is_none());
        // A stale listing may miss a newer contender.
        if !can_learn || self.parent.learn(listing) {
            self.strangers = strangers;
        }
    }
}
