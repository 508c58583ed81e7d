//! The servers of one way to lock, and places for locks on them.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::try_join_all;
use nix::sys::signal::Signal;

use crate::Failure;
use crate::hand::Hand;
use crate::server::{Durability, Server};
use crate::settings::Settings;
use crate::ways::{Place, WayName};

pub(crate) struct Stage<'a> {
    pub(crate) way: WayName,
    pub(crate) settings: &'a Settings,
    pub(crate) servers: Vec<Server>,
    places: AtomicU64,
}

impl<'a> Stage<'a> {
    pub(crate) async fn set(
        way: WayName,
        settings: &'a Settings,
        durability: Durability,
        root: &Path,
    ) -> Result<Self, Failure> {
        let start = |_| Server::start(way.kind(), durability, root);
        let servers = try_join_all((0..way.servers()).map(start)).await?;
        Ok(Self { way, settings, servers, places: AtomicU64::new(0) })
    }

    /// A lock that nobody has used.
    pub(crate) fn place(&self, lease: Duration) -> Place {
        let number = self.places.fetch_add(1, Ordering::Relaxed);
        let servers = self.servers.iter().map(Server::address).collect();
        Place { way: self.way, servers, name: format!("lock-{number}"), lease }
    }

    /// Workers on one lock.
    pub(crate) async fn hire<const N: usize>(&self, place: &Place) -> Result<[Hand; N], Failure> {
        let hands = try_join_all((0..N).map(|_| Hand::hire(place))).await?;
        hands.try_into().map_err(|_| "not as many workers as asked for".into())
    }

    /// All of them at once, and back again.
    pub(crate) async fn restart(&mut self, signal: Signal) -> Result<(), Failure> {
        try_join_all(self.servers.iter_mut().map(|server| server.end(signal))).await?;
        try_join_all(self.servers.iter_mut().map(Server::start_again)).await?;
        Ok(())
    }

    pub(crate) async fn requests(&self) -> Result<u64, Failure> {
        Ok(try_join_all(self.servers.iter().map(Server::requests)).await?.iter().sum())
    }
}

/// Counts requests, without those that count.
pub(crate) struct Meter {
    own: u64,
    from: u64,
}

impl Meter {
    pub(crate) async fn start(stage: &Stage<'_>) -> Result<Self, Failure> {
        let first = stage.requests().await?;
        let from = stage.requests().await?;
        Ok(Self { own: from - first, from })
    }

    pub(crate) async fn read(&self, stage: &Stage<'_>) -> Result<u64, Failure> {
        Ok(stage.requests().await?.saturating_sub(self.from + self.own))
    }
}
