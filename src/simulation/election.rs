//! Pings among the servers, sessions that expire, and elections.

use super::network::PartitionScope;
use super::op::{Ids, Op};
use super::recording::Place;
use super::server::{Role, Server};
use super::state::State;

impl State {
    /// Starts the servers, with a leader among them.
    pub(super) fn begin(&mut self) {
        let leader = self.rng.usize(..self.servers.len());
        self.lead(leader, (0..self.servers.len()).filter(|one| *one != leader).collect());
        self.events.after(self.settings.tick / 2, Self::tick);
        self.events.after(self.settings.reap_every, Self::reap);
    }

    /// Runs each half tick: leaders ping, a server that has lost touch steps down, and sessions expire.
    fn tick(&mut self) {
        self.events.after(self.settings.tick / 2, Self::tick);
        let limit = self.settings.sync_limit * self.settings.tick;
        let oldest = self.events.now().saturating_sub(limit);
        for server in 0..self.servers.len() {
            let here = &self.servers[server];
            match here.role() {
                _ if here.is_paused() => {}
                Role::Leading => {
                    if here.followers_heard(oldest) + 1 < self.quorum() {
                        self.step_down(server);
                    } else {
                        self.ping_followers(server);
                        self.expire_due(server);
                    }
                }
                Role::Following(leader) if !here.has_heard(leader, oldest) => {
                    self.step_down(server);
                }
                Role::Following(_) | Role::Looking | Role::Down => {}
            }
        }
    }

    fn expire_due(&mut self, leader: usize) {
        let now = self.events.now();
        for session in self.servers[leader].sessions.expired(now) {
            self.expire(leader, session);
        }
    }

    /// Ends a session, as its leader does when the session expires.
    pub(super) fn expire(&mut self, leader: usize, session: i64) {
        if self.servers[leader].sessions.begin_to_close(session) {
            self.recorded(|recording, now| recording.session_expired(now, session, leader));
            self.propose(leader, session, Ids::default(), Ok(Op::Close), None);
        }
    }

    /// Deletes empty containers.
    fn reap(&mut self) {
        self.events.after(self.settings.reap_every, Self::reap);
        if let Some(leader) = self.leader() {
            for path in self.servers[leader].replica.tree().empty_containers() {
                self.propose(leader, 0, Ids::default(), Ok(Op::Reap { path }), None);
            }
        }
    }

    /// Ends the service of a server, until there is a leader again.
    fn step_down(&mut self, server: usize) {
        self.note(format_args!("server {server} serves no more"));
        // The connections between the servers end behind the messages that were sent over them.
        match self.servers[server].role() {
            Role::Following(leader) => self.send_to(server, leader, move |state| {
                state.servers[leader].remove_follower(server);
            }),
            Role::Leading => self.send_to_followers(server, |follower| {
                move |state: &mut Self| state.step_down(follower)
            }),
            Role::Looking | Role::Down => {}
        }
        let here = &mut self.servers[server];
        here.step_down();
        let connections = here.connections.all();
        self.recorded_role(server);
        for connection in connections {
            self.close_at_server(connection);
        }
        let pause = self.rng.u64(100..400);
        self.events.after(pause, move |state| state.elect(server));
    }

    /// The servers that have a connection to `server` in both directions, among them the server itself.
    fn reached_by(&self, server: usize) -> Vec<usize> {
        let reaches = |from, to| !self.network.is_partitioned(PartitionScope::Servers(from, to));
        let reached = |other: &usize| {
            self.servers[server].is_up()
                && self.servers[*other].is_up()
                && reaches(server, *other)
                && reaches(*other, server)
        };
        (0..self.servers.len()).filter(reached).collect()
    }

    fn elect(&mut self, server: usize) {
        let here = &self.servers[server];
        if here.role() != Role::Looking || here.is_paused() {
            return;
        }
        let mut reached = self.reached_by(server);
        let epoch = |one: &usize| self.servers[*one].epoch();
        let has_role = |one: &usize, role: Role| self.servers[*one].role() == role;
        // A leader of an older epoch has been deposed.
        let leads = |one: &usize| has_role(one, Role::Leading) && epoch(one) >= epoch(&server);
        if let Some(leader) = reached.iter().copied().filter(leads).max_by_key(epoch) {
            return self.join(server, leader);
        }
        reached.retain(|one| has_role(one, Role::Looking));
        let last_zxid = |one: &usize| (self.servers[*one].replica.last_zxid(), *one);
        if let Some(leader) = reached.iter().copied().max_by_key(last_zxid) {
            let mut followers = self.reached_by(leader);
            followers.retain(|one| *one != leader && reached.contains(one));
            if followers.len() + 1 >= self.quorum() {
                return self.lead(leader, followers);
            }
        }
        let pause = self.rng.u64(200..600);
        self.events.after(pause, move |state| state.elect(server));
    }

    /// Makes a server the leader. The leader's whole log is committed once a quorum has it, and each session has its
    /// whole timeout again.
    fn lead(&mut self, leader: usize, followers: Vec<usize>) {
        let epoch = 1 + self.servers.iter().map(Server::epoch).max().unwrap_or(0);
        self.note(format_args!("server {leader} leads in epoch {epoch}"));
        self.servers[leader].lead(epoch);
        self.recorded_role(leader);
        followers.into_iter().for_each(|follower| self.join(follower, leader));
        self.commit(leader);
        self.apply(leader);
        let now = self.events.now();
        let here = &mut self.servers[leader];
        for (session, timeout) in here.replica.tree().sessions() {
            here.sessions.track(*session, *timeout, None, now);
        }
    }

    /// Makes a server a follower, with a copy of the leader's log.
    fn join(&mut self, server: usize, leader: usize) {
        self.network.lose_all(server, leader);
        self.network.lose_all(leader, server);
        let now = self.events.now();
        let other = &mut self.servers[leader];
        other.add_follower(server, now);
        let epoch = other.epoch();
        let log = other.replica.copy();
        self.servers[server].follow(leader, epoch, log, now);
        self.recorded_role(server);
        self.apply(server);
        self.commit(leader);
    }

    /// Stops a server at once. The other servers notice by their connections to it.
    pub(super) fn stop_server(&mut self, server: usize) {
        let role = self.servers[server].role();
        self.step_down(server);
        self.servers[server].stop();
        self.recorded_role(server);
        for other in 0..self.servers.len() {
            self.servers[other].remove_follower(server);
            if self.servers[other].role() == Role::Following(server) {
                self.step_down(other);
            }
        }
        self.note(format_args!("server {server} is down, was {role:?}"));
    }

    pub(super) fn start_server(&mut self, server: usize) {
        if self.servers[server].start() {
            self.recorded_role(server);
            let pause = self.rng.u64(50..200);
            self.events.after(pause, move |state| state.elect(server));
        }
    }

    pub(super) fn pause_server(&mut self, server: usize) {
        self.recorded(|recording, now| recording.pause(now, Place::Server(server)));
        self.servers[server].set_paused(true);
    }

    pub(super) fn resume_server(&mut self, server: usize) {
        self.recorded(|recording, now| recording.resume(now, Place::Server(server)));
        self.servers[server].set_paused(false);
        self.deliver_waiting();
        self.events.after(0, move |state| state.elect(server));
    }
}
