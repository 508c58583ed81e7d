//! The client of a simulation: what `zookeeper-client` does, without sockets.
//!
//! * A request is sent when it is made. Without a connection it waits, and after a reconnect until the watches are set
//!   again.
//! * When a connection breaks, the state changes first; then what was sent fails.
//! * A watch fires before any later answer. Dropping one that has not fired takes it back at the server.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::op::{Happened, Kind, Op, Operation, Refused, Reply};
use super::state::{Outcome, Parted, Peer, Phase, Request, State, Watch, Watcher};
use super::tasks::Life;
use crate::client::{LinkState, ServerError};

const SET_WATCHES: i32 = -8;
const PING: i32 = -2;

impl Peer {
    fn tick(&self) -> u64 {
        let (timeout, patience) = (self.timeout, self.patience);
        let tick =
            if patience == 0 || patience > timeout * 3 / 5 { timeout / 20 } else { patience / 8 };
        tick.max(1)
    }

    /// After how long without a message it leaves a server.
    fn silence(&self) -> u64 {
        8 * self.tick()
    }

    /// When it pings, unless it waits for the answer to a ping or for its watches.
    fn pings_at(&self) -> Option<u64> {
        let is_pinging = self.sent.iter().any(|request| request.op == Op::Ping);
        let pings = self.phase == Phase::Serving && !is_pinging;
        pings.then(|| self.sent_at + (3 * self.tick()).min(10_000))
    }

    fn expires(&self) -> u64 {
        let bound = if self.session == 0 { self.timeout } else { self.timeout * 7 / 5 };
        self.received + bound
    }
}

impl State {
    /// A request is made.
    pub(super) fn make(&mut self, number: usize, op: Op, reply: Option<oneshot::Sender<Outcome>>) {
        let peer = &mut self.peers[number];
        if peer.process.is_dead() {
            return;
        }
        if op.lacks_acls() {
            return self.answer(reply, Err(ServerError::InvalidAcl.into()));
        }
        match peer.phase {
            Phase::Over => {
                let error = over_by(*peer.state.borrow());
                self.answer(reply, Err(error.into()));
            }
            Phase::Serving => self.request_of(number, op, reply),
            _ => peer.unsent.push(Box::new(move |state| state.make(number, op, reply))),
        }
    }

    fn answer(&mut self, reply: Option<oneshot::Sender<Outcome>>, outcome: Outcome) {
        if let Some(reply) = reply {
            self.effect(move || drop(reply.send(outcome)));
        }
    }

    fn request_of(&mut self, number: usize, op: Op, reply: Option<oneshot::Sender<Outcome>>) {
        let now = self.now;
        let peer = &mut self.peers[number];
        let Some(conn) = peer.conn else { return };
        let xid = match op {
            Op::Ping => PING,
            Op::SetWatches { .. } => SET_WATCHES,
            _ => {
                peer.xid += 1;
                peer.xid
            }
        };
        peer.sent_at = now;
        peer.sent.push_back(Request { xid, op: op.clone(), reply });
        let Some(server) = self.conns.get(&conn).map(|conn| conn.server) else { return };
        self.send_up(conn, Some(op.operation()), move |state| state.request(conn, server, xid, op));
    }

    /// Tries the next server.
    pub(super) fn dial(&mut self, number: usize, turn: u64) {
        let now = self.now;
        let peer = &mut self.peers[number];
        if peer.turn != turn || peer.phase != Phase::Dialing || !peer.process.runs() {
            return;
        }
        if peer.tried == 0 {
            self.rng.shuffle(&mut peer.ways);
        } else if now >= peer.expires() {
            return self.over(number, LinkState::Expired);
        }
        let (link, server) = peer.ways[peer.tried % peer.ways.len()];
        peer.tried += 1;
        let silence = peer.silence();
        if self.parted.contains(&Parted::Client(number)) || self.servers[server].paused {
            // No server answers: the time for a connection runs out.
            return self.dial_again(number, silence);
        }
        let serves = self.servers[server].role.serves();
        let Some(conn) = serves.then(|| self.open(number, link, server)).flatten() else {
            return self.dial_again(number, 1);
        };
        let peer = &mut self.peers[number];
        (peer.conn, peer.phase) = (Some(conn), Phase::ShakingHands);
        (peer.received, peer.sent_at) = (now, now);
        let (since, ids) = (peer.seen, peer.ids.clone());
        let session = (peer.session, since, peer.timeout);
        let on = |(path, on): (&String, &Vec<Watcher>)| {
            on.iter().map(|one| (one.kind, path.clone())).collect::<Vec<_>>()
        };
        let watches: BTreeSet<_> = peer.watches.iter().flat_map(on).collect();
        self.send_up(conn, Some(Operation::Connect), move |state| {
            state.shake_hands(conn, server, session, ids);
        });
        if !watches.is_empty() {
            self.request_of(number, Op::SetWatches { since, watches }, None);
        }
        self.look_later(number);
    }

