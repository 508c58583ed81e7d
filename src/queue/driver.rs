//! Drives a [`LocalQueue`]: gathers the conditions of an event, and carries out the commands.
//!
//! An event, the conditions that are gathered for it, the decision, and the requests that are *sent* for it are one critical
//! section. So requests are sent in the order of the commands, whichever threads run, and a hold begins in the lease term that
//! was checked (I4). Everything that may run other code is done after the lock is released, in the same order (I7).

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::background::{ask_whether_sole, await_news, await_retention_end};
use super::contending::Waiting;
use super::create::{Creating, reserve, send};
use super::entry::{self, Source};
use super::hold::{Answer, End, HoldState, OwnedHold};
use super::local_queue::{
    Command, Conditions, Event, HoldNumber, LocalQueue, NodeId, Question, Refusal, Sole, Ticket,
    Waiter,
};
use super::node::{DeleteOutcome, OwnedNode, PendingDelete, Znode};
use super::passed_permits::PassedPermits;
use super::path_nodes::PathNodes;
use super::permits::Limit;
use super::queued_flag::QueuedFlag;
use super::request::{EntryAborted, Request, Requester, closed_error};
use super::retries::Retries;
use super::rules::admission::Family;
use super::rules::node_name::is_retainable;
use super::session_nodes::CurrentNodes;
use crate::client::{ChildrenWatch, ClientError, Listing};
use crate::clock::BootInstant;
use crate::error::{Error, Loss};
use crate::lock_path::LockPath;
use crate::session::Connection;
use crate::session::lease::{EndedTerms, LeaseTerm, LeaseTerms, TermKind};
use crate::sync::{Mutex, MutexGuard};

/// See the [module](self).
pub(super) struct QueueDriver {
    pub(super) current_nodes: Arc<CurrentNodes>,
    pub(super) family: Family,
    /// The queue of readers.
    pub(super) shared: bool,
    /// Counts the nodes until they are known to be deleted.
    pub(super) nodes: TaskTracker,
    /// Notifies the entry that it may have to stop what it does.
    abandoned: Notify,
    /// The permits that are kept for callers of this queue, if it is that of a semaphore's mutex.
    pub(super) passed: PassedPermits,
    /// The semaphore of the node, if it is a permit.
    permit: Option<PermitOf>,
    inner: Mutex<Inner>,
}

/// The semaphore of a permit.
pub(super) struct PermitOf {
    /// The queue of the semaphore's mutex.
    pub(super) mutex: Arc<QueueDriver>,
    /// The path of the mutex.
    pub(super) locks: LockPath,
    /// The limit by which the permit was admitted.
    pub(super) limit: Limit,
}

#[derive(Debug)]
struct Inner {
    queue: LocalQueue,
    /// The callers that wait: one for each waiter of `queue`.
    callers: BTreeMap<Ticket, Caller>,
    /// The node that is first.
    first: Option<First>,
    /// The nodes that drain.
    draining: BTreeMap<NodeId, First>,
    news: News,
}

/// The listings that were sent because a contender came or left while the node of readers was retained.
#[derive(Debug, Default)]
struct News {
    /// The begin of the present second; `None` before the first listing.
    since: Option<BootInstant>,
    listings: u32,
}

impl News {
    /// The number of listings in a second. Beyond that, a retained node is given up at the next news.
    const LISTINGS: u32 = 10;

    fn may_list(&mut self, now: BootInstant) -> bool {
        if self.since.is_none_or(|since| now.since(since) >= Duration::from_secs(1)) {
            *self = Self { since: Some(now), listings: 0 };
        }
        self.listings += 1;
        self.listings <= Self::LISTINGS
    }
}

/// The part of a waiter that the queue does not decide by.
#[derive(Debug)]
struct Caller {
    request: Arc<Request>,
    requester: Requester,
    queued: QueuedFlag,
    joined: BootInstant,
    reply: oneshot::Sender<Answer>,
}

/// A node that is first, and what belongs to it.
#[derive(Debug)]
pub(super) struct First {
    pub(super) node: OwnedNode,
    /// The watch on the children, from the listing that showed whether the node is the sole contender.
    pub(super) children: Option<SharedWatch>,
    /// Cancelled at the end of a retention.
    retention: Option<CancellationToken>,
}

