//! What can go wrong with an election.

use std::fmt;

use thiserror::Error;

use crate::error::{AcquireError, Loss};

/// A latch, a selector or an observer does not take part.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum LeaderError {
    /// The latch was started before.
    #[error("the latch at {path} was started before")]
    #[non_exhaustive]
    AlreadyStarted {
        /// Its path.
        path: String,
    },
    /// It was closed.
    #[error("closed: does not take part at {path}")]
    #[non_exhaustive]
    Closed {
        /// Its path.
        path: String,
    },
    /// It cannot take part any more, and trying again would not help.
    #[error("does not take part any more")]
    Ended(#[source] AcquireError),
}

/// A term of a [`LeaderSelector`](crate::LeaderSelector) that did not come to its end as the leader, or did not begin.
/// `T` is what the body gives.
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum TermError<T> {
    /// It did not come to lead; the body did not run.
    #[error("did not come to lead")]
    Acquire(#[source] AcquireError),
    /// The leadership was lost before the body had ended: it may not have been alone to its end.
    #[error("the leadership of {path} was lost while the body ran: {loss}")]
    #[non_exhaustive]
    Lost {
        /// The leader path.
        path: String,
        /// How it was lost.
        loss: Loss,
        /// What the body gave all the same.
        value: T,
    },
    /// The body was asked to end, and did not within the [grace](crate::LeaderSelector::with_grace): it was dropped.
    #[error("the body under {path} did not end within its grace, and was dropped")]
    #[non_exhaustive]
    Dropped {
        /// The leader path.
        path: String,
        /// How the leadership was lost, if it was by then.
        loss: Option<Loss>,
    },
    /// The body panicked.
    #[error("the body under {path} panicked: {message}")]
    #[non_exhaustive]
    Panicked {
        /// The leader path.
        path: String,
        /// What it said.
        message: String,
        /// How the leadership was lost, if it was by then.
        loss: Option<Loss>,
    },
    /// It was closed before it came to lead; the body did not run.
    #[error("closed before it came to lead at {path}")]
    #[non_exhaustive]
    Closed {
        /// The leader path.
        path: String,
    },
}

/// Without what the body gave, which may not be made to be shown.
impl<T> fmt::Debug for TermError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquire(error) => f.debug_tuple("Acquire").field(error).finish(),
            Self::Lost { path, loss, .. } => {
                let mut lost = f.debug_struct("Lost");
                lost.field("path", path).field("loss", loss).finish_non_exhaustive()
            }
            Self::Dropped { path, loss } => {
                f.debug_struct("Dropped").field("path", path).field("loss", loss).finish()
            }
            Self::Panicked { path, message, loss } => {
                let mut panicked = f.debug_struct("Panicked");
                panicked.field("path", path).field("message", message).field("loss", loss).finish()
            }
            Self::Closed { path } => f.debug_struct("Closed").field("path", path).finish(),
        }
    }
}
