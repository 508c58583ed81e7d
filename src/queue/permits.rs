//! Permits of a semaphore, which Curator calls leases: several nodes of one caller, admitted together, by count.
//!
//! A contender that creates permits holds the semaphore's mutex meanwhile, so at most one contender has nodes that are not
//! admitted. Curator's waiters rely on that: two such contenders could count each other, and both would wait for ever. If the
//! mutex is lost, the nodes are deleted, and the mutex is acquired again. All nodes of a caller are created before they are
//! counted, so that of two callers that ask for several permits neither waits with a part of them.
//!
//! A try waits for callers that are entering, and for no holder. It counts the permits before it enters, and again and again while
//! it waits for the mutex: a caller that has the mutex and waits for permits has its nodes among them, so the count then exceeds
//! the limit.
//!
//! One session task does all of it: a caller that does not poll its future must not keep the mutex.
//!
//! Permits that other processes only keep are not counted at first: they are deleted when a caller comes to the mutex.
//!
//! A contender that counts too many children waits for a change of the children or of the limit. If the
//! [gap rule](super::rules::gap) says that no other client created anything since a listing, no listing is needed: others can
//! only have left since then, so the contenders of that listing and ours are an upper bound.

use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::sleep;
use tracing::Instrument;

use super::create::{Placement, create_node};
use super::driver::{PermitOf, QueueDriver};
use super::entry::{LONGEST_REACTION, list, prove_session};
use super::hold::OwnedHold;
use super::leaving::list_for_try;
use super::local_queue::NodeSpec;
use super::node::OwnedNode;
use super::passed_permits::InLine;
use super::path_nodes::PathNodes;
use super::queued_flag::QueuedFlag;
use super::request::{EntryAborted, Request, Requester, closed_error};
use super::retries::Callers;
use super::session_nodes::{CurrentNodes, SessionNodes};
use super::wait::POLL_INTERVAL;
use crate::client::{ChildrenWatch, Failure, Listing};
use crate::clock::BootInstant;
use crate::error::Error;
use crate::lock_path::LockPath;
use crate::metrics::Operation;
use crate::queue::rules::admission::Position;
use crate::session::lease::LeaseTerm;
use crate::session::retry::RetryLoop;

/// The number of trips in which other processes give up the permits that they only keep. It is their answer to the node of a try,
/// or of a caller before it, under the mutex.
const REACTION: u32 = 8;

/// The pauses of a try between two counts, while other callers enter.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The number of permits of a semaphore. A clone notices the changes since the last look at the original.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    fixed: i32,
    /// Replaces `fixed`. Zero as long as no value is known.
    live: Option<watch::Receiver<Option<i32>>>,
}

impl Limit {
    pub(crate) fn fixed(fixed: i32) -> Self {
        Self { fixed, live: None }
    }

    pub(crate) fn live(live: watch::Receiver<Option<i32>>) -> Self {
        Self { fixed: 0, live: Some(live) }
    }

    /// Returns the limit; 0 if it is negative.
    pub(crate) fn now(&self) -> usize {
        let now = self.live.as_ref().map_or(self.fixed, |live| live.borrow().unwrap_or(0));
        usize::try_from(now).unwrap_or(0)
    }

    /// Fails if `asked` permits can never be acquired. A live limit may be zero for a while.
    pub(crate) fn check(&self, path: &LockPath, asked: usize) -> Result<(), Error> {
        let limit = self.now().max(usize::from(self.live.is_some()));
        if (1..=limit).contains(&asked) {
            return Ok(());
        }
        let value = format!("{asked} for {path}");
        let reason = format!("there are {limit} leases, and at least one must be asked for");
        Err(Error::invalid("count", value, &reason).at(path))
    }

    /// Returns the limit, and notices the changes from now on.
    fn look(&mut self) -> usize {
        self.live.iter_mut().for_each(watch::Receiver::mark_unchanged);
        self.now()
    }

