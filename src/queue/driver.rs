//! A [`LocalQueue`] at work: looks at the conditions of an event, and carries out the commands.
//!
//! An event, what is looked at for it, the decision, and what has to be *sent* for it are one critical section: so requests go
//! out in the order of the commands, for all threads, and a hold begins in the term that was looked at (I4). What may
//! run other code is done when the lock is released, in the same order (I7).

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::background::{ask_whether_sole, retain, until_news};
use super::contending::Waiting;
use super::create::{Creating, reserve, send};
use super::current_nodes::CurrentNodes;
use super::entry::{self, Source};
use super::hold::{Answer, End, HoldState, OwnedHold};
use super::local_queue::{
    Command, Conditions, Event, HoldNumber, LocalQueue, Node, NodeId, Refusal, Sole, Ticket,
};
use super::node::{DeleteOutcome, OwnedNode, PendingDelete, SharedNode};
use super::queued_flag::QueuedFlag;
use super::request::{EntryAborted, Request, is_session_over};
use super::rules::admission::Family;
use crate::client::{ChildrenWatch, ClientError, Listing};
use crate::clock::Moment;
use crate::error::Error;
use crate::lock::Mutex;
use crate::session::Connection;
use crate::session::lease::{LeaseTerm, LossPolicy, Over};
use crate::session::retry::Retry;
use crate::session::session::Requester;

/// See the [module](self).
pub(super) struct QueueDriver {
    pub(super) current_nodes: Arc<CurrentNodes>,
    pub(super) family: Family,
    /// Counts the nodes, until they are known to be gone.
    pub(super) nodes: TaskTracker,
    /// For the entry: no caller waits.
    left: Notify,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    queue: LocalQueue,
    /// Those that wait.
    callers: BTreeMap<Ticket, Caller>,
    /// The node that is first.
    first: Option<First>,
}

/// What the queue need not know of a waiter.
#[derive(Debug)]
struct Caller {
    request: Arc<Request>,
    asker: Requester,
    queued: QueuedFlag,
    /// Of the present trouble.
    began: Moment,
    retry: Retry,
    reply: oneshot::Sender<Answer>,
}

/// A node that is first, and what came with it.
#[derive(Debug)]
pub(super) struct First {
    pub(super) node: OwnedNode,
    /// Whether it is the sole contender; if so, with the watch.
    pub(super) sole: Sole,
    pub(super) children: Option<SharedWatch>,
    retention: Option<CancellationToken>,
}

pub(super) type SharedWatch = Arc<Mutex<ChildrenWatch>>;

/// Why a node that is first does not come to hold.
pub(super) enum NotAdmitted {
    /// The session lease has ended.
    NoLease(First),
    Abandoned,
}

/// What became of a hold's node.
pub(super) enum ReleaseStep {
    /// Another task of this session has it, or will, or it is retained.
    Passed,
    Deleting(oneshot::Receiver<DeleteOutcome>),
    /// The node was gone before.
    Gone,
}

/// A command with what belongs to it, to be carried out outside the lock.
enum Action {
    Wake(Over),
    EndRetention(CancellationToken),
    Confirm(PendingDelete),
    Forget(OwnedNode),
    Enter(Option<Creating>),
    Requeue(OwnedNode),
    NotifyQueued(Vec<QueuedFlag>),
    Refuse(Vec<Caller>, Refusal),
    StopEntry,
    AwaitNews(SharedWatch, CancellationToken),
    AskWhetherSole(SharedNode),
    Retain(SharedNode, CancellationToken, Duration, LossPolicy),
    Begin(PendingHold),
    /// The node goes back to its entry, to prove the session or for no caller.
    Return(First, Option<Sole>),
}

struct PendingHold {
    caller: Caller,
    term: Arc<LeaseTerm>,
    hold: HoldNumber,
    node: SharedNode,
}

