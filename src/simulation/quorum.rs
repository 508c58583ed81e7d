//! Agreement among the servers: proposals, acknowledgements and commits, and `sync`.

use std::sync::Arc;

use super::network::Route;
use super::op::{Answer, Ids, Op};
use super::replica::Applied;
use super::server::Role;
use super::state::State;
use super::tree::{LogEntry, Origin};
use crate::client::ServerError;

impl State {
    /// Number of servers that must agree.
    pub(super) fn quorum(&self) -> usize {
        self.servers.len() / 2 + 1
    }

    /// The server that leads. A deposed leader that has not noticed it does not count.
    pub(super) fn leader(&self) -> Option<usize> {
        let leads = |server: &usize| self.servers[*server].role() == Role::Leading;
        (0..self.servers.len()).filter(leads).max_by_key(|server| self.servers[*server].epoch())
    }

    /// Sends a message from one server to another. The message takes effect if one of the two still follows the other
    /// when it arrives. A message of a server to itself arrives at once.
    pub(super) fn send_to(
        &mut self,
        from: usize,
        to: usize,
        message: impl FnOnce(&mut Self) + Send + 'static,
    ) {
        if from == to {
            return message(self);
        }
        let epoch = self.servers[from].epoch();
        let arrives = move |state: &mut Self| {
            let now = state.events.now();
            if state.servers[to].hears(from, epoch, now) {
                message(state);
            }
        };
        self.dispatch(Route::BetweenServers(from, to), None, 0, None, Box::new(arrives));
    }

    /// Sends a message to the leader of a server. The message gets the leader's number.
    pub(super) fn send_to_leader(
        &mut self,
        server: usize,
        message: impl FnOnce(&mut Self, usize) + Send + 'static,
    ) {
        let leader = match self.servers[server].role() {
            Role::Leading => server,
            Role::Following(leader) => leader,
            Role::Looking | Role::Down => return,
        };
        self.send_to(server, leader, move |state| message(state, leader));
    }

    pub(super) fn send_to_followers<M>(&mut self, leader: usize, message: impl Fn(usize) -> M)
    where
        M: FnOnce(&mut Self) + Send + 'static,
    {
        for follower in self.servers[leader].followers() {
            self.send_to(leader, follower, message(follower));
        }
    }

    /// Pings the followers, which answer with the sessions that they have heard of.
    pub(super) fn ping_followers(&mut self, leader: usize) {
        self.send_to_followers(leader, |follower| {
            move |state: &mut Self| {
                let touched = state.servers[follower].take_touched();
                state.send_to_leader(follower, move |state, leader| {
                    let now = state.events.now();
                    let sessions = &mut state.servers[leader].sessions;
                    touched.into_iter().for_each(|session| sessions.prolong(session, now));
                });
            }
        });
    }

    /// Asks the leader for a write. The leader tracks a new session from here on.
    pub(super) fn ask_to_write(&mut self, origin: Origin, session: i64, ids: Ids, op: Op) {
        self.send_to_leader(origin.server, move |state, leader| {
            let now = state.events.now();
            let sessions = &mut state.servers[leader].sessions;
            let permitted = match op {
                Op::OpenSession { timeout } => {
                    sessions.track(session, timeout, Some(origin.server), now);
                    Ok(op)
                }
                op => sessions.permit(session, origin.server, &op).map(|()| op),
            };
            state.propose(leader, session, ids, permitted, Some(origin));
        });
    }

    /// Asks the leader for a `sync`.
    pub(super) fn ask_to_sync(&mut self, origin: Origin) {
        self.send_to_leader(origin.server, move |state, leader| {
            let answer = move |state: &mut Self| {
                state.send_to(leader, origin.server, move |state| {
                    state.apply(origin.server);
                    state.leader_replied(origin, Ok(Answer::Nothing));
                });
            };
            state.servers[leader].add_sync(Box::new(answer));
            state.answer_syncs(leader);
        });
    }

    /// Asks the leader whether a session still exists, and moves it to this server.
    pub(super) fn ask_to_revalidate(&mut self, server: usize, session: i64, connection: u64) {
        self.send_to_leader(server, move |state, leader| {
            let now = state.events.now();
            let sessions = &mut state.servers[leader].sessions;
            sessions.prolong(session, now);
            let timeout = sessions.move_to(session, server);
            state.send_to(leader, server, move |state| {
                state.end_handshake(connection, session, timeout);
            });
        });
    }

