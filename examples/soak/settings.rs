//! What a run is told: by its environment, and a worker by its orchestrator, the same way.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Result;

/// All workers contend for this.
pub(crate) const LOCK: &str = "/soak/lock";
/// And count here, while they hold it.
pub(crate) const COUNTER: &str = "/soak/counter";

/// Carries a worker's settings, and tells that the process is one.
const WORKER: &str = "SOAK_WORKER";

/// Which lock the workers use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Sabotage {
    /// The crate's, rightly used.
    None,
    /// One that takes the node of its dead session for its own (CURATOR-604).
    NoOwnerCheck,
    /// The crate's, by a worker that believes to hold until it released.
    IgnoresLease,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) faults: usize,
    pub(crate) seed: u64,
    pub(crate) sabotage: Sabotage,
    /// Of the logs and the page.
    pub(crate) folder: PathBuf,
    /// What makes this executable a worker, beside its environment.
    pub(crate) worker_arguments: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WorkerSettings {
    pub(crate) row: usize,
    pub(crate) generation: usize,
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
    /// `FAULTS`, `SEED` and `SABOTAGE`, each with its default.
    pub(crate) fn from_environment() -> Result<Self> {
        let sabotage = match std::env::var("SABOTAGE").as_deref() {
            Err(_) | Ok("") => Sabotage::None,
            Ok("no-owner-check") => Sabotage::NoOwnerCheck,
            Ok("ignores-lease") => Sabotage::IgnoresLease,
            Ok(other) => {
                return Err(format!("SABOTAGE={other}: no-owner-check or ignores-lease").into());
            }
        };
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
        Ok(Self {
            faults: number("FAULTS")?.unwrap_or(1000),
            seed: number("SEED")?.unwrap_or_else(|| fastrand::u64(..1_000_000)),
            sabotage,
            folder: target,
            worker_arguments: Vec::new(),
        })
    }
}

fn number<T: FromStr>(variable: &str) -> Result<Option<T>> {
    match std::env::var(variable) {
        Ok(text) if !text.is_empty() => {
            let number = text.parse().map_err(|_| format!("{variable}={text}: not a number"))?;
            Ok(Some(number))
        }
        _ => Ok(None),
    }
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
