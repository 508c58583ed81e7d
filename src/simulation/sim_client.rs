//! One simulated client, with its session. The steps that involve servers and the network are in `client_steps`.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{oneshot, watch};

use super::client_watches::{ClientWatches, Watch};
use super::event_queue::Event;
use super::op::{Answer, Ids, Op, Refused, Reply, WatchKind};
use super::process_state::ProcessState;
use super::serving::Handshake;
use crate::client::{LinkState, ServerError};

const SET_WATCHES: i32 = -8;
const PING: i32 = -2;

/// The result of a request: the answer, and the watch that was asked for.
pub(crate) type Outcome = Result<(Answer, Option<Watch>), Refused>;

pub(super) struct SimClient {
    /// In the order in which they are tried.
    addresses: Vec<Address>,
    /// Number of addresses that were tried since the last connection.
    tried: usize,
    /// Longest silence of a connection; zero derives it from the session timeout.
    patience: u64,
    /// The identities that the client shows on each connection.
    ids: Ids,
    session: i64,
    /// The first session. The real client does not show a later one.
    shown_session: i64,
    timeout: u64,
    last_zxid: i64,
    received_at: u64,
    sent_at: u64,
    /// When the client gives the session up, if it is not connected again until then. An attempt under way ends first.
    gives_up_at: u64,
    connection: Option<u64>,
    phase: Phase,
    /// Number of the current timer. Earlier timers have no effect when they fire.
    timer: u64,
    link_state: watch::Sender<LinkState>,
    xid: i32,
    /// Requests that wait for a connection.
    unsent: Vec<Event>,
    sent: VecDeque<Request>,
    watches: ClientWatches,
    /// True if no handle on the client is left.
    is_dropped: bool,
    process: Arc<ProcessState>,
    /// Reports the first connection, or its failure.
    dialed: Option<Dialed>,
}

pub(super) type Dialed = oneshot::Sender<Result<(), ServerError>>;

/// A server, and the link to it.
#[derive(Clone, Copy)]
pub(super) struct Address {
    pub(super) link: usize,
    pub(super) server: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Dialing,
    ShakingHands,
    /// Connected, until the watches are set again.
    Restoring,
    Ready,
    Ended,
}

/// A request that was sent.
pub(super) struct Request {
    xid: i32,
    pub(super) op: Op,
    pub(super) reply: Option<oneshot::Sender<Outcome>>,
}

/// The parts of a connection that was lost.
pub(super) struct LostConnection {
    pub(super) number: Option<u64>,
    pub(super) was_connected: bool,
    pub(super) sent: Vec<Request>,
}

/// The parts of a client whose session has ended.
pub(super) struct Remains {
    pub(super) connection: Option<u64>,
    pub(super) sent: VecDeque<Request>,
    pub(super) unsent: Vec<Event>,
    pub(super) watches: ClientWatches,
}

impl SimClient {
    pub(super) fn new(
        addresses: Vec<Address>,
        ids: Ids,
        timeout: u64,
        patience: u64,
        now: u64,
        dialed: Dialed,
    ) -> Self {
        Self {
            addresses,
            tried: 0,
            patience,
            ids,
            session: 0,
            shown_session: 0,
            timeout,
            last_zxid: 0,
            received_at: now,
            sent_at: now,
            gives_up_at: now + timeout,
            connection: None,
            phase: Phase::Dialing,
            timer: 0,
            link_state: watch::Sender::new(LinkState::Disconnected),
            xid: 0,
            unsent: Vec::new(),
            sent: VecDeque::new(),
            watches: ClientWatches::default(),
            is_dropped: false,
            process: ProcessState::current(),
            dialed: Some(dialed),
        }
    }

    pub(super) fn session(&self) -> i64 {
        self.session
    }

    pub(super) fn shown_session(&self) -> i64 {
        self.shown_session
    }