pub(super) type SharedWatch = Arc<Mutex<ChildrenWatch>>;

impl First {
    pub(super) fn new(node: OwnedNode, children: Option<SharedWatch>) -> Self {
        Self { node, children, retention: None }
    }

    fn id(&self) -> NodeId {
        self.node.znode.czxid
    }

    /// Returns true if the watch on the children is armed and has not fired. Drops a watch that has fired.
    fn is_unfired(&mut self) -> bool {
        self.children.take_if(|watch| watch.lock().has_fired());
        self.children.is_some()
    }

    /// The token that ends the tasks of the retention.
    fn retention(&mut self) -> CancellationToken {
        self.retention.get_or_insert_default().clone()
    }

    /// Hands the delete to the client. The watch is dropped later, because dropping it sends a request.
    fn delete(self) -> Option<PendingDelete> {
        let delete = self.node.delete()?;
        Some(delete.with(self.children))
    }
}

/// Why a node that is first begins no hold.
pub(super) enum NotAdmitted {
    /// The session lease has ended.
    NoLease(First),
    /// No caller wants the node.
    Abandoned(First),
}

/// The next step of the node of a released hold.
pub(super) enum ReleaseStep {
    /// Another task of this session holds or will hold by the node, or it is retained.
    Passed,
    Deleting(oneshot::Receiver<DeleteOutcome>),
    /// The node was deleted before.
    Gone,
}

/// A command with the values that it needs, to be carried out outside the lock.
enum Action {
    WakeEndedTerms(EndedTerms),
    EndRetention(CancellationToken),
    ConfirmDelete(PendingDelete),
    NotifyHead,
    /// No head waits for the permit after all.
    DeleteUnwanted(NodeId),
    Forget(OwnedNode),
    Enter(Option<Creating>),
    Requeue(OwnedNode),
    NotifyQueued(Vec<QueuedFlag>),
    Refuse(Vec<Caller>, Refusal),
    StopEntry,
    AwaitNews {
        watch: SharedWatch,
        end: CancellationToken,
    },
    AskWhetherSole {
        znode: Arc<Znode>,
        /// The path of the contenders.
        path: LockPath,
    },
    Retain {
        znode: Arc<Znode>,
        end: CancellationToken,
        retention: Duration,
        term: TermKind,
    },
    Begin(PendingHold),
    /// Give the node back to its entry, to prove the session.
    Prove(First),
    /// Give the node back to its entry, because no caller wants it.
    Abandon(First),
}

/// A hold that begins as soon as the lock is released.
struct PendingHold {
    caller: Caller,
    term: Arc<LeaseTerm>,
    number: HoldNumber,
    znode: Arc<Znode>,
    path_nodes: Arc<PathNodes>,
}

impl Inner {
    /// Takes the matching waiters out of the queue, and returns their callers.
    fn remove(&mut self, matches: impl Fn(Ticket, &Waiter) -> bool) -> Vec<Caller> {
        let tickets = self.queue.remove(matches);
        tickets.iter().filter_map(|ticket| self.callers.remove(ticket)).collect()
    }

    /// Takes one event: gathers the conditions, decides, and sends the requests.
    fn step(&mut self, driver: &Arc<QueueDriver>, event: Event) -> VecDeque<Action> {
        let mut actions = VecDeque::new();
        let mut found = Vec::new();
        let first = &mut self.first;
        let commands = self.queue.on(event, |question| {
            let (conditions, terms) = look(driver, first.as_mut(), question);
            if let Some(LeaseTerms { ended, current }) = terms {
                actions.push_back(Action::WakeEndedTerms(ended));
                found.extend(current);
            }
            conditions
        });
        for command in commands {
            actions.extend(self.prepare(driver, command, &found));
        }
        actions
    }

    /// Removes and returns the node, which is first or drains.
    fn remove_node(&mut self, driver: &QueueDriver, node: NodeId) -> Option<First> {
        if let Some(permit) = &driver.permit {
            permit.mutex.passed.remove(driver);
        }
        let first = self.first.take_if(|first| first.id() == node);
        first.or_else(|| self.draining.remove(&node))
    }

    /// Returns true if the node is first or drains.
    fn has(&self, node: NodeId) -> bool {
        self.first.as_ref().is_some_and(|first| first.id() == node)
            || self.draining.contains_key(&node)
    }

