//! The handle on a whole simulation, its options, and the faults of its servers.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

use super::admin::Admin;
use super::link::Link;
use super::log_observer::LoggedEntry;
use super::network::PartitionScope;
use super::picture::Picture;
use super::process::{Process, scheduled};
use super::recording::Place;
use super::server::{Role, Server};
use super::sim_client::SimClient;
use super::state::{Settings, State, millis};
use super::tree::Tree;
use super::version::Version;
use super::world::World;
use crate::curator::Curator;

/// A simulated ZooKeeper in memory, of one or more servers. See the [module](super) for a whole test. Drop it after its `Curator`s:
/// without it nothing answers them, and no task of theirs goes on.
#[derive(Debug)]
pub struct Ensemble {
    world: Arc<World>,
    connect_string: String,
    picture_on_panic: Option<PathBuf>,
}

/// The options of an [`Ensemble`].
#[derive(Debug)]
#[must_use = "a builder starts nothing"]
pub struct EnsembleBuilder {
    settings: Settings,
}

impl EnsembleBuilder {
    /// Sets the number of servers; 1 by default.
    ///
    /// # Panics
    ///
    /// If the number is 0.
    pub fn servers(mut self, servers: usize) -> Self {
        assert!(servers > 0, "an ensemble has at least one server");
        self.settings.servers = servers;
        self
    }

    /// Sets ZooKeeper's `tickTime`, the unit in which sessions expire; 500 ms by default.
    pub fn tick_time(mut self, tick: Duration) -> Self {
        self.settings.tick = millis(tick).max(2);
        self
    }

    /// Sets after how many ticks of silence a follower leaves its leader, and a leader without a quorum steps down; 10
    /// by default.
    pub fn sync_limit(mut self, ticks: u32) -> Self {
        self.settings.sync_limit = ticks.into();
        self
    }

    /// Sets how long after the commit of a transaction a server of several may apply it. Defaults to a millisecond.
    #[doc(hidden)]
    pub fn apply_lag(mut self, lag: Duration) -> Self {
        self.settings.apply_lag = millis(lag);
        self
    }

    /// Sets the range of session timeouts that are granted; from 100 ms to 120 s by default.
    pub fn session_timeouts(mut self, timeouts: RangeInclusive<Duration>) -> Self {
        let (shortest, longest) = timeouts.into_inner();
        self.settings.session_timeouts = millis(shortest)..=millis(longest);
        self
    }

    /// Sets how often empty containers are deleted; once a minute by default, as in ZooKeeper.
    pub fn container_check_interval(mut self, interval: Duration) -> Self {
        self.settings.reap_every = millis(interval).max(1);
        self
    }

    /// Sets how long a message takes one way, in whole milliseconds; from 1 to 3 ms by default.
    pub fn latency(mut self, latency: RangeInclusive<Duration>) -> Self {
        let (shortest, longest) = latency.into_inner();
        self.settings.latency = millis(shortest).max(1)..=millis(longest).max(1);
        self
    }

    /// Sets the version of the servers; 3.8 by default.
    pub fn version(mut self, version: Version) -> Self {
        self.settings.version = version;
        self
    }

    /// Answers each reconnect with a new session and without an error, as ClickHouse Keeper does, and ZooKeeper never.
    #[doc(hidden)]
    pub fn replaces_sessions(mut self) -> Self {
        self.settings.replaces_sessions = true;
        self
    }

    /// Leaves the order of tasks to tokio, which draws a different order each time. Shows that a check of repeatability
    /// can fail.
    #[doc(hidden)]
    pub fn unordered(mut self) -> Self {
        self.settings.ordered = false;
        self
    }

    /// Starts the ensemble on this thread, in place of an earlier one.
    ///
    /// # Panics
    ///
    /// Outside a current-thread tokio runtime whose clock is paused.
    #[must_use]
    pub fn start(self) -> Ensemble {
        let flavor = Handle::current().runtime_flavor();
        assert!(
            flavor == RuntimeFlavor::CurrentThread && is_paused(),
            "a simulation needs a current-thread runtime with a paused clock: #[tokio::test(start_paused = true)]"
        );
        let world = World::start(self.settings);
        let link = Link::new(&world, None);
        let connect_string = link.connect_string().to_owned();
        Ensemble { world, connect_string, picture_on_panic: None }
    }
}