    /// Appends an entry to the leader's log, and proposes it to the followers.
    pub(super) fn propose(
        &mut self,
        leader: usize,
        session: i64,
        ids: Ids,
        op: Result<Op, ServerError>,
        origin: Option<Origin>,
    ) {
        let time = i64::try_from(self.events.now()).unwrap_or(i64::MAX);
        let shuffle = self.rng.u64(..);
        let here = &mut self.servers[leader];
        let zxid = here.next_zxid();
        let entry = Arc::new(LogEntry { zxid, time, session, ids, op, origin, shuffle });
        here.replica.append(entry.clone());
        self.send_to_followers(leader, |follower| {
            let entry = entry.clone();
            move |state: &mut Self| state.accept(follower, entry)
        });
        self.commit(leader);
    }

    fn accept(&mut self, follower: usize, entry: Arc<LogEntry>) {
        let replica = &mut self.servers[follower].replica;
        replica.append(entry);
        let length = replica.length();
        self.send_to_leader(follower, move |state, leader| {
            state.servers[leader].acknowledge(follower, length);
            state.commit(leader);
        });
    }

    /// Commits the proposals that a quorum has. Followers learn of a commit before the leader applies it.
    pub(super) fn commit(&mut self, leader: usize) {
        let quorum = self.quorum();
        let Some(length) = self.servers[leader].commit(quorum) else { return };
        self.send_to_followers(leader, |follower| {
            move |state: &mut Self| {
                state.servers[follower].replica.commit(length);
                state.apply_soon(follower);
            }
        });
        self.apply_soon(leader);
        self.answer_syncs(leader);
    }

    fn apply_soon(&mut self, server: usize) {
        let lag = self.settings.apply_lag;
        let pause = if self.servers.len() == 1 { 0 } else { self.rng.u64(0..=lag) };
        self.events.after(pause, move |state| state.apply(server));
    }

    fn answer_syncs(&mut self, leader: usize) {
        for answer in self.servers[leader].take_syncs() {
            answer(self);
        }
    }

    /// Applies committed transactions, and answers the clients that wait for them at this server.
    pub(super) fn apply(&mut self, server: usize) {
        while let Some(Applied { entry, reply, fired }) = self.servers[server].replica.apply_next()
        {
            if self.servers[server].role() == Role::Leading {
                let failed = reply.as_ref().err().map(|refused| &refused.error);
                let LogEntry { zxid, session, op, .. } = &*entry;
                match op {
                    Ok(op) => self.note(format_args!("= {zxid:#x} {session:#x} {op:?} {failed:?}")),
                    Err(error) => self.note(format_args!("= {zxid:#x} {session:#x} {error:?}")),
                }
            }
            let tree = self.servers[server].replica.tree();
            if let Some(report) = self.log_observer.report(&entry, &fired, tree) {
                self.effect(report);
            }
            self.fire(server, fired);
            let origin = entry.origin.filter(|origin| origin.server == server);
            match (origin, &entry.op) {
                (Some(origin), Ok(Op::OpenSession { timeout })) => {
                    self.end_handshake(origin.connection, entry.session, Some(*timeout));
                }
                (Some(origin), _) => self.leader_replied(origin, reply),
                _ => {}
            }
            if matches!(entry.op, Ok(Op::Close)) {
                self.session_closed(server, entry.session, origin);
            }
        }
        let applied = self.servers.iter().map(|server| server.replica.applied());
        let everywhere = applied.min().unwrap_or(0);
        for server in &mut self.servers {
            server.replica.drop_applied(everywhere);
        }
    }

    /// Closes the connections of a session that has ended, except the one that asked for it: the answer ends that one.
    fn session_closed(&mut self, server: usize, session: i64, origin: Option<Origin>) {
        let here = &mut self.servers[server];
        here.sessions.remove(session);
        let closer = origin.map(|origin| origin.connection);
        for connection in here.connections.of_session(session) {
            if Some(connection) != closer {
                self.close_at_server(connection);
            }
        }
    }
}
