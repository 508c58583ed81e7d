//! One size, of one kind, by one peer.

mod children;
mod clients;
mod holds;
mod waiters;

use std::time::Duration;

use crate::Failure;
use crate::peer::{Peer, Peers, Worker};
use crate::plan::Kind;
use crate::servers::{Servers, float};

/// How long a session lasts without a sign of life, in milliseconds: nothing here is about losing one.
const SESSION: u64 = 40_000;

/// Uncontended cycles of each session before anything counts: Java compiles what is used.
const WARM: usize = 50;

/// Of fewer nodes, the servers' heaps tell nothing.
const ENOUGH: usize = 10_000;

pub(crate) struct Step<'a> {
    pub(crate) servers: &'a Servers,
    pub(crate) peers: &'a Peers,
    pub(crate) peer: Peer,
    pub(crate) n: usize,
    pub(crate) long: Duration,
}

/// By the name of the quantity.
pub(crate) type Measured = Vec<(&'static str, f64)>;

/// Bytes: in use and resident in the client, in use in the servers' heaps.
#[derive(Clone, Copy)]
struct Memory {
    used: f64,
    resident: f64,
    heap: f64,
}

impl Step<'_> {
    pub(crate) async fn run(&self, kind: Kind) -> Result<Measured, Failure> {
        match kind {
            Kind::Waiters => self.waiters().await,
            Kind::Holds => self.holds().await,
            Kind::Clients => self.clients().await,
            Kind::Children => self.children().await,
        }
    }

    /// A worker with so many sessions, all of which have worked.
    async fn worker(&self, sessions: usize, timeout: u64) -> Result<Worker, Failure> {
        let mut worker = self.peers.start(self.peer)?;
        let servers = &self.servers.connect_string;
        worker.ask(&format!("connect {sessions} {servers} {timeout}")).await?;
        let cycles = (20 * WARM / sessions).clamp(5, 6 * WARM);
        worker.ask(&format!("warm {} {cycles}", self.path("warm"))).await?;
        self.servers.quiet(sessions).await?;
        Ok(worker)
    }

    /// A path right under the root: short, for it counts in the budgets of a session.
    fn path(&self, kind: &str) -> String {
        let peer = match self.peer {
            Peer::Ours => 'o',
            Peer::Curator => 'c',
        };
        format!("/{kind}-{}{peer}", self.n)
    }

    /// The client's and the servers' memory for each of `n`, with what is too small to be told from chance left out.
    fn memory(&self, names: [&'static str; 3], before: Memory, after: Memory) -> Measured {
        let mut measured = vec![(names[0], (after.used - before.used) / self.count())];
        if self.n >= 100 {
            measured.push((names[1], (after.resident - before.resident) / self.count()));
        }
        if before.heap > 0.0 {
            measured.push((names[2], (after.heap - before.heap) / self.count()));
        }
        measured
    }

    async fn look(&self, worker: &mut Worker) -> Result<Memory, Failure> {
        let (used, resident) = worker.memory().await?;
        // A collection takes a while.
        let heap = if self.n < ENOUGH { 0.0 } else { self.servers.heap().await? };
        Ok(Memory { used, resident, heap })
    }

    fn count(&self) -> f64 {
        float(self.n as u64)
    }
}
