//! A state of the model: the servers, the clients, and the faults that may still happen.

use crate::phase::{Own, Phase, Task, Watch};
use crate::service::{Name, Node, Tree};

/// Tasks of one client, at most.
pub(crate) const TASKS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Duty {
    pub(crate) what: Removal,
    /// Cut off on its way: may still take effect, and is tried again in any case.
    pub(crate) flying: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Removal {
    Delete { guid: u8, sequence: u8 },
    Search { guid: u8 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Link {
    Up,
    /// The server is cut off from the leader: it answers reads, and nothing else.
    Apart,
    Down,
}

/// A session that its client gave up before the leader did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Abandoned {
    pub(crate) epoch: u8,
    /// Creates on their way.
    pub(crate) flying: [Option<u8>; TASKS],
}

/// What a session knows of the queue, for its next create.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Known {
    /// The parent's counter, where nobody else was in the queue.
    pub(crate) next: Option<u8>,
    /// On the parent.
    pub(crate) watch: Watch,
    /// Which parent it was.
    pub(crate) reaped: u8,
}

impl Known {
    pub(crate) const NOTHING: Self = Self { next: None, watch: Watch::None, reaped: 0 };

    pub(crate) fn look(&mut self, view: &Tree) {
        let there = view.counter.is_some() && view.reaped == self.reaped;
        self.watch = if there { Watch::Armed } else { Watch::Deleted };
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Client {
    /// How many transactions its server may be behind.
    pub(crate) max_lag: u8,
    pub(crate) lag: u8,
    pub(crate) tasks: [Task; TASKS],
    pub(crate) duties: Vec<Duty>,
    pub(crate) known: Known,
    pub(crate) epoch: u8,
    /// The leader knows the session.
    pub(crate) alive: bool,
    pub(crate) lease: bool,
    pub(crate) link: Link,
    pub(crate) stopped: bool,
    pub(crate) dead: bool,
    pub(crate) abandoned: Option<Abandoned>,
}

/// How often each fault may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Faults {
    pub(crate) cuts: u8,
    /// A server is cut off from the leader; only for clients whose servers may lag.
    pub(crate) partitions: u8,
    pub(crate) stops: u8,
    pub(crate) kills: u8,
    /// Sessions that the leader expires, or their client gives up.
    pub(crate) expiries: u8,
    /// Nodes that an administrator deletes.
    pub(crate) deletions: u8,
    /// Nodes whose data is changed.
    pub(crate) changes: u8,
    pub(crate) reaps: u8,
    /// Callers that give up.
    pub(crate) withdrawals: u8,
    /// Holds that pass on to a node with an old number, as a read-write lock's may.
    pub(crate) downgrades: u8,
}

/// A task of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) client: u8,
    pub(crate) task: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// From the oldest that a server may show to the leader's.
    pub(crate) trees: Vec<Tree>,
    pub(crate) clients: Vec<Client>,
    pub(crate) zxid: u8,
    /// The greatest fencing token so far.
    pub(crate) token: u8,
    pub(crate) faults: Faults,
    /// A hold began though it must not have (invariant 2).
    pub(crate) early: bool,
    /// A hold began with a token no greater than an earlier one (invariant 4).
    pub(crate) token_fell: bool,
}

impl Client {
    pub(crate) fn is_released(&self, name: Name) -> bool {
        let Name { guid, sequence, .. } = name;
        self.duties.iter().any(|duty| duty.what == Removal::Delete { guid, sequence })
    }

    pub(crate) fn phases(&self) -> impl Iterator<Item = &Phase> {
        self.tasks.iter().map(|task| &task.phase)
    }
}

impl World {
    pub(crate) fn leader(&self) -> &Tree {
        self.trees.last().unwrap()
    }

    /// What the client's server shows.
    pub(crate) fn view(&self, client: u8) -> &Tree {
        let lag = usize::from(self.clients[usize::from(client)].lag);
        &self.trees[self.trees.len() - 1 - lag]
    }

    pub(crate) fn client(&self, client: u8) -> &Client {
        &self.clients[usize::from(client)]
    }

    pub(crate) fn client_mut(&mut self, client: u8) -> &mut Client {
        &mut self.clients[usize::from(client)]
    }

    /// The client, with what its server shows.
    pub(crate) fn client_and_view(&mut self, client: u8) -> (&mut Client, &Tree) {
        let lag = usize::from(self.client(client).lag);
        let view = &self.trees[self.trees.len() - 1 - lag];
        (&mut self.clients[usize::from(client)], view)
    }

    pub(crate) fn task(&self, who: Who) -> &Task {
        &self.client(who.client).tasks[usize::from(who.task)]
    }

    pub(crate) fn task_mut(&mut self, who: Who) -> &mut Task {
        &mut self.client_mut(who.client).tasks[usize::from(who.task)]
    }

    pub(crate) fn ids(&self) -> std::ops::Range<u8> {
        0..self.clients.len() as u8
    }

    pub(crate) fn tasks_of(&self, client: u8) -> impl Iterator<Item = (Who, &Task)> {
        self.client(client).tasks.iter().zip(0..).map(move |(t, task)| (Who { client, task }, t))
    }

    pub(crate) fn all_tasks(&self) -> impl Iterator<Item = (Who, &Task)> {
        self.ids().flat_map(|client| self.tasks_of(client))
    }

    pub(crate) fn name(client: u8, own: Own) -> Name {
        Name { sequence: own.sequence, client, guid: own.guid }
    }

    /// The place of the chain that is this node.
    pub(crate) fn place(&self, name: Name) -> Option<(Who, Own)> {
        let is = |own: &Own| Self::name(name.client, *own) == name;
        let mut tasks = self.tasks_of(name.client);
        tasks.find_map(|(who, task)| Some((who, task.phase.place().filter(is)?)))
    }

    /// A transaction at the leader.
    pub(crate) fn commit(&mut self, change: impl FnOnce(&mut Tree)) {
        let mut tree = self.leader().clone();
        change(&mut tree);
        self.zxid += 1;
        self.trees.push(tree);
        for client in &mut self.clients {
            client.lag += 1;
            for task in &mut client.tasks {
                match &mut task.phase {
                    Phase::Created { age, .. } => *age = (*age + 1).min(client.max_lag),
                    Phase::Listed { age, .. } => *age += 1,
                    _ => {}
                }
            }
        }
        for client in self.ids() {
            while self.client(client).lag > self.client(client).max_lag {
                if self.client(client).link == Link::Apart {
                    // It has been alone for too long, and gives up.
                    self.link_is_cut(client);
                }
                self.advance(client);
            }
        }
    }

    /// The client's server applies one more transaction, and its watches fire.
    pub(crate) fn advance(&mut self, id: u8) {
        self.client_mut(id).lag -= 1;
        let (client, view) = self.client_and_view(id);
        for task in &mut client.tasks {
            if task.own_watch == Watch::Armed {
                task.own_watch = look_at_own(id, task, view);
            }
            let watched = task.phase.watched_mut();
            watched.filter(|w| w.watch == Watch::Armed).for_each(|w| w.look(view));
        }
        if client.known.watch == Watch::Armed {
            client.known.look(view);
        }
    }

    pub(crate) fn catch_up(&mut self, client: u8) {
        while self.client(client).lag > 0 {
            self.advance(client);
        }
    }

    /// Whether a watch on the own node is armed or fires at once.
    pub(crate) fn look_at_own(&self, who: Who) -> Watch {
        look_at_own(who.client, self.task(who), self.view(who.client))
    }

    /// The client's side of a broken connection: events on their way are lost.
    pub(crate) fn link_is_cut(&mut self, client: u8) {
        let client = self.client_mut(client);
        client.link = Link::Down;
        for task in &mut client.tasks {
            if task.own_watch != Watch::None {
                task.own_watch = Watch::Cut;
            }
            match &mut task.phase {
                Phase::Creating { guid } => {
                    task.phase = Phase::Doubt { guid: *guid, flying: true };
                }
                Phase::Created { own, .. } => {
                    task.phase = Phase::Doubt { guid: own.guid, flying: false };
                }
                Phase::Waiting { steady, .. } => {
                    *steady = false;
                    task.phase.watched_mut().for_each(|watched| watched.watch = Watch::Cut);
                }
                _ => {}
            }
        }
        if client.known.watch != Watch::None {
            client.known.watch = Watch::Cut;
        }
        client.duties.iter_mut().for_each(|duty| duty.flying = true);
        client.duties.dedup();
    }

    /// The create takes effect: a node in `epoch`.
    pub(crate) fn create(&mut self, client: u8, guid: u8, epoch: u8) -> Option<Own> {
        let sequence = self.leader().counter?;
        let czxid = self.zxid + 1;
        let name = Name { sequence, client, guid };
        self.commit(|tree| {
            tree.counter = Some(sequence + 1);
            tree.nodes.push(Node { name, epoch, czxid, version: 0 });
        });
        Some(Own { guid, sequence, czxid, robbed: false })
    }

    pub(crate) fn rob(&mut self, name: Name) {
        self.commit(|tree| tree.remove(name));
        let phases = self.client_mut(name.client).tasks.iter_mut().map(|task| &mut task.phase);
        let mut owns = phases.filter_map(Phase::own_mut);
        if let Some(own) = owns.find(|own| World::name(name.client, **own) == name) {
            own.robbed = true;
        }
    }

    /// The smallest GUID of the client that nobody knows: as good as one never drawn.
    pub(crate) fn fresh_guid(&self, client: u8) -> u8 {
        let this = self.client(client);
        let in_duty = |duty: &Duty, guid| match duty.what {
            Removal::Delete { guid: known, .. } | Removal::Search { guid: known } => known == guid,
        };
        let known = |guid: u8| {
            let is = |name: Name| (name.client, name.guid) == (client, guid);
            this.phases().any(|phase| phase.guid() == Some(guid))
                || this.abandoned.is_some_and(|left| left.flying.contains(&Some(guid)))
                || this.duties.iter().any(|duty| in_duty(duty, guid))
                || self.trees.iter().any(|tree| tree.nodes.iter().any(|node| is(node.name)))
                || self.all_tasks().any(|(_, t)| t.phase.clone().others_mut().any(|n| is(*n)))
        };
        (0..).find(|guid| !known(*guid)).unwrap()
    }
}

fn look_at_own(client: u8, task: &Task, view: &Tree) -> Watch {
    let there = task.phase.own().is_some_and(|own| view.get(World::name(client, own)).is_some());
    if there { Watch::Armed } else { Watch::Deleted }
}