    /// Sends the request of a command, and collects the values that its action needs.
    fn prepare(
        &mut self,
        driver: &Arc<QueueDriver>,
        command: Command,
        terms: &[Arc<LeaseTerm>],
    ) -> Option<Action> {
        let Self { callers, first, .. } = self;
        Some(match command {
            Command::Delete(node) => {
                Action::ConfirmDelete(self.remove_node(driver, node)?.delete()?)
            }
            Command::KeepPermit { node, wanted } => {
                match driver.permit.as_ref()?.mutex.passed.add(driver, wanted) {
                    true => Action::NotifyHead,
                    false => Action::DeleteUnwanted(node),
                }
            }
            Command::Drain => {
                let first = first.take()?;
                self.draining.insert(first.id(), first);
                return None;
            }
            Command::Create { ticket, watch_children } => {
                Action::Enter(callers.get(&ticket).and_then(|caller| {
                    #[cfg(all(test, feature = "simulation"))]
                    super::tests::create_sent(&caller.request);
                    driver.send_create(&caller.request, watch_children)
                }))
            }
            Command::Forget(node) => Action::Forget(self.remove_node(driver, node)?.node),
            Command::Requeue => Action::Requeue(first.take()?.node),
            Command::Prove => Action::Prove(first.take()?),
            Command::Abandon => Action::Abandon(first.take()?),
            Command::Begin { ticket, hold } => {
                let node = &first.as_ref()?.node;
                let caller = callers.remove(&ticket)?;
                let kind = caller.request.waiter.term;
                Action::Begin(PendingHold {
                    caller,
                    term: terms.iter().find(|term| term.kind() == kind)?.clone(),
                    number: hold,
                    znode: node.znode.clone(),
                    path_nodes: node.path_nodes.clone(),
                })
            }
            Command::Refuse(tickets, refusal) => {
                let refused = tickets.iter().filter_map(|ticket| callers.remove(ticket));
                Action::Refuse(refused.collect(), refusal)
            }
            Command::NotifyQueued(tickets) => {
                let queued = tickets.iter().filter_map(|ticket| callers.get(ticket));
                Action::NotifyQueued(queued.map(|caller| caller.queued.clone()).collect())
            }
            Command::StopEntry => Action::StopEntry,
            Command::EndRetention => Action::EndRetention(first.as_mut()?.retention.take()?),
            Command::AwaitNews => {
                let first = first.as_mut()?;
                Action::AwaitNews { watch: first.children.clone()?, end: first.retention() }
            }
            Command::AskWhetherSole => {
                let node = &first.as_ref()?.node;
                let path = match &driver.permit {
                    Some(permit) => &permit.locks,
                    None => &node.path_nodes.path,
                };
                Action::AskWhetherSole { znode: node.znode.clone(), path: path.clone() }
            }
            Command::Retain { retention, term } => {
                let first = first.as_mut()?;
                let znode = first.node.znode.clone();
                Action::Retain { znode, end: first.retention(), retention, term }
            }
        })
    }
}

/// Gathers the conditions that the queue asks for, and the terms of the lease if it asks for a kind.
///
/// Three of the checks change what they check, so they run only when the queue asks: `has_fired` takes the wake from the task
/// that awaits the watch, `has_changed` reports a change of the connection once, and `terms` ends terms.
fn look(
    driver: &QueueDriver,
    first: Option<&mut First>,
    question: Question,
) -> (Conditions, Option<LeaseTerms>) {
    let connection = driver.connection();
    let closing = connection.closing().is_cancelled();
    let Some(first) = first else {
        return (Conditions { closing, ..Conditions::default() }, None);
    };
    let unfired = first.is_unfired();
    let Question::Pass(kind) = question else {
        return (Conditions { closing, unfired, ..Conditions::default() }, None);
    };
    let znode = &first.node.znode;
    let session = &znode.session;
    let kind = kind.filter(|_| !session.ended().is_cancelled());
    let terms = kind.map(|kind| session.lease.terms(kind, BootInstant::now()));
    let conditions = Conditions {
        closing,
        lease_lasts: terms.as_ref().is_some_and(|terms| terms.current.is_some()),
        same_connection: znode.is_on_its_link(),
        given_up: znode.is_revoked() || znode.is_accompanied(),
        unfired,
        spare: session.has_spare_watches()
            && session.has_spare_nodes(connection.settings.ephemeral_limit),
        wanted: driver.permit.as_ref().is_some_and(|permit| permit.mutex.passed.are_wanted()),
    };
    (conditions, terms)
}

