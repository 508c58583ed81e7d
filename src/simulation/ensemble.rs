//! The handle on a whole simulation, its options, and what a test does to its servers.

use std::fmt;
use std::hash::Hasher;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

use super::admin::Admin;
use super::link::Link;
use super::process::{Process, scheduled};
use super::state::{Logged, Parted, Role, Setting, State, Way, millis};
use super::tree::Tree;
use super::world::World;
use crate::curator::Curator;

/// A simulated ZooKeeper: one server or several, in memory. See the [module](super) for a whole test.
#[derive(Debug)]
pub struct Ensemble {
    world: Arc<World>,
    connect_string: String,
}

/// Options of an [`Ensemble`].
#[derive(Debug)]
#[must_use = "a builder starts nothing"]
pub struct EnsembleBuilder {
    setting: Setting,
}

impl EnsembleBuilder {
    /// How many servers there are; 1 by default.
    ///
    /// # Panics
    ///
    /// If it is 0.
    pub fn servers(mut self, servers: usize) -> Self {
        assert!(servers > 0, "an ensemble has at least one server");
        self.setting.servers = servers;
        self
    }

    /// ZooKeeper's `tickTime`, in which sessions expire; 500 ms by default.
    pub fn tick_time(mut self, tick: Duration) -> Self {
        self.setting.tick = millis(tick).max(2);
        self
    }

    /// After how many ticks without a sign of each other servers part; 10 by default.
    pub fn sync_limit(mut self, ticks: u32) -> Self {
        self.setting.sync_limit = ticks.into();
        self
    }

    /// Which session timeouts are granted; from 100 ms to 120 s by default.
    pub fn session_timeouts(mut self, timeouts: RangeInclusive<Duration>) -> Self {
        let (shortest, longest) = timeouts.into_inner();
        self.setting.session_timeouts = millis(shortest)..=millis(longest);
        self
    }

    /// How often containers that were left empty are deleted; each minute by default, as servers do.
    pub fn container_check_interval(mut self, interval: Duration) -> Self {
        self.setting.reap_every = millis(interval).max(1);
        self
    }

    /// How long a message takes one way; from 1 to 3 ms by default, in whole milliseconds.
    pub fn latency(mut self, latency: RangeInclusive<Duration>) -> Self {
        let (shortest, longest) = latency.into_inner();
        self.setting.latency = millis(shortest).max(1)..=millis(longest).max(1);
        self
    }

    /// Asks for READ before a server tells whether a node is there, as ZooKeeper 3.9.5 does; 3.8 does not.
    pub fn exists_needs_read(mut self) -> Self {
        self.setting.exists_asks = true;
        self
    }

    /// Leaves the order of tasks to tokio, which draws it anew each time: to see that a check of repeatability can fail.
    #[doc(hidden)]
    pub fn unordered(mut self) -> Self {
        self.setting.ordered = false;
        self
    }

    /// Starts it on this thread, in place of an earlier one.
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
        let world = World::start(self.setting);
        let link = Link::new(&world, None);
        Ensemble { world, connect_string: link.connect_string().to_owned() }
    }
}

/// Whether tokio's clock stands still while the real one goes on.
#[allow(clippy::disallowed_methods)] // it compares the two
fn is_paused() -> bool {
    let (before, real) = (Instant::now(), std::time::Instant::now());
    while real.elapsed() < Duration::from_micros(2) {}
    Instant::now() == before
}

impl Ensemble {
    /// Starts one server, with everything that is left to chance decided by `seed`.
    ///
    /// # Panics
    ///
    /// As [`EnsembleBuilder::start`].
    #[must_use]
    pub fn start(seed: u64) -> Self {
        Self::builder(seed).start()
    }

    /// Starts with the options.
    pub fn builder(seed: u64) -> EnsembleBuilder {
        let setting = Setting {
            seed,
            servers: 1,
            tick: 500,
            sync_limit: 10,
            session_timeouts: 100..=120_000,
            reap_every: 60_000,
            latency: 1..=3,
            exists_asks: false,
            ordered: true,
        };
        EnsembleBuilder { setting }
    }

