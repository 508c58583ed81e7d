//! Helpers for the tests of leader latches.

use futures_util::FutureExt;

use crate::prelude::*;

impl Arena {
    /// At the test's path. It is a candidate at once.
    pub(crate) fn latch(&self, curator: &Curator) -> LeaderLatch {
        curator.leader_latch(&self.path).expect("a latch path")
    }

    /// The same; its node is there.
    pub(crate) async fn queued(&self, curator: &Curator) -> LeaderLatch {
        let before = self.children().await.len();
        let latch = self.latch(curator);
        self.children_are(before + 1).await;
        latch
    }

    /// The same; it leads.
    pub(crate) async fn leading(&self, curator: &Curator) -> (LeaderLatch, Hold) {
        let latch = self.latch(curator);
        let leadership = leadership(&latch).await;
        (latch, leadership)
    }

    pub(crate) async fn remove(&self, node: &str) {
        self.admin.delete(node, None).await.unwrap();
    }
}

/// Waits until the latch leads.
pub(crate) async fn leadership(latch: &LeaderLatch) -> Hold {
    within("leadership", latch.leadership()).await.unwrap()
}

/// Waits for the leadership in a task of its own.
pub(crate) fn awaited(latch: &LeaderLatch) -> JoinHandle<Result<Hold, Error>> {
    let latch = latch.clone();
    tokio::spawn(async move { latch.leadership().await })
}

/// The outcome of `awaited`.
pub(crate) async fn gained(waiting: JoinHandle<Result<Hold, Error>>) -> Hold {
    within("leadership", waiting).await.unwrap().unwrap()
}

/// The latch does not lead at this moment, and is still a candidate.
pub(crate) fn is_candidate(latch: &LeaderLatch) {
    assert!(!latch.is_leader());
    let told = latch.leadership().now_or_never();
    assert!(told.is_none(), "{told:?}");
}

/// The latch can never lead again; the kind of the error says why.
pub(crate) async fn is_over(latch: &LeaderLatch) -> ErrorKind {
    let error = within("the end", latch.leadership()).await.unwrap_err();
    assert!(!latch.is_leader());
    error.kind()
}