impl Inner {
    /// One event: the look, the decision, and what is to be sent.
    fn step(&mut self, driver: &QueueDriver, event: Event) -> VecDeque<Action> {
        let given_up = matches!(event, Event::NodeGivenUp { .. });
        let mut actions = VecDeque::new();
        let mut term = None;
        let first = &mut self.first;
        let commands = self.queue.on(event, |policy| {
            let (conditions, terms) = look(driver, first.as_mut(), policy);
            if let Some(LeaseTerms { ended, current }) = terms {
                actions.push_back(Action::Wake(ended));
                term = current;
            }
            conditions
        });
        for command in commands {
            let Some(action) = self.prepare(driver, command, &mut term) else { continue };
            // The task of a create starts before that of the delete ahead of it.
            let starts_first = matches!(action, Action::Enter(_)) && !given_up;
            let place = match actions.back() {
                Some(Action::Confirm(_)) if starts_first => actions.len() - 1,
                _ => actions.len(),
            };
            actions.insert(place, action);
        }
        actions
    }

    /// Sends what a command is to send, and gives it what belongs to it.
    fn prepare(
        &mut self,
        driver: &QueueDriver,
        command: Command,
        term: &mut Option<Arc<LeaseTerm>>,
    ) -> Option<Action> {
        let Self { callers, first, .. } = self;
        Some(match command {
            Command::Delete { .. } => Action::Confirm(first.take()?.leave()?),
            Command::Create { ticket, max_ticket, watch_children } => {
                let sent = callers.get(&ticket).and_then(|caller| {
                    driver.send_create(&caller.request, max_ticket, watch_children)
                });
                Action::Enter(sent)
            }
            Command::Forget { .. } => Action::Forget(first.take()?.node),
            Command::Requeue { .. } => Action::Requeue(first.take()?.node),
            Command::Prove { sole } => Action::Return(first.take()?, Some(sole)),
            Command::Abandon => Action::Return(first.take()?, None),
            Command::Begin { ticket, hold } => Action::Begin(PendingHold {
                caller: callers.remove(&ticket)?,
                term: term.take()?,
                hold,
                node: first.as_ref()?.node.share(),
            }),
            Command::Refuse(tickets, why) => {
                let refused = tickets.iter().filter_map(|ticket| callers.remove(ticket));
                Action::Refuse(refused.collect(), why)
            }
            Command::NotifyQueued(tickets) => {
                let told = tickets.iter().filter_map(|ticket| callers.get(ticket));
                Action::NotifyQueued(told.map(|caller| caller.queued.clone()).collect())
            }
            Command::StopEntry => Action::StopEntry,
            Command::EndRetention => Action::EndRetention(first.as_mut()?.retention.take()?),
            Command::AwaitNews => {
                let first = first.as_mut()?;
                Action::AwaitNews(first.children.clone()?, first.retention())
            }
            Command::AskWhetherSole => Action::AskWhetherSole(first.as_ref()?.node.share()),
            Command::Retain { retention, loss_policy } => {
                let first = first.as_mut()?;
                Action::Retain(first.node.share(), first.retention(), retention, loss_policy)
            }
        })
    }
}

/// The terms of the session lease: those that have ended, and the one in which the next hold may begin.
struct LeaseTerms {
    ended: Over,
    current: Option<Arc<LeaseTerm>>,
}

/// Gathers the conditions of an event; the terms of the lease only if a policy is given.
fn look(
    driver: &QueueDriver,
    first: Option<&mut First>,
    policy: Option<LossPolicy>,
) -> (Conditions, Option<LeaseTerms>) {
    let connection = driver.connection();
    let closing = connection.closing().is_cancelled();
    let Some(first) = first else {
        return (Conditions { closing, ..Conditions::default() }, None);
    };
    let unfired = first.is_unfired();
    let session = &first.node.nodes.session;
    let policy = policy.filter(|_| !session.ended().is_cancelled());
    let terms = policy.map(|policy| {
        let (ended, current) = session.lease.term_quietly(policy, Moment::now());
        LeaseTerms { ended, current }
    });
    let conditions = Conditions {
        closing,
        lease_lasts: terms.as_ref().is_some_and(|terms| terms.current.is_some()),
        same_connection: first.node.node.is_on_its_link(),
        revoked: first.node.node.is_revoked(),
        unfired,
        spare: session.has_spare_room()
            && session.has_spare_nodes(connection.settings.ephemeral_limit),
    };
    (conditions, terms)
}

