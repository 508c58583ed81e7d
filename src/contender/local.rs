//! The *local* rule: own contenders at one lock path hand over among themselves.
//!
//! When the immediate predecessor of a contender is one of ours, it waits for that in here, without a watch at
//! the servers: a hold that is released admits its successor in the same moment, while its delete is still on
//! the way. The order among all clients is unchanged, for nobody stands between the two nodes. If the delete is
//! lost with the session, so are both nodes; if it is delayed or refused, the released node keeps strangers out
//! for longer than need be, and no more.
//!
//! Only if
//!
//! * the predecessor was *first*, and left: when a waiter leaves, its successor is put behind the one before it,
//!   and nobody is woken;
//! * it left by itself. When somebody else deletes its node, the successor lists: its own may be gone as well;
//! * both are of this epoch: a chain belongs to one;
//! * the lock is exclusive. In a read-write lock a hold can be kept in another form, under its number, and readers
//!   leave in any order; so there the chain only says what is ours;
//! * its delete was sent before, and before that its fenced writes were closed, the last one sent on this
//!   connection. Where the connection broke in between, the successor waits for the answer to the delete.
//!
//! The order is that of the transactions that created the nodes, which is that of their numbers, and holds over
//! incarnations of the parent as well.
//!
//! Pure but for the channels to those who wait, and the time since when they stand here.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use super::hold::HoldState;
use crate::client::LinkWatch;
use crate::session::clock::Moment;
use crate::session::epoch::Asker;

/// A node of ours in the queue.
#[derive(Debug)]
pub(super) struct Spot {
    /// Its path, under the namespace.
    pub(super) node: String,
    /// The transaction that created it.
    pub(super) czxid: i64,
    pub(super) sequence: i64,
    /// Whether it holds together with others like it.
    pub(super) shared: bool,
    pub(super) asker: Asker,
    /// The link as it was before the first fenced write of any of its holds: a later one says nothing of those that
    /// were under way when it broke.
    pub(super) fenced: Mutex<Option<LinkWatch>>,
}

impl Spot {
    pub(super) fn new(node: String, czxid: i64, sequence: i64, shared: bool, asker: Asker) -> Self {
        Self { node, czxid, sequence, shared, asker, fenced: Mutex::default() }
    }

    /// Whether all fenced writes went out on this connection, or none was sent.
    pub(super) fn is_fence_ahead(&self) -> bool {
        let mut fenced = self.fenced.lock().unwrap_or_else(PoisonError::into_inner);
        fenced.as_mut().is_none_or(|link| !link.has_changed())
    }

    pub(super) fn name(&self) -> &str {
        self.node.rsplit('/').next().unwrap_or_default()
    }
}

/// What a contender that waits in here is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nobody is before it any more, but own released nodes.
    Next,
    /// It has to list.
    Look,
    /// Its node is gone.
    Gone,
}

/// Who stands right before a contender, as far as is known in here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// It finds out by itself, at the servers.
    Unknown,
    /// This one of ours.
    Own(i64),
    /// Nobody but own released nodes: it is first.
    Nobody,
}

/// Who looks whether a contender's node is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lookout {
    /// Nobody yet.
    None,
    /// Whoever waits with it.
    Itself,
    /// The epoch's [caretaker](super::care).
    Care,
}

#[derive(Debug)]
pub(super) struct Standing {
    pub(super) spot: Arc<Spot>,
    pub(super) before: Before,
    /// Set while it waits in here.
    pub(super) turn: Option<oneshot::Sender<Turn>>,
    since: Moment,
    pub(super) lookout: Lookout,
    pub(super) hold: Option<Arc<HoldState>>,
}

/// Whom to wake, with what.
pub(super) type Wake = Option<(oneshot::Sender<Turn>, Turn)>;

/// Own contenders in their order.
#[derive(Debug, Default)]
pub(super) struct Chain {
    /// By their `czxid`.
    places: BTreeMap<i64, Standing>,
    /// By their names, nodes whose delete was sent; with whom sees to it, unless that is a task.
    leaving: BTreeMap<String, Option<Escort>>,
    /// How many of both hold alone.
    exclusive: usize,
}

/// A caller that sees to a delete, for as long as it comes.
#[derive(Debug)]
pub(super) struct Escort {
    pub(super) spot: Arc<Spot>,
    since: Moment,
    /// Dropped when a task has to see to it.
    caller: Option<oneshot::Sender<()>>,
    /// The caretaker sees to it.
    in_care: bool,
}

