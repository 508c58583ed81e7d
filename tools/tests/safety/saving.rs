//! The rules that save round trips (`head`, `stand-by`, `local`, `gap`), and what a listing says.

use std::sync::atomic::Ordering::Relaxed;

use crate::admission::{Decision, Family, decide};
use crate::client::leave_a_duty;
use crate::contender_filter::ContenderFilter;
use crate::model::Contention;
use crate::phase::{Own, Phase, Watch, Watched};
use crate::rules::ParentWatch;
use crate::service::{Name, Tree};
use crate::world::{Known, Who, World};

/// What is known of a place in the queue.
pub(crate) enum Turn {
    Gone,
    First,
    Behind {
        before: Name,
        first: bool,
        stand_by: Option<Name>,
    },
    /// Behind another place of this session.
    InProcess(Name),
}

/// How a place leaves the chain.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    ByItself,
    /// Its node is gone already.
    Robbed,
}

const MUTEX: Family = Family::Exclusive(ContenderFilter::Curator);

impl Contention {
    /// What a listing says. Places of this session that were released do not count.
    pub(crate) fn turn(&self, world: &World, who: Who, own: Own, view: &Tree) -> Turn {
        let client = world.client(who.client);
        if view.counter.is_none() {
            return Turn::Gone;
        }
        let released = |name: Name| {
            let node = view.get(name).is_some_and(|node| node.epoch == client.epoch);
            self.rules.local.on && name.client == who.client && node && client.is_released(name)
        };
        let mut queue: Vec<Name> = view.nodes.iter().map(|node| node.name).collect();
        queue.retain(|name| !released(*name));
        let texts: Vec<String> = queue.iter().map(|name| name.text()).collect();
        let find = |text: &str| texts.iter().position(|t| t == text).unwrap_or_default();
        match decide(&texts, &World::name(who.client, own).text(), &MUTEX) {
            Decision::Gone => Turn::Gone,
            Decision::Admitted => Turn::First,
            Decision::WaitFor { predecessor, stand_by, head } => {
                let (place, first) = (find(predecessor.as_str()), find(head.as_str()));
                let before = queue[if self.rules.one_before { place } else { first }];
                if self.rules.local.on && self.last_place(world, who, own) == Some(before) {
                    return Turn::InProcess(before);
                }
                let stand_by = stand_by.filter(|_| self.rules.stand_by);
                let stand_by = stand_by.map(|name| queue[find(name.as_str())]);
                Turn::Behind { before, first: before == queue[first], stand_by }
            }
        }
    }

    /// The place of this session before this one.
    fn last_place(&self, world: &World, who: Who, own: Own) -> Option<Name> {
        let order = |own: &Own| {
            if self.rules.local.by_transaction { own.czxid } else { own.sequence }
        };
        let places = world.client(who.client).phases().filter_map(Phase::place);
        let before = places.filter(|place| order(place) < order(&own));
        before.max_by_key(order).map(|own| World::name(who.client, own))
    }

    /// Its create was answered, or found: it stands in the chain. Whoever was put behind one before it, though it
    /// stands after it, is behind this one now.
    pub(crate) fn join(&self, world: &mut World, who: Who, own: Own) {
        world.task_mut(who).phase = Phase::Listing { own };
        let name = World::name(who.client, own);
        let tasks = world.client_mut(who.client).tasks.iter_mut().map(|task| &mut task.phase);
        let after = tasks.filter(|p| p.place().is_some_and(|place| place.czxid > own.czxid));
        let next = after.min_by_key(|phase| phase.place().map(|place| place.czxid));
        if let Some(Phase::InProcess { before, .. }) = next
            && self.rules.local.neighbours
        {
            *before = name;
        }
    }

    /// **Gap.** The create was answered. Does what was known tell the rest?
    pub(crate) fn gap(&self, world: &mut World, who: Who, own: Own) -> Option<Turn> {
        let rule = self.rules.gap;
        let known = world.client(who.client).known;
        let next = known.next?;
        let watched = match known.watch {
            _ if rule.parent_watch == ParentWatch::Never => true,
            Watch::Armed => true,
            Watch::Deleted | Watch::Changed => !rule.watch_polled,
            Watch::Cut => !rule.no_reconnect || !rule.same_epoch,
            Watch::None => false,
        };
        let applies = watched && (own.sequence == next || !rule.number_compared);
        let known = &mut world.client_mut(who.client).known;
        known.next = applies.then_some(next + 1);
        if !applies {
            return None;
        }
        self.used.gap.store(true, Relaxed);
        match self.last_place(world, who, own).filter(|_| rule.own_places) {
            None => Some(Turn::First),
            Some(place) if self.rules.local.on => Some(Turn::InProcess(place)),
            Some(_) => None,
        }
    }