impl First {
    pub(super) fn new(node: OwnedNode, sole: Sole, children: Option<SharedWatch>) -> Self {
        Self { node, sole, children, retention: None }
    }

    /// Whether the watch on the children is there and has not fired.
    fn is_unfired(&mut self) -> bool {
        self.children.take_if(|watch| watch.lock().has_fired());
        self.children.is_some()
    }

    /// Ends the tasks of a retention.
    fn retention(&mut self) -> CancellationToken {
        self.retention.get_or_insert_default().clone()
    }

    /// Hands the delete to the client. The watch goes later: to drop it sends a request.
    fn leave(self) -> Option<PendingDelete> {
        self.node.leave().map(|leaving| leaving.with(self.children))
    }
}

impl QueueDriver {
    pub(super) fn new(current_nodes: &Arc<CurrentNodes>, family: Family) -> Arc<Self> {
        let queue = LocalQueue::new(current_nodes.rules.local);
        Self::of(current_nodes, family, Inner { queue, callers: BTreeMap::new(), first: None })
    }

    /// A hold by a node that was admitted otherwise: a lease.
    pub(super) fn hold_lease(
        current_nodes: &Arc<CurrentNodes>,
        node: OwnedNode,
        request: &Request,
        asker: Requester,
        term: Arc<LeaseTerm>,
    ) -> OwnedHold {
        let queue = LocalQueue::held(node.node.czxid, request.waiter());
        let shared = node.share();
        let first = Some(First::new(node, Sole::No, None));
        let inner = Inner { queue, callers: BTreeMap::new(), first };
        let driver = Self::of(current_nodes, Family::Leases, inner);
        OwnedHold::begin(&driver, 0, &shared, request, asker, term)
    }

    fn of(current_nodes: &Arc<CurrentNodes>, family: Family, inner: Inner) -> Arc<Self> {
        Arc::new(Self {
            current_nodes: current_nodes.clone(),
            family,
            nodes: TaskTracker::new(),
            left: Notify::new(),
            inner: Mutex::new(inner),
        })
    }

    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.current_nodes.connection
    }

    fn on(self: &Arc<Self>, event: Event) {
        let actions = self.inner.lock().step(self, event);
        self.carry_out(actions);
    }

    /// Outside the lock. Gives what the delete comes to, if there was one.
    fn carry_out(
        self: &Arc<Self>,
        mut actions: VecDeque<Action>,
    ) -> Option<oneshot::Receiver<DeleteOutcome>> {
        let mut left = None;
        while let Some(action) = actions.pop_front() {
            match action {
                Action::Wake(over) => over.wake(),
                Action::EndRetention(token) => token.cancel(),
                Action::Confirm(leaving) => left = Some(leaving.see_to()),
                Action::Forget(node) => node.forget(),
                Action::Enter(sent) => entry::spawn(self, Source::New(sent)),
                Action::Requeue(node) => {
                    node.path_nodes.waits_again(&node.node);
                    entry::spawn(self, Source::Requeued(node));
                }
                Action::NotifyQueued(flags) => {
                    flags.iter().for_each(|queued| queued.set(true));
                }
                Action::Refuse(callers, Refusal::Closed) => {
                    refuse(callers, |request| request.session_error(Error::closed()));
                }
                // Those that failed are answered with the error, by whoever has it.
                Action::Refuse(callers, Refusal::Busy | Refusal::Failed) => {
                    callers.into_iter().for_each(|caller| _ = caller.reply.send(Ok(None)));
                }
                Action::StopEntry => self.left.notify_waiters(),
                Action::AwaitNews(watch, end) => {
                    self.connection().spawn(until_news(self.clone(), watch, end));
                }
                Action::AskWhetherSole(node) => {
                    match node.nodes.session.room_at_once(node.path_nodes.path.as_str()) {
                        Some(room) => {
                            self.connection().spawn(ask_whether_sole(self.clone(), node, room));
                        }
                        None => actions.extend(self.listed(node.node.czxid, None)),
                    }
                }
                Action::Retain(node, end, retention, policy) => {
                    self.connection().spawn(retain(self.clone(), node, end, retention, policy));
                }
                Action::Begin(pending) => {
                    if let Some(hold) = self.begin(pending) {
                        // Its caller has left: the next one's turn.
                        let (hold, state) = hold.into_parts();
                        let lost = finish(&state) != End::Released;
                        let released = Event::Released { hold, lost };
                        actions.extend(self.inner.lock().step(self, released));
                    }
                }
                // It is dropped, and with it the node.
                Action::Return(..) => {}
            }
        }
        left
    }

    /// Gives the hold back if its caller has left.
    fn begin(self: &Arc<Self>, pending: PendingHold) -> Option<OwnedHold> {
        let PendingHold { caller: Caller { request, asker, reply, .. }, term, hold, node } =
            pending;
        let hold = OwnedHold::begin(self, hold, &node, &request, asker, term);
        reply.send(Ok(Some(hold))).err()?.ok()?
    }

    /// Hands a create to the client. What fails is found out by the entry.
    fn send_create(
        &self,
        request: &Arc<Request>,
        max_ticket: Ticket,
        watch_children: bool,
    ) -> Option<Creating> {
        let nodes = self.current_nodes.nodes(&self.connection().current_session().ok()?);
        let room = reserve(&nodes, request, &self.nodes).ok()?;
        let watch = watch_children.then(|| nodes.session.room_at_once(request.path.as_str()));
        send(&nodes, request, max_ticket, room, watch.flatten()).ok()
    }
}

