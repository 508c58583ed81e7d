//! The own contenders at one lock path in one epoch: their [chain](super::local), and what is known of the
//! [parent](super::parent), under one lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::hold::HoldState;
use super::local::{Before, Chain, Lookout, Spot, Standing, Turn, Wake};
use super::parent::Parent;
use super::shortcuts::Shortcuts;
use crate::admission::{Decision, Family, decide, is_busy};
use crate::client::{LinkWatch, Listing, NodeWatch};
use crate::contender_name::ContenderName;
use crate::error::Loss;
use crate::lock_path::LockPath;
use crate::session::clock::Moment;
use crate::session::epoch::Asker;

/// What a listing, or the gap rule, means for a contender.
#[derive(Debug)]
pub(super) enum Verdict {
    First,
    /// It waits in here.
    Behind(oneshot::Receiver<Turn>),
    /// It waits at the servers.
    WaitFor {
        predecessor: ContenderName,
        stand_by: Option<ContenderName>,
        predecessor_is_head: bool,
    },
    /// A lease among so many at most.
    Among(usize),
    /// This child contends by the rules of another recipe.
    Mixed(String),
    /// Its node is not there any more.
    Gone,
}

/// Where a semaphore has its leases.
const SEMAPHORE: &str = "leases";

/// When the next contender of ours may take the place of one that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandOver {
    /// As soon as its delete is sent.
    AtOnce,
    /// When the servers have answered that.
    WhenGone,
}

#[derive(Debug)]
pub(super) struct Line {
    pub(super) path: LockPath,
    pub(super) family: Family,
    pub(super) rules: Shortcuts,
    /// Of a semaphore at the same path.
    warned: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    chain: Chain,
    parent: Parent,
    /// Creates that were sent and not yet counted, in this order.
    tickets: BTreeSet<u64>,
    next_ticket: u64,
    /// Those of them that were answered, and wait for their turn to be counted.
    answered: BTreeMap<u64, Answered>,
    /// The create whose listing has to do for those behind it.
    lister: Option<u64>,
    /// How many of somebody else's were in the last listing. Where there are any, one listing does not do for
    /// others, and the gap rule has nothing to go by; but for leases, which are only counted.
    strangers: usize,
}

#[derive(Debug)]
struct Answered {
    spot: Arc<Spot>,
    verdict: oneshot::Sender<Option<Verdict>>,
}

/// What creates that were counted mean, and whom to tell.
type Counted = Vec<(oneshot::Sender<Option<Verdict>>, Option<Verdict>)>;

/// A place in the order of creates. Dropping it says that its create is not known to have been answered.
#[derive(Debug)]
pub(super) struct Ticket {
    line: Arc<Line>,
    number: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.line.lock();
        if state.tickets.remove(&self.number) {
            state.answered.remove(&self.number);
            state.parent.forget();
            self.line.count(state);
        }
    }
}

/// A listing that others wait for, until this is dropped. So of many that enter at once, one lists.
#[derive(Debug)]
pub(super) struct Lister {
    line: Arc<Line>,
    number: u64,
}

impl Drop for Lister {
    fn drop(&mut self) {
        let mut state = self.line.lock();
        if state.lister == Some(self.number) {
            state.lister = None;
            self.line.count(state);
        }
    }
}