/// Returns true if tokio's clock stands still while the real clock goes on.
#[allow(clippy::disallowed_methods)] // it compares the two clocks
fn is_paused() -> bool {
    let before = Instant::now();
    let real = std::time::Instant::now();
    while real.elapsed() < Duration::from_micros(2) {}
    Instant::now() == before
}

impl Ensemble {
    /// Starts one server with the default options. `seed` decides everything that is random.
    ///
    /// # Panics
    ///
    /// As [`EnsembleBuilder::start`].
    #[must_use]
    pub fn start(seed: u64) -> Self {
        Self::builder(seed).start()
    }

    /// Returns a builder with the default options. `seed` decides everything that is random.
    pub fn builder(seed: u64) -> EnsembleBuilder {
        let settings = Settings {
            seed,
            servers: 1,
            tick: 500,
            sync_limit: 10,
            apply_lag: 1,
            session_timeouts: 100..=120_000,
            reap_every: 60_000,
            latency: 1..=3,
            version: Version::default(),
            replaces_sessions: false,
            ordered: true,
        };
        EnsembleBuilder { settings }
    }

    /// The connect string for [`CuratorBuilder::connect`](crate::CuratorBuilder::connect) and
    /// [`connect_lazy`](crate::CuratorBuilder::connect_lazy). A chroot may be appended.
    #[must_use]
    pub fn connect_string(&self) -> &str {
        &self.connect_string
    }

    /// Connects a `Curator` with the default options.
    ///
    /// # Cancel safety
    ///
    /// As [`Curator::connect`].
    ///
    /// # Panics
    ///
    /// If the servers are out of reach.
    pub async fn curator(&self) -> Curator {
        Curator::connect(&self.connect_string).await.expect("a session with a simulated server")
    }

    /// Returns a new process. Tasks and clients of a process can be paused and killed together.
    #[must_use]
    pub fn process(&self) -> Process {
        Process::new(&self.world, 0)
    }

    /// Returns a new process whose clock is fast by this many millionths, or slow if the number is negative.
    #[must_use]
    pub fn process_with_clock(&self, fast: i32) -> Process {
        Process::new(&self.world, fast)
    }

    /// Returns a new link to all servers.
    #[must_use]
    pub fn link(&self) -> Link {
        Link::new(&self.world, None)
    }

    /// Returns a new link to one server, counted from 0.
    #[must_use]
    pub fn link_to(&self, server: usize) -> Link {
        Link::new(&self.world, Some(server))
    }

    /// Connects a client to read nodes and to change them. Waits for the servers.
    ///
    /// # Cancel safety
    ///
    /// No session is left.
    pub async fn admin(&self) -> Admin {
        Admin::connect(&self.world, 0).await
    }

    /// Expires the present session of a `Curator`, as the servers do after a silence of its timeout. Nothing happens while it has none,
    /// or while no server leads.
    pub fn expire(&self, curator: &Curator) {
        if let Ok(session) = curator.session_id() {
            self.expire_session(session);
        }
    }

    /// Expires a session by its id. See [`expire`](Self::expire).
    pub fn expire_session(&self, session: i64) {
        self.world.change(|state| {
            let name = "an operator ends the session".to_owned();
            let recorded = state.recorded_fault(Place::Session(session), name);
            state.recorded_end(recorded);
            if let Some(leader) = state.leader() {
                state.expire(leader, session);
            }
        });
    }

    /// Separates the client of a `Curator`'s present session from the servers until the partition is dropped. A later session is not
    /// separated: for a longer outage connect the `Curator` over a [`link`](Self::link), and stall that.
    pub fn partition(&self, curator: &Curator) -> Partition {
        let session = curator.session_id().unwrap_or_default();
        let is_present = |client: &SimClient| client.shown_session() == session;
        let client = self.world.change(|state| state.clients.iter().rposition(is_present));
        let scopes = client.map(PartitionScope::Client).into_iter().collect();
        self.partitioned(scopes, Place::Session(session), "cut off from the servers".to_owned())
    }

    fn partitioned(&self, scopes: Vec<PartitionScope>, place: Place, name: String) -> Partition {
        let recorded = self.world.change(|state| {
            state.network.partition(&scopes);
            state.recorded_fault(place, name)
        });
        Partition { world: self.world.clone(), scopes, recorded }
    }

