//! A contender that waits for one of ours: a part of its caller's future, without a task and without a watch.
//! Dropping it leaves the queue.

use tokio::sync::oneshot;

use super::local::Turn;
use super::place::Place;
use super::{Answer, Asked, Contender, Start};
use crate::error::SessionError;
use crate::session::clock::Moment;

#[derive(Debug)]
pub(super) struct Parked {
    contender: Contender,
    /// Before the place: dropped after it, it would be told, and wake, under the line's lock.
    turn: oneshot::Receiver<Turn>,
    place: Place,
    entered_at: Moment,
}

/// What ended the wait.
#[derive(Clone, Copy, Debug)]
pub(super) enum Came {
    Turn(Turn),
    EpochOver,
    Closing,
}

/// How it goes on.
pub(super) enum Next {
    Answer(Answer),
    /// A task will say.
    Task(Asked),
}

impl Parked {
    pub(super) fn new(
        contender: Contender,
        place: Place,
        turn: oneshot::Receiver<Turn>,
        entered_at: Moment,
    ) -> Self {
        Self { contender, place, turn, entered_at }
    }

    /// Waits until something happens. Needs no runtime.
    pub(super) async fn turn(&mut self) -> Came {
        tokio::select! {
            biased;
            () = self.contender.session().closing().cancelled() => Came::Closing,
            () = self.place.epoch().over().cancelled() => Came::EpochOver,
            turn = &mut self.turn => Came::Turn(turn.unwrap_or(Turn::Look)),
        }
    }

    /// Leaves, and waits until the servers know.
    pub(super) async fn leave(self) {
        let Self { turn, place, .. } = self;
        drop(turn);
        // It is told by an error.
        let _ = place.left().await;
    }

    /// What follows from [`turn`](Self::turn).
    pub(super) fn go_on(self, came: Came) -> Next {
        let Self { contender, place, entered_at, .. } = self;
        match came {
            Came::Turn(Turn::Next) => {
                let policy = contender.request.loss_policy;
                // Invariant 2: nobody is before us, and the lease lasts now.
                match place.epoch().lease.term(policy, Moment::now()) {
                    Some(term) => match contender.hold(place, term) {
                        Some(hold) => Next::Answer(Ok(Some(hold))),
                        None => Next::Task(contender.start(Start::Again(entered_at))),
                    },
                    None => Next::Task(contender.start(Start::Wait(place, entered_at))),
                }
            }
            Came::Turn(Turn::Look) => Next::Task(contender.start(Start::Wait(place, entered_at))),
            Came::Turn(Turn::Gone) | Came::EpochOver => {
                Next::Task(contender.start(Start::Again(entered_at)))
            }
            Came::Closing => Next::Answer(Err(contender.session_error(SessionError::Closed))),
        }
    }
}
