//! The caller's future.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::create::check_sequence;
use super::driver::QueueDriver;
use super::hold::{Answer, OwnedHold};
use super::leaving::list_for_try;
use super::local_queue::Ticket;
use super::path_nodes::PathNodes;
use super::queued_flag::QueuedFlag;
use super::request::{EntryAborted, Request, Requester};
use super::rules::gap::Creates;
use crate::client::Listing;
use crate::clock::BootInstant;
use crate::error::{Error, Released};
use crate::session::observed::Wait;

/// A caller's wait for a hold. Dropping it withdraws.
#[derive(Debug)]
pub(crate) struct Contending {
    queue: Arc<QueueDriver>,
    request: Arc<Request>,
    queued: QueuedFlag,
    began: BootInstant,
    stage: Stage,
    observed: Wait,
}

#[derive(Debug)]
enum Stage {
    /// A session task lists the path.
    Checking(oneshot::Receiver<Result<(), Error>>),
    Waiting(Waiting),
    Answered,
}

impl Stage {
    fn join(
        queue: &Arc<QueueDriver>,
        request: &Arc<Request>,
        queued: &QueuedFlag,
        began: BootInstant,
    ) -> Self {
        match queue.try_join(request, queued, began) {
            Some(waiting) => Self::Waiting(waiting),
            None => Self::Checking(spawn_check(queue.clone(), request.clone(), true)),
        }
    }
}

impl Contending {
    /// Queues up; if the request asks for a check, a session task lists the path first.
    pub(super) fn new(queue: Arc<QueueDriver>, request: Arc<Request>, queued: QueuedFlag) -> Self {
        queued.set(false);
        let observed = observed(&queue, &request);
        let began = BootInstant::now();
        let asks = request.check_first && request.companion.is_none();
        // The queue refuses at once if a task of this session has the lock, and a node that is kept needs no listing.
        let stage = match asks && !queue.is_taken() && !queue.costs_no_request() {
            true => Stage::Checking(spawn_check(queue.clone(), request.clone(), false)),
            false => Stage::join(&queue, &request, &queued, began),
        };
        Self { queue, request, queued, began, stage, observed }
    }

    /// Queues up with the node of a lost hold.
    pub(super) fn again(
        queue: Arc<QueueDriver>,
        request: Arc<Request>,
        queued: QueuedFlag,
        lost: OwnedHold,
    ) -> Self {
        queued.set(false);
        let observed = observed(&queue, &request);
        let stage = Stage::Waiting(lost.requeue(&queue, request.clone(), &queued));
        Self { queue, request, queued, began: BootInstant::now(), stage, observed }
    }

    /// Waits for the answer. Needs no runtime.
    pub(crate) async fn answer(&mut self) -> Answer {
        let connection = self.queue.connection().clone();
        let answer = tokio::select! {
            biased;
            () = connection.closing().cancelled() => {
                Err(self.request.session_error(Error::closed()))
            }
            answer = self.until_answered() => answer,
        };
        self.stage = Stage::Answered;
        self.observed.answered(&answer);
        answer
    }

    async fn until_answered(&mut self) -> Answer {
        // A session task answers, unless its runtime shuts down.
        let shut_down = || self.request.session_error(Error::closed());
        loop {
            match &mut self.stage {
                Stage::Checking(checked) => {
                    checked.await.map_err(|_| shut_down())??;
                    self.stage = Stage::join(&self.queue, &self.request, &self.queued, self.began);
                }
                Stage::Waiting(waiting) => {
                    return waiting.answer().await.unwrap_or_else(|| Err(shut_down()));
                }
                Stage::Answered => return Err(shut_down()),
            }
        }
    }

    /// Leaves the queue, releases the hold if there is one by now, and waits until the servers confirm it, at most for
    /// `patience`.
    pub(crate) async fn withdraw(self, patience: Duration) -> Result<Released, Error> {
        if let Stage::Waiting(waiting) = self.stage
            && let Some(hold) = waiting.withdraw()
        {
            return hold.release().await;
        }
        self.queue.nodes.close();
        let deleted = timeout(patience, self.queue.nodes.wait()).await;
        Ok(if deleted.is_ok() { Released::Confirmed } else { Released::Pending })
    }
}

