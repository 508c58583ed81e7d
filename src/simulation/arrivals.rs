//! What comes to a simulated client: answers, events, the ends of connections and of its process.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::conn::Down;
use super::op::{Happened, Kind, Op, Refused, Reply};
use super::peer::{PING, Phase, Request, Unsent, Watch};
use super::state::State;
use crate::client::{LinkState, ServerError};

impl State {
    /// A message of a server arrives.
    pub(super) fn arrives_at_client(&mut self, conn: u64) {
        let Some(number) = self.conns.get(&conn).map(|conn| conn.peer) else { return };
        let Some(message) = self.next(conn, false, |conn| &mut conn.down) else { return };
        let peer = &mut self.peers[number];
        if peer.conn != Some(conn) || peer.is_dead() {
            return self.client_leaves(conn);
        }
        peer.received = self.now;
        match message {
            Down::End => self.broken(number),
            Down::Connected { session: 0, .. } => {
                self.over(number, LinkState::Expired, &ServerError::SessionExpired);
            }
            Down::Connected { session, timeout } => self.is_connected(number, session, timeout),
            Down::Event { path, happened } => self.happened(number, &path, happened),
            Down::Reply { xid, zxid, reply, .. } => self.replied(number, xid, zxid, reply),
        }
    }

    fn is_connected(&mut self, number: usize, session: i64, timeout: u64) {
        let peer = &mut self.peers[number];
        (peer.session, peer.timeout, peer.phase) = (session, timeout, Phase::Restoring);
        self.change_state(number, LinkState::Connected);
        self.ping(number);
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
        let now = self.now;
        let peer = &mut self.peers[number];
        if peer.phase != Phase::Restoring || !peer.sent.is_empty() {
            return;
        }
        (peer.phase, peer.tried, peer.sent_at) = (Phase::Serving, 0, now);
        let (dialed, unsent) = (peer.dialed.take(), std::mem::take(&mut peer.unsent));
        if let Some(dialed) = dialed {
            self.effect(move || drop(dialed.send(Ok(()))));
        }
        for unsent in unsent {
            match unsent {
                Unsent::Request(request) => self.send(number, request),
                Unsent::Unwatch(path, id) => self.unwatch(number, path, id),
            }
        }
        if self.peers[number].handles == 0 {
            self.send(number, Request { xid: 0, op: Op::Close, reply: None });
        }
        self.look_later(number);
    }

    fn replied(&mut self, number: usize, xid: i32, zxid: i64, reply: Reply) {
        let peer = &mut self.peers[number];
        if xid == PING {
            peer.is_pinging = false;
        } else {
            peer.seen = peer.seen.max(zxid);
        }
        let Some(place) = peer.sent.iter().position(|request| request.xid == xid) else { return };
        let Some(Request { op, reply: asker, .. }) = peer.sent.remove(place) else { return };
        if let Err(Refused { error: ServerError::SessionExpired, .. }) = &reply {
            self.answer(asker, Err(Refused { step: None, error: ServerError::SessionExpired }));
            return self.over(number, LinkState::Expired, &ServerError::SessionExpired);
        }
        if op == Op::Close {
            return self.over(number, LinkState::Closed, &ServerError::ClientClosed);
        }
        if let (Op::Auth { scheme, id }, Ok(_)) = (&op, &reply) {
            Arc::make_mut(&mut self.peers[number].ids).insert((scheme.clone(), id.clone()));
        }
        let outcome = reply.map(|answer| {
            let watch = op.watches(&answer).map(|(path, kind)| self.watch(number, path, kind));
            (answer, watch)
        });
        self.answer(asker, outcome);
        self.restored(number);
    }

    fn watch(&mut self, number: usize, path: &str, kind: Kind) -> Watch {
        let (sender, happened) = oneshot::channel();
        let id = self.number();
        self.peers[number].watches.entry(path.to_owned()).or_default().push((id, kind, sender));
        Watch {
            world: self.world,
            peer: number,
            path: path.to_owned(),
            id,
            happened,
            has_fired: false,
        }
    }

    fn happened(&mut self, number: usize, path: &str, happened: Happened) {
        self.note(format_args!("client {number} told {path} {happened:?}"));
        let peer = &mut self.peers[number];
        let Some(mut watches) = peer.watches.remove(path) else { return };
        let mut told = Vec::new();
        // The last first; the order of those that stay changes, as in the client.
        for nth in (0..watches.len()).rev() {
            let is_meant = match happened {
                Happened::Children => watches[nth].1 == Kind::Child,
                Happened::Deleted => true,
                Happened::Created | Happened::Changed => watches[nth].1 != Kind::Child,
            };
            if is_meant {
                told.push(watches.swap_remove(nth).2);
            }
        }
        if !watches.is_empty() {
            peer.watches.insert(path.to_owned(), watches);
        }
        for sender in told {
            self.effect(move || _ = sender.send(happened));
        }
    }

