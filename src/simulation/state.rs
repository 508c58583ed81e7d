//! What is at the servers, on the way and in the clients, and what happens at which time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::fault::LinkState;
use super::op::{Answer, Happened, Ids, Kind, Op, Refused, Reply};
use super::tasks::Life;
use super::tree::{Entry, Tree};
use crate::client::{LinkState as ClientState, ServerError};

/// What the ensemble is made of. Times are in milliseconds.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) seed: u64,
    pub(super) servers: usize,
    /// ZooKeeper's `tickTime`.
    pub(super) tick: u64,
    pub(super) sync_limit: u64,
    pub(super) session_timeouts: RangeInclusive<u64>,
    /// How often empty containers are deleted.
    pub(super) reap_every: u64,
    /// How long a message takes.
    pub(super) latency: RangeInclusive<u64>,
    /// Newer servers (3.9) ask for READ before they report whether a node is there.
    pub(super) exists_asks: bool,
    /// Whether the world picks the next task. Without that nothing is repeatable; a check of the checks.
    pub(super) ordered: bool,
}

/// What happens at a certain time, or when a message arrives.
pub(super) type Act = Box<dyn FnOnce(&mut State) + Send>;

pub(super) struct State {
    /// The number of the world.
    pub(super) world: u64,
    pub(super) setting: Setting,
    /// Milliseconds since the start.
    pub(super) now: u64,
    pub(super) rng: fastrand::Rng,
    /// By their times, and for one time in the order in which they were planned.
    pub(super) events: BTreeMap<(u64, u64), Act>,
    numbers: u64,
    pub(super) servers: Vec<Server>,
    pub(super) conns: BTreeMap<u64, Conn>,
    pub(super) lanes: BTreeMap<Way, Lane>,
    /// Between which nothing passes.
    pub(super) parted: BTreeSet<Parted>,
    pub(super) links: Vec<LinkState>,
    pub(super) peers: Vec<Peer>,
    pub(super) sessions: i64,
    pub(super) trace: Trace,
    /// The reader of the log, and its position.
    pub(super) observer: Option<Observer>,
    pub(super) observed: i64,
    /// Done outside the lock.
    pub(super) effects: Vec<Box<dyn FnOnce() + Send>>,
}

pub(super) type Observer = Arc<dyn Fn(&Logged) + Send + Sync>;

/// What the servers' log says.
#[derive(Clone, Debug)]
#[doc(hidden)]
#[allow(clippy::exhaustive_enums)] // for the judge of this crate's own simulation
pub enum Logged {
    /// With the session that owns it.
    Created(String, i64),
    Deleted(String),
    Changed(String, Vec<u8>),
    SessionEnded(i64),
}

/// What happened, in a hash and, on demand, in words.
#[derive(Default)]
pub(super) struct Trace {
    pub(super) hash: DefaultHasher,
    pub(super) lines: Option<Vec<String>>,
    pub(super) panics: Vec<String>,
    pub(super) spins: usize,
}

