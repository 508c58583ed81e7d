//! What a run is told: by its environment, and a worker by its orchestrator, the same way.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tools::Result;

use crate::log::{identity, worker_log};
use crate::peers::{Peer, target_folder};
use crate::schedule::ROWS;

/// All workers contend for this.
pub(crate) const LOCK: &str = "/soak/lock";
/// Leases of the semaphore.
pub(crate) const LIMIT: usize = 3;

/// Carries a worker's settings, and tells that the process is one.
const WORKER: &str = "SOAK_WORKER";

/// What the workers contend for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Recipe {
    Mutex,
    Rw,
    Semaphore,
}

impl Recipe {
    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Where its contenders' nodes are.
    pub(crate) fn parents(self) -> Vec<String> {
        match self {
            Self::Mutex | Self::Rw => vec![LOCK.to_owned()],
            Self::Semaphore => ["locks", "leases"].map(|name| format!("{LOCK}/{name}")).to_vec(),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) recipe: Recipe,
    pub(crate) faults: usize,
    pub(crate) seed: u64,
    /// `SABOTAGE=ignores-lease`: a worker believes to hold until it releases.
    pub(crate) ignores_lease: bool,
    /// Contenders of other libraries: the last rows are theirs.
    pub(crate) peers: Vec<Peer>,
    /// Of the logs.
    pub(crate) folder: PathBuf,
    /// What makes this executable a worker, beside its environment.
    pub(crate) worker_arguments: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WorkerSettings {
    pub(crate) row: usize,
    pub(crate) generation: usize,
    pub(crate) run: Settings,
    pub(crate) timeout: Duration,
    /// Through the worker's own proxies.
    pub(crate) connect_string: String,
}

impl Settings {
    /// `RECIPE`, `FAULTS`, `SEED`, `SABOTAGE` and `PEERS`, each with its default.
    pub(crate) fn from_environment() -> Result<Self> {
        let recipe = text("RECIPE").unwrap_or_else(|| "mutex".to_owned());
        let recipe = serde_json::from_value(recipe.into())?;
        let ignores_lease = match text("SABOTAGE").as_deref() {
            None => false,
            Some("ignores-lease") => true,
            Some(name) => return Err(format!("SABOTAGE={name}: only `ignores-lease`").into()),
        };
        Ok(Self {
            recipe,
            faults: number("FAULTS")?.unwrap_or(1000),
            seed: number("SEED")?.unwrap_or_else(|| fastrand::u64(..1_000_000)),
            ignores_lease,
            peers: peers(recipe, ignores_lease)?,
            folder: target_folder(),
            worker_arguments: Vec::new(),
        })
    }
}

impl Settings {
    fn peer_in(&self, row: usize) -> Option<&Peer> {
        let first = ROWS - self.peers.len();
        row.checked_sub(first).and_then(|place| self.peers.get(place))
    }

    /// The peer with this identity. The mutex of Curator's semaphore has an address in place of one.
    pub(crate) fn peer_of(&self, identity: &str) -> Option<&Peer> {
        match identity.split_once('.').map(|(row, _)| row.parse()) {
            Some(Ok(row)) if row < ROWS => self.peer_in(row),
            _ => self.peers.first(),
        }
    }
}

/// `PEERS`: at least two rows are left for this crate.
fn peers(recipe: Recipe, ignores_lease: bool) -> Result<Vec<Peer>> {
    let names = text("PEERS").unwrap_or_default();
    let peers: Vec<_> =
        names.split(',').filter(|name| !name.is_empty()).map(Peer::find).collect::<Result<_>>()?;
    let has_kazoo = peers.iter().any(|peer| peer.name.starts_with("kazoo"));
    let is_possible = !ignores_lease && (recipe == Recipe::Mutex || !has_kazoo);
    if !peers.is_empty() && !is_possible {
        let reason = "peers contend without SABOTAGE, Curator by RECIPE=mutex, rw or semaphore, kazoo by mutex";
        return Err(format!("PEERS={names}: {reason}").into());
    }
    if peers.len() > ROWS - 2 {
        return Err(format!("PEERS={names}: name at most {} peers", ROWS - 2).into());
    }
    Ok(peers)
}

/// Returns true if `RECIPE` asks for the threads of one process.
pub(crate) fn is_of_threads() -> bool {
    text("RECIPE").as_deref() == Some("threads")
}

/// `SECONDS`: how long the threads are hammered.
pub(crate) fn seconds() -> Result<u64> {
    Ok(number("SECONDS")?.unwrap_or(300))
}

/// None if it is empty.
fn text(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|text| !text.is_empty())
}

fn number<T: std::str::FromStr>(variable: &str) -> Result<Option<T>> {
    let parse = |text: String| text.parse().map_err(|_| format!("{variable}={text}: not a number"));
    Ok(text(variable).map(parse).transpose()?)
}

impl WorkerSettings {
    pub(crate) fn log(&self) -> PathBuf {
        worker_log(&self.run.folder, self.row, self.generation)
    }

    pub(crate) fn identity(&self) -> String {
        identity(self.row, self.generation)
    }

    /// The peer that has this row.
    pub(crate) fn peer(&self) -> Option<&Peer> {
        self.run.peer_in(self.row)
    }

    /// None if this process is no worker.
    pub(crate) fn from_environment() -> Result<Option<Self>> {
        let text = std::env::var(WORKER).ok();
        Ok(text.map(|text| serde_json::from_str(&text)).transpose()?)
    }

    pub(crate) fn environment(&self) -> Result<(&'static str, String)> {
        Ok((WORKER, serde_json::to_string(self)?))
    }
}
