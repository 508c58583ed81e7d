//! The state that the connections of a proxy share.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::counters::Counters;
use super::fault::Board;
use super::{Cut, Protocol};

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) upstream: String,
    pub(super) protocol: Protocol,
    pub(super) board: Board,
    pub(super) counters: Counters,
    pub(super) connections: Connections,
}

impl Shared {
    pub(super) fn new(upstream: String, protocol: Protocol) -> Self {
        Self {
            upstream,
            protocol,
            board: Board::default(),
            counters: Counters::default(),
            connections: Connections::default(),
        }
    }
}

/// The connections of a proxy, and how to cut them.
#[derive(Debug, Default)]
pub(super) struct Connections(Mutex<Alive>);

#[derive(Debug, Default)]
struct Alive {
    cuts: HashMap<u64, oneshot::Sender<Cut>>,
    accepted: u64,
}

impl Connections {
    pub(super) fn admit(&self) -> (u64, oneshot::Receiver<Cut>) {
        let (cut, receiver) = oneshot::channel();
        let mut alive = self.alive();
        alive.accepted += 1;
        let id = alive.accepted;
        alive.cuts.insert(id, cut);
        (id, receiver)
    }

    pub(super) fn cut_all(&self, cut: Cut) -> usize {
        let cuts = std::mem::take(&mut self.alive().cuts);
        cuts.into_values().filter_map(|connection| connection.send(cut).ok()).count()
    }

    pub(super) fn count(&self) -> usize {
        self.alive().cuts.len()
    }

    pub(super) fn accepted(&self) -> usize {
        self.alive().accepted.try_into().unwrap_or(usize::MAX)
    }

    pub(super) fn forget(&self, id: u64) {
        self.alive().cuts.remove(&id);
    }

    fn alive(&self) -> MutexGuard<'_, Alive> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
