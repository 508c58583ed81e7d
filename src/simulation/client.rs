//! The client of a simulation: what `zookeeper-client` does, without sockets.
//!
//! * A request is sent when it is made. Without a connection it waits, and after a reconnect until the watches are set
//!   again.
//! * When a connection breaks, the state changes first; then what was sent fails.
//! * A watch is told before any later answer. Dropping one that has not fired takes it back at the server.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::link::{Down, Up};
use super::process::Process;
use super::tree::{Answer, Happened, Ids, Kind, Op, Refused};
use super::world::{Event, State, World};
use crate::client::{LinkState, ServerError};

/// What a request comes to: the answer, and the watch that was asked for.
pub(crate) type Outcome = Result<(Answer, Option<Watch>), Refused>;

/// One client, with its session.
#[derive(Debug)]
pub(super) struct Peer {
    /// Links and the servers behind them, in the order in which they are tried.
    ways: Vec<(usize, usize)>,
    /// How many were tried since the last connection.
    tried: u64,
    asked: u64,
    /// After how long silence ends a connection; zero leaves it to the session's timeout.
    patience: u64,
    ids: Ids,
    pub(super) session: i64,
    timeout: u64,
    seen: i64,
    received: u64,
    sent_at: u64,
    is_pinging: bool,
    conn: Option<u64>,
    phase: Phase,
    /// Events of an earlier turn count no more.
    turn: u64,
    state: watch::Sender<LinkState>,
    xid: i32,
    unsent: VecDeque<Unsent>,
    sent: VecDeque<Request>,
    watches: BTreeMap<String, Vec<Watcher>>,
    pub(super) handles: usize,
    pub(super) process: Option<Process>,
    dialed: Option<oneshot::Sender<Result<(), ServerError>>>,
    /// Nothing passes between it and any server.
    pub(super) parted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Dialing,
    ShakingHands,
    /// Connected, until the watches are set again.
    Restoring,
    Serving,
    Over,
}

#[derive(Debug)]
struct Request {
    xid: i32,
    op: Op,
    reply: Option<oneshot::Sender<Outcome>>,
}

type Watcher = (u64, Kind, oneshot::Sender<Happened>);

const SET_WATCHES: i32 = -8;
const PING: i32 = -2;

/// What waits for a connection.
#[derive(Debug)]
enum Unsent {
    Request(Request),
    Unwatch(String, u64),
}

impl Peer {
    fn tick(&self) -> u64 {
        let (timeout, patience) = (self.timeout, self.patience);
        let tick =
            if patience == 0 || patience > timeout * 3 / 5 { timeout / 20 } else { patience / 8 };
        tick.max(1)
    }

    fn silence(&self) -> u64 {
        8 * self.tick()
    }

    fn ping_after(&self) -> u64 {
        (3 * self.tick()).min(10_000)
    }

    fn expires(&self) -> u64 {
        let bound = if self.session == 0 { self.timeout } else { self.timeout * 7 / 5 };
        self.received + bound
    }

    fn is_dead(&self) -> bool {
        self.process.as_ref().is_some_and(Process::is_dead)
    }

    fn is_paused(&self) -> bool {
        self.process.as_ref().is_some_and(Process::is_paused)
    }

    fn watches_of(&self, kind: Kind) -> Vec<String> {
        let has = |watches: &[Watcher]| watches.iter().any(|(_, one, _)| *one == kind);
        let ours = self.watches.iter().filter(|(_, watches)| has(watches));
        ours.map(|(path, _)| path.clone()).collect()
    }
}

impl State {
    fn new_peer(&mut self, peer: Peer) -> usize {
        self.peers.push(peer);
        let number = self.peers.len() - 1;
        if let Some(process) = &self.peers[number].process {
            process.own(number);
        }
        self.at(self.now, Event::Dial { peer: number, turn: 0 });
        number
    }

    /// Does this later, outside the lock: it may wake somebody, or drop what asks for the lock.
    fn effect(&mut self, effect: impl FnOnce() + Send + 'static) {
        self.effects.push(Box::new(effect));
    }

    fn answer(&mut self, reply: Option<oneshot::Sender<Outcome>>, outcome: Outcome) {
        if let Some(reply) = reply {
            self.effect(move || drop(reply.send(outcome)));
        }
    }