    /// The session timeout, in milliseconds.
    pub(super) fn timeout(&self) -> u64 {
        self.timeout
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    pub(super) fn process(&self) -> &Arc<ProcessState> {
        &self.process
    }

    pub(super) fn link_state(&self) -> &watch::Sender<LinkState> {
        &self.link_state
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    pub(super) fn set_dropped(&mut self) {
        self.is_dropped = true;
    }

    pub(super) fn is_dropped(&self) -> bool {
        self.is_dropped
    }

    /// Returns true until the first connection, or its failure, is reported.
    pub(super) fn is_dialing_first(&self) -> bool {
        self.dialed.is_some()
    }

    pub(super) fn take_dialed(&mut self) -> Option<Dialed> {
        self.dialed.take()
    }

    /// Starts a new timer, which disarms the earlier one.
    pub(super) fn start_timer(&mut self) -> u64 {
        self.timer += 1;
        self.timer
    }

    /// Returns true if the timer counts and the process runs.
    fn fires(&self, timer: u64) -> bool {
        self.timer == timer && self.process.runs()
    }

    fn tick(&self) -> u64 {
        let is_bounded = self.patience != 0 && self.patience <= self.timeout * 3 / 5;
        let tick = if is_bounded { self.patience / 8 } else { self.timeout / 20 };
        tick.max(1)
    }

    /// Longest silence of a server before the client leaves it.
    pub(super) fn silence_limit(&self) -> u64 {
        8 * self.tick()
    }

    /// Returns true if the server has been silent for too long.
    pub(super) fn is_silent(&self, now: u64) -> bool {
        now >= self.received_at + self.silence_limit()
    }

    /// When the client pings next. `None` while it waits for the answer to a ping, or for its watches to be set.
    fn pings_at(&self) -> Option<u64> {
        let is_pinging = self.sent.iter().any(|request| request.op == Op::Ping);
        let pings = self.phase == Phase::Ready && !is_pinging;
        pings.then(|| self.sent_at + (3 * self.tick()).min(10_000))
    }

    pub(super) fn must_ping(&self, now: u64) -> bool {
        self.pings_at().is_some_and(|pings_at| now >= pings_at)
    }

    /// Returns true if this timer lets the client check its connection.
    pub(super) fn may_check(&self, timer: u64) -> bool {
        self.fires(timer) && self.connection.is_some()
    }

    /// When the client checks its connection next.
    pub(super) fn checks_at(&self, now: u64) -> u64 {
        let silent_at = self.received_at + self.silence_limit();
        let due = self.pings_at().map_or(silent_at, |pings_at| pings_at.min(silent_at));
        due.max(now + 1).next_multiple_of(self.tick())
    }

    /// Returns true if this timer lets the client dial.
    pub(super) fn may_dial(&self, timer: u64) -> bool {
        self.fires(timer) && self.phase == Phase::Dialing
    }

    /// The address to dial next. `None` if the session has expired by the client's clock.
    pub(super) fn next_address(&mut self, now: u64, rng: &mut fastrand::Rng) -> Option<Address> {
        if self.tried == 0 {
            rng.shuffle(&mut self.addresses);
        } else if now >= self.gives_up_at {
            return None;
        }
        let address = self.addresses[self.tried % self.addresses.len()];
        self.tried += 1;
        Some(address)
    }

    /// When the client dials again, after an attempt that fails `waited` milliseconds from now. The first round over
    /// the addresses has no pauses. Later there is one before each address, and a longer one before each round, which
    /// grows with the rounds.
    pub(super) fn dials_at(&self, now: u64, waited: u64, rng: &mut fastrand::Rng) -> u64 {
        let round = u32::try_from(self.tried / self.addresses.len()).unwrap_or(u32::MAX);
        let place = (self.tried % self.addresses.len()) as u64;
        let count = self.addresses.len() as u64;
        let pause = match (round, place) {
            (0, _) => 0,
            (_, 0) => ((100 * count).min(1000) << (round - 1).min(20)) + rng.u64(0..100),
            (_, place) => 50 * place + rng.u64(0..50),
        };
        (now + waited + pause).min(self.gives_up_at).max(now + 1)
    }

    /// Begins to use a new connection. Returns the first message to the server.
    pub(super) fn begin_handshake(&mut self, connection: u64, now: u64) -> Handshake {
        self.connection = Some(connection);
        self.phase = Phase::ShakingHands;
        self.received_at = now;
        self.sent_at = now;
        Handshake {
            session: self.session,
            timeout: self.timeout,
            last_zxid: self.last_zxid,
            ids: self.ids.clone(),
        }
    }

    /// The request that sets the watches again on a new connection, if there are watches.
    pub(super) fn watches_to_set(&self) -> Option<Op> {
        let watches = self.watches.all();
        (!watches.is_empty()).then_some(Op::SetWatches { since: self.last_zxid, watches })
    }

    pub(super) fn end_handshake(&mut self, session: i64, timeout: u64) {
        self.session = session;
        if self.shown_session == 0 {
            self.shown_session = session;
        }
        self.timeout = timeout;
        self.phase = Phase::Restoring;
    }

    /// Becomes ready once no request of the handshake is outstanding. Returns the requests that have waited, or `None`
    /// if the client does not become ready now.
    pub(super) fn become_ready(&mut self, now: u64) -> Option<Vec<Event>> {
        if self.phase != Phase::Restoring || !self.sent.is_empty() {
            return None;
        }
        self.phase = Phase::Ready;
        self.tried = 0;
        self.sent_at = now;
        Some(std::mem::take(&mut self.unsent))
    }

    /// Receives a message over a connection. Returns false if the client no longer uses that connection.
    pub(super) fn receives(&mut self, connection: u64, now: u64) -> bool {
        let receives = self.connection == Some(connection) && !self.process.is_dead();
        if receives {
            self.received_at = now;
        }
        receives
    }

    /// Keeps a request until the client is ready.
    pub(super) fn defer(&mut self, request: Event) {
        self.unsent.push(request);
    }

    /// Records a request as sent. Returns the connection and the xid, or `None` without a connection.
    pub(super) fn record_sent(
        &mut self,
        op: Op,
        reply: Option<oneshot::Sender<Outcome>>,
        now: u64,
    ) -> Option<(u64, i32)> {
        let connection = self.connection?;
        let xid = match op {
            Op::Ping => PING,
            Op::SetWatches { .. } => SET_WATCHES,
            _ => {
                self.xid += 1;
                self.xid
            }
        };
        self.sent_at = now;
        self.sent.push_back(Request { xid, op, reply });
        Some((connection, xid))
    }

    /// Records the zxid of a reply, and returns the request that the reply answers.
    pub(super) fn saw_reply(&mut self, xid: i32, zxid: i64) -> Option<&Op> {
        if xid != PING {
            self.last_zxid = self.last_zxid.max(zxid);
        }
        self.sent.iter().find(|request| request.xid == xid).map(|request| &request.op)
    }

    /// Takes a request that was answered out of the sent ones.
    pub(super) fn take_answered(&mut self, xid: i32, reply: &Reply) -> Option<Request> {
        let nth = self.sent.iter().position(|request| request.xid == xid)?;
        let request = self.sent.remove(nth)?;
        if let (Op::Auth { scheme, id }, Ok(_)) = (&request.op, reply) {
            Arc::make_mut(&mut self.ids).insert((scheme.clone(), id.clone()));
        }
        Some(request)
    }

    pub(super) fn watches_mut(&mut self) -> &mut ClientWatches {
        &mut self.watches
    }

    /// Removes a watch. Returns the request that removes it at the server, unless the server must keep it for another
    /// watch, or for a request that sets one.
    pub(super) fn unwatch(&mut self, id: u64) -> Option<Op> {
        let removed = self.watches.remove(id)?;
        let is_on_children = removed.kind == WatchKind::Child;
        let sets_alike = |request: &Request| {
            request.op.watched().is_some_and(|(path, kind)| {
                path == removed.path && (kind == WatchKind::Child) == is_on_children
            })
        };
        if !removed.is_last || self.sent.iter().any(sets_alike) || self.is_dropped {
            return None;
        }
        Some(Op::RemoveWatches { path: removed.path, kind: removed.kind })
    }

    /// Loses the connection, and begins to dial.
    pub(super) fn lose_connection(&mut self) -> LostConnection {
        let was_connected = matches!(self.phase, Phase::Restoring | Phase::Ready);
        if self.phase == Phase::Ready {
            self.tried = 0;
            self.gives_up_at = self.received_at + self.timeout * 7 / 5;
        }
        self.phase = Phase::Dialing;
        LostConnection {
            number: self.connection.take(),
            was_connected,
            sent: std::mem::take(&mut self.sent).into(),
        }
    }

    /// Ends the session at the client.
    pub(super) fn end(&mut self) -> Remains {
        self.phase = Phase::Ended;
        Remains {
            connection: self.connection.take(),
            sent: std::mem::take(&mut self.sent),
            unsent: std::mem::take(&mut self.unsent),
            watches: std::mem::take(&mut self.watches),
        }
    }
}