    /// Returns true if the limit has changed since the last look, or can change no more.
    pub(super) fn has_changed(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.has_changed().unwrap_or(true))
    }

    /// Resolves when the limit has changed since the last look.
    pub(super) async fn changed(&mut self) {
        if let Some(live) = &mut self.live
            && live.changed().await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }
}

/// The answer to a caller. [`Busy`](crate::ErrorKind::Busy) if there are too few permits, and the caller asked not to wait.
pub(super) type Answer = Result<Vec<OwnedHold>, Error>;

/// A request for several permits.
#[derive(Debug)]
pub(crate) struct PermitRequest {
    /// The request for each of the nodes.
    pub(crate) permit: Arc<Request>,
    /// The request for the mutex.
    pub(crate) mutex: Arc<Request>,
    pub(crate) count: usize,
    pub(crate) limit: Limit,
    /// True once the servers said that there are too few permits, or that another contender has the mutex.
    pub(crate) queued: QueuedFlag,
}

/// Acquires permits, in a session task. Dropping the future withdraws: the task ends when its reply has no receiver. `mutex` is
/// the queue of the semaphore's mutex.
pub(super) async fn contend(
    current_nodes: &Arc<CurrentNodes>,
    mutex: Arc<QueueDriver>,
    request: PermitRequest,
) -> Answer {
    let PermitRequest { permit, mutex: mutex_request, count, limit, queued } = request;
    let (caller, reply) = oneshot::channel();
    let path = permit.path.clone();
    let span = tracing::info_span!("acquire", %path, leases = count);
    let task = PermitTask {
        current_nodes: current_nodes.clone(),
        request: permit,
        mutex,
        mutex_request,
        queued,
        requester: Requester::current(),
        count,
    };
    current_nodes.connection.spawn(task.run(limit, caller).instrument(span));
    // The task answers before it ends, unless its runtime shuts down.
    reply.await.unwrap_or_else(|_| Err(Error::closed().at(&path)))
}

struct PermitTask {
    current_nodes: Arc<CurrentNodes>,
    request: Arc<Request>,
    mutex: Arc<QueueDriver>,
    mutex_request: Arc<Request>,
    queued: QueuedFlag,
    requester: Requester,
    count: usize,
}

impl PermitTask {
    /// Answers the caller, unless it leaves.
    async fn run(self, mut limit: Limit, mut caller: oneshot::Sender<Answer>) {
        let connection = &self.current_nodes.connection;
        let answer = tokio::select! {
            biased;
            () = caller.closed() => return,
            () = connection.closing().cancelled() => {
                Err(self.request.session_error(Error::closed()))
            }
            answer = self.until_held(&mut limit) => answer,
        };
        // If the caller has left, the holds come back, and are dropped.
        drop(caller.send(answer));
    }

    /// Makes attempts, in one session after another, until one succeeds.
    async fn until_held(&self, limit: &mut Limit) -> Answer {
        let connection = &self.current_nodes.connection;
        let mut retry = RetryLoop::new(&self.request.retry, Operation::ENTER);
        loop {
            let since = BootInstant::now();
            let cause = match self.attempt(limit).await {
                Ok(holds) => return Ok(holds),
                Err(EntryAborted::Failed(error)) => return Err(error),
                // The runtime shuts down.
                Err(EntryAborted::Abandoned) => return Err(Error::closed()),
                Err(EntryAborted::Retry(cause)) => cause,
            };
            if since.elapsed() > connection.settings.session_timeout {
                // The attempt went well for so long that this is a new failure.
                retry.restart();
            }
            if !retry.backoff(connection, &cause).await {
                return Err(self.request.gave_up(closed_error(connection).await, cause));
            }
        }
    }