impl QueueDriver {
    pub(super) fn new(
        current_nodes: &Arc<CurrentNodes>,
        family: Family,
        shared: bool,
    ) -> Arc<Self> {
        Self::with(current_nodes, family, shared, LocalQueue::new(), None, None)
    }

    /// Returns a hold by a permit that was admitted.
    pub(super) fn hold_permit(
        permit: PermitOf,
        node: OwnedNode,
        request: &Request,
        requester: Requester,
        term: Arc<LeaseTerm>,
    ) -> OwnedHold {
        let znode = node.znode.clone();
        let path_nodes = node.path_nodes.clone();
        let retainable = is_retainable(znode.name());
        let queue = LocalQueue::held(znode.czxid, request.waiter.clone(), retainable);
        let current_nodes = permit.mutex.current_nodes.clone();
        let first = Some(First::new(node, None));
        let family = Family::Leases;
        let driver = Self::with(&current_nodes, family, false, queue, first, Some(permit));
        driver.start_hold(0, znode, &path_nodes, request, requester, term)
    }

    fn with(
        current_nodes: &Arc<CurrentNodes>,
        family: Family,
        shared: bool,
        queue: LocalQueue,
        first: Option<First>,
        permit: Option<PermitOf>,
    ) -> Arc<Self> {
        let callers = BTreeMap::new();
        let draining = BTreeMap::new();
        let news = News::default();
        Arc::new(Self {
            current_nodes: current_nodes.clone(),
            family,
            shared,
            nodes: TaskTracker::new(),
            abandoned: Notify::new(),
            passed: PassedPermits::default(),
            permit,
            inner: Mutex::new(Inner { queue, callers, first, draining, news }),
        })
    }

