//! The peers: who is there, who is missing and why.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use tools::{Failure, now};

use crate::child::Child;
use crate::in_process;
use crate::load::{Lap, Load, Recipe};
use crate::ours::Ours;
use crate::raw::Raw;

/// After a release, until the node's watches are set.
const SETTLED: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Peer {
    Ours,
    /// A bare create and delete.
    Raw,
    Curator,
    /// The same process, with a mutex object for each thread.
    CuratorEach,
    Kazoo,
    /// A mutex of this process alone, without a server.
    Tokio,
}

impl Peer {
    /// Whose process runs it.
    fn process(self) -> Self {
        if self == Peer::CuratorEach { Peer::Curator } else { self }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Peer::Ours => "ours",
            Peer::Raw => "raw",
            Peer::Curator => "curator",
            Peer::CuratorEach => "curator-each",
            Peer::Kazoo => "kazoo",
            Peer::Tokio => "tokio",
        })
    }
}

pub(crate) struct Crew {
    pub(crate) ours: Ours,
    /// Ours, in another process.
    stranger: Child,
    raw: Raw,
    children: BTreeMap<Peer, Child>,
    /// Why a peer is not measured, or not any more.
    missing: BTreeMap<Peer, String>,
}

impl Crew {
    pub(crate) fn assemble() -> Result<Self, Failure> {
        let (mut children, mut missing) = (BTreeMap::new(), BTreeMap::new());
        for (peer, child) in [(Peer::Curator, Child::curator()), (Peer::Kazoo, Child::kazoo())] {
            match child {
                Ok(child) => drop(children.insert(peer, child)),
                Err(error) => drop(missing.insert(peer, error.to_string())),
            }
        }
        let (ours, raw) = <(Ours, Raw)>::default();
        Ok(Self { ours, stranger: Child::stranger()?, raw, children, missing })
    }

    pub(crate) fn missing(&self) -> &BTreeMap<Peer, String> {
        &self.missing
    }

    /// A turn of `peer`; `None` if it is missing.
    ///
    /// # Errors
    ///
    /// Only of ours, raw and tokio: without those there is nothing to compare. Any other is missing from then on.
    pub(crate) async fn run(
        &mut self,
        peer: Peer,
        link: &str,
        path: &str,
        load: Load,
    ) -> Result<Option<Lap>, Failure> {
        let lap = match peer {
            Peer::Ours => return self.ours.run(link, path, load).await.map(Some),
            Peer::Raw => return self.raw.run(link, path, load).await.map(Some),
            Peer::Tokio => return in_process::run(load).await.map(Some),
            _ if self.missing.contains_key(&peer.process()) => return Ok(None),
            Peer::Curator | Peer::CuratorEach | Peer::Kazoo => {
                let Some(child) = self.children.get_mut(&peer.process()) else { return Ok(None) };
                child.run(peer == Peer::CuratorEach, link, path, load).await
            }
        };
        Ok(self.unless_lost(peer.process(), lap))
    }

    /// First acquisitions and releases of the `count` paths below `place`, by ours or Curator; `None` if it is missing.
    pub(crate) async fn first(
        &mut self,
        peer: Peer,
        link: &str,
        place: &str,
        count: usize,
        recipe: Recipe,
    ) -> Result<Option<(Duration, Duration)>, Failure> {
        if peer == Peer::Ours {
            return self.ours.first(link, place, count, recipe).await.map(Some);
        }
        let Some(child) = self.children.get_mut(&peer) else { return Ok(None) };
        let times = child.first(link, place, count, recipe).await;
        Ok(self.unless_lost(peer, times))
    }

    /// A turn of two processes of ours, with half of the load each.
    pub(crate) async fn across(
        &mut self,
        link: &str,
        path: &str,
        load: Load,
    ) -> Result<Lap, Failure> {
        let load = Load { tasks: load.tasks / 2, sessions: load.sessions / 2, ..load };
        let began = now();
        let (here, there) = tokio::try_join!(
            self.ours.holds(link, path, load),
            self.stranger.holds(link, path, load),
        )?;
        Ok(Lap::of(&[here, there], now() - began))
    }

    /// As `first`, by another process of ours, of paths whose nodes this one retains.
    pub(crate) async fn give_way(
        &mut self,
        link: &str,
        place: &str,
        count: usize,
    ) -> Result<(Duration, Duration), Failure> {
        self.ours.first(link, place, count, Recipe::Retained).await?;
        tokio::time::sleep(SETTLED).await;
        self.stranger.first(link, place, count, Recipe::Mutex).await
    }

    /// How often `count` attempts of Curator's got the lock; `None` if it is missing.
    pub(crate) async fn attempts(&mut self, link: &str, path: &str, count: usize) -> Option<u64> {
        let acquired = self.children.get_mut(&Peer::Curator)?.attempts(link, path, count).await;
        self.unless_lost(Peer::Curator, acquired)
    }

    fn unless_lost<T>(&mut self, peer: Peer, result: Result<T, Failure>) -> Option<T> {
        result
            .inspect_err(|error| {
                self.children.remove(&peer);
                self.missing.insert(peer, error.to_string());
            })
            .ok()
    }

    pub(crate) async fn close(self) {
        for child in self.children.into_values().chain([self.stranger]) {
            child.close().await;
        }
        self.ours.close().await;
    }
}
