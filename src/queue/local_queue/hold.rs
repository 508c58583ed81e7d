//! The ends of waiters and holders.

use std::future::Future;
use std::sync::{Arc, Weak};

use tokio::sync::oneshot;
use tracing::Instrument;

use super::state::{
    Admitted, Alone, Answer, Enter, GivenBack, Hold, LocalQueue, Queued, Seat, Start, Waiting,
};
use crate::clock::Moment;
use crate::error::{Error, ErrorKind, Loss, Released};
use crate::queue::epochs::Epochs;
use crate::queue::hold::{End, HoldState};
use crate::queue::node::{Left, OwnedNode, SharedNode};
use crate::queue::request::Request;
use crate::queue::rules::admission::Family;
use crate::queue::siblings::Owner;
use crate::session::duty::Cleaned;
use crate::session::epoch::Asker;
use crate::session::lease::Term;

impl Hold {
    pub(super) fn begin(
        queue: &Arc<LocalQueue>,
        number: u64,
        node: &SharedNode,
        request: &Request,
        asker: Asker,
        term: Arc<Term>,
    ) -> Self {
        let SharedNode { node, siblings, nodes } = node;
        let (path, beside) = (request.path.as_str(), request.beside.as_deref());
        let (epoch, counted) = (nodes.epoch.clone(), (asker, &request.counted));
        let state = HoldState::new(path, node.clone(), beside, epoch, term, counted);
        let owner: Weak<dyn Owner> = queue.me.clone();
        if !siblings.admitted(node, &owner, state.clone()) {
            state.node_is_gone();
            queue.clone().node_gone(node.czxid);
        }
        Self { state, number, queue: Some(queue.clone()) }
    }

    /// A hold by a node that was admitted otherwise: a lease.
    pub(in crate::queue) fn of_lease(
        epochs: &Arc<Epochs>,
        enter: Enter,
        (node, request): (OwnedNode, Arc<Request>),
        asker: Asker,
        term: Arc<Term>,
    ) -> Self {
        let (queue, shared) = (LocalQueue::new(epochs, Family::Leases, enter), node.share());
        let admitted = Admitted { node, request: request.clone(), alone: Alone::Over, serves: 0 };
        queue.state.lock().seat = Seat::Held(admitted);
        Self::begin(&queue, 0, &shared, &request, asker, term)
    }

    pub(crate) fn state(&self) -> &Arc<HoldState> {
        &self.state
    }

    pub(in crate::queue) fn queue(&self) -> Option<Arc<LocalQueue>> {
        self.queue.clone()
    }

    /// Releases; the future tells what is known of it. The release goes on if that is dropped, or not polled any
    /// more.
    pub(crate) fn release(
        mut self,
    ) -> impl Future<Output = Result<Released, Error>> + Send + use<> {
        let (state, span) = (self.state.clone(), self.span());
        let (end, given) = span.in_scope(|| self.let_go());
        let released = async move {
            let path = state.path().to_owned();
            if let End::Lost(loss) = end {
                tracing::warn!(path, %loss, "released what was lost before");
                return Err(Error::lost(path, loss));
            }
            let told = match given {
                GivenBack::Passed => return Ok(Released::Confirmed),
                GivenBack::Leaving(told) => told.await,
                GivenBack::Gone => Ok(Left::Confirmed(Cleaned::Gone)),
            };
            match told {
                // When the session ended, the hold had been given up before, while it lasted.
                Ok(Left::Confirmed(Cleaned::Deleted | Cleaned::SessionOver)) => {
                    Ok(Released::Confirmed)
                }
                Ok(Left::Confirmed(Cleaned::Gone)) => Err(Error::lost(path, Loss::NodeDeleted)),
                Ok(Left::NoAuth) => {
                    let text = format!(
                        "no permission to delete {}: the lock stays taken until the session ends",
                        state.node()
                    );
                    Err(Error::new(ErrorKind::PermissionDenied, text).at(state.node()))
                }
                Ok(Left::Late(waited)) => {
                    tracing::warn!(path, ?waited, "the release is not confirmed yet");
                    Ok(Released::Pending)
                }
                // The runtime is gone.
                Err(_) => Err(Error::lost(path, Loss::Closed)),
            }
        };
        released.instrument(span)
    }

    fn span(&self) -> tracing::Span {
        let node = self.state.node().rsplit('/').next().unwrap_or_default();
        tracing::info_span!("release", path = self.state.path(), contender = node)
    }

    fn let_go(&mut self) -> (End, GivenBack) {
        match self.queue.take() {
            Some(queue) => queue.give_back(self.number, &self.state),
            None => (End::Released, GivenBack::Gone),
        }
    }

    /// Ends the hold, and has its node contend again: no other contender can have held meanwhile, unless the node was gone.
    pub(in crate::queue) fn again(
        mut self,
        request: Arc<Request>,
        queued: &Queued,
    ) -> Option<Waiting> {
        self.state.finish(End::Released);
        self.state.close_fence();
        let queue = self.queue.take()?;
        let waiting = queue.join(request, queued, Moment::now());
        if let Some(node) = queue.again(self.number) {
            (queue.enter)(queue.clone(), Start::Again(node));
        }
        waiting
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.queue.is_some() {
            // A task of the session's sees to the delete: to start one needs no runtime here.
            self.span().in_scope(|| drop(self.let_go()));
        }
    }
}

impl Waiting {
    pub(super) fn new(
        queue: &Arc<LocalQueue>,
        ticket: u64,
        answer: oneshot::Receiver<Answer>,
    ) -> Self {
        Self { queue: queue.clone(), ticket, answer }
    }

    /// Needs no runtime. `None` if the session's is gone.
    pub(in crate::queue) async fn answer(&mut self) -> Option<Answer> {
        (&mut self.answer).await.ok()
    }

    /// Leaves; gives the hold if there is one by now.
    pub(in crate::queue) fn withdraw(mut self) -> Option<Hold> {
        self.queue.leaves(self.ticket);
        self.answer.close();
        self.answer.try_recv().ok()?.ok()?
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.queue.leaves(self.ticket);
    }
}
