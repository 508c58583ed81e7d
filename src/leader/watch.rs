//! [`LeaderWatch`]: whether a latch leads, as it changes.

use std::fmt;
use std::future::pending;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use tokio::sync::watch::Receiver;

use super::error::LeaderError;
use super::latch::CloseMode;
use super::latching::{Shared, Status};
use super::leadership::Leadership;
use crate::waiting::Waiting;

/// Whether a [`LeaderLatch`](crate::LeaderLatch) leads.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_enums)] // there is no third
pub enum LeaderState {
    /// It leads, in this term.
    Leader(Leadership),
    /// It does not.
    NotLeader,
}

impl LeaderState {
    /// Whether it led when this was told.
    pub fn is_leader(&self) -> bool {
        self.leadership().is_some()
    }

    /// The term in which it led when this was told.
    pub fn leadership(&self) -> Option<&Leadership> {
        match self {
            Self::Leader(leadership) => Some(leadership),
            Self::NotLeader => None,
        }
    }
}

/// Whether a [`LeaderLatch`](crate::LeaderLatch) leads, as it changes; from [`LeaderLatch::watch`](crate::LeaderLatch::watch).
///
/// `Leader` and `NotLeader` alternate. Terms that came and went while nobody looked are not told; but who was told that
/// it leads is told that it does not any more before it is told of another term.
///
/// It is a [`Stream`] of states, which ends where [`changed`](Self::changed) fails. A watch does not keep the latch open.
///
/// ```no_run
/// # use zookeeper_recipes::{LeaderLatch, LeaderState};
/// # async fn example(latch: LeaderLatch) -> Result<(), Box<dyn std::error::Error>> {
/// let mut watch = latch.watch();
/// loop {
///     match watch.changed().await? {
///         LeaderState::Leader(leadership) => println!("leads: {}", leadership.fencing_token()),
///         LeaderState::NotLeader => println!("does not lead"),
///     }
/// }
/// # }
/// ```
pub struct LeaderWatch {
    follower: Follower,
    waiting: Waiting<Follower, Result<LeaderState, LeaderError>>,
}

#[derive(Clone)]
struct Follower {
    status: Receiver<Status>,
    path: String,
    /// The term that was told last, if it was not told to be over.
    told: Option<Leadership>,
}

impl LeaderWatch {
    pub(super) fn new(shared: &Shared) -> Self {
        let (status, path) = (shared.follow(), shared.path().to_owned());
        Self { follower: Follower { status, path, told: None }, waiting: Waiting::new() }
    }

    /// The state at this instant. It counts as told: [`changed`](Self::changed) waits for the next.
    pub fn state(&mut self) -> LeaderState {
        self.waiting.forget();
        self.follower.state()
    }

    /// Waits for the next state. Who has been told nothing counts as told that it does not lead.
    ///
    /// # Cancel safety
    ///
    /// Nothing is missed by dropping the future.
    ///
    /// # Errors
    ///
    /// [`LeaderError::Closed`], [`LeaderError::Ended`]: it will not lead any more. Who was told that it leads is told
    /// before that it does not, unless the latch was closed with [`CloseMode::Silent`].
    pub async fn changed(&mut self) -> Result<LeaderState, LeaderError> {
        self.waiting.forget();
        self.follower.changed().await
    }
}

impl Follower {
    fn state(&mut self) -> LeaderState {
        self.told = self.status.borrow_and_update().leadership().cloned();
        self.told.clone().map_or(LeaderState::NotLeader, LeaderState::Leader)
    }

    async fn changed(&mut self) -> Result<LeaderState, LeaderError> {
        loop {
            if let Some(news) = self.news() {
                return news;
            }
            let told = self.told.clone();
            let over = async {
                match told {
                    Some(leadership) => drop(leadership.lost().await),
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                changed = self.status.changed() => if changed.is_err() {
                    return Err(LeaderError::Closed { path: self.path.clone() });
                },
                () = over => {}
            }
        }
    }

    /// What was not told yet.
    fn news(&mut self) -> Option<Result<LeaderState, LeaderError>> {
        let status = self.status.borrow_and_update().clone();
        let leads = status.leadership();
        let silent = matches!(status, Status::Closed(CloseMode::Silent));
        if let Some(told) = &self.told
            && !silent
        {
            if leads.is_some_and(|leadership| leadership.is(told)) {
                return None;
            }
            self.told = None;
            return Some(Ok(LeaderState::NotLeader));
        }
        match status {
            Status::Closed(_) => Some(Err(LeaderError::Closed { path: self.path.clone() })),
            Status::Ended(error) => Some(Err(LeaderError::Ended(error))),
            _ => leads.cloned().map(|leadership| {
                self.told = Some(leadership.clone());
                Ok(LeaderState::Leader(leadership))
            }),
        }
    }
}

/// It has been told what its origin has.
impl Clone for LeaderWatch {
    fn clone(&self) -> Self {
        Self { follower: self.follower.clone(), waiting: Waiting::new() }
    }
}

impl Stream for LeaderWatch {
    type Item = LeaderState;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<LeaderState>> {
        let Self { follower, waiting } = &mut *self;
        let told = ready!(waiting.poll(follower, context, |mut follower| async move {
            let told = follower.changed().await;
            (follower, told)
        }));
        Poll::Ready(told.ok())
    }
}

impl fmt::Debug for LeaderWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderWatch")
            .field("path", &self.follower.path)
            .field("told", &self.follower.told)
            .finish_non_exhaustive()
    }
}
