//! How servers agree: proposals, acknowledgements and commits, and `sync`.

use std::sync::Arc;

use super::op::{Answer, Happened, Ids, Op};
use super::state::{Act, Logged, Role, State, Tracked, Way};
use super::tree::{Entry, Fired};
use crate::client::ServerError;

impl State {
    pub(super) fn quorum(&self) -> usize {
        self.servers.len() / 2 + 1
    }

    /// The server that leads. A deposed one that has not noticed it does not count.
    pub(super) fn leader(&self) -> Option<usize> {
        let leads = |server: &usize| self.servers[*server].role == Role::Leading;
        (0..self.servers.len()).filter(leads).max_by_key(|server| self.servers[*server].epoch)
    }

    /// A message from one server to another, which arrives if one follows the other still. One to itself arrives at once.
    pub(super) fn tell(
        &mut self,
        from: usize,
        to: usize,
        message: impl FnOnce(&mut Self) + Send + 'static,
    ) {
        if from == to {
            return message(self);
        }
        let epoch = self.servers[from].epoch;
        let arrives = move |state: &mut Self| {
            let here = &mut state.servers[to];
            let is_known = match here.role {
                Role::Leading => here.leading.followers.contains_key(&from),
                role => role == Role::Following(from),
            };
            if is_known && here.epoch == epoch {
                here.heard.insert(from, state.now);
                message(state);
            }
        };
        self.push(Way::Wire(from, to), 0, None, Box::new(arrives));
    }

    /// A message to the server's leader, whose number it gets.
    pub(super) fn tell_leader(
        &mut self,
        server: usize,
        message: impl FnOnce(&mut Self, usize) + Send + 'static,
    ) {
        let leader = match self.servers[server].role {
            Role::Leading => server,
            Role::Following(leader) => leader,
            Role::Looking | Role::Down => return,
        };
        self.tell(server, leader, move |state| message(state, leader));
    }

    pub(super) fn tell_followers<M>(&mut self, leader: usize, message: impl Fn(usize) -> M)
    where
        M: FnOnce(&mut Self) + Send + 'static,
    {
        let followers: Vec<_> = self.servers[leader].leading.followers.keys().copied().collect();
        followers.into_iter().for_each(|follower| self.tell(leader, follower, message(follower)));
    }

    /// Signs of life, and the sessions that the followers have heard of.
    pub(super) fn ping_followers(&mut self, leader: usize) {
        self.tell_followers(leader, |follower| {
            move |state: &mut Self| {
                let touched = std::mem::take(&mut state.servers[follower].touched);
                state.tell_leader(follower, move |state, leader| {
                    touched.into_iter().for_each(|session| state.prolong(leader, session));
                });
            }
        });
    }

    pub(super) fn ask_to_write(
        &mut self,
        server: usize,
        session: i64,
        ids: Ids,
        op: Op,
        (conn, xid): (u64, i32),
    ) {
        self.tell_leader(server, move |state, leader| {
            let op = state.permitted(leader, server, session, op);
            state.propose(leader, session, ids, op, Some((server, conn, xid)));
        });
    }

    pub(super) fn ask_to_sync(&mut self, server: usize, conn: u64, xid: i32) {
        self.tell_leader(server, move |state, leader| {
            let answer = move |state: &mut Self| {
                state.tell(leader, server, move |state| {
                    state.apply(server);
                    state.answered(conn, xid, Ok(Answer::Nothing));
                });
            };
            let here = &mut state.servers[leader];
            here.leading.syncs.push((here.log.len(), Box::new(answer)));
            state.answer_syncs(leader);
        });
    }

    pub(super) fn ask_to_revalidate(&mut self, server: usize, session: i64, conn: u64) {
        self.tell_leader(server, move |state, leader| {
            state.prolong(leader, session);
            let tracked = state.servers[leader].leading.tracker.get_mut(&session);
            let timeout = tracked.filter(|tracked| !tracked.closing).map(|tracked| {
                tracked.owner = Some(server);
                tracked.timeout
            });
            state.tell(leader, server, move |state| state.connected(conn, session, timeout));
        });
    }