    /// Returns true if this is the queue of such callers.
    pub(super) fn takes(&self, family: &Family, shared: bool) -> bool {
        self.family == *family && self.shared == shared
    }

    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.current_nodes.connection
    }

    fn on(self: &Arc<Self>, event: Event) {
        let actions = self.inner.lock().step(self, event);
        self.carry_out(actions);
    }

    /// Carries out the actions, outside the lock. Returns the outcome of the delete, if there is one.
    fn carry_out(
        self: &Arc<Self>,
        mut actions: VecDeque<Action>,
    ) -> Option<oneshot::Receiver<DeleteOutcome>> {
        let mut outcome = None;
        while let Some(action) = actions.pop_front() {
            match action {
                Action::WakeEndedTerms(ended) => ended.wake(),
                Action::EndRetention(token) => token.cancel(),
                Action::ConfirmDelete(delete) => outcome = Some(delete.confirm()),
                Action::Forget(node) => node.forget(),
                Action::Enter(sent) => entry::spawn(self, Source::New(sent)),
                Action::Requeue(node) => {
                    node.path_nodes.waits_again(&node.znode);
                    entry::spawn(self, Source::Requeued(node));
                }
                Action::NotifyQueued(flags) => {
                    for queued in flags {
                        queued.set(true);
                    }
                }
                Action::Refuse(callers, Refusal::Closed) => {
                    refuse(callers, |request| request.session_error(Error::closed()));
                }
                Action::Refuse(callers, Refusal::Busy) => {
                    refuse(callers, |request| Error::busy(&request.path));
                }
                Action::StopEntry => self.abandoned.notify_waiters(),
                Action::AwaitNews { watch, end } => {
                    self.connection().spawn(await_news(self.clone(), watch, end));
                }
                Action::AskWhetherSole { znode, path } => {
                    match znode.session.try_reserve_watch(path.as_str()) {
                        Some(room) => {
                            let ask = ask_whether_sole(self.clone(), znode, path, room);
                            self.connection().spawn(ask);
                        }
                        None => actions.extend(self.take_listing(znode.czxid, None)),
                    }
                }
                Action::Retain { znode, end, retention, term } => {
                    let ended = await_retention_end(self.clone(), znode, end, retention, term);
                    self.connection().spawn(ended);
                }
                Action::Begin(pending) => {
                    if let Some(hold) = self.begin(pending) {
                        // The caller has left, so it is the next waiter's turn.
                        let (hold, state) = hold.into_parts();
                        let lost = finish(&state) != End::Released;
                        let released = Event::Released { hold, lost };
                        actions.extend(self.inner.lock().step(self, released));
                    }
                }
                Action::NotifyHead => {
                    if let Some(permit) = &self.permit {
                        permit.mutex.passed.notify_head();
                    }
                }
                Action::DeleteUnwanted(node) => {
                    actions.extend(self.inner.lock().step(self, Event::RetentionOver { node }));
                }
                // `admit` takes these out. Dropping the node deletes it.
                Action::Prove(_) | Action::Abandon(_) => {}
            }
        }
        outcome
    }

    /// Begins a hold. Returns it if its caller has left.
    fn begin(self: &Arc<Self>, pending: PendingHold) -> Option<OwnedHold> {
        let PendingHold { caller, term, number, znode, path_nodes } = pending;
        let hold =
            self.start_hold(number, znode, &path_nodes, &caller.request, caller.requester, term);
        caller.reply.send(Ok(hold)).err()?.ok()
    }

    /// Makes and registers a hold. Runs outside the lock, because it counts the hold.
    fn start_hold(
        self: &Arc<Self>,
        number: HoldNumber,
        znode: Arc<Znode>,
        path_nodes: &PathNodes,
        request: &Request,
        requester: Requester,
        term: Arc<LeaseTerm>,
    ) -> OwnedHold {
        let state = HoldState::new(request, znode.clone(), term, requester);
        if !path_nodes.admitted(&znode, self, state.clone()) {
            state.mark_node_gone();
            self.node_gone(znode.czxid);
        } else if znode.session.is_over() {
            // The node monitor may have given the session's nodes up before this hold was registered. The lease says why.
            state.finish(End::Lost(Loss::SessionExpired));
            drop(self.give_up(znode.czxid));
        }
        OwnedHold::new(state, number, self)
    }

    /// Returns true if a caller with this limit may hold by the permit. After a change it may not: while the limit was higher, more
    /// permits may have been given out than it allows now.
    pub(super) fn is_within(&self, limit: usize) -> bool {
        let counted = self.permit.as_ref().map(|permit| &permit.limit);
        counted.is_some_and(|counted| !counted.has_changed() && counted.now() <= limit)
    }

    /// Resolves when the limit has changed since the permit was admitted. Pending if the node is not a permit.
    pub(super) async fn limit_changed(&self) {
        match &self.permit {
            Some(permit) => permit.limit.clone().changed().await,
            None => std::future::pending().await,
        }
    }

    /// Hands a create to the client. The entry finds out why a create was not sent.
    fn send_create(&self, request: &Arc<Request>, watch_children: bool) -> Option<Creating> {
        let session = self.connection().current_session().ok()?;
        let client = session.client().ok()?;
        let nodes = self.current_nodes.of(&session);
        let room = reserve(&nodes, request, &self.nodes).ok()?;
        let watch = match watch_children {
            true => session.try_reserve_watch(request.path.as_str()),
            false => None,
        };
        Some(send(&nodes, client, request, room, watch))
    }
}

/// Called by callers.
impl QueueDriver {
    /// Queues up. `None` if the request is a reader's try, and readers of this process wait for a writer: that one may be gone, and
    /// the news of it on its way.
    pub(super) fn try_join(
        self: &Arc<Self>,
        request: &Arc<Request>,
        queued: &QueuedFlag,
        joined: BootInstant,
    ) -> Option<Waiting> {
        let inner = self.inner.lock();
        let waiter = &request.waiter;
        let is_behind = waiter.no_wait && waiter.shared && inner.queue.is_busy();
        let requester = Requester::current();
        (!is_behind).then(|| self.join_in(inner, request.clone(), requester, queued, joined))
    }

    /// Queues up.
    pub(super) fn join(
        self: &Arc<Self>,
        request: Arc<Request>,
        requester: Requester,
        queued: &QueuedFlag,
        joined: BootInstant,
    ) -> Waiting {
        self.join_in(self.inner.lock(), request, requester, queued, joined)
    }

