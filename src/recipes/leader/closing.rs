//! How what takes part is closed, and what became of that.

use std::sync::OnceLock;

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::error::{Error, Released};

#[derive(Debug, Default)]
pub(super) struct Closing {
    asked: CancellationToken,
    outcome: OnceLock<Result<Released, Error>>,
    done: CancellationToken,
}

impl Closing {
    /// Fires when it is to be closed.
    pub(super) fn asked(&self) -> &CancellationToken {
        &self.asked
    }

    /// Has it closed when this is dropped.
    pub(super) fn when_dropped(&self) -> DropGuard {
        self.asked.clone().drop_guard()
    }

    /// Notes what the release came to; the first to say counts.
    pub(super) fn came_to(&self, outcome: Result<Released, Error>) {
        let _ = self.outcome.set(outcome);
    }

    /// Nothing is left of it.
    pub(super) fn done(&self) {
        self.done.cancel();
    }

    /// Has it closed, and waits until it is.
    pub(super) async fn close(&self) -> Result<Released, Error> {
        self.asked.cancel();
        self.done.cancelled().await;
        self.outcome.get().cloned().unwrap_or(Ok(Released::Confirmed))
    }
}
