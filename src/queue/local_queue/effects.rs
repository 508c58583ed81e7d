//! What is to be done when the lock of a local queue is let go of (I7).

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio_util::sync::CancellationToken;

use super::idle::{ask_whether_alone, keep_for, until_news};
use super::state::{Answer, Hold, LocalQueue, Queued, Seat, Start, Waiter};
use crate::client::ChildrenWatch;
use crate::lock::Mutex;
use crate::queue::node::{Leaving, Left, SharedNode};
use crate::queue::request::Request;
use crate::session::lease::{Over, Term};

/// What is to be done when the lock is let go of.
#[derive(Default)]
pub(super) struct Effects {
    pub(super) leaving: Option<Leaving>,
    pub(super) enter: Option<Start>,
    pub(super) begin: Option<Begin>,
    pub(super) ended: Option<Over>,
    /// Those that have to wait for another contender.
    pub(super) queued: Vec<Queued>,
    pub(super) answers: Vec<(oneshot::Sender<Answer>, Answer)>,
    pub(super) ask: Option<OwnedSemaphorePermit>,
    pub(super) keep: Option<(Arc<Request>, CancellationToken)>,
    /// The children of a kept node's path, which end that.
    pub(super) await_news: Option<(Arc<Mutex<ChildrenWatch>>, CancellationToken)>,
    pub(super) kept: Option<CancellationToken>,
}

/// A hold that begins.
pub(super) struct Begin {
    pub(super) waiter: Waiter,
    pub(super) term: Arc<Term>,
    pub(super) hold: u64,
    pub(super) node: SharedNode,
}

impl Effects {
    pub(super) fn answer(&mut self) {
        for (reply, answer) in self.answers.drain(..) {
            let _ = reply.send(answer); // who is gone needs none
        }
    }

    /// Gives what the delete comes to, if there was one.
    pub(super) fn run(mut self, queue: &Arc<LocalQueue>) -> Option<oneshot::Receiver<Left>> {
        let mut left = None;
        loop {
            if let Some(over) = self.ended.take() {
                over.wake();
            }
            if let Some(kept) = self.kept.take() {
                kept.cancel();
            }
            if let Some(start) = self.enter.take() {
                (queue.enter)(queue.clone(), start);
            }
            if let Some(leaving) = self.leaving.take() {
                left = Some(leaving.see_to());
            }
            self.queued.drain(..).for_each(|queued| _ = queued.send_replace(true));
            self.answer();
            self.watch_children(queue);
            let Some(begin) = self.begin.take() else { return left };
            match begin.run(queue) {
                None => return left,
                // Its waiter has left: the next one's turn.
                Some(effects) => self = effects,
            }
        }
    }

    pub(super) fn watch_children(&mut self, queue: &Arc<LocalQueue>) {
        if let Some((watch, end)) = self.await_news.take() {
            queue.session().spawn(until_news(queue.clone(), watch, end));
        }
        let (ask, keep) = (self.ask.take(), self.keep.take());
        if ask.is_none() && keep.is_none() {
            return;
        }
        let node = match &queue.state.lock().seat {
            Seat::Held(admitted) | Seat::Idle(admitted, _) => admitted.node.share(),
            Seat::Empty | Seat::Entering { .. } => return,
        };
        if let Some(room) = ask {
            queue.session().spawn(ask_whether_alone(queue.clone(), node.clone(), room));
        }
        if let Some((request, end)) = keep {
            queue.session().spawn(keep_for(queue.clone(), node, request, end));
        }
    }
}

impl Begin {
    /// Begins the hold. Returns what is to be done if its waiter has left.
    fn run(self, queue: &Arc<LocalQueue>) -> Option<Effects> {
        let Self { waiter: Waiter { request, asker, reply, .. }, term, hold, node } = self;
        let hold = Hold::begin(queue, hold, &node, &request, asker, term);
        let mut hold = reply.send(Ok(Some(hold))).err()?.ok()??;
        let (number, state) = (hold.number, hold.state.clone());
        let queue = hold.queue.take()?;
        queue.given_back(number, &state).1.map(|(effects, _)| effects)
    }
}
