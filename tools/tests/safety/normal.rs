//! One form for states that nobody can tell apart.

use crate::phase::{Phase, Watch};
use crate::rules::Rules;
use crate::world::{Client, Known, Link, World};

impl World {
    /// Gives equivalent states one form; `interchange`: clients too, and tasks.
    pub(crate) fn normalise(&mut self, rules: &Rules, interchange: bool) {
        let leader = self.trees.last().unwrap();
        for client in &mut self.clients {
            if client.dead || client.is_done() {
                // Nothing of it matters any more but what it left at the servers.
                client.lag = 0;
                client.lease = false;
                (client.link, client.alive, client.stopped) = (Link::Up, true, false);
                client.tasks.iter_mut().for_each(|task| task.own_watch = Watch::None);
            }
            let known = &client.known;
            // A number that somebody else got does not come again, but with another parent.
            let ours = |phase: &Phase| matches!(phase, Phase::Created { own, .. } if Some(own.sequence) == known.next);
            let used_up = rules.gap.number_compared
                && self.faults.reaps == 0
                && known.reaped == leader.reaped
                && known.next < leader.counter
                && !client.phases().any(ours);
            let listed = |phase: &Phase| matches!(phase, Phase::Listed { .. });
            let nothing = (known.next.is_none() || used_up) && !client.phases().any(listed);
            if nothing || !client.may_create() {
                client.known = Known::NOTHING;
            }
            client.duties.sort_unstable();
            client.duties.dedup();
            if let Some(abandoned) = &mut client.abandoned {
                abandoned.flying.sort_unstable();
            }
            if interchange {
                client.tasks.sort_unstable();
            }
        }
        let age = |phase: &Phase| if let Phase::Listed { age, .. } = phase { *age } else { 0 };
        let ages = self.clients.iter().flat_map(Client::phases).map(age);
        let oldest = self.clients.iter().map(|client| client.lag).chain(ages).max().unwrap_or(0);
        let keep = usize::from(oldest) + 1;
        self.trees.drain(..self.trees.len() - keep);
        self.renumber();
        if interchange {
            self.interchange();
        }
    }

    fn renumber(&mut self) {
        let mut used = vec![self.token];
        used.extend(self.trees.iter().flat_map(|tree| tree.nodes.iter().map(|node| node.czxid)));
        self.phases_mut().for_each(|phase| used.extend(phase.zxids_mut().map(|zxid| *zxid)));
        used.sort_unstable();
        used.dedup();
        let rank = |zxid: u8| used.binary_search(&zxid).unwrap() as u8;
        self.trees.iter_mut().flat_map(|t| &mut t.nodes).for_each(|n| n.czxid = rank(n.czxid));
        self.phases_mut().for_each(|phase| phase.zxids_mut().for_each(|zxid| *zxid = rank(*zxid)));
        self.token = rank(self.token);
        self.zxid = used.len() as u8;
    }

    fn phases_mut(&mut self) -> impl Iterator<Item = &mut Phase> {
        let tasks = self.clients.iter_mut().flat_map(|client| &mut client.tasks);
        tasks.map(|task| &mut task.phase)
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
        for phase in self.phases_mut() {
            phase.others_mut().for_each(|name| name.client = place[usize::from(name.client)]);
        }
        for node in self.trees.iter_mut().flat_map(|tree| &mut tree.nodes) {
            node.name.client = place[usize::from(node.name.client)];
        }
    }
}

impl Client {
    /// Whether what is known of the queue may be of use to it.
    fn may_create(&self) -> bool {
        let done = |phase: &Phase| matches!(phase, Phase::Idle | Phase::Holding { .. });
        !self.dead && self.tasks.iter().any(|task| task.tries > 0 || !done(&task.phase))
    }
}
