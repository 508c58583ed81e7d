//! Listings that several entries of one path share: the readers behind one writer would else send one each, as long as all of them
//! together.
//!
//! The requests of a session are answered in order. So a listing that was sent after a znode of this session was created shows
//! that znode, whichever entry sent it.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::MutexGuard;

use crate::client::{Failure, Listing};
use crate::sync::Mutex;

/// A listing; `None` if the path does not exist.
pub(super) type Listed = Option<Arc<Listing>>;

/// The listings of one path in one session, of which one is under way at a time.
#[derive(Debug, Default)]
pub(super) struct Listings {
    turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of listings that were sent.
    sent: u64,
    /// The last one that was answered, and its number.
    answered: Option<(u64, Listed)>,
}

impl Listings {
    /// Begins a listing that others may await. `None` if one is under way.
    pub(super) fn begin(&self) -> Option<Begun<'_>> {
        let turn = self.turn.try_lock().ok()?;
        Some(self.begun(&mut self.state.lock(), turn))
    }

    fn begun<'a>(&'a self, state: &mut State, turn: MutexGuard<'a, ()>) -> Begun<'a> {
        state.sent += 1;
        Begun { listings: self, number: state.sent, _turn: turn }
    }

    /// Returns a listing that was sent during this call, by this caller or another one.
    pub(super) async fn list<F>(&self, send: impl FnOnce() -> F) -> Result<Listed, Failure>
    where
        F: Future<Output = Result<Listing, Failure>>,
    {
        let sent_before = self.state.lock().sent;
        let turn = self.turn.lock().await;
        let begun = {
            let mut state = self.state.lock();
            if let Some((number, listed)) = &state.answered
                && *number > sent_before
            {
                return Ok(listed.clone());
            }
            self.begun(&mut state, turn)
        };
        match send().await {
            Ok(listing) => Ok(begun.answered(Some(Arc::new(listing)))),
            Err(Failure::NoNode) => Ok(begun.answered(None)),
            Err(failure) => Err(failure),
        }
    }
}

/// A listing that is under way. The next one waits until this is dropped.
pub(super) struct Begun<'a> {
    listings: &'a Listings,
    number: u64,
    _turn: MutexGuard<'a, ()>,
}

impl Begun<'_> {
    /// Hands the answer to those that wait.
    pub(super) fn answered(self, listed: Listed) -> Listed {
        self.listings.state.lock().answered = Some((self.number, listed.clone()));
        listed
    }
}