    /// A request is made.
    fn make(&mut self, number: usize, op: Op, reply: Option<oneshot::Sender<Outcome>>) {
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

    fn send(&mut self, number: usize, mut request: Request) {
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

    fn ping(&mut self, number: usize) {
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
    fn dial_again(&mut self, number: usize, waited: u64) {
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

    fn look_later(&mut self, number: usize) {
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

    /// A message of a server arrives.
    pub(super) fn to_client(&mut self, conn: u64) {
        let Some(number) = self.conns.get(&conn).map(|conn| conn.peer) else { return };
        let Some(message) = self.next_down(conn) else { return };
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

    fn replied(&mut self, number: usize, xid: i32, zxid: i64, reply: super::tree::Reply) {
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
            let watch = op.watched().map(|(path, kind)| {
                let missing = matches!(answer, Answer::Stat(None));
                self.watch(number, path, if missing { Kind::Exist } else { kind })
            });
            (answer, watch)
        });
        self.answer(asker, outcome);
        self.restored(number);
    }

    fn watch(&mut self, number: usize, path: &str, kind: Kind) -> Watch {
        let (sender, happened) = oneshot::channel();
        let id = self.number();
        self.peers[number].watches.entry(path.to_owned()).or_default().push((id, kind, sender));
        let world = World::here();
        Watch { world, peer: number, path: path.to_owned(), id, happened, has_fired: false }
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
    fn unwatch(&mut self, number: usize, path: String, id: u64) {
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
    fn broken(&mut self, number: usize) {
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
    fn over(&mut self, number: usize, state: LinkState, error: &ServerError) {
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

/// A handle on a client; the session is closed with the last.
#[derive(Debug)]
pub(crate) struct Client {
    world: Arc<World>,
    pub(super) number: usize,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Clone for Client {
    fn clone(&self) -> Self {
        self.world.change(|state| state.peers[self.number].handles += 1);
        Self { world: self.world.clone(), number: self.number }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.world.change(|state| {
            let peer = &mut state.peers[self.number];
            peer.handles -= 1;
            match (peer.handles, peer.phase) {
                // It never had a session.
                (0, _) if peer.dialed.is_some() => state.died(&[self.number]),
                (0, Phase::Serving) => state.make(self.number, Op::Close, None),
                _ => {}
            }
        });
    }
}

impl Client {
    /// Opens a session with the servers behind links of this thread's world.
    pub(crate) async fn dial(
        world: Arc<World>,
        links: &[usize],
        timeout: Duration,
        patience: Duration,
        ids: Ids,
    ) -> Result<Self, ServerError> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (dialed, outcome) = oneshot::channel();
        let number = world.change(|state| {
            let behind = |link: &usize| {
                let one = state.links.get(*link).and_then(|link| link.server);
                let servers = one.map_or(0..state.servers.len(), |one| one..one + 1);
                servers.map(|server| (*link, server)).collect::<Vec<_>>()
            };
            let ways = links.iter().flat_map(behind).collect();
            state.new_peer(Peer {
                ways,
                tried: 0,
                asked: millis(timeout),
                patience: millis(patience),
                ids,
                session: 0,
                timeout: millis(timeout),
                seen: 0,
                received: state.now,
                sent_at: state.now,
                is_pinging: false,
                conn: None,
                phase: Phase::Dialing,
                turn: 0,
                state: watch::Sender::new(LinkState::Disconnected),
                xid: 0,
                unsent: VecDeque::new(),
                sent: VecDeque::new(),
                watches: BTreeMap::new(),
                handles: 1,
                process: Process::current(),
                dialed: Some(dialed),
                parted: false,
            })
        });
        // Dropping it before that closes what was opened.
        let client = Self { world, number };
        outcome.await.unwrap_or(Err(ServerError::ClientClosed))?;
        Ok(client)
    }

    pub(crate) fn session_id(&self) -> i64 {
        self.world.change(|state| state.peers[self.number].session)
    }

    pub(crate) fn session_timeout(&self) -> Duration {
        Duration::from_millis(self.world.change(|state| state.peers[self.number].timeout))
    }

    pub(crate) fn watch_link(&self) -> watch::Receiver<LinkState> {
        self.world.change(|state| state.peers[self.number].state.subscribe())
    }

    /// Sends a request.
    pub(crate) fn ask(&self, op: Op) -> impl Future<Output = Outcome> + Send + use<> {
        let (reply, outcome) = oneshot::channel();
        self.world.change(|state| state.make(self.number, op, Some(reply)));
        async move {
            let lost = Refused { step: None, error: ServerError::ConnectionLoss };
            outcome.await.unwrap_or(Err(lost))
        }
    }
}

/// A one-shot watch. Resolves with nothing when the session is over.
#[derive(Debug)]
pub(crate) struct Watch {
    world: Option<Arc<World>>,
    peer: usize,
    path: String,
    id: u64,
    happened: oneshot::Receiver<Happened>,
    has_fired: bool,
}

impl Future for Watch {
    type Output = Option<Happened>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let happened = Pin::new(&mut self.happened).poll(context);
        happened.map(|happened| {
            self.has_fired = true;
            happened.ok()
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let (false, Some(world)) = (self.has_fired, &self.world) {
            let path = std::mem::take(&mut self.path);
            world.change(|state| state.unwatch(self.peer, path, self.id));
        }
    }
}