/// The way of a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    // From the client of a connection to its server, and back.
    Up(u64),
    Down(u64),
    // From one server to another.
    Wire(usize, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Parted {
    // A client from all servers.
    Client(usize),
    // What one server sends from another.
    Wire(usize, usize),
}

/// What is under way: first in, first out.
#[derive(Default)]
pub(super) struct Lane {
    pub(super) queue: VecDeque<Queued>,
    pub(super) last: u64,
    /// Nothing more is sent.
    pub(super) ended: bool,
    /// How much longer each message takes.
    pub(super) delay: u64,
}

pub(super) struct Queued {
    pub(super) due: u64,
    pub(super) message: Act,
    /// The fault that holds it.
    pub(super) held: Option<u64>,
}

/// A connection.
pub(super) struct Conn {
    pub(super) peer: usize,
    pub(super) server: usize,
    pub(super) link: usize,
    /// Whether the client still has it.
    pub(super) with_client: bool,
    /// What the server has of it, if it still has it.
    pub(super) session: Option<Session>,
}

/// What a server has of a connection.
#[derive(Default)]
pub(super) struct Session {
    /// Zero until the handshake is done.
    pub(super) id: i64,
    pub(super) ids: Ids,
    /// Requests in their order, with the answers there are.
    pub(super) pending: VecDeque<(i32, Op, Option<Reply>)>,
    /// The server reads nothing until that is done.
    pub(super) shakes_hands: bool,
}

#[derive(Default)]
pub(super) struct Server {
    pub(super) role: Role,
    /// It neither reads nor sends.
    pub(super) paused: bool,
    pub(super) tree: Tree,
    pub(super) log: Vec<Arc<Entry>>,
    pub(super) committed: usize,
    pub(super) applied: usize,
    /// The epoch that it follows or leads.
    pub(super) epoch: i64,
    /// When it last heard of its leader, or of its followers.
    pub(super) heard: BTreeMap<usize, u64>,
    /// Sessions heard of since the last report to the leader.
    pub(super) touched: BTreeSet<i64>,
    pub(super) leading: Leading,
    /// Path, whether it is its children that are watched, and the connection.
    pub(super) watches: BTreeSet<(String, bool, u64)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    Down,
    #[default]
    Looking,
    Following(usize),
    Leading,
}

impl Role {
    pub(super) fn serves(self) -> bool {
        matches!(self, Self::Following(_) | Self::Leading)
    }
}

/// What a leader knows.
#[derive(Default)]
pub(super) struct Leading {
    pub(super) last_zxid: i64,
    /// How much of the log each follower has.
    pub(super) followers: BTreeMap<usize, usize>,
    pub(super) tracker: BTreeMap<i64, Tracked>,
    /// The answers to `sync`, each with how much of the log must be committed before.
    pub(super) syncs: Vec<(usize, Act)>,
}

/// A session, as the leader knows it.
pub(super) struct Tracked {
    pub(super) timeout: u64,
    pub(super) expires: u64,
    /// The server whose clients' requests count. Unknown after an election.
    pub(super) owner: Option<usize>,
    pub(super) closing: bool,
}

/// One client, with its session.
pub(super) struct Peer {
    /// Links and the servers behind them, in the order in which they are tried.
    pub(super) ways: Vec<(usize, usize)>,
    /// How many were tried since the last connection.
    pub(super) tried: usize,
    /// After how long silence ends a connection; zero leaves it to the session's timeout.
    pub(super) patience: u64,
    pub(super) ids: Ids,
    pub(super) session: i64,
    pub(super) timeout: u64,
    pub(super) seen: i64,
    pub(super) received: u64,
    pub(super) sent_at: u64,
    pub(super) conn: Option<u64>,
    pub(super) phase: Phase,
    /// Timers of an earlier turn count no more.
    pub(super) turn: u64,
    pub(super) state: watch::Sender<ClientState>,
    pub(super) xid: i32,
    /// What waits for a connection.
    pub(super) unsent: Vec<Act>,
    pub(super) sent: VecDeque<Request>,
    /// By their paths.
    pub(super) watches: BTreeMap<String, Vec<Watcher>>,
    /// There is no handle on it any more.
    pub(super) is_dropped: bool,
    pub(super) process: Arc<Life>,
    pub(super) dialed: Option<oneshot::Sender<Result<(), ServerError>>>,
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

/// What a request comes to: the answer, and the watch that was asked for.
pub(crate) type Outcome = Result<(Answer, Option<Watch>), Refused>;

pub(super) struct Request {
    pub(super) xid: i32,
    pub(super) op: Op,
    pub(super) reply: Option<oneshot::Sender<Outcome>>,
}

/// A one-shot watch. Resolves with nothing when the session is over.
pub(crate) struct Watch {
    /// The number of its world.
    pub(super) world: u64,
    pub(super) peer: usize,
    pub(super) id: u64,
    pub(super) happened: oneshot::Receiver<Happened>,
    pub(super) has_fired: bool,
}

/// The other end of a [`Watch`].
pub(super) struct Watcher {
    pub(super) id: u64,
    pub(super) kind: Kind,
    pub(super) happened: oneshot::Sender<Happened>,
}

impl State {
    pub(super) fn new(world: u64, setting: Setting, rng: fastrand::Rng) -> Self {
        let server = |_| Server { tree: Tree::new(setting.exists_asks), ..Server::default() };
        Self {
            world,
            now: 0,
            rng,
            events: BTreeMap::new(),
            numbers: 0,
            servers: (0..setting.servers).map(server).collect(),
            conns: BTreeMap::new(),
            lanes: BTreeMap::new(),
            parted: BTreeSet::new(),
            links: Vec::new(),
            peers: Vec::new(),
            sessions: 0x1000,
            trace: Trace::default(),
            observer: None,
            observed: 0,
            effects: Vec::new(),
            setting,
        }
    }

    pub(super) fn at(&mut self, time: u64, act: impl FnOnce(&mut Self) + Send + 'static) {
        let number = self.number();
        self.events.insert((time.max(self.now), number), Box::new(act));
    }

    pub(super) fn after(&mut self, time: u64, act: impl FnOnce(&mut Self) + Send + 'static) {
        self.at(self.now + time, act);
    }

    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Does this later, outside the lock: it may wake a task, or drop a value that asks for the lock.
    pub(super) fn effect(&mut self, effect: impl FnOnce() + Send + 'static) {
        self.effects.push(Box::new(effect));
    }

    pub(super) fn note(&mut self, what: fmt::Arguments<'_>) {
        let (now, trace) = (self.now, &mut self.trace);
        now.hash(&mut trace.hash);
        let _ = Hashing(&mut trace.hash).write_fmt(what); // it cannot fail
        if let Some(lines) = &mut trace.lines {
            lines.push(format!("{:>4}.{:03} {what}", now / 1000, now % 1000));
        }
    }
}

struct Hashing<'a>(&'a mut DefaultHasher);

impl Write for Hashing<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
