//! How servers agree: proposals, acknowledgements and commits, and `sync`.

use std::sync::Arc;

use super::op::{Acls, Answer, Happened, Ids, Op};
use super::server::{Asked, Message, Role, Tracked};
use super::state::{Event, Logged, State};
use super::tree::Entry;
use crate::client::ServerError;

impl State {
    /// At the start there is a leader.
    pub(super) fn begin(&mut self) {
        let leader = self.rng.usize(..self.servers.len());
        self.lead(leader, (0..self.servers.len()).filter(|one| *one != leader).collect());
    }

    pub(super) fn quorum(&self) -> usize {
        self.servers.len() / 2 + 1
    }

    pub(super) fn leader_of(&self, server: usize) -> Option<usize> {
        match self.servers[server].role {
            Role::Leading => Some(server),
            Role::Following(leader) => Some(leader),
            Role::Looking | Role::Down => None,
        }
    }

    pub(super) fn tell(&mut self, from: usize, to: usize, message: Message) {
        let (latency, epoch) = (self.latency(), self.servers[from].epoch);
        let now = self.now;
        let wire = self.wires.entry((from, to)).or_default();
        let due = wire.last.max(now + latency + wire.delay);
        wire.last = due;
        wire.queue.push_back((due, epoch, message));
        self.at(due, Event::Wire { from, to });
    }

    pub(super) fn over_wire(&mut self, from: usize, to: usize) {
        let Some(wire) = self.wires.get_mut(&(from, to)) else { return };
        let is_due = wire.queue.front().is_some_and(|(due, ..)| *due <= self.now);
        if wire.parted || !is_due || self.servers[to].paused {
            return;
        }
        let Some((_, epoch, message)) = wire.queue.pop_front() else { return };
        let here = &mut self.servers[to];
        if here.epoch != epoch {
            return;
        }
        match (here.role, message) {
            (Role::Leading, message) => self.arrives_at_leader(to, from, message),
            (Role::Following(leader), message) if leader == from => {
                self.arrives_at_follower(to, message)
            }
            _ => {}
        }
    }

    /// What may pass again.
    pub(super) fn wires_unblocked(&mut self) {
        let waiting: Vec<_> =
            self.wires.iter().map(|(way, wire)| (*way, wire.queue.len())).collect();
        for ((from, to), count) in waiting {
            (0..count).for_each(|_| self.at(self.now, Event::Wire { from, to }));
        }
    }

    fn arrives_at_leader(&mut self, leader: usize, from: usize, message: Message) {
        let now = self.now;
        let Some(follower) = self.servers[leader].leading.followers.get_mut(&from) else { return };
        follower.heard = now;
        match message {
            Message::Asked(asked) => self.decide(leader, from, asked),
            Message::Acked(length) => {
                follower.acked = follower.acked.max(length);
                self.commit(leader);
            }
            Message::Pong(sessions) => {
                sessions.into_iter().for_each(|session| self.prolong(leader, session));
            }
            _ => {}
        }
    }

    fn arrives_at_follower(&mut self, server: usize, message: Message) {
        let here = &mut self.servers[server];
        here.heard = self.now;
        match message {
            Message::Propose(entry) => {
                here.log.push(entry);
                let length = here.log.len();
                self.tell_leader(server, Message::Acked(length));
            }
            Message::Commit(length) => {
                here.committed = here.committed.max(length.min(here.log.len()));
                let pause = self.rng.u64(0..=1);
                self.after(pause, Event::Apply { server });
            }
            Message::Synced { conn, xid } => {
                self.apply(server);
                self.answered(conn, xid, Ok(Answer::Nothing));
            }
            Message::Valid { session, conn, timeout } => self.connected(conn, session, timeout),
            Message::Ping => {
                let touched = std::mem::take(&mut here.touched).into_iter().collect();
                self.tell_leader(server, Message::Pong(touched));
            }
            Message::Asked(_) | Message::Acked(_) | Message::Pong(_) => {}
        }
    }