    /// What [`CuratorBuilder::connect`](crate::CuratorBuilder::connect) and
    /// [`connect_lazy`](crate::CuratorBuilder::connect_lazy) take. A chroot may follow.
    #[must_use]
    pub fn connect_string(&self) -> &str {
        &self.connect_string
    }

    /// A `Curator` with the default options.
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

    /// A new process. What it starts can be paused and killed.
    #[must_use]
    pub fn process(&self) -> Process {
        Process::new(&self.world, 0)
    }

    /// A new process whose clock is fast by so many millionths, or slow.
    #[must_use]
    pub fn process_with_clock(&self, fast: i32) -> Process {
        Process::new(&self.world, fast)
    }

    /// A new link to all servers.
    #[must_use]
    pub fn link(&self) -> Link {
        Link::new(&self.world, None)
    }

    /// A new link to one server, counted from 0.
    #[must_use]
    pub fn link_to(&self, server: usize) -> Link {
        Link::new(&self.world, Some(server))
    }

    /// A client to look at nodes and to change them. Waits for the servers.
    ///
    /// # Cancel safety
    ///
    /// Nothing stays.
    pub async fn admin(&self) -> Admin {
        Admin::connect(&self.world, 0).await
    }

    /// Ends the present session of a `Curator`, as the servers do when they have not heard of it for its timeout.
    pub fn expire(&self, curator: &Curator) {
        if let Ok(session) = curator.session_id() {
            self.expire_session(session);
        }
    }

    /// The same, by the session's id.
    pub fn expire_session(&self, session: i64) {
        self.world.change(|state| {
            if let Some(leader) = state.leader() {
                state.expire(leader, session);
            }
        });
    }

    /// Nothing passes between a `Curator`'s present client and the servers until this is dropped.
    pub fn partition(&self, curator: &Curator) -> Partition {
        let session = curator.session_id().unwrap_or_default();
        let present =
            |state: &mut State| state.peers.iter().rposition(|one| one.session == session);
        let peer = self.world.change(present);
        self.parted(peer.map(Parted::Client).into_iter().collect())
    }

    fn parted(&self, parted: Vec<Parted>) -> Partition {
        self.world.change(|state| state.parted.extend(&parted));
        Partition { world: self.world.clone(), parted }
    }

    /// Deletes a node, as an operator does.
    ///
    /// # Cancel safety
    ///
    /// It may be deleted all the same.
    ///
    /// # Panics
    ///
    /// If the servers refuse.
    pub async fn delete(&self, path: &str) {
        self.admin().await.delete(path, None).await.expect("a deleted node");
    }

    /// The names of a node's children, in order, as the leader has them at this moment. None where the node is missing.
    #[must_use]
    pub fn children(&self, path: &str) -> Vec<String> {
        self.look(|tree| tree.children(path)).unwrap_or_default()
    }

    /// What the leader has applied.
    fn look<T>(&self, look: impl FnOnce(&Tree) -> T) -> Option<T> {
        self.world.change(|state| state.leader().map(|leader| look(&state.servers[leader].tree)))
    }

    /// The data of a node, as the leader has them at this moment, and the session that owns it.
    #[must_use]
    pub fn node(&self, path: &str) -> Option<(Vec<u8>, i64)> {
        let node =
            |tree: &Tree| tree.node(path).map(|(stat, data)| (data.to_vec(), stat.ephemeral_owner));
        self.look(node).flatten()
    }

    /// Waits until something is so. It is looked at each virtual millisecond.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn until(&self, mut condition: impl FnMut(&Self) -> bool) {
        while !condition(self) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Stops a server; its connections end. What it had confirmed stays.
    pub fn stop(&self, server: usize) {
        self.world.change(|state| state.stop_server(server));
    }

    /// Starts a server that was stopped.
    pub fn start_again(&self, server: usize) {
        self.world.change(|state| state.start_server(server));
    }

    /// A server neither reads nor sends until it is [resumed](Self::resume).
    pub fn pause(&self, server: usize) {
        self.world.change(|state| state.pause_server(server, true));
    }

