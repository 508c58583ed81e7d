//! A place in the queue: a node of ours, and the duty to remove it. Dropping it leaves.

use std::sync::Arc;

use tokio::sync::oneshot;
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

    /// Has the node deleted, and is out of the line: the request is sent when this returns. The future sees
    /// to it that it is done; `None` if somebody else has, or does. `refused` is told of refusals.
    pub(super) fn leave(
        mut self,
        hand_over: HandOver,
        refused: impl FnMut(&ClientError) + Send,
    ) -> Option<impl Future<Output = Cleaned> + Send> {
        let room = self.room.take()?;
        let (spot, line, lines) = (self.spot.clone(), self.line.clone(), self.lines.clone());
        drop(self);
        let send = || delete(&lines.epoch, &spot.node);
        let sent = line.leave(&spot, hand_over, send)?;
        Some(async move {
            let cleaned = see_to(&lines, &spot, sent, refused).await;
            line.left(&spot);
            // Whoever hears of it may use the room.
            drop(room);
            cleaned
        })
    }

    /// Leaves in a task of the session's; the receiver is told when it is done, by an error.
    pub(super) fn left(self) -> oneshot::Receiver<()> {
        let session = self.lines.session.clone();
        let leaving = self.leave(HandOver::AtOnce, |_| {});
        in_background(&session, leaving)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(room) = self.room.take() else { return };
        let (spot, line, lines) = (self.spot.clone(), self.line.clone(), self.lines.clone());
        drop(Self { spot, line, lines, room: Some(room) }.left());
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