    /// Whether the session may ask for it there. The leader tracks a new one from here on.
    fn permitted(
        &mut self,
        leader: usize,
        from: usize,
        session: i64,
        op: Op,
    ) -> Result<Op, ServerError> {
        if let Op::OpenSession { timeout } = op {
            self.track(leader, session, timeout, Some(from));
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
        let (time, shuffle) = (i64::try_from(self.now).unwrap_or(i64::MAX), self.rng.u64(..));
        let here = &mut self.servers[leader];
        here.leading.last_zxid += 1;
        let zxid = here.leading.last_zxid;
        let entry = Arc::new(Entry { zxid, time, session, ids, op, origin, shuffle });
        here.log.push(entry.clone());
        self.tell_followers(leader, |follower| {
            let entry = entry.clone();
            move |state: &mut Self| state.accept(follower, entry)
        });
        self.commit(leader);
    }

    fn accept(&mut self, follower: usize, entry: Arc<Entry>) {
        let log = &mut self.servers[follower].log;
        log.push(entry);
        let length = log.len();
        self.tell_leader(follower, move |state, leader| {
            let followers = &mut state.servers[leader].leading.followers;
            followers.entry(follower).and_modify(|acked| *acked = length.max(*acked));
            state.commit(leader);
        });
    }

    /// A proposal that a quorum has is committed. Followers hear of it before the leader applies it.
    pub(super) fn commit(&mut self, leader: usize) {
        let quorum = self.quorum();
        let here = &mut self.servers[leader];
        let mut lengths: Vec<_> = here.leading.followers.values().copied().collect();
        lengths.push(here.log.len());
        lengths.sort_unstable();
        match lengths.into_iter().rev().nth(quorum - 1) {
            Some(length) if length > here.committed => here.committed = length,
            _ => return,
        }
        let length = here.committed;
        self.tell_followers(leader, |follower| {
            move |state: &mut Self| {
                let here = &mut state.servers[follower];
                here.committed = here.committed.max(length.min(here.log.len()));
                state.apply_soon(follower);
            }
        });
        self.apply_soon(leader);
        self.answer_syncs(leader);
    }

    fn apply_soon(&mut self, server: usize) {
        let pause = if self.servers.len() == 1 { 0 } else { self.rng.u64(0..=1) };
        self.after(pause, move |state| state.apply(server));
    }

    /// Without a proposal outstanding a leader answers alone.
    fn answer_syncs(&mut self, leader: usize) {
        let here = &mut self.servers[leader];
        let (committed, outstanding) = (here.committed, here.log.len() > here.committed);
        let syncs = std::mem::take(&mut here.leading.syncs).into_iter();
        let (done, waiting): (Vec<(usize, Act)>, _) =
            syncs.partition(|(length, _)| !outstanding || *length <= committed);
        here.leading.syncs = waiting;
        done.into_iter().for_each(|(_, answer)| answer(self));
    }

    /// Applies committed transactions, and answers the clients that wait for them here.
    pub(super) fn apply(&mut self, server: usize) {
        while self.servers[server].applied < self.servers[server].committed {
            let here = &mut self.servers[server];
            let entry = here.log[here.applied].clone();
            here.applied += 1;
            let (reply, fired) = here.tree.apply(&entry);
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
            match (own, &entry.op) {
                (Some((_, conn, _)), Ok(Op::OpenSession { timeout })) => {
                    self.connected(conn, entry.session, Some(*timeout));
                }
                (Some((_, conn, xid)), _) => self.answered(conn, xid, reply),
                _ => {}
            }
            if matches!(entry.op, Ok(Op::Close)) {
                self.servers[server].leading.tracker.remove(&entry.session);
                // The answer to a close ends its connection.
                let closer = own.map(|(_, conn, _)| conn);
                self.close_conns(server, |conn, own| {
                    own.id == entry.session && Some(conn) != closer
                });
            }
        }
    }

    /// The observer learns of each entry once, before any client does.
    fn observe(&mut self, server: usize, entry: &Entry, fired: &[Fired]) {
        let Some(observer) = self.observer.clone().filter(|_| entry.zxid > self.observed) else {
            return;
        };
        self.observed = entry.zxid;
        let tree = &self.servers[server].tree;
        let mut logged: Vec<_> = fired
            .iter()
            .filter_map(|(path, happened, _)| {
                let path = path.clone();
                match (happened, tree.node(&path)) {
                    (Happened::Created, node) => {
                        let owner = node.map_or(0, |(stat, _)| stat.ephemeral_owner);
                        Some(Logged::Created(path, owner))
                    }
                    (Happened::Deleted, _) => Some(Logged::Deleted(path)),
                    (Happened::Changed, node) => {
                        node.map(|(_, data)| Logged::Changed(path, data.to_vec()))
                    }
                    (Happened::Children, _) => None,
                }
            })
            .collect();
        if matches!(entry.op, Ok(Op::Close)) {
            logged.insert(0, Logged::SessionEnded(entry.session));
        }
        self.effect(move || logged.iter().for_each(|one| observer(one)));
    }

    /// A server heard of a session.
    pub(super) fn touch(&mut self, server: usize, session: i64) {
        if self.servers[server].role == Role::Leading {
            self.prolong(server, session);
        } else {
            self.servers[server].touched.insert(session);
        }
    }

    pub(super) fn track(
        &mut self,
        leader: usize,
        session: i64,
        timeout: u64,
        owner: Option<usize>,
    ) {
        let tracked = Tracked { timeout, expires: 0, owner, closing: false };
        self.servers[leader].leading.tracker.insert(session, tracked);
        self.prolong(leader, session);
    }

    /// Sessions expire in whole ticks.
    fn prolong(&mut self, leader: usize, session: i64) {
        let (now, tick) = (self.now, self.setting.tick);
        if let Some(tracked) = self.servers[leader].leading.tracker.get_mut(&session) {
            tracked.expires = tracked.expires.max(((now + tracked.timeout) / tick + 1) * tick);
        }
    }
}
