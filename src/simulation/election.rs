//! The leader among the servers: signs of life, sessions that expire, elections.

use super::op::{Ids, Op};
use super::state::{Leading, Parted, Role, State, Way};

impl State {
    /// At the start there is a leader.
    pub(super) fn begin(&mut self) {
        let leader = self.rng.usize(..self.servers.len());
        self.lead(leader, (0..self.servers.len()).filter(|one| *one != leader).collect());
        self.after(self.setting.tick / 2, Self::tick);
        self.after(self.setting.reap_every, Self::reap);
    }

    /// Each half tick: signs of life, and what ends for the lack of them.
    fn tick(&mut self) {
        self.after(self.setting.tick / 2, Self::tick);
        let oldest = self.now.saturating_sub(self.setting.sync_limit * self.setting.tick);
        for server in 0..self.servers.len() {
            let here = &self.servers[server];
            let is_recent = |other: &usize| here.heard.get(other).is_some_and(|at| *at >= oldest);
            match here.role {
                _ if here.paused => {}
                Role::Leading => {
                    let heard = here.leading.followers.keys().filter(|one| is_recent(one)).count();
                    if heard + 1 < self.quorum() {
                        self.step_down(server);
                    } else {
                        self.ping_followers(server);
                        self.expire_what_is_due(server);
                    }
                }
                Role::Following(leader) if !is_recent(&leader) => self.step_down(server),
                Role::Following(_) | Role::Looking | Role::Down => {}
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

    fn reap(&mut self) {
        self.after(self.setting.reap_every, Self::reap);
        if let Some(leader) = self.leader() {
            for path in self.servers[leader].tree.left_empty() {
                self.propose(leader, 0, Ids::default(), Ok(Op::Reap { path }), None);
            }
        }
    }

    /// It serves no client until there is a leader again.
    fn step_down(&mut self, server: usize) {
        self.note(format_args!("server {server} serves no more"));
        // Its connections end behind what was sent by them.
        match self.servers[server].role {
            Role::Following(leader) => self.tell(server, leader, move |state| {
                state.servers[leader].leading.followers.remove(&server);
            }),
            Role::Leading => self.tell_followers(server, |follower| {
                move |state: &mut Self| state.step_down(follower)
            }),
            Role::Looking | Role::Down => {}
        }
        let here = &mut self.servers[server];
        (here.role, here.leading) = (Role::Looking, Leading::default());
        self.close_conns(server, |_, _| true);
        let pause = self.rng.u64(100..400);
        self.after(pause, move |state| state.elect(server));
    }

    /// The servers that it reaches, and that reach it, among them itself.
    fn reached_by(&self, one: usize) -> Vec<usize> {
        let is_up = |server: usize| {
            let server = &self.servers[server];
            server.role != Role::Down && !server.paused
        };
        let reaches = |from, to| !self.parted.contains(&Parted::Wire(from, to));
        let reached = |other: &usize| {
            is_up(one) && is_up(*other) && reaches(one, *other) && reaches(*other, one)
        };
        (0..self.servers.len()).filter(reached).collect()
    }

    fn elect(&mut self, server: usize) {
        if self.servers[server].role != Role::Looking || self.servers[server].paused {
            return;
        }
        let mut reached = self.reached_by(server);
        let epoch = |one: &usize| self.servers[*one].epoch;
        let is = |one: &usize, role: Role| self.servers[*one].role == role;
        // None that it has outlived.
        let leads = |one: &usize| is(one, Role::Leading) && epoch(one) >= epoch(&server);
        if let Some(leader) = reached.iter().copied().filter(leads).max_by_key(epoch) {
            return self.join(server, leader);
        }
        reached.retain(|one| is(one, Role::Looking));
        let last = |one: &usize| (self.servers[*one].log.last().map(|entry| entry.zxid), *one);
        if let Some(leader) = reached.iter().copied().max_by_key(last) {
            let followers = self.reached_by(leader).into_iter();
            let followers = followers.filter(|one| *one != leader && reached.contains(one));
            let followers: Vec<_> = followers.collect();
            if followers.len() + 1 >= self.quorum() {
                return self.lead(leader, followers);
            }
        }
        let pause = self.rng.u64(200..600);
        self.after(pause, move |state| state.elect(server));
    }

    /// All of its log is committed once a quorum has it, and each session has its whole timeout again.
    fn lead(&mut self, leader: usize, followers: Vec<usize>) {
        let epoch = 1 + self.servers.iter().map(|server| server.epoch).max().unwrap_or(0);
        self.note(format_args!("server {leader} leads in epoch {epoch}"));
        let here = &mut self.servers[leader];
        (here.role, here.epoch) = (Role::Leading, epoch);
        here.leading.last_zxid = epoch << 32;
        followers.into_iter().for_each(|follower| self.join(follower, leader));
        self.commit(leader);
        self.apply(leader);
        for (session, timeout) in self.servers[leader].tree.sessions.clone() {
            self.track(leader, session, timeout, None);
        }
    }

    /// Takes over the leader's log; what it had beyond that was never committed.
    fn join(&mut self, server: usize, leader: usize) {
        for way in [Way::Wire(server, leader), Way::Wire(leader, server)] {
            self.lanes.entry(way).or_default().queue.clear();
        }
        let other = &mut self.servers[leader];
        let (log, committed, epoch) = (other.log.clone(), other.committed, other.epoch);
        other.heard.insert(server, self.now);
        other.leading.followers.insert(server, log.len());
        let here = &mut self.servers[server];
        (here.log, here.role, here.epoch) = (log, Role::Following(leader), epoch);
        here.committed = here.committed.max(committed);
        here.heard.insert(leader, self.now);
        here.touched.clear();
        self.apply(server);
        self.commit(leader);
    }

    /// It ends at once. The others learn of it by its connections.
    pub(super) fn stop_server(&mut self, server: usize) {
        let role = self.servers[server].role;
        self.step_down(server);
        let here = &mut self.servers[server];
        (here.role, here.paused) = (Role::Down, false);
        for other in 0..self.servers.len() {
            self.servers[other].leading.followers.remove(&server);
            if self.servers[other].role == Role::Following(server) {
                self.step_down(other);
            }
        }
        self.note(format_args!("server {server} is down, was {role:?}"));
    }

    pub(super) fn start_server(&mut self, server: usize) {
        if self.servers[server].role == Role::Down {
            self.servers[server].role = Role::Looking;
            let pause = self.rng.u64(50..200);
            self.after(pause, move |state| state.elect(server));
        }
    }

    pub(super) fn pause_server(&mut self, server: usize, paused: bool) {
        self.servers[server].paused = paused;
        if !paused {
            self.unblocked();
            self.at(self.now, move |state| state.elect(server));
        }
    }
}