    fn join_in(
        self: &Arc<Self>,
        mut inner: MutexGuard<'_, Inner>,
        request: Arc<Request>,
        requester: Requester,
        queued: &QueuedFlag,
        joined: BootInstant,
    ) -> Waiting {
        let (reply, answer) = oneshot::channel();
        let waiter = request.waiter.clone();
        let caller = Caller { request, requester, queued: queued.clone(), joined, reply };
        let held_by = match &inner.first {
            Some(first) if !waiter.no_wait && inner.queue.is_busy() => {
                Some(first.node.path_nodes.clone())
            }
            _ => None,
        };
        let ticket = inner.queue.next_ticket();
        inner.callers.insert(ticket, caller);
        let actions = inner.step(self, Event::Joined(waiter));
        drop(inner);
        if let Some(path_nodes) = held_by
            && path_nodes.is_held_by(requester)
        {
            warn_of_deadlock(path_nodes.path.as_str());
        }
        self.carry_out(actions);
        Waiting::new(self.clone(), ticket, answer)
    }

    pub(super) fn withdraw(self: &Arc<Self>, ticket: Ticket) {
        let mut inner = self.inner.lock();
        let caller = inner.callers.remove(&ticket);
        let actions = inner.step(self, Event::Withdrawn(ticket));
        drop(inner);
        drop(caller);
        self.carry_out(actions);
    }

    /// Returns true if the next caller can have the node without a request, because it is kept or readers share it.
    pub(super) fn costs_no_request(&self) -> bool {
        let Inner { queue, first, .. } = &mut *self.inner.lock();
        queue.is_kept() || queue.is_shared() && first.as_mut().is_some_and(First::is_unfired)
    }

    /// Gives a retained node up, because a task of another queue of this process wants the lock. The delete is sent before the
    /// create of that task.
    pub(super) fn end_retention(self: &Arc<Self>) {
        let node = self.inner.lock().first.as_ref().map(First::id);
        if let Some(node) = node {
            self.retention_over(node);
        }
    }

    /// The number of waiters, without the one that the node stands for.
    pub(super) fn queued(&self) -> usize {
        self.inner.lock().queue.queued()
    }

    /// Returns true if a task of this session keeps a caller out that comes now.
    pub(super) fn is_taken(&self) -> bool {
        self.inner.lock().queue.is_taken(self.shared)
    }
}

/// Called by holds, and by the node monitor.
impl QueueDriver {
    /// Releases a hold: the node is passed on, retained or deleted. Runs on any thread.
    pub(super) fn release(
        self: &Arc<Self>,
        hold: HoldNumber,
        state: &HoldState,
    ) -> (End, ReleaseStep) {
        let end = finish(state);
        let node = state.znode().czxid;
        let mut inner = self.inner.lock();
        if !inner.queue.is_held_by(hold) {
            return (end, ReleaseStep::Gone);
        }
        let actions = inner.step(self, Event::Released { hold, lost: end != End::Released });
        let is_kept = inner.has(node);
        drop(inner);
        let step = match self.carry_out(actions) {
            Some(outcome) => ReleaseStep::Deleting(outcome),
            None if is_kept => ReleaseStep::Passed,
            None => ReleaseStep::Gone,
        };
        (end, step)
    }

    /// Queues up with the node of an ended hold, which contends again.
    pub(super) fn requeue(
        self: &Arc<Self>,
        hold: HoldNumber,
        request: Arc<Request>,
        queued: &QueuedFlag,
    ) -> Waiting {
        let mut inner = self.inner.lock();
        let requeued = inner.step(self, Event::Requeued { hold });
        let joined = BootInstant::now();
        let waiting = self.join_in(inner, request, Requester::current(), queued, joined);
        // The entry begins behind the caller.
        self.carry_out(requeued);
        waiting
    }

    pub(super) fn node_gone(self: &Arc<Self>, node: NodeId) {
        self.on(Event::NodeGone { node });
    }

    /// Deletes the node, because the session ended or is left to others. The future resolves when the node is deleted.
    pub(super) fn give_up(
        self: &Arc<Self>,
        node: NodeId,
    ) -> impl Future<Output = ()> + Send + use<> {
        let actions = self.inner.lock().step(self, Event::NodeGivenUp { node });
        let outcome = self.carry_out(actions);
        async move {
            if let Some(outcome) = outcome {
                let _ = outcome.await;
            }
        }
    }
}