    /// Deletes a node, as an operator does.
    ///
    /// # Cancel safety
    ///
    /// The node may be deleted nevertheless.
    ///
    /// # Panics
    ///
    /// If the servers refuse.
    pub async fn delete(&self, path: &str) {
        self.admin().await.delete(path, None).await.expect("a deleted node");
    }

    /// The sorted names of a node's children, as the leader has them at this moment. Empty if the node does not exist.
    #[must_use]
    pub fn children(&self, path: &str) -> Vec<String> {
        self.read(|tree| tree.children(path)).unwrap_or_default()
    }

    /// Reads the tree of the leader; while no server leads, the tree with the latest change.
    fn read<T>(&self, read: impl FnOnce(&Tree) -> T) -> Option<T> {
        self.world.change(|state| {
            let latest = || {
                (0..state.servers.len()).max_by_key(|one| state.servers[*one].replica.last_zxid())
            };
            let server = state.leader().or_else(latest)?;
            Some(read(state.servers[server].replica.tree()))
        })
    }

    /// The data of a node as the leader has them at this moment, and the session that owns the node.
    #[must_use]
    pub fn node(&self, path: &str) -> Option<(Vec<u8>, i64)> {
        let node =
            |tree: &Tree| tree.node(path).map(|(stat, data)| (data.to_vec(), stat.ephemeral_owner));
        self.read(node).flatten()
    }

    /// Waits until a condition holds. The condition is checked once each virtual millisecond.
    ///
    /// # Cancel safety
    ///
    /// Cancelling changes nothing.
    pub async fn until(&self, mut condition: impl FnMut(&Self) -> bool) {
        while !condition(self) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Stops a server, and ends its connections. The server keeps its log.
    pub fn stop(&self, server: usize) {
        self.world.change(|state| state.stop_server(server));
    }

    /// Starts a stopped server again.
    pub fn start_again(&self, server: usize) {
        self.world.change(|state| state.start_server(server));
    }

    /// Pauses a server: it neither reads nor sends until it is [resumed](Self::resume).
    pub fn pause(&self, server: usize) {
        self.world.change(|state| state.pause_server(server));
    }

    /// Resumes a paused server.
    pub fn resume(&self, server: usize) {
        self.world.change(|state| state.resume_server(server));
    }

    /// The server that leads; `None` if no server does.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        self.world.change(|state| state.leader())
    }

    /// Waits until each server that is not stopped serves clients.
    ///
    /// # Cancel safety
    ///
    /// Cancelling changes nothing.
    pub async fn serving(&self) {
        let serves = |state: &mut State| {
            let mut up = state.servers.iter().filter(|server| server.role() != Role::Down);
            up.all(Server::serves)
        };
        self.until(|ensemble| ensemble.world.change(serves)).await;
    }

    /// Blocks messages from one server to another until the partition is dropped. Messages in the other direction still
    /// pass.
    pub fn part(&self, from: usize, to: usize) -> Partition {
        let name = format!("no message to server {to}");
        self.partitioned(vec![PartitionScope::Servers(from, to)], Place::Server(from), name)
    }

    /// Separates a server from the other servers until the partition is dropped.
    pub fn isolate(&self, server: usize) -> Partition {
        let others = (0..self.servers()).filter(|other| *other != server);
        let scopes = others.flat_map(|other| {
            [PartitionScope::Servers(server, other), PartitionScope::Servers(other, server)]
        });
        let name = "cut off from the other servers".to_owned();
        self.partitioned(scopes.collect(), Place::Server(server), name)
    }

    /// Delays messages from other servers to this one by `delay`.
    pub fn lag(&self, server: usize, delay: Duration) {
        self.world.change(|state| {
            state.recorded(|recording, now| recording.lag(now, server, millis(delay)));
            for other in 0..state.servers.len() {
                state.network.set_delay(other, server, millis(delay));
            }
        });
    }

    /// Number of servers.
    #[must_use]
    pub fn servers(&self) -> usize {
        self.world.change(|state| state.servers.len())
    }

    /// Number of watches at the servers, by connection and path.
    #[must_use]
    pub fn watches(&self) -> usize {
        let watches = |server: &Server| server.connections.watches();
        self.world.change(|state| state.servers.iter().map(watches).sum())
    }