    /// At once in the first round; before each further one there is a pause.
    fn dial_again(&mut self, number: usize, waited: u64) {
        let peer = &mut self.peers[number];
        let count = peer.ways.len();
        let round = u32::try_from(peer.tried / count).unwrap_or(u32::MAX);
        let (place, count) = ((peer.tried % count) as u64, count as u64);
        let pause = match (round, place) {
            (0, _) => 0,
            (_, 0) => ((100 * count).min(1000) << (round - 1).min(20)) + self.rng.u64(0..100),
            (_, place) => 50 * place + self.rng.u64(0..50),
        };
        peer.turn += 1;
        let (turn, latest) = (peer.turn, peer.expires());
        let at = (self.now + waited + pause).min(latest).max(self.now + 1);
        self.at(at, move |state| state.dial(number, turn));
    }

    fn look_later(&mut self, number: usize) {
        let peer = &mut self.peers[number];
        peer.turn += 1;
        let (turn, silent) = (peer.turn, peer.received + peer.silence());
        let due = peer.pings_at().map_or(silent, |pings_at| pings_at.min(silent));
        let at = due.max(self.now + 1).next_multiple_of(peer.tick());
        self.at(at, move |state| state.look(number, turn));
    }

    /// Pings a server that it has not heard of, and leaves one that is silent for too long.
    fn look(&mut self, number: usize, turn: u64) {
        let peer = &self.peers[number];
        if peer.turn != turn || peer.conn.is_none() || !peer.process.runs() {
            return;
        }
        if self.now >= peer.received + peer.silence() {
            return self.broken(number);
        }
        if peer.pings_at().is_some_and(|pings_at| self.now >= pings_at) {
            self.request_of(number, Op::Ping, None);
        }
        self.look_later(number);
    }

    /// The answer to the handshake; without a timeout the session is over.
    pub(super) fn is_connected(&mut self, number: usize, session: i64, timeout: Option<u64>) {
        let Some(timeout) = timeout else { return self.over(number, LinkState::Expired) };
        let peer = &mut self.peers[number];
        (peer.session, peer.timeout, peer.phase) = (session, timeout, Phase::Restoring);
        self.change_state(number, LinkState::Connected);
        self.request_of(number, Op::Ping, None);
        self.look_later(number);
    }

    fn change_state(&mut self, number: usize, state: LinkState) {
        let sender = self.peers[number].state.clone();
        let session = self.peers[number].session;
        self.note(format_args!("client {number} {session:#x} {state:?}"));
        self.effect(move || {
            sender.send_if_modified(|now| std::mem::replace(now, state) != state);
        });
    }

    /// Once nothing more is under way, what waited is sent.
    fn restored(&mut self, number: usize) {
        let peer = &mut self.peers[number];
        if peer.phase != Phase::Restoring || !peer.sent.is_empty() {
            return;
        }
        (peer.phase, peer.tried, peer.sent_at) = (Phase::Serving, 0, self.now);
        let (dialed, unsent) = (peer.dialed.take(), std::mem::take(&mut peer.unsent));
        if let Some(dialed) = dialed {
            self.effect(move || drop(dialed.send(Ok(()))));
        }
        unsent.into_iter().for_each(|request| request(self));
        if self.peers[number].is_dropped {
            self.make(number, Op::Close, None);
        }
        self.look_later(number);
    }

    /// The answer to a request.
    pub(super) fn replied(&mut self, number: usize, xid: i32, zxid: i64, reply: Reply) {
        let peer = &mut self.peers[number];
        if xid != PING {
            peer.seen = peer.seen.max(zxid);
        }
        let Some(nth) = peer.sent.iter().position(|request| request.xid == xid) else { return };
        match (&peer.sent[nth].op, &reply) {
            (_, Err(Refused { error: ServerError::SessionExpired, .. })) => {
                return self.over(number, LinkState::Expired);
            }
            (Op::Close, _) => return self.over(number, LinkState::Closed),
            (Op::Auth { scheme, id }, Ok(_)) => {
                Arc::make_mut(&mut peer.ids).insert((scheme.clone(), id.clone()));
            }
            _ => {}
        }
        let Some(Request { op, reply: asker, .. }) = peer.sent.remove(nth) else { return };
        let outcome = reply.map(|answer| {
            let watch = op.watches(&answer).map(|(path, kind)| self.watch(number, path, kind));
            (answer, watch)
        });
        self.answer(asker, outcome);
        self.restored(number);
    }

    fn watch(&mut self, peer: usize, path: &str, kind: Kind) -> Watch {
        let (sender, happened) = oneshot::channel();
        let id = self.number();
        let watcher = Watcher { id, kind, happened: sender };
        self.peers[peer].watches.entry(path.to_owned()).or_default().push(watcher);
        Watch { world: self.world, peer, id, happened, has_fired: false }
    }

    /// An event arrives.
    pub(super) fn happened(&mut self, number: usize, path: &str, happened: Happened) {
        self.note(format_args!("client {number} told {path} {happened:?}"));
        let is_meant = |kind: Kind| match happened {
            Happened::Children => kind == Kind::Child,
            Happened::Deleted => true,
            Happened::Created | Happened::Changed => kind != Kind::Child,
        };
        let Some(watches) = self.peers[number].watches.get_mut(path) else { return };
        let mut fired = Vec::new();
        // The last first; the order of those that stay changes, as in the client.
        for nth in (0..watches.len()).rev() {
            if is_meant(watches[nth].kind) {
                fired.push(watches.swap_remove(nth));
            }
        }
        if watches.is_empty() {
            self.peers[number].watches.remove(path);
        }
        for watcher in fired {
            self.effect(move || _ = watcher.happened.send(happened));
        }
    }

