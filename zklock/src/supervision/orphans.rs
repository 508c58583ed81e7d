//! Children of `zklock` that it did not start, and that nobody else buries: who lost its parent in a container whose
//! first process it is, and what the program started that became `zklock`.

use std::convert::Infallible;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::processes;

/// Tells that there may be someone to bury.
#[derive(Debug)]
pub(super) struct Orphans(Option<Signal>);

impl Orphans {
    pub(super) fn new() -> Self {
        Self(signal(SignalKind::child()).ok()) // without, they are buried at the end
    }

    /// Buries whoever ends, but these. One that is stopped tells as well: it is no reason to do anything else.
    pub(super) async fn bury(&mut self, kept: &[Option<Pid>]) -> Infallible {
        let Some(told) = &mut self.0 else { return std::future::pending().await };
        loop {
            told.recv().await;
            bury(kept);
        }
    }
}

/// Buries all who have ended but those whose numbers nobody else is to get.
pub(super) fn bury(kept: &[Option<Pid>]) {
    let ended = processes::ended_children().into_iter();
    for child in ended.filter(|child| !kept.contains(&Some(*child))) {
        let _ = waitid(WaitId::Pid(child), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    }
}

/// Buries all who have ended.
pub(super) fn bury_the_rest() {
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    while matches!(waitid(WaitId::All, ended), Ok(Some(_))) {}
}

/// Buries whoever ends, while there is no supervisor.
pub(crate) async fn bury_all() -> Infallible {
    Orphans::new().bury(&[]).await
}
