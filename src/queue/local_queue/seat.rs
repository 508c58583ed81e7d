//! The seat: the states of a local queue, and what is known of a node that is first.

use std::sync::Arc;

use super::effects::{Begin, Effects};
use super::state::{Admitted, Alone, Queued, Seat, State, Waiter};
use crate::client::{ChildrenWatch, Listing};
use crate::error::Error;
use crate::lock::Mutex;
use crate::queue::request::Request;
use crate::session::lease::Term;

impl State {
    /// I3: the seat, if it is that of the hold.
    pub(super) fn take_held(&mut self, hold: u64) -> Option<Admitted> {
        match std::mem::replace(&mut self.seat, Seat::Empty) {
            Seat::Held(admitted) if self.hold == hold => Some(admitted),
            other => {
                self.seat = other;
                None
            }
        }
    }

    /// I4: called under the lock under which the term was asked for.
    pub(super) fn begin(&mut self, mut admitted: Admitted, term: Arc<Term>, effects: &mut Effects) {
        let Some((_, waiter)) = self.waiters.pop_first() else { return };
        self.hold += 1;
        let tries = self.take_tries();
        effects.answers.extend(tries.into_iter().map(|waiter| (waiter.reply, Ok(None))));
        effects.queued.extend(self.take_untold());
        if !self.waiters.is_empty() {
            admitted.ask(effects);
        }
        // What is asked of the holder counts for the node.
        admitted.request = waiter.request.clone();
        let node = admitted.node.share();
        self.seat = Seat::Held(admitted);
        effects.begin = Some(Begin { waiter, term, hold: self.hold, node });
    }

    /// Those that asked not to wait.
    pub(super) fn take_tries(&mut self) -> Vec<Waiter> {
        match std::mem::take(&mut self.has_tries) {
            true => self.take_all(|waiter| waiter.request.only_if_free),
            false => Vec::new(),
        }
    }

    /// Those that have to hear that they wait.
    pub(super) fn take_untold(&mut self) -> Vec<Queued> {
        match std::mem::take(&mut self.has_untold) {
            true => self.waiters.values().map(|waiter| waiter.queued.clone()).collect(),
            false => Vec::new(),
        }
    }

    /// Takes out all that are meant.
    pub(super) fn take_all(
        &mut self,
        mut is_meant: impl FnMut(&mut Waiter) -> bool,
    ) -> Vec<Waiter> {
        let mut taken = Vec::new();
        for (ticket, mut waiter) in std::mem::take(&mut self.waiters) {
            if is_meant(&mut waiter) {
                taken.push(waiter);
            } else {
                self.waiters.insert(ticket, waiter);
            }
        }
        taken
    }

    pub(super) fn fail_all(&mut self, error: impl Fn(&Request) -> Error, effects: &mut Effects) {
        let failed = std::mem::take(&mut self.waiters).into_values();
        let answers = failed.map(|waiter| (waiter.reply, Err(error(&waiter.request))));
        effects.answers.extend(answers);
    }
}

impl Seat {
    /// Whether the servers said that another contender is first.
    pub(super) fn is_taken(&self) -> bool {
        matches!(self, Self::Held(_) | Self::Entering { behind: true })
    }

    pub(super) fn admitted(&mut self, czxid: i64) -> Option<&mut Admitted> {
        match self {
            Self::Held(admitted) | Self::Idle(admitted, _) => {
                (admitted.node.node.czxid == czxid).then_some(admitted)
            }
            Self::Empty | Self::Entering { .. } => None,
        }
    }
}

impl Admitted {
    /// The conditions of passing on that are the node's.
    pub(super) fn may_pass(&self) -> bool {
        self.node.node.is_on_its_link() && !self.node.node.is_revoked()
    }

    pub(super) fn is_alone(&self) -> bool {
        match &self.alone {
            Alone::Yes(watch) => !watch.lock().has_fired(),
            Alone::NotAsked | Alone::Asked | Alone::Over => false,
        }
    }

    /// Whether it is known if it is alone. While it is, it serves all tasks that have asked by now.
    pub(super) fn looks_alone(&mut self, next_ticket: u64) -> bool {
        if self.is_alone() {
            self.serves = next_ticket;
        } else if matches!(self.alone, Alone::Yes(_)) {
            self.alone = Alone::Over;
        }
        !matches!(self.alone, Alone::Asked)
    }

    pub(super) fn joined(&mut self, ticket: u64) {
        self.looks_alone(ticket + 1);
    }

    pub(super) fn answered(&mut self, answer: Option<(Listing, ChildrenWatch)>, next_ticket: u64) {
        let node = &self.node;
        self.alone = match answer {
            Some((listing, watch)) if node.siblings.is_alone(&node.node, &listing) => {
                Alone::of(watch)
            }
            _ => Alone::Over,
        };
        self.looks_alone(next_ticket);
    }

    /// Asks whether it is alone, once.
    pub(super) fn ask(&mut self, effects: &mut Effects) {
        if matches!(self.alone, Alone::NotAsked) {
            let room = self.node.nodes.epoch.room_at_once(self.node.siblings.path.as_str());
            self.alone = if room.is_some() { Alone::Asked } else { Alone::Over };
            effects.ask = room;
        }
    }
}

impl Alone {
    pub(in crate::queue) fn of(watch: ChildrenWatch) -> Self {
        Self::Yes(Arc::new(Mutex::new(watch)))
    }

    pub(super) fn watch(&self) -> Option<Arc<Mutex<ChildrenWatch>>> {
        match self {
            Self::Yes(watch) => Some(watch.clone()),
            Self::NotAsked | Self::Asked | Self::Over => None,
        }
    }
}
