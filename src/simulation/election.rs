//! The leader among the servers: signs of life, sessions that expire, elections.

use super::op::{Ids, Op};
use super::server::{Follower, Leading, Message, Role, Tracked, Wire};
use super::state::{Event, State};

impl State {
    /// Each half tick: signs of life, and what ends for the lack of them.
    pub(super) fn tick(&mut self) {
        self.after(self.setting.tick / 2, Event::Tick);
        let patience = self.setting.sync_limit * self.setting.tick;
        for server in 0..self.servers.len() {
            let here = &self.servers[server];
            if here.paused {
                continue;
            }
            match here.role {
                Role::Leading => {
                    let followers = here.leading.followers.iter();
                    let recent = |follower: &&Follower| self.now <= follower.heard + patience;
                    let heard = followers.clone().filter(|(_, one)| recent(one)).count();
                    let followers: Vec<_> = followers.map(|(number, _)| *number).collect();
                    if heard + 1 < self.quorum() {
                        self.step_down(server);
                        continue;
                    }
                    for follower in followers {
                        self.tell(server, follower, Message::Ping);
                    }
                    self.expire_what_is_due(server);
                }
                Role::Following(_) if self.now > here.heard + patience => self.step_down(server),
                _ => {}
            }
        }
    }

    fn expire_what_is_due(&mut self, leader: usize) {
        let now = self.now;
        let tracker = self.servers[leader].leading.tracker.iter();
        let due = tracker.filter(|(_, tracked)| tracked.expires <= now && !tracked.closing);
        let due: Vec<_> = due.map(|(session, _)| *session).collect();
        due.into_iter().for_each(|session| self.expire(leader, session));
    }

    /// Ends a session as its leader does.
    pub(super) fn expire(&mut self, leader: usize, session: i64) {
        if let Some(tracked) = self.servers[leader].leading.tracker.get_mut(&session) {
            tracked.closing = true;
            self.propose(leader, session, Ids::default(), Ok(Op::Close), None);
        }
    }

    pub(super) fn reap(&mut self) {
        self.after(self.setting.reap_every, Event::Reap);
        let leads = |server: &usize| self.servers[*server].role == Role::Leading;
        if let Some(leader) = (0..self.servers.len()).find(leads) {
            for path in self.servers[leader].tree.left_empty() {
                self.propose(leader, 0, Ids::default(), Ok(Op::Reap { path }), None);
            }
        }
    }

    /// It serves no client until there is a leader again.
    pub(super) fn step_down(&mut self, server: usize) {
        self.note(format_args!("server {server} serves no more"));
        let here = &mut self.servers[server];
        (here.role, here.leading) = (Role::Looking, Leading::default());
        self.close_conns(server);
        let pause = self.rng.u64(100..400);
        self.after(pause, Event::Elect { server });
    }

    fn reach_each_other(&self, one: usize, other: usize) -> bool {
        let parted = |way| self.wires.get(&way).is_some_and(|wire: &Wire| wire.parted);
        let is_up = |server: usize| {
            let server = &self.servers[server];
            server.role != Role::Down && !server.paused
        };
        is_up(one) && is_up(other) && !parted((one, other)) && !parted((other, one))
    }

    pub(super) fn elect(&mut self, server: usize) {
        if self.servers[server].role != Role::Looking || self.servers[server].paused {
            return;
        }
        let reached = (0..self.servers.len()).filter(|other| self.reach_each_other(server, *other));
        let reached: Vec<_> = reached.collect();
        // None that it has outlived.
        let epoch = self.servers[server].epoch;
        let leads = |other: &&usize| {
            let other = &self.servers[**other];
            other.role == Role::Leading && other.epoch >= epoch
        };
        if let Some(leader) =
            reached.iter().filter(leads).max_by_key(|one| self.servers[**one].epoch)
        {
            return self.join(server, *leader);
        }
        let looking = |other: &usize| self.servers[*other].role == Role::Looking;
        let looking: Vec<_> = reached.into_iter().filter(looking).collect();
        let last = |one: usize| self.servers[one].log.last().map_or(0, |entry| entry.zxid);
        match looking.iter().copied().max_by_key(|one| (last(*one), *one)) {
            Some(leader) if looking.len() >= self.quorum() => {
                let reached =
                    |other: &usize| *other != leader && self.reach_each_other(leader, *other);
                let others: Vec<_> = looking.into_iter().filter(reached).collect();
                if others.len() + 1 >= self.quorum() {
                    return self.lead(leader, others);
                }
            }
            _ => {}
        }
        let pause = self.rng.u64(200..600);
        self.after(pause, Event::Elect { server });
    }

    /// All of its log is committed once a quorum has it, and each session has its whole timeout again.
    pub(super) fn lead(&mut self, leader: usize, followers: Vec<usize>) {
        let epoch = 1 + self.servers.iter().map(|server| server.epoch).max().unwrap_or(0);
        self.note(format_args!("server {leader} leads in epoch {epoch}"));
        let here = &mut self.servers[leader];
        here.role = Role::Leading;
        here.epoch = epoch;
        here.leading = Leading { last_zxid: epoch << 32, ..Leading::default() };
        followers.into_iter().for_each(|follower| self.join(follower, leader));
        self.commit(leader);
        self.apply(leader);
        let sessions: Vec<_> =
            self.servers[leader].tree.sessions.iter().map(|(id, (t, _))| (*id, *t)).collect();
        for (session, timeout) in sessions {
            let tracked = Tracked { timeout, expires: 0, owner: None, closing: false };
            self.servers[leader].leading.tracker.insert(session, tracked);
            self.prolong(leader, session);
        }
    }

    /// Takes over the leader's log; what it had beyond that was never committed.
    fn join(&mut self, server: usize, leader: usize) {
        for way in [(server, leader), (leader, server)] {
            self.wires.entry(way).or_default().queue.clear();
        }
        let (log, committed, epoch) = {
            let leader = &self.servers[leader];
            (leader.log.clone(), leader.committed, leader.epoch)
        };
        let now = self.now;
        let here = &mut self.servers[server];
        here.log = log;
        (here.role, here.epoch, here.heard) = (Role::Following(leader), epoch, now);
        here.committed = here.committed.max(committed);
        here.touched.clear();
        let acked = here.log.len();
        self.apply(server);
        self.servers[leader].leading.followers.insert(server, Follower { heard: now, acked });
        self.commit(leader);
    }

    /// It ends at once. The others learn of it by its connections.
    pub(super) fn stop_server(&mut self, server: usize) {
        let role = self.servers[server].role;
        self.step_down(server);
        let here = &mut self.servers[server];
        (here.role, here.paused) = (Role::Down, false);
        for other in 0..self.servers.len() {
            match self.servers[other].role {
                Role::Following(leader) if leader == server => self.step_down(other),
                Role::Leading => {
                    self.servers[other].leading.followers.remove(&server);
                }
                _ => {}
            }
        }
        self.note(format_args!("server {server} is down, was {role:?}"));
    }

    pub(super) fn start_server(&mut self, server: usize) {
        if self.servers[server].role == Role::Down {
            self.servers[server].role = Role::Looking;
            let pause = self.rng.u64(50..200);
            self.after(pause, Event::Elect { server });
        }
    }

    pub(super) fn pause_server(&mut self, server: usize, paused: bool) {
        self.servers[server].paused = paused;
        if !paused {
            self.unblocked();
            self.wires_unblocked();
            self.at(self.now, Event::Elect { server });
        }
    }
}