impl Line {
    pub(super) fn new(path: LockPath, family: Family, rules: Shortcuts) -> Self {
        let rules = rules.of(&family);
        let (chain, parent) = (Chain::default(), Parent::new());
        let (tickets, answered) = (BTreeSet::new(), BTreeMap::new());
        let (next_ticket, lister, strangers) = (0, None, 0);
        let state = State { chain, parent, tickets, next_ticket, answered, lister, strangers };
        Self { path, family, rules, warned: AtomicBool::new(false), state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics under this lock, and the state is whole between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a ticket and has the create sent, in one: so tickets are in the order of the creates. `send` is
    /// told whether a listing has to come along, and whether with a watch on the parent.
    pub(super) fn create<T>(
        self: &Arc<Self>,
        send: impl FnOnce(bool, bool) -> T,
    ) -> (Ticket, Option<Lister>, T) {
        let mut state = self.lock();
        let number = state.next_ticket;
        state.next_ticket += 1;
        let gap = self.rules.gap;
        let lacks = !gap || !state.parent.knows();
        let list = lacks && (!gap || state.lister.is_none());
        let watch = gap && list && state.parent.asks();
        let lists_for_others = gap && list && state.strangers == 0 && state.parent.is_watched();
        let lister = lists_for_others.then(|| {
            state.lister = Some(number);
            Lister { line: self.clone(), number }
        });
        let sent = send(list, watch);
        state.tickets.insert(number);
        (Ticket { line: self.clone(), number }, lister, sent)
    }

    /// The answer to the watch on the parent that [`create`](Self::create) asked for.
    pub(super) fn parent_watched(&self, armed: Option<(NodeWatch, LinkWatch)>) {
        self.lock().parent.watched(armed);
    }

    /// A create was answered: its node is in the line from now on.
    pub(super) fn enter(&self, spot: &Arc<Spot>) {
        self.lock().chain.enter(spot);
    }

    /// Has a create counted that was answered; says what it means, if that is known without a listing.
    pub(super) async fn settle(&self, ticket: Ticket, spot: &Arc<Spot>) -> Option<Verdict> {
        let (verdict, counted) = oneshot::channel();
        {
            let mut state = self.lock();
            state.answered.insert(ticket.number, Answered { spot: spot.clone(), verdict });
            self.count(state);
        }
        counted.await.ok().flatten()
    }

    /// Counts the creates whose turn it is, and tells their tasks: those run in any order, but the answers
    /// came in the order of the creates.
    fn count(&self, mut state: MutexGuard<'_, State>) {
        let mut counted = Counted::new();
        while let Some(number) = state.next_to_count() {
            state.tickets.remove(&number);
            if let Some(answered) = state.answered.remove(&number) {
                let gap = self.rules.gap;
                let verdict = if gap { state.by_gap(&answered.spot, self) } else { None };
                counted.push((answered.verdict, verdict));
            }
        }
        drop(state);
        for (waiter, verdict) in counted {
            let _ = waiter.send(verdict); // who is gone leaves
        }
    }

    /// What the first listing means, and any other in which somebody may be who does not keep to our rules.
    pub(super) fn judge_entering(&self, spot: &Spot, listing: Listing) -> Verdict {
        // Not later: one that comes to the wrong path must not end the waits of all who are there.
        if listing.children.iter().any(|child| child == SEMAPHORE)
            && !self.warned.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(path = %self.path, "a semaphore is or was at this path, which this lock does not keep out");
        }
        match self.family.other_recipe(&listing.children) {
            Some(child) => Verdict::Mixed(child.to_owned()),
            None => self.judge_listing(spot, listing, true),
        }
    }

    /// What a listing that was sent after the own create means.
    pub(super) fn judge(&self, spot: &Spot, listing: Listing) -> Verdict {
        self.judge_listing(spot, listing, false)
    }

    /// `unmixed`: it is known that no other recipe's are in it.
    fn judge_listing(&self, spot: &Spot, mut listing: Listing, unmixed: bool) -> Verdict {
        let mut state = self.lock();
        state.learn(&listing, self, unmixed);
        if state.chain.get(spot).is_none() {
            return Verdict::Gone;
        }
        if self.family == Family::Leases {
            let there = listing.children.iter().any(|name| name == spot.name());
            return if there { Verdict::Among(listing.children.len()) } else { Verdict::Gone };
        }
        if self.rules.local && state.chain.is_anybody_leaving() {
            listing.children.retain(|name| !state.chain.is_leaving(name));
        }
        match decide(&listing.children, spot.name(), &self.family) {
            Decision::Gone => Verdict::Gone,
            Decision::Admitted => state.put_first(spot),
            Decision::WaitFor { predecessor, stand_by, head } => {
                let ours = state.chain.before(spot.czxid, i64::MIN);
                let ours = ours.filter(|ours| ours.spot.name() == predecessor.as_str());
                if let Some(before) = ours.map(|ours| ours.spot.czxid)
                    && self.rules.local
                {
                    return state.put_behind(spot, before);
                }
                state.put(spot, Before::Unknown, None);
                let predecessor_is_head = predecessor == head;
                Verdict::WaitFor { predecessor, stand_by, predecessor_is_head }
            }
        }
    }

    /// The head rule admits it.
    pub(super) fn admitted(&self, spot: &Spot) -> Verdict {
        self.lock().put_first(spot)
    }

    /// Whether anybody but our own released nodes is in a listing, which has none of another recipe's, who keeps out one
    /// that comes now.
    pub(super) fn is_busy(&self, listing: &Listing, shared: bool) -> bool {
        let mut state = self.lock();
        state.learn(listing, self, true);
        let is_leaving = |name: &str| self.rules.local && state.chain.is_leaving(name);
        is_busy(&listing.children, &self.family, shared, is_leaving)
    }

    /// Whether `asker` has a hold. Where one holds at a time, that is the first.
    pub(super) fn is_held_by(&self, asker: Asker) -> bool {
        let state = self.lock();
        let most = if self.family.is_exclusive() { 1 } else { usize::MAX };
        let is_its = |one: &Standing| one.hold.is_some() && one.spot.asker == asker;
        state.chain.all().take(most).any(is_its)
    }

    /// Notes whose hold it is; `false` if its place is gone.
    pub(super) fn hold(&self, spot: &Spot, hold: Arc<HoldState>) -> bool {
        self.lock().chain.get(spot).map(|standing| standing.hold = Some(hold)).is_some()
    }

    /// It waits at the servers, and looks whether its node is there.
    pub(super) fn looks_out(&self, spot: &Spot) {
        self.change_lookout(spot, Lookout::None, Lookout::Itself);
    }

    /// It does not look any more; `watched`: there is a watch that the caretaker can have. Whether it has to take
    /// it.
    pub(super) fn in_care(&self, spot: &Spot, watched: bool) -> bool {
        let to = if watched { Lookout::Care } else { Lookout::None };
        self.change_lookout(spot, Lookout::Itself, to) && watched
    }

    /// The caretaker has lost sight of it, and will find it again.
    pub(super) fn out_of_care(&self, spot: &Spot) {
        self.change_lookout(spot, Lookout::Care, Lookout::None);
    }

    fn change_lookout(&self, spot: &Spot, from: Lookout, to: Lookout) -> bool {
        match self.lock().chain.get(spot) {
            Some(standing) if standing.lookout == from => {
                standing.lookout = to;
                true
            }
            _ => false,
        }
    }

    /// Whoever is behind it must not take its place without looking.
    pub(super) fn doubt(&self, spot: &Spot) {
        self.lock().put(spot, Before::Unknown, None);
    }

    /// It holds no more, and contends with the same node: whom it stands behind is to be found out again.
    pub(super) fn contends_again(&self, spot: &Spot) {
        let mut state = self.lock();
        state.put(spot, Before::Unknown, None);
        if let Some(standing) = state.chain.get(spot) {
            standing.hold = None;
        }
    }

    /// Has its delete sent, which is `send`, unless it is out of the line already: then the node is gone, or
    /// somebody else deletes it. `caller`, if that and no task sees to it, is dropped when a task has to.
    pub(super) fn leave<T>(
        &self,
        spot: &Spot,
        hand_over: HandOver,
        caller: Option<oneshot::Sender<()>>,
        send: impl FnOnce() -> T,
    ) -> Option<T> {
        let mut state = self.lock();
        state.chain.get(spot)?;
        // Before anybody takes its place: whoever does acts behind it, on the same connection.
        let sent = send();
        let next = match hand_over {
            HandOver::AtOnce => state.chain.leave(spot, caller).flatten(),
            HandOver::WhenGone => None,
        };
        drop(state);
        wake(next);
        Some(sent)
    }

    /// The servers have answered the delete.
    pub(super) fn left(&self, spot: &Spot) {
        let mut state = self.lock();
        let next = state.chain.leave(spot, None).flatten();
        let escort = state.chain.left(spot);
        drop(state);
        drop(escort);
        wake(next);
    }

    /// Its node is gone.
    pub(super) fn robbed(&self, spot: &Spot) {
        let mut state = self.lock();
        let Some(robbed) = state.chain.remove(spot) else {
            return;
        };
        // Before anybody sees the line without it: who reads beside it counts as nobody's there until then.
        if let Some(hold) = &robbed.hold {
            hold.is_over(Loss::NodeDeleted);
        }
        let next = state.chain.pass_on(spot.czxid, robbed.before, false);
        drop(state);
        // First of all nobody may take it for held any more.
        if let Some(hold) = robbed.hold {
            let how = hold.node_is_gone();
            if how != Loss::Released {
                tracing::warn!(path = %self.path, node = spot.node, %how, "the hold's node is gone");
            }
        }
        wake(robbed.turn.map(|turn| (turn, Turn::Gone)));
        wake(next);
    }

    pub(super) fn has(&self, spot: &Spot) -> bool {
        self.lock().chain.get(spot).is_some()
    }

    /// The nodes that nobody looks after, and that are older than `since`.
    pub(super) fn unattended(&self, since: Moment) -> Vec<Arc<Spot>> {
        self.lock().chain.unattended(since)
    }

    /// A task sees to the delete from now on. Whether the caretaker does as well.
    pub(super) fn pass_to_task(&self, spot: &Spot) -> bool {
        let (in_care, escort) = self.lock().chain.pass_to_task(spot);
        // Outside the lock, since it may run whoever waits.
        drop(escort);
        in_care
    }

    /// Wakes the callers that have been seeing to a delete since. Gives the nodes of those that were woken before, for
    /// the caretaker.
    pub(super) fn overdue(&self, since: Moment) -> Vec<Arc<Spot>> {
        let overdue = self.lock().chain.overdue(since);
        drop(overdue.callers);
        overdue.spots
    }

    /// Takes all out of the line: what was held is lost. Gives the nodes that nobody sees to any more.
    pub(super) fn clear(&self, end: impl Fn(&HoldState)) -> Vec<Arc<Spot>> {
        let (all, forsaken) = {
            let mut state = self.lock();
            (state.chain.clear(), state.chain.forsaken())
        };
        let standing = all.map(|standing| {
            if let Some(hold) = standing.hold {
                end(&hold);
            }
            standing.spot
        });
        standing.chain(forsaken.into_iter().map(|escort| escort.spot)).collect()
    }

    /// Gives room to watch the parent.
    pub(super) fn remember(&self, room: OwnedSemaphorePermit) {
        self.lock().parent.remember(room);
    }

    /// Whether the path is remembered, and since when it was not used.
    pub(super) fn remembered(&self) -> Option<Moment> {
        self.lock().parent.remembered()
    }

    pub(super) fn forget(&self) {
        self.lock().parent.unwatch();
    }
}

impl State {
    /// Ours is what stands in the chain or left it. A create whose answer was not seen is not: it counts as
    /// somebody else's.
    fn learn(&mut self, listing: &Listing, line: &Line, unmixed: bool) {
        let (knows, leases) = (self.parent.knows(), line.family == Family::Leases);
        if !line.rules.gap || knows && !leases || !self.parent.can_learn(listing) {
            return;
        }
        let counts = |name: &&String| leases || line.family.counts(name);
        let names = listing.children.iter().filter(counts);
        let more = names.clone().count().saturating_sub(self.chain.len());
        if more > 0 && !leases {
            self.strangers = more;
            return;
        }
        let is_ours = self.chain.is_ours();
        let strangers = names.filter(|name| !is_ours(name)).count();
        drop(is_ours);
        let can_learn = leases
            || strangers == 0 && (unmixed || line.family.other_recipe(&listing.children).is_none());
        // An older one may be from before somebody came.
        if !can_learn || self.parent.learn(listing) {
            self.strangers = strangers;
        }
    }

