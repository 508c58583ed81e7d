//! What an entering may have left at the servers. Kept outside the future that enters, so that it is known also
//! when that is dropped half-way.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use super::local::Spot;
use super::place::{Place, Room, in_background};
use crate::session::Session;
use crate::session::duty::{Duty, attempt, clean_up};
use crate::session::epoch::Epoch;

#[derive(Debug)]
pub(super) struct Trace(Mutex<Option<Left>>);

/// What is left; the room it takes is free when that is removed.
#[derive(Debug)]
pub(super) enum Left {
    Nothing(Room),
    /// A node, perhaps.
    Search(Room, Duty),
    Place(Place),
}

impl Left {
    /// Has it removed in a task of the session's; the receiver is told when that is done, by an error. `None`
    /// if there is nothing.
    pub(super) fn remove(
        self,
        session: &Arc<Session>,
        epoch: &Arc<Epoch>,
    ) -> Option<oneshot::Receiver<()>> {
        match self {
            Left::Nothing(_) => None,
            Left::Place(place) => Some(place.left()),
            Left::Search(room, duty) => {
                let (spawner, session, epoch) = (session, session.clone(), epoch.clone());
                let searching = async move {
                    let first = attempt(&epoch, &duty);
                    clean_up(&session, epoch.clone(), duty.clone(), first, |_| {}).await;
                    // Whoever hears of the removal may use the room.
                    drop(room);
                };
                Some(in_background(spawner, Some(searching)))
            }
        }
    }
}

impl Trace {
    pub(super) fn new(left: Left) -> Self {
        Self(Mutex::new(Some(left)))
    }

    pub(super) fn take(&self) -> Option<Left> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The place that was taken.
    pub(super) fn spot(&self) -> Option<Arc<Spot>> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(Left::Place(place)) => Some(place.spot.clone()),
            _ => None,
        }
    }

    pub(super) fn nothing(&self) {
        self.change(Left::Nothing);
    }

    pub(super) fn search(&self, duty: Duty) {
        self.change(|room| Left::Search(room, duty));
    }

    pub(super) fn place(&self, take: impl FnOnce(Room) -> Place) {
        self.change(|room| Left::Place(take(room)));
    }

    fn change(&self, to: impl FnOnce(Room) -> Left) {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *left = match left.take() {
            Some(Left::Nothing(room) | Left::Search(room, _)) => Some(to(room)),
            // A place is left as it is.
            place => place,
        };
    }
}