    /// Makes one attempt in one session, under the mutex. Leaves nothing behind unless it succeeds.
    async fn attempt(&self, limit: &mut Limit) -> Result<Vec<OwnedHold>, EntryAborted> {
        if self.count == 1
            && let Some(hold) = self.join_kept(limit, false).await
        {
            return Ok(vec![hold]);
        }
        // The permits that are retained are deleted ahead of the creates.
        self.mutex.passed.delete_unwanted();
        let no_wait = self.request.waiter.no_wait;
        let mut reaction = Reaction { began: BootInstant::now(), limit: LONGEST_REACTION };
        if no_wait {
            self.check(limit, reaction).await?;
        }
        let trip = reaction.began.elapsed();
        reaction.limit = reaction.limit.min(REACTION * trip);
        // Dropped after the hold of the mutex.
        let in_line = InLine::new(&self.mutex);
        let request = self.mutex_request.clone();
        let requester = Requester::current();
        let mut waiting = self.mutex.join(request, requester, &self.queued, BootInstant::now());
        let mutex = tokio::select! {
            biased;
            answer = waiting.answer() => answer,
            aborted = self.until_full(limit, trip, reaction), if no_wait => return Err(aborted),
        };
        let mutex = match mutex {
            Some(answer) => answer.map_err(EntryAborted::Failed)?,
            None => return Err(EntryAborted::Abandoned),
        };
        in_line.becomes_head(self.count == 1);
        let nodes = self.current_nodes.wait(&self.request).await?;
        let session = nodes.session.clone();
        let mut entering = Entering::new(self, nodes, reaction);
        let holds = tokio::select! {
            biased;
            () = session.ended().cancelled() => Err(EntryAborted::Retry(None)),
            // Another contender may have the mutex now, and must not find nodes that are not admitted.
            () = mutex.state().ended().cancelled() => Err(EntryAborted::Retry(None)),
            admitted = entering.until_admitted(limit) => admitted,
        }?;
        // If one of the holds has ended, all are dropped; so they are if the connection is about to be closed.
        let all_last = holds.iter().all(|hold| hold.state().end().is_none());
        let closing = self.current_nodes.connection.closing().is_cancelled();
        if all_last && !closing { Ok(holds) } else { Err(EntryAborted::Retry(None)) }
    }

    /// Joins the queue of a permit that is kept for callers of this process, if one is.
    async fn join_kept(&self, limit: &Limit, is_head: bool) -> Option<OwnedHold> {
        while let Some(permit) = self.mutex.passed.next(limit.now(), is_head) {
            let request = self.request.clone();
            let joined = BootInstant::now();
            // It is answered at once, or after a listing of the contenders for the mutex.
            let mut waiting = permit.join(request, self.requester, &QueuedFlag::UNREAD, joined);
            if let Some(Ok(hold)) = waiting.answer().await {
                return Some(hold);
            }
        }
        None
    }

    /// Counts the permits while the mutex is waited for, with pauses that grow from two trips. Returns why the try ends.
    async fn until_full(&self, limit: &Limit, trip: Duration, reaction: Reaction) -> EntryAborted {
        let mut pause = 2 * trip;
        loop {
            pause = pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
            sleep(pause).await;
            if let Err(aborted) = self.check(limit, reaction).await {
                return aborted;
            }
            pause *= 2;
        }
    }

    /// Fails if fewer permits are free than the caller wants, so that a failing try creates no node.
    async fn check(&self, limit: &Limit, reaction: Reaction) -> Result<(), EntryAborted> {
        let nodes = self.current_nodes.wait(&self.request).await?;
        let is_full = |path_nodes: &PathNodes, listing: &Listing| {
            let counted = listing.children.len() - reaction.kept(path_nodes, listing);
            Ok(counted + self.count > limit.now())
        };
        list_for_try(&nodes, &self.request, is_full).await?;
        Ok(())
    }

    /// Returns the number of children, if all of ours are among them.
    fn count(
        &self,
        created: &[OwnedNode],
        listing: &Listing,
        entering: bool,
    ) -> Result<usize, EntryAborted> {
        let Some(OwnedNode { path_nodes, .. }) = created.first() else {
            return Err(EntryAborted::Retry(None));
        };
        if entering {
            self.request.check_unmixed(listing)?;
        }
        let children: HashSet<&str> = listing.children.iter().map(String::as_str).collect();
        if !created.iter().all(|own| children.contains(own.znode.name())) {
            return Err(EntryAborted::Retry(None));
        }
        let last = created.last().map(|own| path_nodes.judge(&own.znode, listing));
        match last {
            Some(Position::Among(count)) => Ok(count),
            _ => Err(EntryAborted::Retry(None)),
        }
    }
}

