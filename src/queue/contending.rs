//! The caller's future.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::driver::QueueDriver;
use super::entry::list;
use super::hold::{Answer, OwnedHold};
use super::local_queue::Ticket;
use super::queued_flag::QueuedFlag;
use super::request::{EntryAborted, Request};
use crate::clock::Moment;
use crate::error::{Error, Released};
use crate::metrics::Acquiring;
use crate::session::NoSession;

/// The caller's end of a contender. Dropping it withdraws.
#[derive(Debug)]
pub(crate) struct Contending {
    queue: Arc<QueueDriver>,
    request: Arc<Request>,
    queued: QueuedFlag,
    began: Moment,
    stage: Stage,
    acquiring: Acquiring,
}

#[derive(Debug)]
enum Stage {
    Looks(oneshot::Receiver<Result<bool, Error>>),
    Waits(Waiting),
    Busy,
    Over,
}

impl Contending {
    /// Queues up; or looks first whether the lock is free, if the request asks for that.
    pub(super) fn new(queue: Arc<QueueDriver>, request: Arc<Request>, queued: QueuedFlag) -> Self {
        queued.set(false);
        let acquiring = request.counted.acquiring();
        let began = Moment::now();
        let looks = request.check_first
            && request.companion.is_none()
            && queue.current_nodes.rules.look_first;
        let stage = match looks && !queue.is_kept() {
            true if queue.is_busy() => Stage::Busy,
            true => Stage::Looks(look(queue.clone(), request.clone())),
            false => Stage::Waits(queue.join(request.clone(), &queued, began)),
        };
        Self { queue, request, queued, began, stage, acquiring }
    }

    /// Queues up with the node of a lost hold.
    pub(super) fn again(
        queue: Arc<QueueDriver>,
        request: Arc<Request>,
        queued: QueuedFlag,
        lost: OwnedHold,
    ) -> Self {
        queued.set(false);
        let acquiring = request.counted.acquiring();
        let stage = Stage::Waits(lost.requeue(&queue, request.clone(), &queued));
        Self { queue, request, queued, began: Moment::now(), stage, acquiring }
    }

    /// Needs no runtime.
    pub(crate) async fn answer(&mut self) -> Answer {
        let connection = self.queue.connection().clone();
        let answer = tokio::select! {
            biased;
            () = connection.closing().cancelled() => Err(self.request.session_error(Error::closed())),
            answer = self.until_answered() => answer,
        };
        self.stage = Stage::Over;
        self.acquiring.answered(&answer);
        answer
    }

    async fn until_answered(&mut self) -> Answer {
        // A task answers, unless its runtime is gone.
        let gone = || self.request.session_error(Error::closed());
        loop {
            match &mut self.stage {
                Stage::Looks(told) => match told.await.map_err(|_| gone())?? {
                    true => return Ok(None),
                    false => {
                        let waiting =
                            self.queue.join(self.request.clone(), &self.queued, self.began);
                        self.stage = Stage::Waits(waiting);
                    }
                },
                Stage::Waits(waiting) => {
                    return waiting.answer().await.unwrap_or_else(|| Err(gone()));
                }
                Stage::Busy => return Ok(None),
                Stage::Over => return Err(gone()),
            }
        }
    }

    /// Leaves the queue, releases the hold if there is one by now, and waits until the servers know, at most for
    /// `patience`.
    pub(crate) async fn withdraw(self, patience: Duration) -> Result<Released, Error> {
        if let Stage::Waits(waiting) = self.stage
            && let Some(hold) = waiting.withdraw()
        {
            return hold.release().await;
        }
        self.queue.nodes.close();
        let left = timeout(patience, self.queue.nodes.wait()).await;
        Ok(if left.is_ok() { Released::Confirmed } else { Released::Pending })
    }
}

/// A caller's place. Dropping it leaves the queue; a hold that was sent comes back.
#[derive(Debug)]
pub(super) struct Waiting {
    queue: Arc<QueueDriver>,
    ticket: Ticket,
    answer: oneshot::Receiver<Answer>,
}

impl Waiting {
    pub(super) fn new(
        queue: Arc<QueueDriver>,
        ticket: Ticket,
        answer: oneshot::Receiver<Answer>,
    ) -> Self {
        Self { queue, ticket, answer }
    }

    /// Needs no runtime. `None` if the session's is gone.
    pub(super) async fn answer(&mut self) -> Option<Answer> {
        (&mut self.answer).await.ok()
    }

    /// Leaves; gives the hold if there is one by now.
    pub(super) fn withdraw(mut self) -> Option<OwnedHold> {
        self.queue.withdraw(self.ticket);
        self.answer.close();
        self.answer.try_recv().ok()?.ok()?
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.queue.withdraw(self.ticket);
    }
}

/// Looks whether the lock is free, in a task of the session's, before a node is made for nothing. Tells whether it is busy.
fn look(queue: Arc<QueueDriver>, request: Arc<Request>) -> oneshot::Receiver<Result<bool, Error>> {
    let (tell, told) = oneshot::channel();
    let connection = queue.connection().clone();
    connection.spawn(async move {
        let looked = async {
            let nodes = queue.current_nodes.present_nodes().await.map_err(|none| match none {
                NoSession::NotConnected => EntryAborted::Failed(request.exhausted(None)),
                NoSession::Closed(error) => EntryAborted::Failed(request.session_error(error)),
            })?;
            // A server that lags would call a lock busy whose release was confirmed elsewhere.
            let listing = tokio::select! {
                biased;
                () = nodes.session.ended().cancelled() => None,
                listing = list(&nodes, &request, true) => listing?,
            };
            let Some(listing) = listing else { return Ok(false) };
            let path_nodes = nodes.at(&request.path, &request.family);
            match path_nodes.family.other_recipe(&listing.children) {
                Some(child) => Err(EntryAborted::Failed(request.mixed(child))),
                None => Ok(path_nodes.is_busy(&listing, request.is_shared())),
            }
        };
        let looked = match looked.await {
            Err(EntryAborted::Failed(error)) => Err(error),
            Ok(busy) => Ok(busy),
            // The create will say.
            Err(_) => Ok(false),
        };
        let _ = tell.send(looked); // whoever asked may not wait any more
    });
    told
}
