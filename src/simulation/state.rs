//! The state of a simulation: the parts of a world, and what ties them together.
//!
//! Each part keeps its fields to itself. The steps that need several parts are methods of [`State`]: messages in
//! `delivery`, clients in `client_steps`, servers in `serving`, `quorum` and `election`.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::event_queue::EventQueue;
use super::log_observer::LogObserver;
use super::network::Network;
use super::recording::{Place, Recording};
use super::server::{Role, Server};
use super::sim_client::SimClient;
use super::trace::Trace;
use super::version::Version;

/// The options of an ensemble. Times are in milliseconds.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) seed: u64,
    pub(super) servers: usize,
    /// ZooKeeper's `tickTime`.
    pub(super) tick: u64,
    pub(super) sync_limit: u64,
    /// The longest time between the commit of a transaction and its effect at one of several servers.
    pub(super) apply_lag: u64,
    pub(super) session_timeouts: RangeInclusive<u64>,
    /// Interval at which empty containers are deleted.
    pub(super) reap_every: u64,
    /// Time that a message takes.
    pub(super) latency: RangeInclusive<u64>,
    pub(super) version: Version,
    /// A reconnect is answered with a new session, as ClickHouse Keeper does.
    pub(super) replaces_sessions: bool,
    /// True if the world picks the next task. Otherwise no run can be repeated: a check of the checks.
    pub(super) ordered: bool,
}

pub(super) struct State {
    /// The number of the world.
    pub(super) world: u64,
    pub(super) settings: Settings,
    pub(super) rng: fastrand::Rng,
    pub(super) events: EventQueue,
    pub(super) network: Network,
    pub(super) servers: Vec<Server>,
    pub(super) clients: Vec<SimClient>,
    pub(super) trace: Trace,
    pub(super) recording: Recording,
    pub(super) log_observer: LogObserver,
    last_session: i64,
    effects: Vec<Effect>,
}

/// Something that is done outside the lock.
type Effect = Box<dyn FnOnce() + Send>;

impl State {
    pub(super) fn new(world: u64, settings: Settings, rng: fastrand::Rng) -> Self {
        Self {
            world,
            rng,
            events: EventQueue::default(),
            network: Network::default(),
            servers: (0..settings.servers).map(|_| Server::new(&settings)).collect(),
            clients: Vec::new(),
            trace: Trace::default(),
            recording: Recording::default(),
            log_observer: LogObserver::default(),
            last_session: 0x1000,
            effects: Vec::new(),
            settings,
        }
    }

    pub(super) fn new_session(&mut self) -> i64 {
        self.last_session += 1;
        self.last_session
    }

    /// Defers an effect until the lock is released: it may wake a task, or drop a value that takes the lock.
    pub(super) fn effect(&mut self, effect: impl FnOnce() + Send + 'static) {
        self.effects.push(Box::new(effect));
    }

    pub(super) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub(super) fn note(&mut self, line: fmt::Arguments<'_>) {
        self.trace.note(self.events.now(), line);
    }

    /// Calls a function with the recording and the time, if there is a recording.
    pub(super) fn recorded<T>(&mut self, add: impl FnOnce(&mut Recording, u64) -> T) -> Option<T> {
        let now = self.events.now();
        self.recording.is_on().then(|| add(&mut self.recording, now))
    }

    /// Starts the recording, with the roles that the servers have at present.
    pub(super) fn record(&mut self) {
        self.trace.record();
        self.recording.start();
        for server in 0..self.servers.len() {
            self.recorded_role(server);
        }
    }

    pub(super) fn recorded_role(&mut self, server: usize) {
        let role = self.servers[server].role();
        let text = match role {
            Role::Leading if self.servers.len() == 1 => "serves".to_owned(),
            Role::Leading => format!("leads, epoch {}", self.servers[server].epoch()),
            Role::Following(leader) => format!("follows server {leader}"),
            Role::Looking => "elects".to_owned(),
            Role::Down => "down".to_owned(),
        };
        self.recorded(|recording, now| recording.role(now, server, role, text));
    }

    /// A fault begins. Returns its number in the recording.
    pub(super) fn recorded_fault(&mut self, place: Place, name: String) -> Option<usize> {
        self.recorded(|recording, now| recording.begin(now, place, "fault", name))
    }

    pub(super) fn recorded_end(&mut self, fault: Option<usize>) {
        if let Some(fault) = fault {
            self.recorded(|recording, now| recording.end(now, fault));
        }
    }
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