fn observed(queue: &QueueDriver, request: &Request) -> Wait {
    let curator = queue.connection().id;
    Wait::begin(&request.counted, curator, Requester::current(), request.path.as_str())
}

/// A caller's place in the local queue. Dropping it leaves the queue; a hold that was sent already is released.
#[derive(Debug)]
pub(super) struct Waiting {
    queue: Arc<QueueDriver>,
    ticket: Ticket,
    answer: oneshot::Receiver<Answer>,
    /// True once the answer was received, when the caller is no longer in the queue.
    is_answered: bool,
}

impl Waiting {
    pub(super) fn new(
        queue: Arc<QueueDriver>,
        ticket: Ticket,
        answer: oneshot::Receiver<Answer>,
    ) -> Self {
        Self { queue, ticket, answer, is_answered: false }
    }

    /// Waits for the answer. Needs no runtime. `None` if the connection's runtime has shut down.
    pub(super) async fn answer(&mut self) -> Option<Answer> {
        let answer = (&mut self.answer).await;
        self.is_answered = true;
        answer.ok()
    }

    /// Leaves the queue, and returns the hold if there is one by now.
    pub(super) fn withdraw(mut self) -> Option<OwnedHold> {
        self.queue.withdraw(self.ticket);
        self.answer.close();
        self.answer.try_recv().ok()?.ok()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.is_answered {
            self.queue.withdraw(self.ticket);
        }
    }
}

/// Lists the path in a session task, so that a create that is refused all the same is not sent. The task ends with the caller.
/// `is_behind`: a node of this process is behind another contender, which would have given up a node that it only keeps.
fn spawn_check(
    queue: Arc<QueueDriver>,
    request: Arc<Request>,
    is_behind: bool,
) -> oneshot::Receiver<Result<(), Error>> {
    let (mut tx, rx) = oneshot::channel();
    let connection = queue.connection().clone();
    connection.spawn(async move {
        let checked = tokio::select! {
            biased;
            () = tx.closed() => return,
            checked = until_checked(&queue, &request, is_behind) => checked,
        };
        let _ = tx.send(checked); // the caller may have left
    });
    rx
}

async fn until_checked(
    queue: &QueueDriver,
    request: &Request,
    is_behind: bool,
) -> Result<(), Error> {
    loop {
        match check(queue, request, is_behind).await {
            Ok(()) => return Ok(()),
            Err(EntryAborted::Failed(error)) => return Err(error),
            // The create reports the error.
            Err(_) if request.waiter.no_wait => return Ok(()),
            // A caller that waits is checked in the next session.
            Err(_) => {}
        }
    }
}

/// Lists the path. Fails if a contender keeps out a caller that asked not to wait, or if a create would be refused for the other
/// nodes under the path, or for its number.
async fn check(
    queue: &QueueDriver,
    request: &Request,
    is_behind: bool,
) -> Result<(), EntryAborted> {
    let no_wait = request.waiter.no_wait;
    let nodes = queue.current_nodes.wait(request).await.map_err(|aborted| match aborted {
        EntryAborted::Retry(_) if no_wait => {
            let waited = queue.connection().settings.connection_timeout;
            EntryAborted::Failed(Error::unavailable(&request.path, Some(waited)))
        }
        aborted => aborted,
    })?;
    let is_kept_out = |path_nodes: &PathNodes, listing: &Listing| {
        request.check_unmixed(listing)?;
        // A contender that only keeps its node gives it up when it sees ours.
        let is_busy = path_nodes.is_busy(listing, request.is_shared());
        Ok(no_wait && is_busy && (is_behind || !path_nodes.may_be_kept(listing)))
    };
    let Some(listing) = list_for_try(&nodes, request, is_kept_out).await? else { return Ok(()) };
    let creates = Creates::of(listing.cversion, listing.num_children);
    check_sequence(request, creates.number().into())
}
