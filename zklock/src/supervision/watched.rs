//! The holds under which a command runs: locks, a leader's term, or the run of a key.

use std::future::pending;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::select_all;
use zookeeper_recipes::zookeeper_client::EventType;
use zookeeper_recipes::{Curator, Hold, Loss, SlotHold};

use crate::{log, metrics, nesting};

/// All holds that the command needs. They count as lost when the first one is lost.
#[derive(Debug)]
pub(crate) struct Watched {
    holds: Vec<Hold>,
    /// The number of a slot, and its permit, under which the first hold began.
    slot: Option<(usize, Hold)>,
    /// Watches the nodes from the start.
    curator: Option<Curator>,
}

impl Watched {
    /// Takes at least one hold.
    pub(crate) fn new(holds: impl IntoIterator<Item = Hold>) -> Self {
        Self { holds: holds.into_iter().collect(), slot: None, curator: None }
    }

    pub(crate) fn of_slot(slot: &SlotHold) -> Self {
        let [mutex, permit] = slot.holds();
        Self { slot: Some((slot.index(), permit)), ..Self::new([mutex]) }
    }

    fn all(&self) -> impl Iterator<Item = &Hold> {
        self.holds.iter().chain(self.slot.iter().map(|(_, permit)| permit))
    }

    /// Watches the nodes from the start. The library watches those of holds that last, but the next process has the lock as soon as
    /// the node is deleted.
    pub(crate) fn since_its_start(self, curator: &Curator) -> Self {
        Self { curator: Some(curator.clone()), ..self }
    }

    /// Records in the log and in the metrics that the locks are held.
    pub(crate) fn record(&self) {
        log::holds(self.holds.iter().map(|hold| hold.fencing_token().value()).collect());
        metrics::acquired();
    }

    pub(crate) fn path(&self) -> String {
        self.lines(Hold::path).join(" + ")
    }

    pub(crate) fn loss(&self) -> Option<Loss> {
        self.all().find_map(Hold::loss)
    }

    /// Returns the environment variables of the command, each with one line for each hold, and that with the holds around them.
    pub(super) fn environment(&self) -> Vec<(&'static str, String)> {
        let tokens: Vec<_> =
            self.holds.iter().map(|hold| hold.fencing_token().to_string()).collect();
        let mut outer = nesting::outer();
        let mut all = vec![
            ("ZK_LOCK_PATH", self.lines(Hold::path).join("\n")),
            ("ZK_LOCK_NODE", self.lines(Hold::node).join("\n")),
            ("ZK_LOCK_TOKEN", tokens.join("\n")),
        ];
        if let Some((index, permit)) = &self.slot {
            all.push(("ZK_LOCK_SLOT", index.to_string()));
            outer.push_str(&nesting::line(permit.fencing_token().value(), permit.node()));
        }
        all.push((nesting::OUTER, outer));
        all
    }

    pub(super) fn lease_left(&self) -> Duration {
        self.all().map(Hold::session_lease_left).min().unwrap_or_default()
    }

    pub(super) fn lease_renewed(&self) -> impl Future<Output = ()> + use<> {
        select_all(self.all().map(|hold| Box::pin(hold.session_lease_renewed()))).map(|_| ())
    }

    pub(super) async fn lost(&self) -> Loss {
        select_all(self.all().map(|hold| Box::pin(lost(self.curator.as_ref(), hold)))).await.0
    }

    pub(super) async fn revocation_requested(&self) {
        select_all(self.all().map(|hold| Box::pin(hold.revocation_requested()))).await;
    }

    fn lines<'a>(&'a self, of: impl Fn(&'a Hold) -> &'a str) -> Vec<&'a str> {
        self.holds.iter().map(of).collect()
    }
}

/// Waits for the loss of a hold. With `curator`, its node is watched.
async fn lost(curator: Option<&Curator>, hold: &Hold) -> Loss {
    tokio::select! {
        biased;
        loss = hold.lost() => loss,
        () = deleted(curator, hold.node()) => Loss::NodeDeleted,
    }
}

/// Resolves when the node is deleted; never if that cannot be watched.
async fn deleted(curator: Option<&Curator>, node: &str) {
    let Some(Ok(client)) = curator.map(Curator::client) else { return pending().await };
    loop {
        match client.check_and_watch_stat(node).await {
            Ok((None, _)) => return,
            Ok((Some(_), watcher)) => match watcher.changed().await.event_type {
                EventType::NodeDeleted => return,
                EventType::Session => pending().await,
                _ => {} // a revocation request changes the data
            },
            // No server answers, or the node may not be read.
            Err(_) => pending().await,
        }
    }
}
