//! What each step of a client does, as in `src/contender` and `src/session`.

use std::sync::atomic::Ordering::Relaxed;

use crate::model::{Action, Contention, What};
use crate::phase::{Own, Phase, Watch, Watched};
use crate::rules::Guids;
use crate::saving::{Left, Turn};
use crate::service::{Name, Node};
use crate::world::{Duty, Known, Link, Removal, Who, World};

impl Contention {
    pub(crate) fn act(&self, world: &mut World, action: Action) {
        let Action { who, what } = action;
        let id = who.client;
        match what {
            What::Starts => {
                world.task_mut(who).tries -= 1;
                self.enter(world, who);
            }
            What::CreateRuns => self.create_runs(world, who),
            What::CreateAnswered => self.create_answered(world, who),
            What::MakesParent => self.make_parent(world, who),
            What::Resolves => self.resolve(world, who),
            What::ReadsOwner => self.read_owner(world, who),
            What::Lists => self.list(world, who),
            What::ActsOnListing => self.act_on_listing(world, who),
            What::Proves => prove(world, who),
            What::Watches => self.watch(world, who),
            What::Wakes => self.wake(world, who),
            What::ListsAsStandBy => self.relist(world, who),
            What::Releases => self.release(world, who),
            What::GivesUp => {
                world.faults.withdrawals -= 1;
                self.leave(world, who, Left::ByItself);
                world.task_mut(who).phase = Phase::Idle;
            }
            What::CleansUp(index) => self.clean_up(world, id, usize::from(index)),
            What::WatchesOwn | What::RearmsOwn => {
                world.task_mut(who).own_watch = world.look_at_own(who);
            }
            What::FindsOwnGone => self.own_is_gone(world, who),
            What::RearmsOthers => {
                let (client, view) = world.client_and_view(id);
                let phase = &mut client.tasks[usize::from(who.task)].phase;
                phase.watched_mut().for_each(|watched| watched.look(view));
            }
            What::WatchesParent => Self::watch_parent(world, id),
            What::RearmsParent => {
                let (client, view) = world.client_and_view(id);
                client.known.look(view);
            }
            What::ServerAdvances => world.advance(id),
            What::Reconnects => reconnect(world, id),
            What::PartitionHeals => world.client_mut(id).link = Link::Up,
            What::Resumes => world.client_mut(id).stopped = false,
            What::LearnsOfExpiry => self.next_epoch(world, id),
            fault => self.fault(world, who, fault),
        }
        self.forget_after_a_cut(world);
    }

    /// What was armed before a reconnect is good for nothing but to look again.
    fn forget_after_a_cut(&self, world: &mut World) {
        for client in &mut world.clients {
            for task in &mut client.tasks {
                let waits = matches!(task.phase, Phase::Waiting { .. });
                if task.own_watch == Watch::Cut && !waits && self.rules.head.no_reconnect {
                    task.own_watch = Watch::None;
                }
            }
            let cut = client.known.watch == Watch::Cut && client.link == Link::Down;
            if cut && self.rules.gap.no_reconnect {
                client.known = Known::NOTHING;
            }
        }
    }

    /// One entering: draws a GUID, and sends the create and the listing.
    pub(crate) fn enter(&self, world: &mut World, who: Who) {
        let guid = match self.rules.guids {
            Guids::OnePerClient => 0,
            Guids::Fresh | Guids::KeptOverSessions => world.fresh_guid(who.client),
        };
        let task = world.task_mut(who);
        task.own_watch = Watch::None;
        task.phase = Phase::Creating { guid };
    }

    fn create_runs(&self, world: &mut World, who: Who) {
        let Phase::Creating { guid } = world.task(who).phase else { return };
        let epoch = world.client(who.client).epoch;
        let mut listed = world.view(who.client).clone();
        let created = world.create(who.client, guid, epoch);
        world.task_mut(who).phase =
            created.map_or(Phase::NoParent, |own| Phase::Created { own, age: 0 });
        if let Some(own) = created
            && !self.rules.head.listed_after_create
        {
            // As though the answer of a listing sent before it were enough.
            let name = World::name(who.client, own);
            listed.nodes.push(Node { name, epoch, czxid: own.czxid, version: 0 });
            if let turn @ Turn::Behind { .. } = self.turn(world, who, own, &listed) {
                answered_by_the_leader(world, who.client);
                self.take(world, who, own, turn);
            }
        }
    }

    fn create_answered(&self, world: &mut World, who: Who) {
        let Phase::Created { own, .. } = world.task(who).phase else { return };
        renew(world, who.client);
        self.join(world, who, own);
        match self.gap(world, who, own) {
            Some(turn) => self.take(world, who, own, turn),
            None => self.list(world, who),
        }
    }

    fn make_parent(&self, world: &mut World, who: Who) {
        if world.leader().counter.is_none() {
            world.commit(|tree| tree.counter = Some(0));
        }
        answered_by_the_leader(world, who.client);
        self.enter(world, who);
    }

