//! What a simulated client does: requests, connections, signs of life.

use tokio::sync::oneshot;

use super::conn::Up;
use super::op::{Kind, Op, Refused};
use super::peer::{Outcome, PING, Peer, Phase, Request, SET_WATCHES, Unsent};
use super::state::{Event, State};
use crate::client::{LinkState, ServerError};

impl State {
    pub(super) fn new_peer(&mut self, peer: Peer) -> usize {
        self.peers.push(peer);
        let number = self.peers.len() - 1;
        if let Some(process) = &self.peers[number].process {
            process.own(number);
        }
        self.at(self.now, Event::Dial { peer: number, turn: 0 });
        number
    }

    pub(super) fn answer(&mut self, reply: Option<oneshot::Sender<Outcome>>, outcome: Outcome) {
        if let Some(reply) = reply {
            self.effect(move || drop(reply.send(outcome)));
        }
    }

    /// A request is made.
    pub(super) fn make(&mut self, number: usize, op: Op, reply: Option<oneshot::Sender<Outcome>>) {
        let peer = &mut self.peers[number];
        if peer.is_dead() {
            return;
        }
        if op.lacks_acls() {
            return self.answer(reply, Err(Refused { step: None, error: ServerError::InvalidAcl }));
        }
        match peer.phase {
            Phase::Over => {
                let error = match *peer.state.borrow() {
                    LinkState::AuthFailed => ServerError::AuthFailed,
                    LinkState::Closed => ServerError::ClientClosed,
                    _ => ServerError::SessionExpired,
                };
                self.answer(reply, Err(Refused { step: None, error }));
            }
            Phase::Serving => self.send(number, Request { xid: 0, op, reply }),
            _ => peer.unsent.push_back(Unsent::Request(Request { xid: 0, op, reply })),
        }
    }

    pub(super) fn send(&mut self, number: usize, mut request: Request) {
        let now = self.now;
        let peer = &mut self.peers[number];
        let Some(conn) = peer.conn else { return };
        request.xid = match request.op {
            Op::Ping => PING,
            Op::SetWatches { .. } => SET_WATCHES,
            _ => {
                peer.xid += 1;
                peer.xid
            }
        };
        peer.sent_at = now;
        let message = Up::Request { xid: request.xid, op: request.op.clone() };
        peer.sent.push_back(request);
        self.send_up(conn, message);
    }

    pub(super) fn ping(&mut self, number: usize) {
        self.peers[number].is_pinging = true;
        self.send(number, Request { xid: PING, op: Op::Ping, reply: None });
    }

    /// Tries the next server.
    pub(super) fn dial(&mut self, number: usize, turn: u64) {
        let peer = &self.peers[number];
        if peer.turn != turn || peer.phase != Phase::Dialing || peer.is_dead() || peer.is_paused() {
            return;
        }
        if peer.tried > 0 && self.now >= peer.expires() {
            return self.over(number, LinkState::Expired, &ServerError::Timeout);
        }
        let count = u64::try_from(peer.ways.len()).unwrap_or(1);
        if peer.tried.is_multiple_of(count) && peer.tried == 0 {
            self.rng.shuffle(&mut self.peers[number].ways);
        }
        let peer = &mut self.peers[number];
        let place = usize::try_from(peer.tried % count).unwrap_or_default();
        let (link, server) = peer.ways[place];
        peer.tried += 1;
        if peer.parted || self.servers[server].paused {
            // No server answers: the time for a connection runs out.
            return self.dial_again(number, self.peers[number].silence());
        }
        let serves = self.servers[server].role.serves();
        let Some(conn) = serves.then(|| self.open(number, link, server)).flatten() else {
            return self.dial_again(number, 1);
        };
        let now = self.now;
        let peer = &mut self.peers[number];
        (peer.conn, peer.phase) = (Some(conn), Phase::ShakingHands);
        (peer.received, peer.sent_at, peer.is_pinging) = (now, now, false);
        let timeout = if peer.session == 0 { peer.asked } else { peer.timeout };
        let (session, seen, ids) = (peer.session, peer.seen, peer.ids.clone());
        self.send_up(conn, Up::Connect { session, seen, timeout, ids });
        let peer = &self.peers[number];
        if !peer.watches.is_empty() {
            let (data, exist) = (peer.watches_of(Kind::Data), peer.watches_of(Kind::Exist));
            let op =
                Op::SetWatches { since: seen, data, exist, child: peer.watches_of(Kind::Child) };
            self.send(number, Request { xid: 0, op, reply: None });
        }
        self.look_later(number);
    }

    /// At once in the first round; before each further one there is a pause.
    pub(super) fn dial_again(&mut self, number: usize, waited: u64) {
        let peer = &self.peers[number];
        let count = u64::try_from(peer.ways.len()).unwrap_or(1);
        let (round, place) = (peer.tried / count, peer.tried % count);
        let pause = match (round, place) {
            (0, _) => 0,
            (round, 0) => {
                let doubled = 1_u64.checked_shl(u32::try_from(round - 1).unwrap_or(20).min(20));
                (100 * count).min(1000) * doubled.unwrap_or(1) + self.rng.u64(0..100)
            }
            (_, place) => 50 * place + self.rng.u64(0..50),
        };
        let peer = &mut self.peers[number];
        peer.turn += 1;
        let (turn, latest) = (peer.turn, peer.expires());
        let at = (self.now + waited + pause).min(latest.max(self.now));
        self.at(at.max(self.now + 1), Event::Dial { peer: number, turn });
    }

    pub(super) fn look_later(&mut self, number: usize) {
        let now = self.now;
        let peer = &mut self.peers[number];
        peer.turn += 1;
        let silent = peer.received + peer.silence();
        let due = match peer.phase {
            Phase::Serving if !peer.is_pinging => silent.min(peer.sent_at + peer.ping_after()),
            _ => silent,
        };
        let turn = peer.turn;
        let tick = peer.tick();
        self.at(due.max(now + 1).next_multiple_of(tick), Event::Look { peer: number, turn });
    }

    /// Pings a server that it has not heard of, and leaves one that is silent for too long.
    pub(super) fn look(&mut self, number: usize, turn: u64) {
        let now = self.now;
        let peer = &self.peers[number];
        if peer.turn != turn || peer.is_dead() || peer.is_paused() || peer.conn.is_none() {
            return;
        }
        if now >= peer.received + peer.silence() {
            return self.broken(number);
        }
        if peer.phase == Phase::Serving
            && !peer.is_pinging
            && now >= peer.sent_at + peer.ping_after()
        {
            self.ping(number);
        }
        self.look_later(number);
    }
}
