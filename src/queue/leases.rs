//! Leases: several nodes of one asker, admitted together, by a count.
//!
//! A contender that creates leases holds the mutex beside them, so only one at a time has nodes that are not admitted. That is what
//! Curator's waiters rely on: with two such, each could count the other, and both wait for ever. When the mutex is lost,
//! the nodes go, and it is taken again. All of the asker's nodes are made before it counts, so that of two callers that ask for several neither
//! waits with a part of them.
//!
//! A task of the session's does all of it: a caller that does not poll its future must not keep the mutex.
//!
//! A contender that counts too many waits for a change of the children, or of the limit. When the [gap rule](super::rules::gap) says that
//! no other client created anything since a listing, no listing is needed: the contenders of that time, which can only have
//! left since, and ours are the most there can be.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::{oneshot, watch};
use tokio::time::sleep;
use tracing::Instrument;

use super::create::{Placement, create_node};
use super::current_nodes::CurrentNodes;
use super::driver::QueueDriver;
use super::entry::{list, prove_session};
use super::hold::OwnedHold;
use super::node::OwnedNode;
use super::path_nodes::Position;
use super::queued_flag::QueuedFlag;
use super::request::{EntryAborted, Request, is_session_over};
use super::session_nodes::SessionNodes;
use super::wait::LOOK;
use crate::client::{ChildrenWatch, Failure, Listing};
use crate::clock::Moment;
use crate::error::Error;
use crate::lock_path::LockPath;
use crate::metrics::{self, Operation};
use crate::session::NoSession;
use crate::session::lease::LeaseTerm;
use crate::session::session::Requester;

/// How many leases there are.
#[derive(Debug)]
pub(crate) struct Limit {
    fixed: i32,
    /// In place of `fixed`.
    live: Option<watch::Receiver<i32>>,
}

/// The clone counts earlier changes as seen.
impl Clone for Limit {
    fn clone(&self) -> Self {
        let mut live = self.live.clone();
        live.iter_mut().for_each(watch::Receiver::mark_unchanged);
        Self { fixed: self.fixed, live }
    }
}

impl Limit {
    pub(crate) fn fixed(fixed: i32) -> Self {
        Self { fixed, live: None }
    }

    pub(crate) fn live(live: watch::Receiver<i32>) -> Self {
        Self { fixed: 0, live: Some(live) }
    }

    /// 0 if it is negative.
    pub(crate) fn now(&self) -> usize {
        let now = self.live.as_ref().map_or(self.fixed, |live| *live.borrow());
        usize::try_from(now).unwrap_or(0)
    }

    /// Whether `asked` leases can ever be had. A live limit may be zero for a while.
    pub(crate) fn check(&self, path: &LockPath, asked: usize) -> Result<(), Error> {
        let limit = self.now().max(usize::from(self.live.is_some()));
        if (1..=limit).contains(&asked) {
            return Ok(());
        }
        let value = format_args!("{asked} for {path}");
        let reason = format!("there are {limit} leases, and at least one must be asked for");
        Err(Error::invalid("count", value, &reason).at(path))
    }

    async fn changed(&mut self) {
        if let Some(live) = &mut self.live
            && live.changed().await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }
}

/// `None`: there are too few, and the caller asked not to wait.
type Answer = Result<Option<Vec<OwnedHold>>, Error>;

/// The caller's end. Dropping it withdraws.
#[derive(Debug)]
pub(crate) struct LeaseContending {
    path: LockPath,
    reply: oneshot::Receiver<Answer>,
}

impl LeaseContending {
    pub(crate) async fn answer(self) -> Answer {
        // The task answers before it ends, unless its runtime is gone.
        self.reply.await.unwrap_or_else(|_| Err(Error::closed().at(&self.path)))
    }
}

/// What is asked for.
#[derive(Debug)]
pub(crate) struct LeaseRequest {
    /// For each of the nodes.
    pub(crate) lease: Arc<Request>,
    /// For the mutex.
    pub(crate) lock: Arc<Request>,
    pub(crate) count: usize,
    pub(crate) limit: Limit,
    /// Whether the servers said that there are too few.
    pub(crate) full: QueuedFlag,
    /// Whether they said that another contender has the mutex.
    pub(crate) behind: QueuedFlag,
}