    /// Takes a watch back, in its turn among the requests.
    pub(super) fn unwatch(&mut self, number: usize, path: String, id: u64) {
        let peer = &mut self.peers[number];
        match peer.phase {
            Phase::Serving => {}
            Phase::Over => return,
            _ => return peer.unsent.push_back(Unsent::Unwatch(path, id)),
        }
        let Some(watches) = peer.watches.get_mut(&path) else { return };
        let Some(nth) = watches.iter().position(|(one, ..)| *one == id) else { return };
        let (_, kind, _) = watches.swap_remove(nth);
        let is_alike = |other: Kind| (other == Kind::Child) == (kind == Kind::Child);
        let has_alike = watches.iter().any(|(_, other, _)| is_alike(*other));
        if watches.is_empty() {
            peer.watches.remove(&path);
        }
        // One that is being asked for would be taken back with it.
        let asks = |request: &Request| {
            request.op.watched().is_some_and(|(one, kind)| one == path && is_alike(kind))
        };
        if !has_alike && !peer.sent.iter().any(asks) && peer.handles > 0 {
            self.make(number, Op::RemoveWatches { path, kind }, None);
        }
    }

    /// The connection is gone: first the state changes, then what was sent fails.
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
            let error = ServerError::ConnectionLoss;
            self.answer(request.reply, Err(Refused { step: None, error }));
        }
        if let Some(conn) = conn {
            self.client_leaves(conn);
        }
        self.dial_again(number, 0);
    }

    /// There will be no session any more.
    pub(super) fn over(&mut self, number: usize, state: LinkState, error: &ServerError) {
        let peer = &mut self.peers[number];
        peer.phase = Phase::Over;
        peer.turn += 1;
        let conn = peer.conn.take();
        let unsent =
            std::mem::take(&mut peer.unsent).into_iter().filter_map(|unsent| match unsent {
                Unsent::Request(request) => Some(request),
                Unsent::Unwatch(..) => None,
            });
        let failed: Vec<_> = std::mem::take(&mut peer.sent).into_iter().chain(unsent).collect();
        let watches = std::mem::take(&mut peer.watches);
        let dialed = peer.dialed.take();
        // Their receivers see that, before the state.
        self.effect(move || drop(watches));
        self.change_state(number, state);
        let terminal = match state {
            LinkState::Closed => ServerError::ClientClosed,
            _ => ServerError::SessionExpired,
        };
        for request in failed {
            self.answer(request.reply, Err(Refused { step: None, error: terminal.clone() }));
        }
        if let Some(dialed) = dialed {
            let error = error.clone();
            self.effect(move || drop(dialed.send(Err(error))));
        }
        if let Some(conn) = conn {
            self.client_leaves(conn);
        }
    }

    /// Its process goes on: what has waited is handled, or the silence is seen first.
    pub(super) fn resumed(&mut self, clients: &[usize]) {
        for number in clients {
            let peer = &self.peers[*number];
            let silent = peer.conn.is_some() && self.now >= peer.received + peer.silence();
            if silent && self.rng.bool() {
                self.broken(*number);
                continue;
            }
            match self.peers[*number].phase {
                Phase::Dialing => self.dial_again(*number, 0),
                Phase::Over => {}
                _ => self.look_later(*number),
            }
        }
        self.unblocked();
    }

    /// Its process is dead: the kernel closes its connections.
    pub(super) fn died(&mut self, clients: &[usize]) {
        for number in clients {
            self.note(format_args!("client {number} died"));
            let peer = &mut self.peers[*number];
            peer.phase = Phase::Over;
            peer.turn += 1;
            let left = (
                std::mem::take(&mut peer.sent),
                std::mem::take(&mut peer.unsent),
                std::mem::take(&mut peer.watches),
            );
            let conn = peer.conn.take();
            self.effect(move || drop(left));
            if let Some(conn) = conn {
                self.client_leaves(conn);
            }
        }
    }

    /// Nothing passes between a client and the servers any more, or everything again.
    pub(super) fn part(&mut self, number: usize, parted: bool) {
        self.peers[number].parted = parted;
        if !parted {
            self.unblocked();
        }
    }
}
