//! The state of a simulation, what happens at which time, and the trace of what happened.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::conn::Conn;
use super::fault::LinkState;
use super::peer::Peer;
use super::server::{Server, Wire};

/// What the ensemble is made of.
#[derive(Clone, Debug)]
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
    /// Newer servers (3.9) ask for READ before they tell whether a node is there.
    pub(super) exists_asks: bool,
    /// Whether the world picks the next task. Without that nothing is repeatable; a check of the checks.
    pub(super) ordered: bool,
}

/// What is at the servers, on the way, and in the clients.
pub(super) struct State {
    /// The number of the world.
    pub(super) world: u64,
    pub(super) setting: Setting,
    /// Milliseconds since the start.
    pub(super) now: u64,
    pub(super) rng: fastrand::Rng,
    pub(super) events: BTreeMap<(u64, u64), Event>,
    numbers: u64,
    pub(super) servers: Vec<Server>,
    pub(super) wires: BTreeMap<(usize, usize), Wire>,
    pub(super) conns: BTreeMap<u64, Conn>,
    pub(super) links: Vec<LinkState>,
    pub(super) peers: Vec<Peer>,
    pub(super) sessions: i64,
    pub(super) trace: Trace,
    /// The reader of the log, and its position.
    pub(super) observer: Option<Observer>,
    pub(super) observed: i64,
    /// Done outside the lock.
    pub(super) effects: Vec<Effect>,
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

pub(super) type Effect = Box<dyn FnOnce() + Send>;

/// What happens at a certain time.
#[derive(Debug)]
pub(super) enum Event {
    // The next message of a connection, to the server or to the client.
    Message { conn: u64, up: bool },
    // The next message between two servers.
    Wire { from: usize, to: usize },
    // The server applies what is committed.
    Apply { server: usize },
    Elect { server: usize },
    // Each half tick.
    Tick,
    Reap,
    Dial { peer: usize, turn: u64 },
    Look { peer: usize, turn: u64 },
}

/// What happened, in a hash and, on demand, in words.
#[derive(Default)]
pub(super) struct Trace {
    pub(super) hash: DefaultHasher,
    pub(super) lines: Option<Vec<String>>,
    pub(super) panics: Vec<String>,
    pub(super) spins: usize,
}

impl State {
    pub(super) fn new(world: u64, setting: Setting, rng: fastrand::Rng) -> Self {
        let servers = (0..setting.servers).map(|_| Server::new(setting.exists_asks)).collect();
        Self {
            world,
            now: 0,
            rng,
            events: BTreeMap::new(),
            numbers: 0,
            servers,
            wires: BTreeMap::new(),
            conns: BTreeMap::new(),
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

    pub(super) fn at(&mut self, time: u64, event: Event) {
        self.numbers += 1;
        self.events.insert((time.max(self.now), self.numbers), event);
    }

    pub(super) fn after(&mut self, time: u64, event: Event) {
        self.at(self.now + time, event);
    }

    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(super) fn latency(&mut self) -> u64 {
        self.rng.u64(self.setting.latency.clone())
    }

    /// Does this later, outside the lock: it may wake a task, or drop a value that asks for the lock.
    pub(super) fn effect(&mut self, effect: impl FnOnce() + Send + 'static) {
        self.effects.push(Box::new(effect));
    }

    pub(super) fn note(&mut self, what: fmt::Arguments<'_>) {
        self.trace.note(self.now, what);
    }
}

impl Trace {
    pub(super) fn note(&mut self, now: u64, what: fmt::Arguments<'_>) {
        struct Hashing<'a>(&'a mut DefaultHasher);
        impl Write for Hashing<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.write(text.as_bytes());
                Ok(())
            }
        }
        now.hash(&mut self.hash);
        let _ = Hashing(&mut self.hash).write_fmt(what); // it cannot fail
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>4}.{:03} {what}", now / 1000, now % 1000));
        }
    }
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
