//! A state of the model: the servers, the clients, and the faults that may still happen.

use crate::service::{Name, Node, Tree};

/// The client's own node, as far as it knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Own {
    pub(crate) guid: u8,
    pub(crate) sequence: u8,
    pub(crate) czxid: u8,
    /// An administrator deleted it. Its hold does not count any more: the crate does not promise to know
    /// before somebody acts.
    pub(crate) robbed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Watch {
    None,
    Armed,
    Fired,
    /// The link was cut: to be armed again after the reconnect.
    Cut,
}

/// How far a client's contender is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Phase {
    Idle,
    /// Create and list are on their way.
    Creating {
        guid: u8,
    },
    /// The create took effect, `age` transactions ago; the answers are on their way.
    Created {
        own: Own,
        age: u8,
    },
    /// The create was answered `NoNode`.
    NoParent,
    /// The create's outcome is unknown; `flying`: it may still take effect.
    Doubt {
        guid: u8,
        flying: bool,
    },
    /// Found by its GUID; whose is it?
    Adopting {
        own: Own,
    },
    Listing {
        own: Own,
    },
    /// First in the queue, but the lease has ended.
    Proving {
        own: Own,
    },
    Watching {
        own: Own,
        before: Name,
    },
    Waiting {
        own: Own,
        before: Name,
        czxid: u8,
        watch: Watch,
    },
    Holding {
        own: Own,
        lost: bool,
    },
}

impl Phase {
    pub(crate) fn own(&self) -> Option<Own> {
        match *self {
            Self::Created { own, .. }
            | Self::Adopting { own }
            | Self::Listing { own }
            | Self::Proving { own }
            | Self::Watching { own, .. }
            | Self::Waiting { own, .. }
            | Self::Holding { own, .. } => Some(own),
            _ => None,
        }
    }

    fn own_mut(&mut self) -> Option<&mut Own> {
        match self {
            Self::Created { own, .. }
            | Self::Adopting { own }
            | Self::Listing { own }
            | Self::Proving { own }
            | Self::Watching { own, .. }
            | Self::Waiting { own, .. }
            | Self::Holding { own, .. } => Some(own),
            _ => None,
        }
    }

    fn guid(&self) -> Option<u8> {
        match *self {
            Self::Creating { guid } | Self::Doubt { guid, .. } => Some(guid),
            _ => self.own().map(|own| own.guid),
        }
    }

