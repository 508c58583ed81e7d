//! Latches that lead, wait or are over.

use futures_util::FutureExt;

use crate::prelude::*;

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