    fn tell_leader(&mut self, server: usize, message: Message) {
        if let Role::Following(leader) = self.servers[server].role {
            self.tell(server, leader, message);
        }
    }

    /// A follower asks its leader.
    pub(super) fn ask(&mut self, server: usize, asked: Asked) {
        match self.servers[server].role {
            Role::Leading => self.decide(server, server, asked),
            _ => self.tell_leader(server, Message::Asked(asked)),
        }
    }

    fn decide(&mut self, leader: usize, from: usize, asked: Asked) {
        match asked {
            Asked::Write { session, ids, op, conn, xid } => {
                let op = self.permitted(leader, from, session, op);
                self.propose(leader, session, ids, op, Some((from, conn, xid)));
            }
            Asked::Sync { conn, xid } => {
                let here = &mut self.servers[leader];
                here.leading.syncs.push((here.log.len(), from, conn, xid));
                self.answer_syncs(leader);
            }
            Asked::Revalidate { session, conn } => {
                self.prolong(leader, session);
                let tracked = self.servers[leader].leading.tracker.get_mut(&session);
                let timeout = tracked.filter(|tracked| !tracked.closing).map(|tracked| {
                    tracked.owner = Some(from);
                    tracked.timeout
                });
                if from == leader {
                    return self.connected(conn, session, timeout);
                }
                self.tell(leader, from, Message::Valid { session, conn, timeout });
            }
        }
    }

    /// Whether the session may ask for it there. A new one is tracked from here on.
    fn permitted(
        &mut self,
        leader: usize,
        from: usize,
        session: i64,
        op: Op,
    ) -> Result<Op, ServerError> {
        if let Op::OpenSession { timeout } = op {
            let owner = Some(from);
            let tracked = Tracked { timeout, expires: 0, owner, closing: false };
            self.servers[leader].leading.tracker.insert(session, tracked);
            self.prolong(leader, session);
            return Ok(op);
        }
        let tracker = &mut self.servers[leader].leading.tracker;
        match tracker.get_mut(&session).filter(|tracked| !tracked.closing) {
            None => Err(ServerError::SessionExpired),
            Some(tracked) if tracked.owner.is_some_and(|owner| owner != from) => {
                Err(ServerError::SessionMoved)
            }
            Some(tracked) => {
                tracked.closing |= op == Op::Close;
                Ok(op)
            }
        }
    }

    pub(super) fn propose(
        &mut self,
        leader: usize,
        session: i64,
        ids: Ids,
        op: Result<Op, ServerError>,
        origin: Option<(usize, u64, i32)>,
    ) {
        let shuffle = self.rng.u64(..);
        let here = &mut self.servers[leader];
        here.leading.last_zxid += 1;
        let (zxid, time) = (here.leading.last_zxid, self.now);
        let entry = Arc::new(Entry { zxid, time, session, ids, op, origin, shuffle });
        here.log.push(entry.clone());
        let followers: Vec<_> = here.leading.followers.keys().copied().collect();
        for follower in followers {
            self.tell(leader, follower, Message::Propose(entry.clone()));
        }
        self.commit(leader);
    }

    /// A proposal that a quorum has is committed. Followers hear of it before the leader applies it.
    pub(super) fn commit(&mut self, leader: usize) {
        let quorum = self.quorum();
        let here = &mut self.servers[leader];
        let mut lengths: Vec<_> =
            here.leading.followers.values().map(|follower| follower.acked).collect();
        lengths.push(here.log.len());
        lengths.sort_unstable_by(|one, other| other.cmp(one));
        let Some(length) = lengths.get(quorum - 1).copied() else { return };
        if length <= here.committed {
            return;
        }
        here.committed = length;
        let followers: Vec<_> = here.leading.followers.keys().copied().collect();
        for follower in &followers {
            self.tell(leader, *follower, Message::Commit(length));
        }
        let pause = if followers.is_empty() { 0 } else { self.rng.u64(0..=1) };
        self.after(pause, Event::Apply { server: leader });
        self.answer_syncs(leader);
    }