/// One attempt, while its nodes are created and counted.
struct Entering<'a> {
    task: &'a PermitTask,
    nodes: Arc<SessionNodes>,
    created: Vec<OwnedNode>,
    children: Count,
    watch: Notice,
    reaction: Reaction,
}

/// The time in which other processes give up the permits that they only keep.
#[derive(Clone, Copy, Debug)]
struct Reaction {
    began: BootInstant,
    limit: Duration,
}

impl Reaction {
    /// The number of permits in the listing that others may give up yet.
    fn kept(self, path_nodes: &PathNodes, listing: &Listing) -> usize {
        match self.began.elapsed() > self.limit {
            true => 0,
            false => path_nodes.may_be_kept_by_others(listing),
        }
    }
}

/// The number of children, ours included.
#[derive(Debug)]
enum Count {
    /// The number in a listing.
    Of(usize),
    /// The greatest number, by the gap rule.
    AtMost(usize),
    Unknown,
}

/// The way in which a change of the count is noticed.
#[derive(Debug)]
enum Notice {
    /// The children were not listed with a watch since the last change.
    None,
    Armed(ChildrenWatch),
    /// There was no room for a watch.
    NoRoom,
}

/// The node by which a head waits for one permit, and what it knows of the children.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) node: OwnedNode,
    pub(super) spec: NodeSpec,
    children: Count,
    watch: Notice,
}

impl<'a> Entering<'a> {
    fn new(task: &'a PermitTask, nodes: Arc<SessionNodes>, reaction: Reaction) -> Self {
        let created = Vec::new();
        let children = Count::Unknown;
        Self { task, nodes, created, children, watch: Notice::None, reaction }
    }