    fn before_mut(&mut self) -> Option<&mut Name> {
        match self {
            Self::Watching { before, .. } | Self::Waiting { before, .. } => Some(before),
            _ => None,
        }
    }
}

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
    /// A create on its way.
    pub(crate) flying: Option<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Client {
    /// How many transactions its server may be behind.
    pub(crate) max_lag: u8,
    pub(crate) lag: u8,
    pub(crate) tries: u8,
    pub(crate) phase: Phase,
    pub(crate) own_watch: Watch,
    pub(crate) duties: Vec<Duty>,
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
    pub(crate) reaps: u8,
    /// Callers that give up.
    pub(crate) withdrawals: u8,
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

    pub(crate) fn ids(&self) -> std::ops::Range<u8> {
        0..self.clients.len() as u8
    }

    pub(crate) fn name(client: u8, own: Own) -> Name {
        Name { sequence: own.sequence, client, guid: own.guid }
    }

    /// A transaction at the leader.
    pub(crate) fn commit(&mut self, change: impl FnOnce(&mut Tree)) {
        let mut tree = self.leader().clone();
        change(&mut tree);
        self.zxid += 1;
        self.trees.push(tree);
        for client in &mut self.clients {
            client.lag += 1;
            if let Phase::Created { age, .. } = &mut client.phase {
                *age = (*age + 1).min(client.max_lag);
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
    pub(crate) fn advance(&mut self, client: u8) {
        self.client_mut(client).lag -= 1;
        if self.client(client).own_watch == Watch::Armed {
            self.client_mut(client).own_watch = self.look_at_own(client);
        }
        if let Phase::Waiting { watch: Watch::Armed, .. } = self.client(client).phase {
            self.look_at_predecessor(client);
        }
    }

    pub(crate) fn catch_up(&mut self, client: u8) {
        while self.client(client).lag > 0 {
            self.advance(client);
        }
    }

    /// Whether a watch on the own node is armed or fires at once.
    pub(crate) fn look_at_own(&self, client: u8) -> Watch {
        let own = self.client(client).phase.own();
        let there = own.is_some_and(|own| self.view(client).get(Self::name(client, own)).is_some());
        if there { Watch::Armed } else { Watch::Fired }
    }

    pub(crate) fn look_at_predecessor(&mut self, client: u8) {
        let Phase::Waiting { before, czxid: known, .. } = self.client(client).phase else {
            return;
        };
        // Another node of the same name counts as changed.
        let there = self.view(client).get(before).is_some_and(|node| node.czxid == known);
        if let Phase::Waiting { watch, .. } = &mut self.client_mut(client).phase {
            *watch = if there { Watch::Armed } else { Watch::Fired };
        }
    }

    /// The client's side of a broken connection: events on their way are lost.
    pub(crate) fn link_is_cut(&mut self, client: u8) {
        let client = self.client_mut(client);
        client.link = Link::Down;
        if client.own_watch != Watch::None {
            client.own_watch = Watch::Cut;
        }
        match &mut client.phase {
            Phase::Creating { guid } => client.phase = Phase::Doubt { guid: *guid, flying: true },
            Phase::Created { own, .. } => {
                client.phase = Phase::Doubt { guid: own.guid, flying: false };
            }
            Phase::Waiting { watch, .. } => *watch = Watch::Cut,
            _ => {}
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
            tree.nodes.push(Node { name, epoch, czxid });
        });
        Some(Own { guid, sequence, czxid, robbed: false })
    }

    pub(crate) fn rob(&mut self, name: Name) {
        self.commit(|tree| tree.remove(name));
        if let Some(own) = self.client_mut(name.client).phase.own_mut()
            && (own.guid, own.sequence) == (name.guid, name.sequence)
        {
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
            this.phase.guid() == Some(guid)
                || this.abandoned.is_some_and(|left| left.flying == Some(guid))
                || this.duties.iter().any(|duty| in_duty(duty, guid))
                || self.trees.iter().any(|tree| tree.nodes.iter().any(|node| is(node.name)))
                || self.clients.iter().any(|c| c.phase.clone().before_mut().is_some_and(|b| is(*b)))
        };
        (0..).find(|guid| !known(*guid)).unwrap()
    }

    /// Gives equivalent states one form; `interchange`: clients too.
    pub(crate) fn normalise(&mut self, interchange: bool) {
        for client in self.clients.iter_mut().filter(|client| client.dead || client.is_done()) {
            // Nothing of it matters any more but what it left at the servers.
            (client.lag, client.lease, client.own_watch) = (0, false, Watch::None);
            (client.link, client.alive, client.stopped) = (Link::Up, true, false);
        }
        let lag = self.clients.iter().map(|client| client.lag).max().unwrap_or(0);
        let keep = usize::from(lag) + 1;
        self.trees.drain(..self.trees.len() - keep);
        for client in &mut self.clients {
            client.duties.sort_unstable();
            client.duties.dedup();
        }
        self.renumber();
        if interchange {
            self.interchange();
        }
    }

    fn renumber(&mut self) {
        let mut used: Vec<u8> = self
            .trees
            .iter()
            .flat_map(|tree| tree.nodes.iter().map(|node| node.czxid))
            .chain(self.clients.iter().filter_map(|c| c.phase.own().map(|own| own.czxid)))
            .chain(self.clients.iter().filter_map(|c| match c.phase {
                Phase::Waiting { czxid, .. } => Some(czxid),
                _ => None,
            }))
            .chain([self.token])
            .collect();
        used.sort_unstable();
        used.dedup();
        let rank = |zxid: u8| used.binary_search(&zxid).unwrap() as u8;
        self.trees.iter_mut().flat_map(|t| &mut t.nodes).for_each(|n| n.czxid = rank(n.czxid));
        for client in &mut self.clients {
            if let Some(own) = client.phase.own_mut() {
                own.czxid = rank(own.czxid);
            }
            if let Phase::Waiting { czxid, .. } = &mut client.phase {
                *czxid = rank(*czxid);
            }
        }
        self.token = rank(self.token);
        self.zxid = used.len() as u8;
    }

    fn interchange(&mut self) {
        let mut order: Vec<u8> = self.ids().collect();
        order.sort_by(|a, b| self.client(*a).cmp(self.client(*b)));
        if order.is_sorted() {
            return;
        }
        let mut place = [0u8; 8];
        order.iter().zip(0..).for_each(|(old, new)| place[usize::from(*old)] = new);
        self.clients = order.iter().map(|old| self.client(*old).clone()).collect();
        for client in &mut self.clients {
            if let Some(before) = client.phase.before_mut() {
                before.client = place[usize::from(before.client)];
            }
        }
        for node in self.trees.iter_mut().flat_map(|tree| &mut tree.nodes) {
            node.name.client = place[usize::from(node.name.client)];
        }
    }
}
