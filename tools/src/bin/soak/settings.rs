//! What a run is told: by its environment, and a worker by its orchestrator, the same way.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tools::Result;

/// All workers contend for this.
pub(crate) const LOCK: &str = "/soak/lock";
/// Or for these, all or some, taken in this order.
pub(crate) const LOCKS: [&str; 3] = ["/soak/lock-0", "/soak/lock-1", "/soak/lock-2"];
/// Leases of the semaphore.
pub(crate) const LIMIT: usize = 3;
/// And count here, while they hold it.
pub(crate) const COUNTER: &str = "/soak/counter";

/// Carries a worker's settings, and tells that the process is one.
const WORKER: &str = "SOAK_WORKER";

/// What the workers contend for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Recipe {
    Mutex,
    ReadWrite,
    Semaphore,
    Multi,
    Leader,
}

/// Who stands for election, in a run of leaders: all workers the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Candidates {
    Latches,
    Selectors,
}

impl Candidates {
    pub(crate) fn of(seed: u64) -> Self {
        if seed.is_multiple_of(2) { Self::Latches } else { Self::Selectors }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Latches => "latches",
            Self::Selectors => "selectors",
        }
    }
}

impl Recipe {
    const ALL: [Self; 5] =
        [Self::Mutex, Self::ReadWrite, Self::Semaphore, Self::Multi, Self::Leader];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::ReadWrite => "rw",
            Self::Semaphore => "semaphore",
            Self::Multi => "multi",
            Self::Leader => "leader",
        }
    }

    /// Where its contenders' nodes are.
    pub(crate) fn parents(self) -> Vec<String> {
        match self {
            Self::Mutex | Self::ReadWrite | Self::Leader => vec![LOCK.to_owned()],
            Self::Semaphore => ["locks", "leases"].map(|name| format!("{LOCK}/{name}")).to_vec(),
            Self::Multi => LOCKS.map(str::to_owned).to_vec(),
        }
    }
}

impl FromStr for Recipe {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|recipe| recipe.name() == text);
        known.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("RECIPE={text}: one of {names}")
        })
    }
}

/// Which lock the workers use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Sabotage {
    /// The crate's, rightly used.
    None,
    /// One that takes the node of its dead session for its own (CURATOR-604).
    NoOwnerCheck,
    /// The crate's, by a worker that believes to hold until it released.
    IgnoresLease,
    /// The crate's, by a worker that takes the read lock when it is to write.
    WritesAsReader,
}

impl Sabotage {
    const ALL: [(&str, Self); 3] = [
        ("no-owner-check", Self::NoOwnerCheck),
        ("ignores-lease", Self::IgnoresLease),
        ("writes-as-reader", Self::WritesAsReader),
    ];

    fn of(recipe: Recipe, name: &str) -> Result<Self, String> {
        let there = || Self::ALL.into_iter().filter(|(_, sabotage)| sabotage.is_of(recipe));
        let found = there().find(|(known, _)| *known == name);
        found.map(|(_, sabotage)| sabotage).ok_or_else(|| {
            let names: Vec<_> = there().map(|(known, _)| known).collect();
            format!("SABOTAGE={name}: of a {} {}", recipe.name(), names.join(" or "))
        })
    }

    /// Whether a lock of this recipe can be broken so.
    fn is_of(self, recipe: Recipe) -> bool {
        match self {
            Self::None | Self::IgnoresLease => true,
            Self::NoOwnerCheck => matches!(recipe, Recipe::Mutex | Recipe::Leader),
            Self::WritesAsReader => recipe == Recipe::ReadWrite,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) recipe: Recipe,
    pub(crate) faults: usize,
    pub(crate) seed: u64,
    pub(crate) sabotage: Sabotage,
    /// Of the logs.
    pub(crate) folder: PathBuf,
    /// What makes this executable a worker, beside its environment.
    pub(crate) worker_arguments: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WorkerSettings {
    pub(crate) row: usize,
    pub(crate) generation: usize,
    pub(crate) recipe: Recipe,
    pub(crate) seed: u64,
    pub(crate) sabotage: Sabotage,
    pub(crate) timeout: Duration,
    /// Through the worker's own proxies.
    pub(crate) connect_string: String,
    /// To the servers themselves.
    pub(crate) direct: String,
    /// The outside store.
    pub(crate) store: SocketAddr,
    pub(crate) log: PathBuf,
}

impl Settings {
    /// `RECIPE`, `FAULTS`, `SEED` and `SABOTAGE`, each with its default.
    pub(crate) fn from_environment() -> Result<Self> {
        let recipe = text("RECIPE").map_or(Ok(Recipe::Mutex), |name| name.parse())?;
        let sabotage =
            text("SABOTAGE").map_or(Ok(Sabotage::None), |name| Sabotage::of(recipe, &name))?;
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
        Ok(Self {
            recipe,
            faults: number("FAULTS")?.unwrap_or(1000),
            seed: number("SEED")?.unwrap_or_else(|| fastrand::u64(..1_000_000)),
            sabotage,
            folder: target,
            worker_arguments: Vec::new(),
        })
    }
}

/// None if it is empty.
fn text(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|text| !text.is_empty())
}

fn number<T: FromStr>(variable: &str) -> Result<Option<T>> {
    let parse = |text: String| text.parse().map_err(|_| format!("{variable}={text}: not a number"));
    Ok(text(variable).map(parse).transpose()?)
}

impl WorkerSettings {
    /// None if this process is no worker.
    pub(crate) fn from_environment() -> Result<Option<Self>> {
        let text = std::env::var(WORKER).ok();
        Ok(text.map(|text| serde_json::from_str(&text)).transpose()?)
    }

    pub(crate) fn environment(&self) -> Result<(&'static str, String)> {
        Ok((WORKER, serde_json::to_string(self)?))
    }
}