    /// Takes a watch back, in its turn among the requests.
    pub(super) fn unwatch(&mut self, number: usize, id: u64) {
        let peer = &mut self.peers[number];
        match peer.phase {
            Phase::Serving => {}
            Phase::Over => return,
            _ => return peer.unsent.push(Box::new(move |state| state.unwatch(number, id))),
        }
        let taken = peer.watches.iter_mut().find_map(|(path, on)| {
            let nth = on.iter().position(|one| one.id == id)?;
            Some((path.clone(), on.swap_remove(nth).kind))
        });
        let Some((path, kind)) = taken else { return };
        let is_alike = |other: Kind| (other == Kind::Child) == (kind == Kind::Child);
        // One that is being asked for would be taken back with it.
        let asks = |request: &Request| {
            request.op.watched().is_some_and(|(one, kind)| one == path && is_alike(kind))
        };
        let left = &peer.watches[&path];
        let is_needed = left.iter().any(|other| is_alike(other.kind)) || peer.sent.iter().any(asks);
        if left.is_empty() {
            peer.watches.remove(&path);
        }
        if !is_needed && !peer.is_dropped {
            self.make(number, Op::RemoveWatches { path, kind }, None);
        }
    }

    /// The connection has ended: first the state changes, then what was sent fails.
    pub(super) fn broken(&mut self, number: usize) {
        let peer = &mut self.peers[number];
        let was_up = matches!(peer.phase, Phase::Restoring | Phase::Serving);
        let conn = peer.conn.take();
        peer.phase = Phase::Dialing;
        let mut sent: Vec<_> = std::mem::take(&mut peer.sent).into();
        if was_up {
            peer.tried = 0;
            self.change_state(number, LinkState::Disconnected);
        }
        self.rng.shuffle(&mut sent);
        for request in sent {
            self.answer(request.reply, Err(ServerError::ConnectionLoss.into()));
        }
        conn.into_iter().for_each(|conn| self.client_leaves(conn));
        self.dial_again(number, 0);
    }

    /// There will be no session any more.
    fn over(&mut self, number: usize, state: LinkState) {
        let peer = &mut self.peers[number];
        peer.phase = Phase::Over;
        let conn = peer.conn.take();
        let (sent, unsent) = (std::mem::take(&mut peer.sent), std::mem::take(&mut peer.unsent));
        let (watches, dialed) = (std::mem::take(&mut peer.watches), peer.dialed.take());
        let had_session = peer.session != 0;
        // Their receivers see that, before the state.
        self.effect(move || drop(watches));
        self.change_state(number, state);
        for request in sent {
            self.answer(request.reply, Err(over_by(state).into()));
        }
        unsent.into_iter().for_each(|request| request(self));
        if let Some(dialed) = dialed {
            let error = if had_session { over_by(state) } else { ServerError::Timeout };
            self.effect(move || drop(dialed.send(Err(error))));
        }
        conn.into_iter().for_each(|conn| self.client_leaves(conn));
    }

    /// The clients of a process.
    fn clients_of(&self, process: &Arc<Life>) -> Vec<usize> {
        let is_its = |number: &usize| Arc::ptr_eq(&self.peers[*number].process, process);
        (0..self.peers.len()).filter(is_its).collect()
    }

    /// A process goes on: what has waited is handled, or the silence is seen first.
    pub(super) fn resumed(&mut self, process: &Arc<Life>) {
        for number in self.clients_of(process) {
            let peer = &self.peers[number];
            let silent = peer.conn.is_some() && self.now >= peer.received + peer.silence();
            match peer.phase {
                _ if silent && self.rng.bool() => self.broken(number),
                Phase::Dialing => self.dial_again(number, 0),
                Phase::Over => {}
                _ => self.look_later(number),
            }
        }
        self.unblocked();
    }

    /// A process is dead: the kernel closes its connections.
    pub(super) fn died(&mut self, process: &Arc<Life>) {
        self.clients_of(process).into_iter().for_each(|number| self.vanishes(number));
    }

    /// Neither its servers nor its callers hear of it any more.
    pub(super) fn vanishes(&mut self, number: usize) {
        self.note(format_args!("client {number} died"));
        let peer = &mut self.peers[number];
        peer.phase = Phase::Over;
        let left = (
            std::mem::take(&mut peer.sent),
            std::mem::take(&mut peer.unsent),
            std::mem::take(&mut peer.watches),
        );
        let conn = peer.conn.take();
        self.effect(move || drop(left));
        conn.into_iter().for_each(|conn| self.client_leaves(conn));
    }
}

/// What requests fail with once there is no session any more.
fn over_by(state: LinkState) -> ServerError {
    match state {
        LinkState::Closed => ServerError::ClientClosed,
        _ => ServerError::SessionExpired,
    }
}