/// Asks for leases; `locks` is where one at a time queues for them.
pub(super) fn contend(
    current_nodes: &Arc<CurrentNodes>,
    locks: Arc<QueueDriver>,
    request: LeaseRequest,
) -> LeaseContending {
    let LeaseRequest { lease: request, lock, count, limit, full, behind } = request;
    let (caller, reply) = oneshot::channel();
    let path = request.path.clone();
    let span = tracing::info_span!("acquire", %path, leases = count);
    let current_nodes = current_nodes.clone();
    let asker = Requester::current();
    let leasing = Leasing { current_nodes, request, lock, locks, full, behind, asker, count };
    let connection = leasing.current_nodes.connection.clone();
    connection.spawn(leasing.run(limit, caller).instrument(span));
    LeaseContending { path, reply }
}

struct Leasing {
    current_nodes: Arc<CurrentNodes>,
    request: Arc<Request>,
    lock: Arc<Request>,
    locks: Arc<QueueDriver>,
    full: QueuedFlag,
    behind: QueuedFlag,
    asker: Requester,
    count: usize,
}

impl Leasing {
    async fn run(self, mut limit: Limit, mut caller: oneshot::Sender<Answer>) {
        let connection = self.current_nodes.connection.clone();
        let (mut began, mut retry) = (Moment::now(), self.request.retry.start());
        loop {
            let since = Moment::now();
            let tried = tokio::select! {
                biased;
                () = caller.closed() => return,
                () = connection.closing().cancelled() => {
                    Err(EntryAborted::Failed(self.request.session_error(Error::closed())))
                }
                tried = self.once(&mut limit) => tried,
            };
            let answer = match tried {
                Ok(holds) => Ok(Some(holds)),
                Err(EntryAborted::Abandoned) => return,
                Err(EntryAborted::Busy) => Ok(None),
                Err(EntryAborted::Failed(error)) => Err(error),
                Err(EntryAborted::Retry(cause)) => {
                    if since.elapsed() > connection.settings.session_timeout {
                        // It went well for so long that this is a new trouble.
                        (began, retry) = (Moment::now(), self.request.retry.start());
                    }
                    match retry.next_pause(began.elapsed()) {
                        Some(pause) => {
                            tracing::debug!(?cause, ?pause, "enters again");
                            metrics::retried(Operation::ENTER);
                            tokio::select! {
                                biased;
                                () = caller.closed() => return,
                                () = connection.closing().cancelled() => {}
                                () = connection.pause(pause) => {}
                            }
                            continue;
                        }
                        None => {
                            let over = is_session_over(&connection).await;
                            Err(self.request.gave_up(over, cause))
                        }
                    }
                }
            };
            // If the caller is gone, the holds come back, and are dropped.
            return drop(caller.send(answer));
        }
    }

    /// One try in one session, with the mutex, which is let go of at the end. Leaves nothing behind unless it succeeds.
    async fn once(&self, limit: &mut Limit) -> Result<Vec<OwnedHold>, EntryAborted> {
        let mut waiting = self.locks.join(self.lock.clone(), &self.behind, Moment::now());
        let lock = match waiting.answer().await {
            Some(answer) => answer.map_err(EntryAborted::Failed)?.ok_or(EntryAborted::Busy)?,
            None => return Err(EntryAborted::Abandoned),
        };
        // The wait for it says nothing of leases.
        self.behind.set(false);
        let nodes = self.current_nodes.present_nodes().await.map_err(|none| match none {
            NoSession::NotConnected => EntryAborted::Retry(None),
            NoSession::Closed(error) => EntryAborted::Failed(self.request.session_error(error)),
        })?;
        let session = nodes.session.clone();
        let mut entering = Entering { leasing: self, nodes, made: Vec::new() };
        let term = tokio::select! {
            biased;
            () = session.ended().cancelled() => Err(EntryAborted::Retry(None)),
            // Another contender may have it now: to wait here would be in its way.
            () = lock.state().ended().cancelled() => Err(EntryAborted::Retry(None)),
            term = entering.until_admitted(limit) => term,
        }?;
        let hold = |node| {
            QueueDriver::hold_lease(
                &self.current_nodes,
                node,
                &self.request,
                self.asker,
                term.clone(),
            )
        };
        let holds: Vec<_> = std::mem::take(&mut entering.made).into_iter().map(hold).collect();
        // If one is gone, the others go with this; and so if the session is about to be closed.
        let lasts = holds.iter().all(|hold| hold.state().end().is_none());
        let closing = self.current_nodes.connection.closing().is_cancelled();
        if lasts && !closing { Ok(holds) } else { Err(EntryAborted::Retry(None)) }
    }
}

struct Entering<'a> {
    leasing: &'a Leasing,
    nodes: Arc<SessionNodes>,
    made: Vec<OwnedNode>,
}

/// How many children there are, ours among them.
enum Count {
    /// By a listing.
    Of(usize),
    /// By the gap rule.
    AtMost(usize),
    Unknown,
}