/// For callers.
impl QueueDriver {
    /// Queues up.
    pub(super) fn join(
        self: &Arc<Self>,
        request: Arc<Request>,
        queued: &QueuedFlag,
        began: Moment,
    ) -> Waiting {
        let (reply, answer) = oneshot::channel();
        let asker = Requester::current();
        let retry = request.retry.start();
        let waiter = request.waiter();
        let waits = !request.no_wait;
        let caller = Caller { request, asker, queued: queued.clone(), began, retry, reply };
        let mut inner = self.inner.lock();
        let held_by = match &inner.first {
            Some(first) if waits && inner.queue.is_busy() => Some(first.node.path_nodes.clone()),
            _ => None,
        };
        let ticket = inner.queue.next_ticket();
        inner.callers.insert(ticket, caller);
        let actions = inner.step(self, Event::Joined(waiter));
        drop(inner);
        if let Some(path_nodes) = held_by
            && path_nodes.is_held_by(asker)
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

    /// Whether no task holds, and the node is kept: it can be had without a request.
    pub(super) fn is_kept(&self) -> bool {
        self.inner.lock().queue.is_kept()
    }

    /// How many wait besides the one that the node stands for.
    pub(super) fn queued(&self) -> usize {
        self.inner.lock().queue.queued()
    }

    /// Whether the servers said that another contender is first.
    pub(super) fn is_busy(&self) -> bool {
        self.inner.lock().queue.is_busy()
    }
}

/// For holds, and the nodes that they are by.
impl QueueDriver {
    /// A hold is let go of: the node is passed on, retained, or deleted. Runs on any thread.
    pub(super) fn release(
        self: &Arc<Self>,
        hold: HoldNumber,
        state: &HoldState,
    ) -> (End, ReleaseStep) {
        let end = finish(state);
        let mut inner = self.inner.lock();
        if !inner.queue.is_held_by(hold) {
            return (end, ReleaseStep::Gone);
        }
        let actions = inner.step(self, Event::Released { hold, lost: end != End::Released });
        let passed = inner.first.is_some();
        drop(inner);
        let step = match self.carry_out(actions) {
            _ if passed => ReleaseStep::Passed,
            Some(left) => ReleaseStep::Deleting(left),
            None => ReleaseStep::Gone,
        };
        (end, step)
    }