/// What callers are late with.
#[derive(Debug, Default)]
pub(super) struct Overdue {
    /// To be dropped outside the lock, which wakes them: they start a task.
    pub(super) callers: Vec<oneshot::Sender<()>>,
    /// Their callers were woken before, and did not come.
    pub(super) spots: Vec<Arc<Spot>>,
}

impl Chain {
    /// A node that was created. Whoever was put behind one before it, though it stands after it, is behind this
    /// one now: so each stands right behind whom it waits for.
    pub(super) fn enter(&mut self, spot: &Arc<Spot>) {
        let behind = (Bound::Excluded(spot.czxid), Bound::Unbounded);
        if let Some((_, next)) = self.places.range_mut(behind).next()
            && let Before::Own(_) = next.before
        {
            next.before = Before::Own(spot.czxid);
        }
        self.exclusive += usize::from(!spot.shared);
        let standing = Standing {
            spot: spot.clone(),
            before: Before::Unknown,
            turn: None,
            since: Moment::now(),
            lookout: Lookout::None,
            hold: None,
        };
        self.places.insert(spot.czxid, standing);
    }

    pub(super) fn get(&mut self, spot: &Spot) -> Option<&mut Standing> {
        self.places.get_mut(&spot.czxid)
    }

    /// First come, first told.
    pub(super) fn all(&self) -> impl Iterator<Item = &Standing> {
        self.places.values()
    }

    /// The last one before `czxid`, and created after `earliest`.
    pub(super) fn before(&self, czxid: i64, earliest: i64) -> Option<&Standing> {
        if earliest >= czxid {
            return None;
        }
        let between = (Bound::Excluded(earliest), Bound::Excluded(czxid));
        self.places.range(between).next_back().map(|(_, standing)| standing)
    }

    pub(super) fn is_leaving(&self, name: &str) -> bool {
        self.leaving.contains_key(name)
    }

    pub(super) fn is_anybody_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Tells whether a name is one of ours, here or leaving. For many names.
    pub(super) fn is_ours(&self) -> impl Fn(&str) -> bool {
        let here: HashSet<&str> = self.places.values().map(|place| place.spot.name()).collect();
        move |name| here.contains(name) || self.leaving.contains_key(name)
    }

    /// Its delete was sent; `caller`: by one that sees to it in its own time. `None` if it was out before.
    pub(super) fn leave(
        &mut self,
        spot: &Spot,
        caller: Option<oneshot::Sender<()>>,
    ) -> Option<Wake> {
        let Standing { spot, before, .. } = self.places.remove(&spot.czxid)?;
        let (name, czxid) = (spot.name().to_owned(), spot.czxid);
        let escort = |caller| {
            let since = Moment::now();
            Escort { spot, since, caller: Some(caller), in_care: false }
        };
        self.leaving.insert(name, caller.map(escort));
        Some(self.pass_on(czxid, before, true))
    }

    /// A task sees to the delete from now on. Whether the caretaker does as well; and what is to be dropped outside the
    /// lock.
    pub(super) fn pass_to_task(&mut self, spot: &Spot) -> (bool, Option<Escort>) {
        match self.leaving.get_mut(spot.name()) {
            Some(Some(escort)) if escort.in_care => (true, None),
            Some(escort) => (false, escort.take()),
            // It was, and is done, unless the node is in the line still, until its delete is answered.
            None => (!self.places.contains_key(&spot.czxid), None),
        }
    }

    /// The servers know that it is gone.
    pub(super) fn left(&mut self, spot: &Spot) -> Option<Escort> {
        let left = self.leaving.remove(spot.name())?;
        self.exclusive -= usize::from(!spot.shared);
        left
    }

    /// Those that callers have been seeing to since.
    pub(super) fn overdue(&mut self, since: Moment) -> Overdue {
        let mut overdue = Overdue::default();
        for escort in self.leaving.values_mut().flatten().filter(|escort| escort.since <= since) {
            match escort.caller.take() {
                Some(caller) => overdue.callers.push(caller),
                None if escort.in_care => {}
                None => {
                    escort.in_care = true;
                    overdue.spots.push(escort.spot.clone());
                }
            }
        }
        overdue
    }

    /// All that no task sees to but the caretaker: they are nobody's now.
    pub(super) fn forsaken(&mut self) -> Vec<Escort> {
        self.leaving.values_mut().filter_map(Option::take).collect()
    }