/// Called by the entry.
impl QueueDriver {
    /// Returns the request of the first waiter.
    pub(super) fn first(&self) -> Result<Arc<Request>, EntryAborted> {
        let inner = self.inner.lock();
        let first = inner.queue.first().and_then(|ticket| inner.callers.get(&ticket));
        first.map(|caller| caller.request.clone()).ok_or(EntryAborted::Abandoned)
    }

    /// Returns the request for which the next node is created. Only callers that have joined by now may hold by the node.
    pub(super) fn begin_attempt(&self) -> Result<Arc<Request>, EntryAborted> {
        let Inner { queue, callers, .. } = &mut *self.inner.lock();
        let first = queue.begin_attempt().and_then(|ticket| callers.get(&ticket));
        first.map(|caller| caller.request.clone()).ok_or(EntryAborted::Abandoned)
    }

    /// Begins the hold of the first waiter. The node is first.
    pub(super) fn admit(self: &Arc<Self>, first: First, sole: Sole) -> Result<(), NotAdmitted> {
        let node = first.id();
        let retainable = is_retainable(first.node.znode.name());
        let mut inner = self.inner.lock();
        inner.first = Some(first);
        let mut actions = inner.step(self, Event::First { node, sole, retainable });
        drop(inner);
        let admitted = match actions.pop_back() {
            Some(Action::Prove(first)) => Err(NotAdmitted::NoLease(first)),
            Some(Action::Abandon(first)) => Err(NotAdmitted::Abandoned(first)),
            last => {
                actions.extend(last);
                Ok(())
            }
        };
        self.carry_out(actions);
        admitted
    }

    /// Returns true if a task holds.
    pub(super) fn is_held(&self) -> bool {
        self.inner.lock().queue.is_held()
    }

    /// Returns true if a caller may wait that asked not to.
    pub(super) fn has_tries(&self) -> bool {
        self.inner.lock().queue.has_tries()
    }

    /// Takes the news that another contender is first. Callers that asked not to wait are refused.
    pub(super) fn report_behind(self: &Arc<Self>, is_held_by: impl Fn(Requester) -> bool) {
        let mut inner = self.inner.lock();
        let first_time = !inner.queue.is_busy();
        let actions = inner.step(self, Event::Behind);
        let mut callers = inner.callers.values();
        let deadlock = callers.find(|caller| first_time && is_held_by(caller.requester));
        let deadlock = deadlock.map(|caller| caller.request.path.clone());
        drop(inner);
        if let Some(path) = deadlock {
            warn_of_deadlock(path.as_str());
        }
        self.carry_out(actions);
    }

    /// Fails every waiter whose node would be identical to `request`'s.
    pub(super) fn fail(&self, request: &Request, error: &Error) {
        let failed = self.inner.lock().remove(|_, waiter| waiter.node == request.waiter.node);
        refuse(failed, |_| error.clone());
    }

    /// Fails every waiter, because the runtime shuts down and the entry with it. In one step: a caller that joins meanwhile must not
    /// wait for this entry.
    pub(super) fn entry_dropped(self: &Arc<Self>) {
        let mut inner = self.inner.lock();
        let all = inner.remove(|_, _| true);
        let _none = inner.step(self, Event::AttemptEnded);
        drop(inner);
        refuse(all, |request| request.session_error(Error::closed()));
    }

    /// Counts a failure against the retry policy of each waiter, and fails those whose policy allows no further try. Returns the
    /// shortest pause of the others.
    pub(super) async fn next_pause(
        &self,
        retries: &mut Retries,
        cause: Option<ClientError>,
    ) -> Result<Duration, EntryAborted> {
        let mut pauses = Vec::new();
        let mut exhausted = Vec::new();
        {
            let callers = &self.inner.lock().callers;
            retries.keep(|ticket| callers.contains_key(&ticket));
            for (ticket, caller) in callers {
                match retries.next_pause(*ticket, caller.joined, &caller.request.retry) {
                    Some(pause) => pauses.push(pause),
                    None => exhausted.push(*ticket),
                }
            }
        }
        if !exhausted.is_empty() {
            let closed = closed_error(self.connection()).await;
            // These callers stay in the queue until then, so that none is lost if this future is dropped.
            let failed = self.inner.lock().remove(|ticket, _| exhausted.contains(&ticket));
            refuse(failed, |request| request.gave_up(closed.clone(), cause.clone()));
            // The others may need another node.
            self.abandoned.notify_waiters();
        }
        pauses.into_iter().min().ok_or(EntryAborted::Abandoned)
    }