    /// The node of a hold that is over is taken for another entry.
    pub(super) fn requeue(self: &Arc<Self>, hold: HoldNumber) {
        self.on(Event::Requeued { hold });
    }

    pub(super) fn node_gone(self: &Arc<Self>, node: NodeId) {
        self.on(Event::NodeGone { node });
    }

    /// The session is over, or left to others: the node is to be deleted one way or the other. Resolves when it is.
    pub(super) fn give_up(
        self: &Arc<Self>,
        node: NodeId,
    ) -> impl Future<Output = ()> + Send + use<> {
        let actions = self.inner.lock().step(self, Event::NodeGivenUp { node });
        let left = self.carry_out(actions);
        async move {
            if let Some(left) = left {
                let _ = left.await;
            }
        }
    }
}

/// For the entry.
impl QueueDriver {
    /// The contender whose node is to be created, and which callers may hold by it whatever comes.
    pub(super) fn first(&self) -> Result<(Arc<Request>, Ticket), EntryAborted> {
        let inner = self.inner.lock();
        let first = inner.queue.first().and_then(|ticket| inner.callers.get(&ticket));
        let request = first.ok_or(EntryAborted::Abandoned)?.request.clone();
        Ok((request, inner.queue.next_ticket()))
    }

    /// The node is first: begins the hold of the first caller.
    pub(super) fn admit(
        self: &Arc<Self>,
        first: First,
        request: &Request,
        max_ticket: Ticket,
    ) -> Result<(), NotAdmitted> {
        let node = Node {
            id: first.node.node.czxid,
            holder: request.waiter(),
            sole: first.sole,
            max_ticket,
        };
        let mut inner = self.inner.lock();
        inner.first = Some(first);
        let mut actions = inner.step(self, Event::First(node));
        drop(inner);
        let returned = match actions.pop_back() {
            Some(Action::Return(first, sole)) => Some((first, sole)),
            other => {
                actions.extend(other);
                None
            }
        };
        self.carry_out(actions);
        match returned {
            None => Ok(()),
            Some((first, Some(sole))) => Err(NotAdmitted::NoLease(First { sole, ..first })),
            Some((_, None)) => Err(NotAdmitted::Abandoned),
        }
    }

    /// The servers say that another contender is first: callers that asked not to wait get busy.
    pub(super) fn is_behind(self: &Arc<Self>, is_held_by: impl Fn(Requester) -> bool) {
        let mut inner = self.inner.lock();
        let first_time = !inner.queue.is_busy();
        let actions = inner.step(self, Event::Behind);
        let mut callers = inner.callers.values();
        let deadlock = callers.find(|caller| first_time && is_held_by(caller.asker));
        let deadlock = deadlock.map(|caller| caller.request.path.clone());
        drop(inner);
        deadlock.inspect(|path| warn_of_deadlock(path.as_str()));
        self.carry_out(actions);
    }

    /// What came of a try for `request` ends the wait of all whose node would be the same.
    pub(super) fn fail(&self, request: &Request, error: &Error) {
        self.fail_by(Event::Failed(request.node_spec()), |_| error.clone());
    }

    /// Ends all waits: there will be no session.
    pub(super) fn session_over(&self, error: &Error) {
        self.fail_by(Event::SessionOver, |request| request.session_error(error.clone()));
    }

    fn fail_by(&self, event: Event, error: impl Fn(&Request) -> Error) {
        for action in self.refusals(event) {
            if let Action::Refuse(callers, _) = action {
                refuse(callers, &error);
            }
        }
    }

    fn refusals(&self, event: Event) -> VecDeque<Action> {
        self.inner.lock().step(self, event)
    }

