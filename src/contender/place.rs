//! A place in the queue: a node of ours, and the duty to remove it. Dropping it leaves.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tracing::Instrument;

use super::line::{HandOver, Line};
use super::lines::Lines;
use super::local::Spot;
use crate::client::{ClientError, Failure};
use crate::session::Session;
use crate::session::duty::{Cleaned, Duty, clean_up, delete};
use crate::session::epoch::{Demand, Epoch, Reservation};

/// What a contender takes of its epoch, until it is dropped.
#[derive(Debug)]
pub(super) struct Room {
    _demand: Demand,
    _reservation: Reservation,
}

impl Room {
    pub(super) fn new(demand: Demand, reservation: Reservation) -> Self {
        Self { _demand: demand, _reservation: reservation }
    }
}

#[derive(Debug)]
pub(super) struct Place {
    pub(super) spot: Arc<Spot>,
    pub(super) line: Arc<Line>,
    pub(super) lines: Arc<Lines>,
    /// Taken by who leaves.
    room: Option<Room>,
}

impl Place {
    /// Enters the line.
    pub(super) fn new(spot: Arc<Spot>, line: Arc<Line>, lines: Arc<Lines>, room: Room) -> Self {
        line.enter(&spot);
        Self { spot, line, lines, room: Some(room) }
    }

    pub(super) fn epoch(&self) -> &Arc<Epoch> {
        &self.lines.epoch
    }

    /// Has the node deleted, and is out of the line: the request is sent when this returns. `None` if somebody else
    /// has, or does. `caller`: see [`Line::leave`].
    pub(super) fn leave(mut self, caller: Option<oneshot::Sender<()>>) -> Option<Departure> {
        let room = self.room.take()?;
        let ahead = self.spot.is_fence_ahead();
        let hand_over = if ahead { HandOver::AtOnce } else { HandOver::WhenGone };
        let (spot, line, lines) = (self.spot.clone(), self.line.clone(), self.lines.clone());
        drop(self);
        let send = || delete(&lines.epoch, &spot.node);
        let answer = Box::pin(line.leave(&spot, hand_over, caller, send)?);
        Some(Departure { spot, line, lines, rest: Some(Rest { room, answer }) })
    }

    /// Leaves in a task of the session's; the receiver is told when it is done, by an error.
    pub(super) fn left(self) -> oneshot::Receiver<()> {
        let session = self.lines.session.clone();
        let mut departure = self.leave(None);
        let rest = departure.as_mut().and_then(|departure| departure.go_on(|_| {}));
        in_background(&session, rest.map(|(rest, _)| rest))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(room) = self.room.take() else { return };
        let (spot, line, lines) = (self.spot.clone(), self.line.clone(), self.lines.clone());
        drop(Self { spot, line, lines, room: Some(room) }.left());
    }
}

/// A node whose delete was sent. Dropping it leaves what is left to do to a task of the session's.
pub(super) struct Departure {
    spot: Arc<Spot>,
    line: Arc<Line>,
    lines: Arc<Lines>,
    /// Taken by who sees to it.
    rest: Option<Rest>,
}

struct Rest {
    room: Room,
    /// To the delete.
    answer: Pin<Box<dyn Future<Output = Result<Cleaned, Failure>> + Send>>,
}

impl Departure {
    pub(super) fn session(&self) -> &Session {
        &self.lines.session
    }

    /// Waits for the first answer; `None` if a task has to go on: after another answer than a good one, or without one
    /// when `passed_on` tells. May be dropped on the way.
    pub(super) async fn answered(
        &mut self,
        mut passed_on: oneshot::Receiver<()>,
    ) -> Option<Cleaned> {
        let rest = self.rest.as_mut()?;
        if let Err(TryRecvError::Closed) = passed_on.try_recv() {
            return None;
        }
        let answer = tokio::select! {
            biased;
            answer = &mut rest.answer => answer,
            _ = &mut passed_on => return None,
            () = self.lines.epoch.over().cancelled() => return None,
        };
        match answer {
            Ok(cleaned) => {
                // Else this very task would be told, and woken, when the node is out of the line.
                drop(passed_on);
                self.line.left(&self.spot);
                self.rest = None;
                Some(cleaned)
            }
            Err(failure) => {
                rest.answer = Box::pin(ready(Err(failure)));
                None
            }
        }
    }

    /// What is left to do, for a task, and whether the caretaker is at it; `None` if that is nothing. `refused` is told
    /// of refusals.
    pub(super) fn go_on<F: FnMut(&ClientError) + Send>(
        &mut self,
        refused: F,
    ) -> Option<(impl Future<Output = Cleaned> + Send + use<F>, bool)> {
        let Rest { room, answer } = self.rest.take()?;
        let (spot, line, lines) = (self.spot.clone(), self.line.clone(), self.lines.clone());
        let in_care = line.pass_to_task(&spot);
        let rest = async move {
            let cleaned = see_to(&lines, &spot, answer, refused).await;
            line.left(&spot);
            // Whoever hears of it may use the room.
            drop(room);
            // It may have been deleted by the caretaker.
            if in_care && cleaned == Cleaned::Gone { Cleaned::Deleted } else { cleaned }
        };
        Some((rest, in_care))
    }
}

impl Drop for Departure {
    fn drop(&mut self) {
        if let Some((rest, _)) = self.go_on(|_| {}) {
            self.lines.session.spawn(rest.map(drop).in_current_span());
        }
    }
}

/// Runs `work` in a task of the session's; the receiver is told when it is done, by an error.
pub(super) fn in_background<T>(
    session: &Session,
    work: Option<impl Future<Output = T> + Send + 'static>,
) -> oneshot::Receiver<()> {
    let (gone, told) = oneshot::channel::<()>();
    if let Some(work) = work {
        let work = async move {
            work.await;
            drop(gone);
        };
        session.spawn(work.in_current_span());
    }
    told
}

/// For who reads the trace.
pub(super) fn note_place(spot: &Spot, epoch: &Epoch) {
    let session = epoch.session_id();
    tracing::Span::current()
        .record("contender", spot.name())
        .record("session", tracing::field::display(format_args!("{session:#x}")));
}

/// Removes a node that was in the line, for somebody who cannot.
pub(super) async fn remove(lines: &Lines, spot: &Spot) {
    let _: Cleaned = see_to(lines, spot, delete(&lines.epoch, &spot.node), |_| {}).await;
}

/// Sees to a delete that was sent.
async fn see_to(
    lines: &Lines,
    spot: &Spot,
    sent: impl Future<Output = Result<Cleaned, Failure>> + Send,
    refused: impl FnMut(&ClientError) + Send,
) -> Cleaned {
    let duty = Duty::Delete(spot.node.clone());
    clean_up(&lines.session, lines.epoch.clone(), duty, sent, refused).await
}