impl Entering<'_> {
    /// Admitted with the lease lasting at that instant.
    async fn until_admitted(&mut self, limit: &mut Limit) -> Result<Arc<LeaseTerm>, EntryAborted> {
        let Self { leasing: Leasing { request, locks, count, .. }, nodes, .. } = self;
        let mut children = Count::Unknown;
        while self.made.len() < *count {
            let (node, known) = create_node(nodes, request, &locks.nodes, None).await?;
            children = match known {
                Placement::Position(Position::Among(count)) => Count::AtMost(count),
                Placement::Listing(listing, _) => {
                    match node.path_nodes.judge_entering(&node.node, &listing) {
                        Position::Among(count) => Count::Of(count),
                        Position::Mixed(child) => {
                            return Err(EntryAborted::Failed(request.mixed(&child)));
                        }
                        _ => return Err(EntryAborted::Retry(None)),
                    }
                }
                Placement::Position(_) | Placement::Nothing => Count::Unknown,
            };
            self.made.push(node);
        }
        self.wait(children, limit).await
    }

    async fn wait(
        &self,
        mut children: Count,
        limit: &mut Limit,
    ) -> Result<Arc<LeaseTerm>, EntryAborted> {
        let Leasing { request, full, locks, .. } = self.leasing;
        let mut entering = matches!(children, Count::Unknown);
        // What came with the last listing.
        let mut watch = None;
        loop {
            if let Count::Of(count) | Count::AtMost(count) = children
                && count <= limit.now()
            {
                // Invariant 2: our nodes were seen in this session, and the lease lasts now.
                match self.nodes.session.lease.term(request.loss_policy, Moment::now()) {
                    Some(term) => return Ok(term),
                    None => prove_session(&self.nodes.session, request, locks).await?,
                }
            } else if let Count::Of(count) = children {
                full.set(true);
                if request.no_wait {
                    return Err(EntryAborted::Busy);
                }
                limit.check(&request.path, self.made.len()).map_err(EntryAborted::Failed)?;
                if let Some(watch) = watch.take() {
                    tracing::debug!(count, limit = limit.now(), "waits");
                    tokio::select! {
                        biased;
                        () = changed(watch) => {}
                        () = limit.changed() => {}
                    }
                }
            }
            // Also after a change of the limit: of our own nodes the count is old.
            let (listing, watching) = self.list_and_watch().await?;
            watch = Some(watching);
            children = Count::Of(self.all_there(&listing, entering)?);
            entering = false;
        }
    }

    /// How many children there are, if all of ours are among them.
    fn all_there(&self, listing: &Listing, entering: bool) -> Result<usize, EntryAborted> {
        let Some(OwnedNode { path_nodes, .. }) = self.made.first() else {
            return Err(EntryAborted::Retry(None));
        };
        let other = path_nodes.family.other_recipe(&listing.children).filter(|_| entering);
        if let Some(child) = other {
            return Err(EntryAborted::Failed(self.leasing.request.mixed(child)));
        }
        let there: HashSet<&str> = listing.children.iter().map(String::as_str).collect();
        if !self.made.iter().all(|own| there.contains(own.node.name())) {
            return Err(EntryAborted::Retry(None));
        }
        let last = self.made.last().map(|own| path_nodes.judge(&own.node, listing));
        match last {
            Some(Position::Among(count)) => Ok(count),
            _ => Err(EntryAborted::Retry(None)),
        }
    }

    /// Without room for a watch there is none.
    async fn list_and_watch(&self) -> Result<(Listing, Option<ChildrenWatch>), EntryAborted> {
        let (nodes, request) = (&self.nodes, &self.leasing.request);
        let path = request.path.as_str();
        let Some(room) = nodes.session.room_at_once(path) else {
            let listing = list(nodes, request, false).await?;
            return Ok((listing.ok_or(EntryAborted::Retry(None))?, None));
        };
        let ask = || async { nodes.session.client()?.list_and_watch(path).await };
        match nodes.connection.retried(&request.retry, ask).await {
            Ok((listing, watch)) => Ok((listing, Some(watch.with(room)))),
            // Our nodes went with it.
            Err(Failure::NoNode) => Err(EntryAborted::Retry(None)),
            Err(failure) => Err(request.stop(path, "list", failure)),
        }
    }
}

/// Waits for a change, or a while where there was no room for a watch.
async fn changed(watch: Option<ChildrenWatch>) {
    match watch {
        Some(watch) => watch.fired().await,
        None => sleep(LOOK).await,
    }
}