    /// A try failed: it counts for each caller; the pause before the next is that of the first one that has one left.
    /// `anew`: all went well for so long that this is a new trouble.
    pub(super) async fn another_try(
        &self,
        cause: Option<ClientError>,
        anew: bool,
    ) -> Option<Duration> {
        let mut pause = None;
        let exhausted = {
            let mut inner = self.inner.lock();
            let mut exhausted = Vec::new();
            for (ticket, caller) in &mut inner.callers {
                if anew {
                    caller.began = Moment::now();
                    caller.retry = caller.request.retry.start();
                }
                let next = caller.retry.next_pause(caller.began.elapsed());
                pause = pause.or(next);
                if next.is_none() {
                    exhausted.push(*ticket);
                }
            }
            inner.step(self, Event::Exhausted(exhausted))
        };
        for action in exhausted {
            if let Action::Refuse(callers, _) = action {
                let over = is_session_over(self.connection()).await;
                refuse(callers, |request| request.gave_up(over.clone(), cause.clone()));
            }
        }
        pause
    }

    /// An attempt left no node. Whether the entry is over: no caller waits.
    pub(super) fn attempt_ended(&self) -> bool {
        let mut inner = self.inner.lock();
        let _nothing = inner.step(self, Event::AttemptEnded);
        !inner.queue.has_waiters()
    }

    /// Fires when there is no point in going on.
    pub(super) async fn stopped(&self) -> EntryAborted {
        loop {
            let left = self.left.notified();
            let mut left = std::pin::pin!(left);
            left.as_mut().enable();
            if !self.inner.lock().queue.has_waiters() {
                return EntryAborted::Abandoned;
            }
            tokio::select! {
                biased;
                () = self.connection().closing().cancelled() => {
                    self.session_over(&Error::closed());
                    return EntryAborted::Abandoned;
                }
                () = left => {}
            }
        }
    }

    /// Awaits `work`, unless there is no point in going on.
    pub(super) async fn unless_stopped<T>(
        &self,
        work: impl Future<Output = Result<T, EntryAborted>> + Send,
    ) -> Result<T, EntryAborted> {
        tokio::select! {
            biased;
            stop = self.stopped() => Err(stop),
            done = work => done,
        }
    }
}

/// First of all no task may take it for held any more; then no fenced write may follow.
fn finish(state: &HoldState) -> End {
    let end = state.finish(End::Released);
    state.close_fence();
    end
}

fn refuse(callers: Vec<Caller>, error: impl Fn(&Request) -> Error) {
    for Caller { request, reply, .. } in callers {
        let _ = reply.send(Err(error(&request))); // who is gone needs none
    }
}

fn warn_of_deadlock(path: &str) {
    tracing::warn!(
        path,
        "waits for a lock that this very task holds: see `Guard::reenter` and `Owner`"
    );
}

/// For the tasks that look whether a node is the sole contender, or may be retained.
impl QueueDriver {
    /// The question whether the node is the sole one has an answer; none, if there is no way to know.
    fn listed(&self, node: NodeId, answer: Option<(Listing, ChildrenWatch)>) -> VecDeque<Action> {
        let mut inner = self.inner.lock();
        let first = inner.first.as_mut().filter(|first| first.node.node.czxid == node);
        let Some(first) = first else { return VecDeque::new() };
        let sole = match answer {
            Some((listing, watch))
                if first.node.path_nodes.is_alone(&first.node.node, &listing) =>
            {
                first.children = Some(Arc::new(Mutex::new(watch)));
                true
            }
            // Its watch goes here, before the delete.
            other => {
                drop(other);
                false
            }
        };
        inner.step(self, Event::Listed { node, sole })
    }

    pub(super) fn answered(
        self: &Arc<Self>,
        node: NodeId,
        answer: Option<(Listing, ChildrenWatch)>,
    ) {
        let actions = self.listed(node, answer);
        self.carry_out(actions);
    }

    pub(super) fn retention_over(self: &Arc<Self>, node: NodeId) {
        self.on(Event::RetentionOver { node });
    }

    /// Something came or went at the path, while the retention that `end` is of lasted.
    pub(super) fn news(self: &Arc<Self>, end: &CancellationToken) {
        let node = match &self.inner.lock().first {
            Some(first) if !end.is_cancelled() => first.node.node.czxid,
            _ => return,
        };
        self.on(Event::RetentionOver { node });
    }
}

impl fmt::Debug for QueueDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueDriver").field("inner", &*self.inner.lock()).finish_non_exhaustive()
    }
}