    /// How many are here or leaving.
    pub(super) fn len(&self) -> usize {
        self.places.len() + self.leaving.len()
    }

    /// How many of these hold alone.
    pub(super) fn exclusive(&self) -> usize {
        self.exclusive
    }

    /// Takes one out whose node is gone; [`pass_on`](Self::pass_on) has to follow, under the same lock.
    pub(super) fn remove(&mut self, spot: &Spot) -> Option<Standing> {
        let removed = self.places.remove(&spot.czxid)?;
        self.exclusive -= usize::from(!spot.shared);
        Some(removed)
    }

    /// Takes all out.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = Standing> + use<> {
        let all = std::mem::take(&mut self.places);
        self.exclusive -= all.values().filter(|standing| !standing.spot.shared).count();
        all.into_values()
    }

    /// Who stood behind `czxid`, which is gone, stands behind `before` now. `by_itself`: it left, and
    /// nobody else had removed it. Gives whom to wake.
    pub(super) fn pass_on(&mut self, czxid: i64, before: Before, by_itself: bool) -> Wake {
        let is_there = matches!(before, Before::Own(before) if self.places.contains_key(&before));
        let behind = (Bound::Excluded(czxid), Bound::Unbounded);
        let (_, next) = self.places.range_mut(behind).next()?;
        if next.before != Before::Own(czxid) {
            return None;
        }
        let turn = match before {
            // Nobody is woken.
            Before::Own(_) if is_there => {
                next.before = before;
                return None;
            }
            Before::Nobody if by_itself => {
                next.before = Before::Nobody;
                Turn::Next
            }
            Before::Nobody | Before::Own(_) | Before::Unknown => {
                next.before = Before::Unknown;
                Turn::Look
            }
        };
        next.turn.take().map(|waiter| (waiter, turn))
    }

    /// Has those looked after by the caretaker that nobody looks after, and that have been here since.
    pub(super) fn unattended(&mut self, since: Moment) -> Vec<Arc<Spot>> {
        let due = |s: &&mut Standing| s.lookout == Lookout::None && s.since <= since;
        let due = self.places.values_mut().filter(due);
        due.map(|standing| {
            standing.lookout = Lookout::Care;
            standing.spot.clone()
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn spot(czxid: i64) -> Arc<Spot> {
        let node = format!("/locks/_c_x-lock-{czxid:010}");
        Arc::new(Spot::new(node, czxid, czxid, false, Asker::current()))
    }

    /// First, and behind it each behind the one before.
    fn chain(places: i64) -> (Chain, Vec<oneshot::Receiver<Turn>>) {
        let mut chain = Chain::default();
        let mut waiting = Vec::new();
        for czxid in 1..=places {
            let spot = spot(czxid);
            chain.enter(&spot);
            let before =
                chain.before(czxid, 0).map_or(Before::Nobody, |s| Before::Own(s.spot.czxid));
            let (turn, waits) = oneshot::channel();
            let standing = chain.get(&spot).unwrap();
            (standing.before, standing.turn) = (before, Some(turn));
            waiting.push(waits);
        }
        (chain, waiting)
    }

    fn wake(wake: Wake) -> bool {
        wake.map(|(waiter, turn)| waiter.send(turn).unwrap()).is_some()
    }

    /// Invariant 6: each release wakes the one behind it, and nobody else.
    #[test]
    fn they_are_served_one_after_the_other() {
        let (mut chain, mut waiting) = chain(3);
        for (czxid, next) in [(1, 1), (2, 2)] {
            assert!(wake(chain.leave(&spot(czxid), None).unwrap()));
            let told: Vec<_> = waiting.iter_mut().map(|waits| waits.try_recv().ok()).collect();
            for (place, turn) in told.into_iter().enumerate() {
                assert_eq!(
                    turn,
                    (place == next).then_some(Turn::Next),
                    "{place} when {czxid} left"
                );
            }
        }
        assert!(!wake(chain.leave(&spot(3), None).unwrap()));
        assert!(chain.leave(&spot(3), None).is_none(), "twice");
    }

    #[test]
    fn a_waiter_that_leaves_wakes_nobody_and_its_successor_stands_behind_the_one_before() {
        let (mut chain, mut waiting) = chain(4);
        assert!(!wake(chain.leave(&spot(2), None).unwrap()));
        assert!(!wake(chain.leave(&spot(3), None).unwrap()));
        assert_eq!(waiting[3].try_recv(), Err(oneshot::error::TryRecvError::Empty));
        assert!(wake(chain.leave(&spot(1), None).unwrap()));
        assert_eq!(waiting[3].try_recv(), Ok(Turn::Next));
    }

    /// What only the servers can tell, they are asked.
    #[test]
    fn who_stood_behind_a_waiter_of_strangers_lists() {
        let (mut chain, mut waiting) = chain(2);
        chain.get(&spot(1)).unwrap().before = Before::Unknown;
        assert!(wake(chain.leave(&spot(1), None).unwrap()));
        assert_eq!(waiting[1].try_recv(), Ok(Turn::Look));
        assert_eq!(chain.get(&spot(2)).unwrap().before, Before::Unknown);
    }

    #[test]
    fn who_stood_behind_one_whose_node_was_deleted_lists() {
        let (mut chain, mut waiting) = chain(2);
        let robbed = chain.remove(&spot(1)).unwrap();
        assert!(wake(chain.pass_on(1, robbed.before, false)));
        assert_eq!(waiting[1].try_recv(), Ok(Turn::Look));
    }

    #[test]
    fn one_that_asks_the_servers_itself_is_not_told() {
        let (mut chain, mut waiting) = chain(2);
        chain.get(&spot(2)).unwrap().before = Before::Unknown;
        assert!(!wake(chain.leave(&spot(1), None).unwrap()));
        assert_eq!(waiting[1].try_recv(), Err(oneshot::error::TryRecvError::Empty));
    }

    /// Its create was answered late, or found out late.
    #[test]
    fn one_that_enters_between_two_others_passes_on_what_it_learns() {
        let (mut chain, mut waiting) = chain(1);
        let (between, last) = (spot(2), spot(3));
        chain.enter(&last);
        let (turn, waits) = oneshot::channel();
        let standing = chain.get(&last).unwrap();
        (standing.before, standing.turn) = (Before::Own(1), Some(turn));
        waiting.push(waits);
        chain.enter(&between);
        assert!(
            !wake(chain.leave(&spot(1), None).unwrap()),
            "the one between asks the servers itself"
        );
        assert!(wake(chain.leave(&between, None).unwrap()));
        assert_eq!(waiting[1].try_recv(), Ok(Turn::Look));
    }

    #[test]
    fn ours_are_those_here_and_those_leaving() {
        let (mut chain, _waiting) = chain(3);
        chain.leave(&spot(1), None);
        let is_ours = chain.is_ours();
        let table = [(1, true), (2, true), (3, true), (4, false)];
        for (czxid, ours) in table {
            assert_eq!(is_ours(spot(czxid).name()), ours, "{czxid}");
        }
        drop(is_ours);
        chain.left(&spot(1));
        assert!(!chain.is_ours()(spot(1).name()));
        // Of an earlier incarnation of the parent: gone, though nobody knows it yet.
        assert!(chain.before(2, 1).is_none());
        assert_eq!(chain.before(3, 1).unwrap().spot.czxid, 2);
    }

    #[test]
    fn a_caller_that_is_late_is_woken_and_then_done_without() {
        let (mut chain, _waiting) = chain(3);
        let (late, mut woken) = oneshot::channel();
        chain.leave(&spot(1), Some(late));
        let (prompt, mut comes) = oneshot::channel();
        chain.leave(&spot(2), Some(prompt));
        chain.leave(&spot(3), None);
        let (before, after) = (Moment::now().before(Duration::from_secs(1)), Moment::now());
        let nobody = chain.overdue(before);
        assert!(nobody.callers.is_empty() && nobody.spots.is_empty());
        let first = chain.overdue(after);
        assert!(first.callers.len() == 2 && first.spots.is_empty());
        drop(first);
        assert!(woken.try_recv().is_err() && comes.try_recv().is_err());
        assert!(!chain.pass_to_task(&spot(2)).0, "its task alone sees to it");
        let second = chain.overdue(after);
        assert_eq!(second.spots.iter().map(|spot| spot.czxid).collect::<Vec<_>>(), [1]);
        assert!(chain.overdue(after).spots.is_empty(), "once");
        assert!(chain.pass_to_task(&spot(1)).0, "the caretaker is at it");
        assert_eq!(chain.forsaken().len(), 1);
        chain.left(&spot(1));
        assert!(chain.pass_to_task(&spot(1)).0, "the caretaker has done it");
        assert!(!chain.pass_to_task(&spot(3)).0);
    }
}