    /// The create to be counted next, if it was answered and need not wait. While something is known that is the
    /// first one; else whichever does not wait for a listing.
    fn next_to_count(&mut self) -> Option<u64> {
        if self.parent.knows() {
            return self.tickets.first().copied().filter(|first| self.answered.contains_key(first));
        }
        // All behind a lister have no listing of their own.
        let last = self.lister.unwrap_or(u64::MAX);
        self.answered.range(..=last).next().map(|(number, _)| *number)
    }

    fn by_gap(&mut self, spot: &Spot, line: &Line) -> Option<Verdict> {
        // Those of an earlier incarnation are gone, though we may not know it yet.
        let incarnation = self.parent.created(spot.sequence, spot.czxid)?;
        let rules = line.rules;
        if self.chain.get(spot).is_none() {
            return Some(Verdict::Gone);
        }
        match line.family {
            Family::Exclusive(_) | Family::Latches => {}
            Family::ReadWrite => {
                let others =
                    if spot.shared { self.chain.exclusive() } else { self.chain.len() - 1 };
                return (others == 0).then(|| self.put_first(spot));
            }
            Family::Leases => return Some(Verdict::Among(self.strangers + self.chain.len())),
        }
        match self.chain.before(spot.czxid, incarnation).map(|before| before.spot.czxid) {
            Some(before) if rules.local => Some(self.put_behind(spot, before)),
            None if rules.local || !self.chain.is_anybody_leaving() => Some(self.put_first(spot)),
            _ => None,
        }
    }

    fn put(&mut self, spot: &Spot, before: Before, turn: Option<oneshot::Sender<Turn>>) -> bool {
        let standing = self.chain.get(spot);
        standing.map(|standing| (standing.before, standing.turn) = (before, turn)).is_some()
    }

    fn put_first(&mut self, spot: &Spot) -> Verdict {
        if self.put(spot, Before::Nobody, None) { Verdict::First } else { Verdict::Gone }
    }

    fn put_behind(&mut self, spot: &Spot, before: i64) -> Verdict {
        let (sender, turn) = oneshot::channel();
        let there = self.put(spot, Before::Own(before), Some(sender));
        if there { Verdict::Behind(turn) } else { Verdict::Gone }
    }
}

/// Outside the lock: it runs whoever waits.
fn wake(wake: Wake) {
    if let Some((waiter, turn)) = wake {
        let _ = waiter.send(turn); // who is gone leaves, and passes it on
    }
}
