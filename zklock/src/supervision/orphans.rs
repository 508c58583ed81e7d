//! Children of `zklock` that it did not start, and that no other process reaps: orphans in a container whose first
//! process is `zklock`, and children of the program that became `zklock`.

use std::convert::Infallible;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::processes;

/// Notifies that there may be children to reap.
#[derive(Debug)]
pub(super) struct Orphans(Option<Signal>);

impl Orphans {
    pub(super) fn new() -> Self {
        Self(signal(SignalKind::child()).ok()) // without the signal, they are reaped at the end
    }

    /// Reaps the children that end, except `kept`. A stopped child wakes this as well, without any effect.
    pub(super) async fn reap(&mut self, kept: &[Option<Pid>]) -> Infallible {
        let Some(ended) = &mut self.0 else { return std::future::pending().await };
        loop {
            ended.recv().await;
            reap(kept);
        }
    }
}

/// Reaps all children that have ended, except those whose ids must not be reused.
pub(super) fn reap(kept: &[Option<Pid>]) {
    let ended = processes::ended_children().into_iter();
    for child in ended.filter(|child| !kept.contains(&Some(*child))) {
        let _ = waitid(WaitId::Pid(child), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    }
}

/// Reaps all children that have ended.
pub(super) fn reap_the_rest() {
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    while matches!(waitid(WaitId::All, ended), Ok(Some(_))) {}
}

/// Reaps the children that end while there is no supervisor.
pub(crate) async fn reap_all() -> Infallible {
    Orphans::new().reap(&[]).await
}
