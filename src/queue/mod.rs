//! The primitive: tasks that wait for their turn at a lock path, and the nodes that stand for them at the servers.
//!
//! A caller joins a [local queue](local_queue) and waits; dropping its future, at any time, leaves it (invariant 3). One
//! task of the session's [makes an entry](entry): it creates a node, and waits until that is first. A hold has no task:
//! a release passes the seat on, or hands the delete to the client. Each node belongs to one epoch and has a
//! GUID of its own; when the epoch ends, what it may have left at the servers becomes a duty of the next, and the seat is
//! taken again.

mod by_path;
mod create;
mod driver;
mod entry;
mod epoch_nodes;
mod epochs;
mod hold;
mod leases;
mod local_queue;
mod node;
mod node_monitor;
mod parent;
mod request;
mod rounds;
pub(crate) mod rules;
mod shortcuts;
mod siblings;
mod wait;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use self::by_path::ByPath;
use self::driver::{QueueDriver, Waiting};
use self::entry::list;
use self::epochs::Epochs;
pub(crate) use self::hold::{Answer, End, Hold, HoldState, Queued};
pub(crate) use self::leases::{LeaseContending, LeaseRequest, Limit};
pub(crate) use self::request::Request;
use self::request::Stop;
use self::rules::admission::Family;
pub use self::shortcuts::Shortcuts;
use crate::clock::Moment;
use crate::error::{Error, Released};
use crate::lock_path::LockPath;
use crate::metrics::Acquiring;
use crate::session::{NoEpoch, Session};

/// All local queues of a session.
pub(crate) struct Queues {
    epochs: Arc<Epochs>,
    /// Those in which tasks take turns.
    shared: ByPath<QueueDriver>,
}

impl Queues {
    pub(crate) fn new(session: Arc<Session>, rules: Shortcuts) -> Arc<Self> {
        Arc::new(Self { epochs: Epochs::new(session, rules), shared: ByPath::new() })
    }

    fn queue(&self, request: &Request) -> Arc<QueueDriver> {
        let new = || QueueDriver::new(&self.epochs, request.family.clone());
        if request.takes_turns {
            self.shared.at(&request.path, |queue| queue.family == request.family, new)
        } else {
            new()
        }
    }

    /// Queues up.
    pub(crate) fn contend(&self, request: Request, queued: Queued) -> Contending {
        queued.send_replace(false);
        let (queue, acquiring) = (self.queue(&request), request.counted.acquiring());
        let (request, began) = (Arc::new(request), Moment::now());
        let looks = request.looks_first && request.beside.is_none() && self.epochs.rules.look_first;
        let stage = match looks && !queue.is_kept() {
            true if queue.is_busy() => Stage::Busy,
            true => Stage::Looks(look(queue.clone(), request.clone())),
            false => Stage::Waits(queue.join(request.clone(), &queued, began)),
        };
        Contending { queue, request, queued, began, stage, acquiring }
    }

    /// How many tasks wait under a node that another one holds or waits with.
    pub(crate) fn waiting(&self, path: &LockPath, family: &Family) -> usize {
        let queue = self.shared.find(path, |queue| queue.family == *family);
        queue.map_or(0, |queue| queue.queued())
    }

    /// Queues up with the node of a hold that was lost, if that is still there: no other contender can have held meanwhile, unless the
    /// node was gone.
    pub(crate) fn contend_again(&self, request: Request, queued: Queued, lost: Hold) -> Contending {
        queued.send_replace(false);
        let (acquiring, began) = (request.counted.acquiring(), Moment::now());
        let request = Arc::new(request);
        let queue = lost.driver().unwrap_or_else(|| self.queue(&request));
        let stage = Stage::Waits(lost.requeue(&queue, request.clone(), &queued));
        Contending { queue, request, queued, began, stage, acquiring }
    }

    /// Asks for leases.
    pub(crate) fn contend_for_leases(&self, request: LeaseRequest) -> LeaseContending {
        leases::contend(&self.epochs, self.queue(&request.lock), request)
    }
}

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queues").field("session", &self.epochs.session).finish_non_exhaustive()
    }
}

/// Looks whether the lock is free, in a task of the session's, before a node is made for nothing. Tells whether it is busy.
fn look(queue: Arc<QueueDriver>, request: Arc<Request>) -> oneshot::Receiver<Result<bool, Error>> {
    let (tell, told) = oneshot::channel();
    let session = queue.session().clone();
    session.spawn(async move {
        let looked = async {
            let nodes = queue.epochs.present_nodes().await.map_err(|none| match none {
                NoEpoch::NotNow => Stop::Failed(request.exhausted(None)),
                NoEpoch::Over(error) => Stop::Failed(request.session_error(error)),
            })?;
            // A server that lags would call a lock busy whose release was confirmed elsewhere.
            let listing = tokio::select! {
                biased;
                () = nodes.epoch.over().cancelled() => None,
                listing = list(&nodes, &request, true) => listing?,
            };
            let Some(listing) = listing else { return Ok(false) };
            let siblings = nodes.at(&request.path, &request.family);
            match siblings.family.other_recipe(&listing.children) {
                Some(child) => Err(Stop::Failed(request.mixed(child))),
                None => Ok(siblings.is_busy(&listing, request.is_shared())),
            }
        };
        let looked = match looked.await {
            Err(Stop::Failed(error)) => Err(error),
            Ok(busy) => Ok(busy),
            // The create will say.
            Err(_) => Ok(false),
        };
        let _ = tell.send(looked); // whoever asked may not wait any more
    });
    told
}

/// The caller's end of a contender. Dropping it withdraws.
#[derive(Debug)]
pub(crate) struct Contending {
    queue: Arc<QueueDriver>,
    request: Arc<Request>,
    queued: Queued,
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
    /// Needs no runtime.
    pub(crate) async fn answer(&mut self) -> Answer {
        let session = self.queue.session().clone();
        let answer = tokio::select! {
            biased;
            () = session.closing().cancelled() => Err(self.request.session_error(Error::closed())),
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
