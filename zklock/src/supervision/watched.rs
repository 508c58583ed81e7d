//! The holds under which a command runs: locks, a leader's term, or the run of a key.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::select_all;
use zookeeper_recipes::{Hold, Loss};

use crate::{log, metrics};

/// All holds that the command needs. They count as lost when the first one is lost.
#[derive(Debug)]
pub(crate) struct Watched(Vec<Hold>);

impl Watched {
    /// Takes at least one hold.
    pub(crate) fn new(holds: impl IntoIterator<Item = Hold>) -> Self {
        Self(holds.into_iter().collect())
    }

    /// Records in the log and in the metrics that the locks are held.
    pub(crate) fn record(&self) {
        log::holds(self.0.iter().map(|hold| hold.fencing_token().value()).collect());
        metrics::acquired();
    }

    pub(crate) fn path(&self) -> String {
        self.lines(Hold::path).join(" + ")
    }

    pub(crate) fn loss(&self) -> Option<Loss> {
        self.0.iter().find_map(Hold::loss)
    }

    /// Returns the environment variables of the command, each with one line for each hold.
    pub(super) fn environment(&self) -> [(&'static str, String); 3] {
        let tokens: Vec<_> = self.0.iter().map(|hold| hold.fencing_token().to_string()).collect();
        [
            ("ZK_LOCK_PATH", self.lines(Hold::path).join("\n")),
            ("ZK_LOCK_NODE", self.lines(Hold::node).join("\n")),
            ("ZK_LOCK_TOKEN", tokens.join("\n")),
        ]
    }

    pub(super) fn lease_left(&self) -> Duration {
        self.0.iter().map(Hold::session_lease_left).min().unwrap_or_default()
    }

    pub(super) fn lease_renewed(&self) -> impl Future<Output = ()> + use<> {
        select_all(self.0.iter().map(|hold| Box::pin(hold.session_lease_renewed()))).map(|_| ())
    }

    pub(super) async fn lost(&self) -> Loss {
        select_all(self.0.iter().map(|hold| Box::pin(hold.lost()))).await.0
    }

    pub(super) async fn revocation_requested(&self) {
        select_all(self.0.iter().map(|hold| Box::pin(hold.revocation_requested()))).await;
    }

    fn lines<'a>(&'a self, of: impl Fn(&'a Hold) -> &'a str) -> Vec<&'a str> {
        self.0.iter().map(of).collect()
    }
}