    /// Without a proposal outstanding a leader answers alone.
    fn answer_syncs(&mut self, leader: usize) {
        let here = &mut self.servers[leader];
        let (committed, outstanding) = (here.committed, here.log.len() > here.committed);
        let syncs = std::mem::take(&mut here.leading.syncs);
        let (done, waiting) = syncs
            .into_iter()
            .partition::<Vec<_>, _>(|(length, ..)| !outstanding || *length <= committed);
        here.leading.syncs = waiting;
        for (_, server, conn, xid) in done {
            if server == leader {
                self.answered(conn, xid, Ok(Answer::Nothing));
            } else {
                self.tell(leader, server, Message::Synced { conn, xid });
            }
        }
    }

    /// Applies committed transactions, and answers the clients that wait for them here.
    pub(super) fn apply(&mut self, server: usize) {
        while self.servers[server].applied < self.servers[server].committed {
            let here = &mut self.servers[server];
            let entry = here.log[here.applied].clone();
            here.applied += 1;
            let mut fired = Vec::new();
            let reply = here.tree.apply(&entry, &mut fired);
            if here.role == Role::Leading {
                let failed = reply.as_ref().err().map(|refused| &refused.error);
                let Entry { zxid, session, op, .. } = &*entry;
                match op {
                    Ok(op) => self.note(format_args!("= {zxid:#x} {session:#x} {op:?} {failed:?}")),
                    Err(error) => self.note(format_args!("= {zxid:#x} {session:#x} {error:?}")),
                }
            }
            self.observe(server, &entry, &fired);
            self.fire(server, fired);
            let own = entry.origin.filter(|(origin, ..)| *origin == server);
            if let Some((_, conn, xid)) = own {
                match entry.op {
                    Ok(Op::OpenSession { timeout }) => {
                        self.connected(conn, entry.session, Some(timeout));
                    }
                    _ => self.answered(conn, xid, reply),
                }
            }
            if matches!(entry.op, Ok(Op::Close)) {
                self.servers[server].leading.tracker.remove(&entry.session);
                self.session_ended(server, entry.session, own.map(|(_, conn, _)| conn));
            }
        }
    }

    /// Tells the observer of each entry once, before any client learns of it.
    fn observe(&mut self, server: usize, entry: &Entry, fired: &[(String, Happened, Acls)]) {
        let Some(observer) = self.observer.clone().filter(|_| entry.zxid > self.observed) else {
            return;
        };
        self.observed = entry.zxid;
        let ended =
            matches!(entry.op, Ok(Op::Close)).then_some(Logged::SessionEnded(entry.session));
        let tree = &self.servers[server].tree;
        let logged = fired.iter().filter_map(|(path, happened, _)| match happened {
            Happened::Created => {
                let owner = tree.node(path).map_or(0, |(stat, _)| stat.ephemeral_owner);
                Some(Logged::Created(path.clone(), owner))
            }
            Happened::Deleted => Some(Logged::Deleted(path.clone())),
            Happened::Changed => {
                tree.node(path).map(|(_, data)| Logged::Changed(path.clone(), data.to_vec()))
            }
            Happened::Children => None,
        });
        let logged: Vec<_> = ended.into_iter().chain(logged).collect();
        self.effects.push(Box::new(move || logged.iter().for_each(|one| observer(one))));
    }

    /// A server heard of a session.
    pub(super) fn touch(&mut self, server: usize, session: i64) {
        if self.servers[server].role == Role::Leading {
            self.prolong(server, session);
        } else {
            self.servers[server].touched.insert(session);
        }
    }

    /// Sessions expire in whole ticks.
    pub(super) fn prolong(&mut self, leader: usize, session: i64) {
        let (now, tick) = (self.now, self.setting.tick);
        if let Some(tracked) = self.servers[leader].leading.tracker.get_mut(&session) {
            tracked.expires = tracked.expires.max(((now + tracked.timeout) / tick + 1) * tick);
        }
    }
}
