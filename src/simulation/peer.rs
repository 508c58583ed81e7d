//! The client of a simulation: what `zookeeper-client` does, without sockets.
//!
//! * A request is sent when it is made. Without a connection it waits, and after a reconnect until the watches are set
//!   again.
//! * When a connection breaks, the state changes first; then what was sent fails.
//! * A watch is told before any later answer. Dropping one that has not fired takes it back at the server.

use std::collections::{BTreeMap, VecDeque};

use tokio::sync::{oneshot, watch};

use super::client::Watch;
use super::lane::Up;
use super::op::{Answer, Happened, Ids, Kind, Op, Refused};
use super::process::Process;
use super::world::{Event, State};
use crate::client::{LinkState, ServerError};

/// What a request comes to: the answer, and the watch that was asked for.
pub(crate) type Outcome = Result<(Answer, Option<Watch>), Refused>;

/// One client, with its session.
#[derive(Debug)]
pub(super) struct Peer {
    /// Links and the servers behind them, in the order in which they are tried.
    pub(super) ways: Vec<(usize, usize)>,
    /// How many were tried since the last connection.
    pub(super) tried: u64,
    pub(super) asked: u64,
    /// After how long silence ends a connection; zero leaves it to the session's timeout.
    pub(super) patience: u64,
    pub(super) ids: Ids,
    pub(super) session: i64,
    pub(super) timeout: u64,
    pub(super) seen: i64,
    pub(super) received: u64,
    pub(super) sent_at: u64,
    pub(super) is_pinging: bool,
    pub(super) conn: Option<u64>,
    pub(super) phase: Phase,
    /// Events of an earlier turn count no more.
    pub(super) turn: u64,
    pub(super) state: watch::Sender<LinkState>,
    pub(super) xid: i32,
    pub(super) unsent: VecDeque<Unsent>,
    pub(super) sent: VecDeque<Request>,
    pub(super) watches: BTreeMap<String, Vec<Watcher>>,
    pub(super) handles: usize,
    pub(super) process: Option<Process>,
    pub(super) dialed: Option<oneshot::Sender<Result<(), ServerError>>>,
    /// Nothing passes between it and any server.
    pub(super) parted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Dialing,
    ShakingHands,
    /// Connected, until the watches are set again.
    Restoring,
    Serving,
    Over,
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) xid: i32,
    pub(super) op: Op,
    pub(super) reply: Option<oneshot::Sender<Outcome>>,
}

type Watcher = (u64, Kind, oneshot::Sender<Happened>);

const SET_WATCHES: i32 = -8;
pub(super) const PING: i32 = -2;

/// What waits for a connection.
#[derive(Debug)]
pub(super) enum Unsent {
    Request(Request),
    Unwatch(String, u64),
}

impl Peer {
    pub(super) fn tick(&self) -> u64 {
        let (timeout, patience) = (self.timeout, self.patience);
        let tick =
            if patience == 0 || patience > timeout * 3 / 5 { timeout / 20 } else { patience / 8 };
        tick.max(1)
    }

    pub(super) fn silence(&self) -> u64 {
        8 * self.tick()
    }

    fn ping_after(&self) -> u64 {
        (3 * self.tick()).min(10_000)
    }

    fn expires(&self) -> u64 {
        let bound = if self.session == 0 { self.timeout } else { self.timeout * 7 / 5 };
        self.received + bound
    }

    pub(super) fn is_dead(&self) -> bool {
        self.process.as_ref().is_some_and(Process::is_dead)
    }

    pub(super) fn is_paused(&self) -> bool {
        self.process.as_ref().is_some_and(Process::is_paused)
    }

    fn watches_of(&self, kind: Kind) -> Vec<String> {
        let has = |watches: &[Watcher]| watches.iter().any(|(_, one, _)| *one == kind);
        let ours = self.watches.iter().filter(|(_, watches)| has(watches));
        ours.map(|(path, _)| path.clone()).collect()
    }
}

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

    /// Does this later, outside the lock: it may wake somebody, or drop what asks for the lock.
    pub(super) fn effect(&mut self, effect: impl FnOnce() + Send + 'static) {
        self.effects.push(Box::new(effect));
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
            // Nobody answers: the time for a connection runs out.
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