    /// Number of open sessions, as the leader has them at this moment.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.read(|tree| tree.sessions().len()).unwrap_or_default()
    }

    /// The paths of all nodes, as the leader has them at this moment.
    #[must_use]
    pub fn nodes(&self) -> Vec<String> {
        self.read(Tree::paths).unwrap_or_default()
    }

    /// Makes a future a task of the simulation: the seed decides when it is polled.
    pub fn scheduled<F: Future>(&self, future: F) -> impl Future<Output = F::Output> {
        scheduled(future)
    }

    /// Keeps the trace in words from now on, and the events for a [`picture`](Self::picture).
    pub fn record(&self) {
        self.world.change(State::record);
    }

    /// A picture of the run since [`record`](Self::record), to be written to a file.
    ///
    /// ```no_run
    /// # fn example(ensemble: &zookeeper_recipes::simulation::Ensemble) -> std::io::Result<()> {
    /// std::fs::write("run.svg", ensemble.picture().to_string())
    /// # }
    /// ```
    pub fn picture(&self) -> Picture {
        self.world.change(|state| Picture::new(state.recording.clone(), state.events.now()))
    }

    /// [Records](Self::record) from now on, and writes the [`picture`](Self::picture) to a file if the ensemble is dropped by a
    /// panic, as it is when the assertion of a test fails.
    pub fn picture_on_panic(&mut self, file: impl Into<PathBuf>) {
        self.record();
        self.picture_on_panic = Some(file.into());
    }

    /// Marks this moment in the [`picture`](Self::picture), which then shows what led to it.
    pub fn mark(&self, text: impl Into<String>) {
        self.world
            .change(|state| state.recorded(|recording, now| recording.mark(now, text.into())));
    }

    /// Adds a line to the trace.
    pub fn note(&self, what: fmt::Arguments<'_>) {
        self.world.change(|state| state.note(what));
    }

    /// The trace since [`record`](Self::record): a line for each request, transaction and event.
    #[must_use]
    pub fn trace(&self) -> Vec<String> {
        self.world.change(|state| state.trace.lines())
    }

    /// A hash of the whole trace. Two runs with one seed have equal hashes. For runs of two processes, set the
    /// [identities](crate::CuratorBuilder::identity), which have the process number by default.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.world.change(|state| state.trace.hash())
    }

    /// Calls `observer` with each change in the servers' log from now on, before any client learns of the change.
    #[doc(hidden)]
    pub fn observe(&self, observer: impl Fn(&LoggedEntry) + Send + Sync + 'static) {
        self.world.change(|state| state.log_observer.set(observer));
    }

    /// Sets how many children of a node were ever created, which is the number of its next sequential child.
    #[doc(hidden)]
    pub fn set_creates(&self, path: &str, creates: i32) {
        self.world.change(|state| {
            for server in &mut state.servers {
                server.replica.tree_mut().set_creates(path, creates);
            }
        });
    }

    /// The messages of panics in tasks of the simulation.
    #[must_use]
    pub fn panics(&self) -> Vec<String> {
        self.world.change(|state| state.trace.panics())
    }

    /// Number of times that a task was polled endlessly at one virtual instant.
    #[must_use]
    pub fn spins(&self) -> usize {
        self.world.change(|state| state.trace.spins())
    }
}

impl Drop for Ensemble {
    fn drop(&mut self) {
        if let Some(file) = self.picture_on_panic.take()
            && std::thread::panicking()
        {
            self.mark("the test panics");
            match std::fs::write(&file, self.picture().to_string()) {
                Ok(()) => eprintln!("a picture of the run is in {}", file.display()),
                Err(error) => {
                    eprintln!("cannot write the picture of the run to {}: {error}", file.display());
                }
            }
        }
        self.world.stop();
    }
}

/// A partition of the network. Dropping the value heals the partition.
#[derive(Debug)]
#[must_use = "dropping it heals the partition"]
pub struct Partition {
    world: Arc<World>,
    scopes: Vec<PartitionScope>,
    /// The number of the fault in the recording.
    recorded: Option<usize>,
}

impl Partition {
    /// Heals the partition, as dropping the value does.
    pub fn heal(self) {}
}

impl Drop for Partition {
    fn drop(&mut self) {
        self.world.change(|state| {
            state.recorded_end(self.recorded);
            state.network.heal(&self.scopes);
            state.deliver_waiting();
        });
    }
}