    /// Looks for the create of unknown outcome, behind the barrier.
    fn resolve(&self, world: &mut World, who: Who) {
        let Phase::Doubt { guid, .. } = world.task(who).phase else { return };
        let id = who.client;
        if self.rules.barrier {
            answered_by_the_leader(world, id);
        }
        let found = find(world, id, guid).map(|name| {
            let czxid = world.view(id).get(name).map_or(0, |node| node.czxid);
            Own { guid, sequence: name.sequence, czxid, robbed: false }
        });
        world.task_mut(who).phase =
            found.map_or(Phase::Creating { guid }, |own| Phase::Adopting { own });
    }

    fn read_owner(&self, world: &mut World, who: Who) {
        let Phase::Adopting { own } = world.task(who).phase else { return };
        let epoch = world.client(who.client).epoch;
        let node = world.view(who.client).get(World::name(who.client, own)).copied();
        let ours = node.is_some_and(|node| node.epoch == epoch || !self.rules.owner_check);
        if ours {
            self.join(world, who, own);
        } else {
            world.task_mut(who).phase = Phase::Creating { guid: own.guid };
        }
    }

    fn list(&self, world: &mut World, who: Who) {
        let Phase::Listing { own } = world.task(who).phase else { return };
        self.arm_parent(world, who.client);
        let age = world.client(who.client).lag;
        world.task_mut(who).phase = Phase::Listed { own, age };
        if !self.late {
            self.act_on_listing(world, who);
        }
    }

    pub(crate) fn act_on_listing(&self, world: &mut World, who: Who) {
        let Phase::Listed { own, age } = world.task(who).phase else { return };
        let listed = world.trees[world.trees.len() - 1 - usize::from(age)].clone();
        self.learn(world, who.client, &listed);
        let turn = self.turn(world, who, own, &listed);
        self.take(world, who, own, turn);
    }

    /// Goes on as its place in the queue demands.
    pub(crate) fn take(&self, world: &mut World, who: Who, own: Own, turn: Turn) {
        let lease = world.client(who.client).lease || !self.rules.lease_check;
        world.task_mut(who).phase = match turn {
            Turn::Gone => return self.enter_again(world, who),
            Turn::First if lease => return admit(world, who, own),
            Turn::First => Phase::Proving { own },
            Turn::Behind { before, first, stand_by } => {
                Phase::Watching { own, before, first, stand_by }
            }
            Turn::InProcess(before) => {
                world.task_mut(who).own_watch = Watch::None;
                Phase::InProcess { own, before }
            }
        };
    }

    /// The watch requests, the own node's first.
    fn watch(&self, world: &mut World, who: Who) {
        let Phase::Watching { own, before, first, stand_by } = world.task(who).phase else {
            return;
        };
        if self.rules.own_watch && self.rules.head.own_armed_first {
            if world.task(who).own_watch == Watch::None {
                world.task_mut(who).own_watch = world.look_at_own(who);
            }
            if world.task(who).own_watch == Watch::Deleted {
                return self.enter_again(world, who);
            }
        }
        let view = world.view(who.client);
        let before = Watched::arm(view, before);
        let stand_by = stand_by.map(|name| Watched::arm(view, name));
        world.task_mut(who).phase = Phase::Waiting { own, before, first, steady: true, stand_by };
    }

    fn wake(&self, world: &mut World, who: Who) {
        let Phase::Waiting { mut own, steady, .. } = world.task(who).phase else { return };
        let head = self.head(world, who);
        let own_gone = world.task(who).own_watch == Watch::Deleted;
        if own_gone && (self.rules.head.own_polled_first || !head) {
            self.enter_again(world, who);
        } else if head {
            self.used.head.store(true, Relaxed);
            // Its server told it already: such a hold counts, although it was robbed.
            own.robbed &= world.look_at_own(who) == Watch::Armed;
            self.take(world, who, own, Turn::First);
        } else {
            if !steady && self.rules.head.no_reconnect {
                world.task_mut(who).own_watch = Watch::None;
            }
            world.task_mut(who).phase = Phase::Listing { own };
        }
    }

    fn release(&self, world: &mut World, who: Who) {
        let phase = world.task(who).phase;
        self.leave(world, who, Left::ByItself);
        world.task_mut(who).phase = Phase::Idle;
        if !self.rules.local.ended_first
            && world
                .tasks_of(who.client)
                .any(|(next, task)| next != who && matches!(task.phase, Phase::Holding { .. }))
        {
            // The next one holds; this one has yet to be told.
            world.client_mut(who.client).duties.pop();
            world.task_mut(who).phase = phase;
        }
    }

    /// Whoever looks for its node now and then only has found that it is gone.
    fn own_is_gone(&self, world: &mut World, who: Who) {
        let held = matches!(world.task(who).phase, Phase::Holding { .. });
        self.leave(world, who, Left::Robbed);
        if held {
            // What its guard does is of no consequence any more.
            world.task_mut(who).phase = Phase::Idle;
        } else {
            self.enter(world, who);
        }
    }

    /// The node is gone, as far as we know. What may be left of it is a duty all the same.
    fn enter_again(&self, world: &mut World, who: Who) {
        self.leave(world, who, Left::Robbed);
        self.enter(world, who);
    }