    /// A server goes on.
    pub fn resume(&self, server: usize) {
        self.world.change(|state| state.pause_server(server, false));
    }

    /// The server that leads, if one does.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        self.world.change(|state| state.leader())
    }

    /// Waits until each server that runs serves.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn serving(&self) {
        let serves = |state: &mut State| {
            let mut up = state.servers.iter().filter(|server| server.role != Role::Down);
            up.all(|server| server.role.serves())
        };
        self.until(|ensemble| ensemble.world.change(serves)).await;
    }

    /// Nothing passes from one server to another until this is dropped; the other way it does.
    pub fn part(&self, from: usize, to: usize) -> Partition {
        self.parted(vec![Parted::Wire(from, to)])
    }

    /// Nothing passes between a server and the others until this is dropped.
    pub fn isolate(&self, server: usize) -> Partition {
        let others = (0..self.servers()).filter(|other| *other != server);
        let ways = others.flat_map(|one| [Parted::Wire(server, one), Parted::Wire(one, server)]);
        self.parted(ways.collect())
    }

    /// What the leader tells a server takes so much longer.
    pub fn lag(&self, server: usize, delay: Duration) {
        self.world.change(|state| {
            for other in 0..state.servers.len() {
                state.lanes.entry(Way::Wire(other, server)).or_default().delay = millis(delay);
            }
        });
    }

    /// How many servers there are.
    #[must_use]
    pub fn servers(&self) -> usize {
        self.world.change(|state| state.servers.len())
    }

    /// How many watches the servers keep, by connection and path.
    #[must_use]
    pub fn watches(&self) -> usize {
        self.world.change(|state| state.servers.iter().map(|one| one.watches.len()).sum())
    }

    /// How many sessions there are, by what the leader has applied.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.look(|tree| tree.sessions.len()).unwrap_or_default()
    }

    /// All nodes, by what the leader has applied.
    #[must_use]
    pub fn nodes(&self) -> Vec<String> {
        self.look(Tree::paths).unwrap_or_default()
    }

    /// Runs a future as a task of the simulation, in the order that the seed decides.
    pub fn scheduled<F: Future>(&self, future: F) -> impl Future<Output = F::Output> {
        scheduled(future)
    }

    /// Keeps the trace in words from now on.
    pub fn record(&self) {
        self.world.change(|state| state.trace.lines = Some(Vec::new()));
    }

    /// Adds a line to the trace.
    pub fn note(&self, what: fmt::Arguments<'_>) {
        self.world.change(|state| state.note(what));
    }

    /// What happened, since it is [recorded](Self::record): a line for each request, transaction and event.
    #[must_use]
    pub fn trace(&self) -> Vec<String> {
        self.world.change(|state| state.trace.lines.clone().unwrap_or_default())
    }

    /// A hash of all that happened. The same seed gives the same.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.world.change(|state| state.trace.hash.finish())
    }

    /// Tells `observer` of what the servers' log says from now on, before any client learns of it.
    #[doc(hidden)]
    pub fn observe(&self, observer: impl Fn(&Logged) + Send + Sync + 'static) {
        self.world.change(|state| state.observer = Some(Arc::new(observer)));
    }

    /// What tasks of the simulation panicked with.
    #[must_use]
    pub fn panics(&self) -> Vec<String> {
        self.world.change(|state| state.trace.panics.clone())
    }

    /// How often a task was polled without an end at one virtual instant.
    #[must_use]
    pub fn spins(&self) -> usize {
        self.world.change(|state| state.trace.spins)
    }
}

impl Drop for Ensemble {
    fn drop(&mut self) {
        self.world.stop();
    }
}

/// Nothing passes until this is dropped.
#[derive(Debug)]
#[must_use = "dropping it heals the partition"]
pub struct Partition {
    world: Arc<World>,
    parted: Vec<Parted>,
}

impl Partition {
    /// Heals it, as dropping it does.
    pub fn heal(self) {}
}

impl Drop for Partition {
    fn drop(&mut self) {
        self.world.change(|state| {
            state.parted.retain(|one| !self.parted.contains(one));
            state.unblocked();
        });
    }
}