    /// Ends an attempt that left no node. Returns true if the entry ends, because no caller waits.
    pub(super) fn attempt_ended(self: &Arc<Self>) -> bool {
        let mut inner = self.inner.lock();
        let _none = inner.step(self, Event::AttemptEnded);
        !inner.queue.has_waiters()
    }

    /// Resolves when the queue stops the attempt or pause. If the connection is closing, this fails all callers.
    async fn stopped(&self) -> EntryAborted {
        loop {
            let abandoned = self.abandoned.notified();
            let mut abandoned = std::pin::pin!(abandoned);
            abandoned.as_mut().enable();
            if self.inner.lock().queue.is_stopping() {
                return EntryAborted::Abandoned;
            }
            tokio::select! {
                biased;
                () = self.connection().closing().cancelled() => {
                    let all = self.inner.lock().remove(|_, _| true);
                    refuse(all, |request| request.session_error(Error::closed()));
                    return EntryAborted::Abandoned;
                }
                () = abandoned => {}
            }
        }
    }

    /// Awaits `work`, until the queue stops the entry or the connection is closing.
    pub(super) async fn unless_stopped<T>(
        &self,
        work: impl Future<Output = Result<T, EntryAborted>> + Send,
    ) -> Result<T, EntryAborted> {
        tokio::select! {
            biased;
            aborted = self.stopped() => Err(aborted),
            done = work => done,
        }
    }
}

/// Called by the [background tasks](super::background).
impl QueueDriver {
    /// Takes the answer to [`ask_whether_sole`]; `None` if there is none.
    pub(super) fn listed(self: &Arc<Self>, node: NodeId, answer: Option<(Listing, ChildrenWatch)>) {
        let actions = self.take_listing(node, answer);
        self.carry_out(actions);
    }

    fn take_listing(
        self: &Arc<Self>,
        node: NodeId,
        answer: Option<(Listing, ChildrenWatch)>,
    ) -> VecDeque<Action> {
        let mut inner = self.inner.lock();
        let Some(first) = inner.first.as_mut().filter(|first| first.id() == node) else {
            return VecDeque::new();
        };
        let owned = &first.node;
        let is_sole = |listing: &Listing| match self.permit {
            Some(_) => listing.children.is_empty(),
            None => owned.path_nodes.is_sole(&owned.znode, listing),
        };
        let sole = answer.as_ref().is_some_and(|(listing, _)| is_sole(listing));
        // The watch is kept even if the node is not the sole one, because to drop it before the delete sends a request.
        first.children = answer.map(|(_, watch)| Arc::new(Mutex::new(watch)));
        inner.step(self, Event::Listed { node, sole })
    }

    pub(super) fn retention_over(self: &Arc<Self>, node: NodeId) {
        self.on(Event::RetentionOver { node });
    }

    /// Takes the news that a contender came or left during the retention of which `end` is the token.
    pub(super) fn news(self: &Arc<Self>, end: &CancellationToken) {
        let mut inner = self.inner.lock();
        let Some(node) = inner.first.as_ref().map(First::id).filter(|_| !end.is_cancelled()) else {
            return;
        };
        let event = match self.shared && inner.news.may_list(BootInstant::now()) {
            true => Event::News { node },
            false => Event::RetentionOver { node },
        };
        let actions = inner.step(self, event);
        drop(inner);
        self.carry_out(actions);
    }
}

/// Marks the hold as ended first, then closes the fence so that no further write is sent.
fn finish(state: &HoldState) -> End {
    let end = state.finish(End::Released);
    state.close_fence();
    end
}

fn refuse(callers: Vec<Caller>, error: impl Fn(&Request) -> Error) {
    for Caller { request, reply, .. } in callers {
        let _ = reply.send(Err(error(&request))); // the caller may have left
    }
}

fn warn_of_deadlock(path: &str) {
    tracing::warn!(
        path,
        "waits for a lock that this very task holds: see `Guard::reenter` and `Owner`"
    );
}

impl fmt::Debug for QueueDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueDriver").field("inner", &*self.inner.lock()).finish_non_exhaustive()
    }
}