    fn callers(&self) -> Callers<'_> {
        Callers::One(&self.nodes.connection, &self.task.request)
    }

    /// Creates the nodes, and waits until they are admitted, or until another task gives up a permit.
    async fn until_admitted(&mut self, limit: &mut Limit) -> Result<Vec<OwnedHold>, EntryAborted> {
        if let Some(hold) = self.take_permit(limit).await {
            return Ok(vec![hold]);
        }
        self.take_seat();
        let request = &self.task.request;
        while self.created.len() < self.task.count {
            let owner = &self.task.mutex.nodes;
            let created = create_node(&self.nodes, request, owner, self.callers(), None);
            let (node, placement) = created.await?;
            self.children = match placement {
                Placement::Position(Position::Among(count)) => Count::AtMost(count),
                Placement::Listing(listing, _) => {
                    request.check_unmixed(&listing)?;
                    match node.path_nodes.judge(&node.znode, &listing) {
                        Position::Among(count) => Count::Of(count),
                        _ => return Err(EntryAborted::Retry(None)),
                    }
                }
                Placement::Position(_) | Placement::Unknown => Count::Unknown,
            };
            self.created.push(node);
        }
        self.wait(limit).await
    }

    /// Takes a permit that another task of this process has released, and leaves the own seat to the next head.
    async fn take_permit(&mut self, limit: &Limit) -> Option<OwnedHold> {
        let PermitTask { request, mutex, count: 1, .. } = self.task else { return None };
        let hold = self.task.join_kept(limit, true).await?;
        if let Some(node) = self.created.pop() {
            let spec = request.waiter.node.clone();
            let children = std::mem::replace(&mut self.children, Count::Unknown);
            let watch = std::mem::replace(&mut self.watch, Notice::None);
            mutex.passed.leave_seat(Seat { node, spec, children, watch });
        }
        Some(hold)
    }

    /// Takes over the node by which the head before waited.
    fn take_seat(&mut self) {
        let PermitTask { request, mutex, count: 1, .. } = self.task else { return };
        let seat = mutex.passed.take_seat(&self.nodes.session, &request.waiter.node);
        if let Some(Seat { node, children, watch, .. }) = seat {
            self.created.push(node);
            self.children = children;
            self.watch = watch;
        }
    }

    async fn wait(&mut self, limit: &mut Limit) -> Result<Vec<OwnedHold>, EntryAborted> {
        let PermitTask { request, mutex, queued, .. } = self.task;
        let mut entering = matches!(self.children, Count::Unknown);
        loop {
            if let Some(hold) = self.take_permit(limit).await {
                return Ok(vec![hold]);
            }
            if let Count::Of(count) | Count::AtMost(count) = self.children
                && count <= limit.look()
            {
                // Invariant 2: our nodes were seen in this session, and the lease lasts now.
                let lease = &self.nodes.session.lease;
                match lease.term(request.waiter.term, BootInstant::now()) {
                    Some(term) => return Ok(self.hold(&term, limit)),
                    None => prove_session(&self.nodes.session, request, self.callers()).await?,
                }
            } else if let Count::Of(count) = self.children {
                queued.set(true);
                limit.check(&request.path, self.created.len()).map_err(EntryAborted::Failed)?;
                if request.waiter.no_wait {
                    // It is full of permits that others may only keep.
                    sleep(SHORTEST_PAUSE.max(self.reaction.limit / REACTION)).await;
                } else if !matches!(self.watch, Notice::None) {
                    tracing::debug!(count, limit = limit.now(), "waits");
                    tokio::select! {
                        biased;
                        () = self.watch.changed() => {}
                        () = limit.changed() => {}
                        () = mutex.passed.added() => continue,
                    }
                }
            }
            // The count of our own nodes is old also after a change of the limit.
            let listing = self.list_and_watch(limit, entering).await?;
            self.children = Count::Of(self.task.count(&self.created, &listing, entering)?);
            entering = false;
        }
    }

    /// Begins a hold by each node.
    fn hold(&mut self, term: &Arc<LeaseTerm>, limit: &Limit) -> Vec<OwnedHold> {
        let PermitTask { request, mutex, mutex_request, requester, .. } = self.task;
        let hold = |node| {
            let permit = PermitOf {
                mutex: mutex.clone(),
                locks: mutex_request.path.clone(),
                limit: limit.clone(),
            };
            QueueDriver::hold_permit(permit, node, request, *requester, term.clone())
        };
        std::mem::take(&mut self.created).into_iter().map(hold).collect()
    }

    /// Lists the children, with a watch if there is room for it. A try fails if there are too many, and needs no watch.
    async fn list_and_watch(
        &mut self,
        limit: &Limit,
        entering: bool,
    ) -> Result<Listing, EntryAborted> {
        let Self { task, nodes, created, reaction, .. } = &*self;
        let request = &task.request;
        let path = request.path.as_str();
        if request.waiter.no_wait {
            let is_full = |path_nodes: &PathNodes, listing: &Listing| {
                let count = task.count(created, listing, entering)?;
                Ok(count - reaction.kept(path_nodes, listing) > limit.now())
            };
            let listing = list_for_try(nodes, request, is_full).await?;
            return listing.ok_or(EntryAborted::Retry(None));
        }
        let Some(room) = nodes.session.try_reserve_watch(path) else {
            let listing = list(nodes, request, self.callers(), false).await?;
            self.watch = Notice::NoRoom;
            return listing.ok_or(EntryAborted::Retry(None));
        };
        let ask = || async { nodes.session.client()?.list_and_watch(path).await };
        match self.callers().retried(ask).await? {
            Ok((listing, watch)) => {
                self.watch = Notice::Armed(watch.with(room));
                Ok(listing)
            }
            // The path was deleted with our nodes.
            Err(Failure::NoNode) => Err(EntryAborted::Retry(None)),
            Err(failure) => Err(request.aborted(path, "list", failure)),
        }
    }
}

impl Notice {
    /// Waits for a change of the children, or for a while if there was no room for a watch.
    async fn changed(&mut self) {
        match self {
            Self::Armed(watch) => poll_fn(|context| watch.poll_fired(context)).await,
            Self::NoRoom | Self::None => sleep(POLL_INTERVAL).await,
        }
    }
}