    /// The watch on the parent, asked for ahead of the listing.
    pub(crate) fn arm_parent(&self, world: &mut World, id: u8) {
        let rule = self.rules.gap;
        let view = world.view(id);
        let (there, reaped) = (view.counter.is_some() && rule.on, view.reaped);
        let known = &mut world.client_mut(id).known;
        let armed = known.watch == Watch::Armed;
        if there && rule.parent_watch == ParentWatch::BeforeTheListing && !armed {
            *known = Known { next: None, watch: Watch::Armed, reaped };
        }
    }

    /// What a listing says of who may be in the queue, and of the next number.
    pub(crate) fn learn(&self, world: &mut World, id: u8, listed: &Tree) {
        let rule = self.rules.gap;
        let (Some(mut next), true) = (listed.counter, rule.on) else { return };
        let client = world.client(id);
        let answered = |name: Name| world.place(name).is_some() || client.is_released(name);
        let unanswered = |name: Name| {
            let is = |own: Own| World::name(id, own) == name;
            !rule.unanswered_is_else && client.phases().any(|phase| phase.own().is_some_and(is))
        };
        let ours = |name: Name| name.client == id && (answered(name) || unanswered(name));
        let epoch = client.epoch;
        let alone = listed.nodes.iter().all(|node| node.epoch == epoch && ours(node.name));
        let watched = client.known.watch == Watch::Armed && client.known.reaped == listed.reaped;
        // Creates of ours that were answered since.
        let counted = |next| {
            let mut places = client.phases().filter_map(Phase::place);
            places.any(|own| own.sequence == next && !own.robbed)
        };
        while counted(next) {
            next += 1;
        }
        let certain = watched || rule.parent_watch != ParentWatch::BeforeTheListing;
        let known = &mut world.client_mut(id).known;
        known.next = ((alone || !rule.nobody_else) && certain).then_some(next);
        if rule.parent_watch == ParentWatch::BehindTheDelete {
            known.watch = Watch::None;
        }
    }

    /// Only where it is sent too late: behind the releasing delete.
    pub(crate) fn watch_parent(world: &mut World, id: u8) {
        let view = world.view(id);
        let (there, reaped) = (view.counter.is_some(), view.reaped);
        let known = &mut world.client_mut(id).known;
        known.reaped = reaped;
        known.watch = if there { Watch::Armed } else { Watch::Deleted };
    }

    /// **Head.** Whether what the watches say admits.
    pub(crate) fn head(&self, world: &World, who: Who) -> bool {
        let rule = self.rules.head;
        let Phase::Waiting { before, first, steady, .. } = world.task(who).phase else {
            return false;
        };
        let event =
            before.watch == Watch::Deleted || before.watch == Watch::Changed && !rule.only_deletion;
        rule.on && event && (first || !rule.was_first) && (steady || !rule.no_reconnect)
    }

    /// **Stand-by.** The one before the predecessor is gone: lists, and keeps its watches.
    pub(crate) fn relist(&self, world: &mut World, who: Who) {
        let Phase::Waiting { own, before: mine, steady, .. } = world.task(who).phase else {
            return;
        };
        self.used.stand_by.store(true, Relaxed);
        self.arm_parent(world, who.client);
        let listed = world.view(who.client).clone();
        self.learn(world, who.client, &listed);
        let view = world.view(who.client);
        match self.turn(world, who, own, view) {
            Turn::Behind { before, first, stand_by } if before == mine.name => {
                let stand_by = stand_by.map(|name| Watched::arm(view, name));
                world.task_mut(who).phase =
                    Phase::Waiting { own, before: mine, first, steady, stand_by };
            }
            turn => self.take(world, who, own, turn),
        }
    }

    /// **Local.** A place leaves the chain of its session. Whoever waits for it in the process goes on.
    pub(crate) fn leave(&self, world: &mut World, who: Who, left: Left) {
        let (phase, client) = (world.task(who).phase, who.client);
        leave_a_duty(world, who);
        let Some(name) = phase.place().map(|own| World::name(client, own)) else { return };
        // It was first: as a hold, or while it proved the session.
        let first = matches!(phase, Phase::Holding { .. } | Phase::Proving { .. });
        let next_is_first = first && left == Left::ByItself;
        let next = world.tasks_of(client).find_map(|(next, task)| match task.phase {
            Phase::InProcess { own, before } if before == name => Some((next, own)),
            _ => None,
        });
        let Some((next, own)) = next else { return };
        match phase {
            _ if next_is_first || !self.rules.local.only_first => {
                self.used.local.store(true, Relaxed);
                world.task_mut(who).phase = Phase::Idle;
                self.take(world, next, own, Turn::First);
            }
            Phase::InProcess { before, .. } => {
                world.task_mut(next).phase = Phase::InProcess { own, before };
            }
            _ => world.task_mut(next).phase = Phase::Listing { own },
        }
    }
}