    /// The session is over; there is a new one, and it takes over the duties.
    pub(crate) fn next_epoch(&self, world: &mut World, id: u8) {
        let client = world.client_mut(id);
        client.duties.iter_mut().for_each(|duty| duty.flying = false);
        // The leader took part in opening it.
        (client.epoch, client.alive, client.lease) = (client.epoch + 1, true, true);
        (client.link, client.lag) = (Link::Up, 0);
        if self.rules.gap.same_epoch {
            client.known = Known::NOTHING;
        } else if client.known.watch != Watch::None {
            client.known.watch = Watch::Cut;
        }
        let tasks: Vec<Who> = world.tasks_of(id).map(|(who, _)| who).collect();
        for who in tasks {
            let task = world.task_mut(who);
            task.own_watch = Watch::None;
            match &mut task.phase {
                Phase::Doubt { flying, .. } if self.rules.guids == Guids::KeptOverSessions => {
                    *flying = false;
                }
                // The chain of the session before lives on.
                Phase::Holding { lost, .. } if !self.rules.local.same_epoch => *lost = true,
                Phase::InProcess { .. } if !self.rules.local.same_epoch => {}
                Phase::Idle => {}
                Phase::Holding { .. } => {
                    leave_a_duty(world, who);
                    world.task_mut(who).phase = Phase::Idle;
                }
                _ => {
                    leave_a_duty(world, who);
                    self.enter(world, who);
                }
            }
        }
    }

    fn clean_up(&self, world: &mut World, id: u8, index: usize) {
        let duty = world.client(id).duties[index];
        let searched = matches!(duty.what, Removal::Search { .. });
        if self.rules.barrier || !searched {
            answered_by_the_leader(world, id);
        }
        while let Some(name) = target(world, id, duty.what) {
            if world.leader().get(name).is_none() {
                break;
            }
            world.commit(|tree| tree.remove(name));
            answered_by_the_leader(world, id);
        }
        world.client_mut(id).duties.remove(index);
    }
}

fn prove(world: &mut World, who: Who) {
    let Phase::Proving { own } = world.task(who).phase else { return };
    answered_by_the_leader(world, who.client);
    world.task_mut(who).phase = Phase::Listing { own };
}

/// Notes what may be left at the servers.
pub(crate) fn leave_a_duty(world: &mut World, who: Who) {
    let task = world.task_mut(who);
    task.own_watch = Watch::None;
    let what = match task.phase {
        Phase::Idle | Phase::NoParent => return,
        Phase::Creating { guid } | Phase::Doubt { guid, .. } => Removal::Search { guid },
        Phase::Created { own, .. } | Phase::Adopting { own } => Removal::Search { guid: own.guid },
        Phase::Listing { own }
        | Phase::Listed { own, .. }
        | Phase::Proving { own }
        | Phase::Watching { own, .. }
        | Phase::Waiting { own, .. }
        | Phase::InProcess { own, .. }
        | Phase::Holding { own, .. } => Removal::Delete { guid: own.guid, sequence: own.sequence },
    };
    world.client_mut(who.client).duties.push(Duty { what, flying: false });
}

/// The hold is reported. Checks invariants 2 and 4.
fn admit(world: &mut World, who: Who, own: Own) {
    let client = world.client(who.client);
    let name = World::name(who.client, own);
    let leader = world.leader();
    let node = leader.get(name).is_some_and(|node| node.epoch == client.epoch);
    let mut ahead = leader.nodes.iter().take_while(|node| node.name != name);
    // Whose delete is on its way does not count.
    let released = |node: &Node| {
        let ours = node.name.client == who.client && node.epoch == client.epoch;
        ours && client.is_released(node.name)
    };
    let early = !client.lease || !(own.robbed || node && ahead.all(released));
    world.early |= early;
    if !own.robbed {
        world.token_fell |= own.czxid <= world.token;
        world.token = world.token.max(own.czxid);
    }
    let task = world.task_mut(who);
    task.own_watch = Watch::None;
    task.phase = Phase::Holding { own, lost: false };
}

/// The leader's answer proves the session, unless it came after its end; and a server passes on only
/// what it has applied.
fn answered_by_the_leader(world: &mut World, id: u8) {
    world.catch_up(id);
    renew(world, id);
}

pub(crate) fn renew(world: &mut World, id: u8) {
    let client = world.client_mut(id);
    client.lease |= client.alive;
}

fn find(world: &World, id: u8, guid: u8) -> Option<Name> {
    let mut names = world.view(id).nodes.iter().map(|node| node.name);
    names.find(|name| (name.client, name.guid) == (id, guid))
}

pub(crate) fn target(world: &World, id: u8, what: Removal) -> Option<Name> {
    match what {
        Removal::Delete { guid, sequence } => Some(Name { sequence, client: id, guid }),
        Removal::Search { guid } => find(world, id, guid),
    }
}

fn reconnect(world: &mut World, id: u8) {
    let client = world.client_mut(id);
    client.link = Link::Up;
    client.duties.iter_mut().for_each(|duty| duty.flying = false);
    for task in &mut client.tasks {
        if let Phase::Doubt { flying, .. } = &mut task.phase {
            *flying = false;
        }
    }
}
