//! Tests of the queue on several threads, which the simulation cannot show. `shuttle` runs each test under many schedules: each use
//! of a type of [`sync`](crate::sync) is a point at which another thread may continue.
//!
//! There is no server. The session has no client, so requests are recorded where they would be sent. The tasks of the library
//! do not run: a test runs the entry itself, by [`Queue::run_entry`].
//!
//! A test that fails prints its schedule, which `shuttle::replay` repeats. Each test names in its comment the mutants of
//! `scripts/mutants.txt` that it catches.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::thread::{JoinHandle, spawn};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::contending::Waiting;
use super::create::reserve;
use super::driver::{First, NotAdmitted, PermitOf, QueueDriver};
use super::hold::{End, HoldState, OwnedHold};
use super::local_queue::{NodeSpec, Sole, Waiter};
use super::node::{OwnedNode, Znode};
use super::node_monitor::give_up;
use super::passed_permits::InLine;
use super::permits::Limit;
use super::queued_flag::QueuedFlag;
use super::request::{Request, Requester};
use super::rules::admission::Family;
use super::rules::node_name::Kind;
use super::session_nodes::{CurrentNodes, SessionNodes};
use crate::client::{LinkState, LinkWatch};
use crate::clock::BootInstant;
use crate::error::Loss;
use crate::lock_path::LockPath;
use crate::metrics::LockLabels;
use crate::session::lease::LossPolicy;
use crate::session::{Connection, RetryPolicy, Session};
use crate::sync::Mutex;

/// The number of schedules of each of two kinds.
const SCHEDULES: usize = 200;

const SEED: u64 = 1;

/// The number of times that a schedule by priority changes a priority.
const CHANGES: usize = 3;

/// Longer than a test takes, because the clock is the real one.
const TIMEOUT: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Create,
    Delete,
    /// A fenced write of the first or of the second hold.
    Write(u8),
}

// All threads of `shuttle` are one thread of the system.
thread_local! {
    static SENT: RefCell<Vec<Sent>> = const { RefCell::new(Vec::new()) };
    /// The requests of the creates that no entry has taken.
    static CREATES: RefCell<VecDeque<Arc<Request>>> = const { RefCell::new(VecDeque::new()) };
}

pub(super) fn create_sent(request: &Arc<Request>) {
    sent(Sent::Create);
    CREATES.with_borrow_mut(|creates| creates.push_back(request.clone()));
}

pub(super) fn delete_sent() {
    sent(Sent::Delete);
}

fn sent(request: Sent) {
    SENT.with_borrow_mut(|sent| sent.push(request));
}

/// Runs a test under many schedules: with nodes that pass to callers that joined after the create, and without.
fn explore(test: fn(Arc<Queue>)) {
    explore_with(request, test);
}

fn explore_with(request: fn() -> Request, test: fn(Arc<Queue>)) {
    for passes_on in [false, true] {
        let run = move || {
            SENT.take();
            CREATES.take();
            test(Queue::new(request(), passes_on));
        };
        let mut config = shuttle::Config::default();
        config.stack_size = 512 * 1024;
        let random = RandomScheduler::new_from_seed(SEED, SCHEDULES);
        shuttle::Runner::new(random, config.clone()).run(run);
        let by_priority = PctScheduler::new_from_seed(SEED, CHANGES, SCHEDULES);
        shuttle::Runner::new(by_priority, config).run(run);
    }
}

fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|_| panic!("a thread panicked"))
}

fn poll_once<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Returns the hold of a caller, if it has been answered.
fn answer_of(waiting: &mut Waiting) -> Option<OwnedHold> {
    match poll_once(waiting.answer()) {
        Poll::Pending => None,
        Poll::Ready(Some(Ok(hold))) => Some(hold),
        Poll::Ready(other) => panic!("a caller is answered {other:?}"),
    }
}

/// I2: asserts that no create was sent ahead of the delete of the node before it. Returns true if a node is left.
fn is_node_left() -> bool {
    let mut nodes = 0;
    let all = SENT.with_borrow(Vec::clone);
    for sent in &all {
        match sent {
            Sent::Create => nodes += 1,
            Sent::Delete => nodes -= 1,
            Sent::Write(_) => {}
        }
        assert!(nodes <= 1, "two nodes at once: {all:?}");
        assert!(nodes >= 0, "one node is deleted twice: {all:?}");
    }
    nodes == 1
}

/// The number of nodes that were created and not deleted.
fn nodes_left() -> usize {
    SENT.with_borrow(|all| {
        let count = |request| all.iter().filter(|sent| **sent == request).count();
        count(Sent::Create) - count(Sent::Delete)
    })
}

/// Asserts that no write of the hold was sent after `end`.
fn assert_no_write_after(end: Sent, hold: u8) {
    let all = SENT.with_borrow(Vec::clone);
    let after = all.iter().skip_while(|sent| **sent != end);
    assert!(!after.clone().any(|sent| *sent == Sent::Write(hold)), "a late write: {all:?}");
}

fn request() -> Request {
    let waiter = Arc::new(Waiter {
        node: NodeSpec { data: Arc::from([]), acls: Arc::from([]) },
        shares_queue: true,
        shared: false,
        no_wait: false,
        retention: Duration::ZERO,
        term: LossPolicy::Lease.into(),
    });
    Request {
        path: LockPath::parse("path", "/lock").expect("a path"),
        family: Family::Latches,
        kind: Kind::Latch,
        waiter,
        companion: None,
        retry: RetryPolicy::forever(TIMEOUT),
        check_first: false,
        counted: LockLabels::default(),
    }
}

fn reading() -> Request {
    let mut request = request();
    request.waiter_mut().shared = true;
    Request { family: Family::ReadWrite, kind: Kind::Read, ..request }
}

/// A local queue in a session without a client.
struct Queue {
    request: Arc<Request>,
    driver: Arc<QueueDriver>,
    nodes: Arc<SessionNodes>,
    passes_on: bool,
    /// The `czxid` of the last node.
    czxid: Mutex<i64>,
    /// Has the tasks of the library, and never runs them.
    _runtime: Runtime,
}

impl Queue {
    fn new(request: Request, passes_on: bool) -> Arc<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let session = Session::without_client(TIMEOUT);
        let connection = {
            let _entered = runtime.enter();
            Connection::without_supervisor(&session)
        };
        let current_nodes = CurrentNodes::new(connection);
        let nodes = current_nodes.of(&session);
        let shared = request.waiter.shared;
        let driver = QueueDriver::new(&current_nodes, request.family.clone(), shared);
        Arc::new(Self {
            request: Arc::new(request),
            driver,
            nodes,
            passes_on,
            czxid: Mutex::new(0),
            _runtime: runtime,
        })
    }

    fn join(&self) -> Waiting {
        let requester = Requester::current();
        let joined = BootInstant::now();
        self.driver.join(self.request.clone(), requester, &QueuedFlag::UNREAD, joined)
    }

    /// Joins and runs the entry, as the only caller.
    fn acquire(&self) -> OwnedHold {
        let mut waiting = self.join();
        assert!(self.run_entry(), "the first caller starts an entry");
        answer_of(&mut waiting).expect("a hold")
    }

    /// Answers a create: the node is first.
    fn created(&self, request: &Request) -> First {
        let room = reserve(&self.nodes, request, &self.driver.nodes).expect("room");
        let path_nodes = self.nodes.at(&request.path, &request.family);
        let czxid = {
            let mut last = self.czxid.lock();
            *last += 1;
            *last
        };
        let path = request.path.child(&format!("latch-{czxid:010}"));
        let link = LinkWatch::Simulated(watch::Sender::new(LinkState::Connected).subscribe());
        let session = self.nodes.session.clone();
        let znode = Arc::new(Znode::new(path, czxid, czxid, request.is_shared(), session, link));
        First::new(OwnedNode::new(znode, path_nodes, self.nodes.clone(), room), None)
    }

    /// Hands the node of a create to the queue, as the entry does.
    fn admit(&self, first: First) -> Result<(), NotAdmitted> {
        if self.passes_on {
            // As if all had joined before the create.
            let _ = self.driver.begin_attempt();
        }
        self.driver.admit(first, Sole::No)
    }

    /// Runs the entry of the oldest create, to its end. Returns false if there is none.
    fn run_entry(&self) -> bool {
        let Some(mut request) = CREATES.with_borrow_mut(VecDeque::pop_front) else {
            return false;
        };
        loop {
            if self.admit(self.created(&request)).is_ok() || self.driver.attempt_ended() {
                return true;
            }
            let Ok(next) = self.driver.begin_attempt() else { continue };
            sent(Sent::Create);
            request = next;
        }
    }

    /// I1: asserts that all callers are answered, one after the other, and that no node is left.
    fn serve(&self, mut waiting: Vec<Waiting>) {
        loop {
            while self.run_entry() {}
            let held: Vec<_> = waiting.iter_mut().map(answer_of).collect();
            let holds: Vec<_> = held.into_iter().enumerate().collect();
            let mut holds = holds.into_iter().filter_map(|(place, hold)| Some((place, hold?)));
            let Some((place, hold)) = holds.next() else { break };
            assert!(holds.next().is_none(), "two callers hold at once");
            drop(hold);
            drop(waiting.remove(place));
        }
        assert!(waiting.is_empty(), "{} callers wait for ever", waiting.len());
        assert!(!is_node_left(), "a node is left");
    }

    /// Ends the session, as the supervisor and the node monitor do.
    fn end_session(&self) {
        drop(self.nodes.session.end(Loss::SessionExpired));
        // The rest waits for the deletes.
        let _ = poll_once(give_up(&self.nodes));
    }
}

/// Sends a fenced write of a hold.
fn write(state: &HoldState, hold: u8) -> Result<(), End> {
    let point = Mutex::new(());
    state.fence(|| {
        // Another thread may continue between the check and the request.
        drop(point.lock());
        sent(Sent::Write(hold));
    })
}

/// Catches "driver: the delete is sent in the step".
#[test]
fn a_create_does_not_overtake_the_delete_of_a_release() {
    explore(|queue| {
        let hold = queue.acquire();
        let release = spawn(move || drop(hold));
        let joining = queue.clone();
        let joined = spawn(move || joining.join());
        let leaving = queue.clone();
        let left = spawn(move || drop(leaving.join()));
        join(release);
        join(left);
        queue.serve(vec![join(joined)]);
    });
}

/// Catches "core: a node that drains keeps its holds" and "core: a reader joins no node without a hold".
#[test]
fn a_reader_that_joins_while_the_last_one_releases_holds_by_a_node_that_is_there() {
    explore_with(reading, |queue| {
        let hold = queue.acquire();
        let release = spawn(move || drop(hold));
        let threads = [(); 2].map(|()| {
            let queue = queue.clone();
            spawn(move || queue.join())
        });
        join(release);
        let mut waiting = threads.map(join);
        while queue.run_entry() {}
        let holds: Vec<_> = waiting.iter_mut().filter_map(answer_of).collect();
        assert_eq!(holds.len(), 2, "readers hold together");
        let nodes: BTreeSet<_> = holds.iter().map(|hold| hold.state().node()).collect();
        assert!(holds.iter().all(|hold| hold.state().end().is_none()), "the holds last");
        assert_eq!(nodes_left(), nodes.len(), "each hold has a node");
        drop(holds);
        assert_eq!(nodes_left(), 0, "a node is left");
    });
}

/// Catches "create: a read alongside is sent inside the fence".
#[test]
fn no_read_is_created_alongside_a_hold_that_has_passed_its_node_on() {
    explore(|queue| {
        let hold = queue.acquire();
        let mut next = queue.join();
        let state = hold.state().clone();
        let point = Mutex::new(());
        let reading = spawn(move || {
            let sent = state.accompany(|| drop(point.lock()));
            sent.is_ok()
        });
        let releasing = spawn(move || drop(hold));
        let is_read = join(reading);
        join(releasing);
        match answer_of(&mut next) {
            Some(hold) => {
                assert!(!is_read, "the next caller holds beside a read");
                drop(hold);
                assert!(!is_node_left(), "a node is left");
            }
            None => queue.serve(vec![next]),
        }
    });
}

/// Catches "permits: none is kept once the last head has left".
#[test]
fn a_permit_that_is_offered_while_the_last_head_leaves_is_deleted() {
    explore(|queue| {
        let in_line = InLine::new(&queue.driver);
        in_line.becomes_head(true);
        let node = queue.created(&queue.request).node;
        let permit = PermitOf {
            mutex: queue.driver.clone(),
            locks: queue.request.path.clone(),
            limit: Limit::fixed(1),
        };
        let request = &queue.request;
        let term = queue.nodes.session.lease.term(request.waiter.term, BootInstant::now());
        let requester = Requester::current();
        let hold =
            QueueDriver::hold_permit(permit, node, request, requester, term.expect("a term"));
        let left = spawn(move || drop(in_line));
        let offered = spawn(move || drop(hold));
        join(left);
        join(offered);
        assert_eq!(SENT.with_borrow(Vec::clone), [Sent::Delete]);
    });
}

/// Catches "permits: the next head finds its permits wanted".
#[test]
fn a_head_that_follows_while_the_last_one_leaves_finds_its_permits_wanted() {
    explore(|queue| {
        let hold = queue.acquire();
        let in_line = InLine::new(&queue.driver);
        in_line.becomes_head(true);
        let mut next = queue.join();
        let next_in_line = InLine::new(&queue.driver);
        drop(hold);
        let left = spawn(move || drop(in_line));
        let entering = queue.clone();
        let entered = spawn(move || {
            entering.run_entry();
            let hold = answer_of(&mut next).expect("a hold");
            next_in_line.becomes_head(true);
            (hold, next_in_line)
        });
        join(left);
        let head = join(entered);
        assert!(queue.driver.passed.are_wanted(), "a head waits");
        drop(head);
        assert!(!queue.driver.passed.are_wanted(), "nobody is in line");
    });
}

/// Two heads leave while the mutex leaves the process.
#[test]
fn the_last_of_two_callers_that_leave_closes_the_line() {
    explore(|queue| {
        let hold = queue.acquire();
        let in_line = InLine::new(&queue.driver);
        in_line.becomes_head(true);
        let mut next = queue.join();
        let next_in_line = InLine::new(&queue.driver);
        let first = spawn(move || {
            drop(hold);
            drop(in_line);
        });
        let entering = queue.clone();
        let second = spawn(move || {
            let held = loop {
                if let Some(hold) = answer_of(&mut next) {
                    break hold;
                }
                entering.run_entry();
                shuttle::thread::yield_now();
            };
            next_in_line.becomes_head(true);
            drop(held);
            drop(next);
            drop(next_in_line);
            while entering.run_entry() {}
        });
        join(first);
        join(second);
        while queue.run_entry() {}
        assert!(!queue.driver.passed.are_wanted(), "nobody is in line");
    });
}

/// Catches "driver: a join is one step".
#[test]
fn callers_that_join_at_once_are_all_answered() {
    explore(|queue| {
        let threads = [(); 3].map(|()| {
            let queue = queue.clone();
            spawn(move || queue.join())
        });
        let entering = queue.clone();
        let entry = spawn(move || entering.run_entry());
        let waiting = threads.into_iter().map(join).collect();
        join(entry);
        queue.serve(waiting);
    });
}

/// Catches "driver: a withdrawal is one step", and "driver: the hold of a caller that left is released".
#[test]
fn a_waiter_that_leaves_at_its_admission_loses_no_node() {
    explore(|queue| {
        let leaver = queue.join();
        let entering = queue.clone();
        let entry = spawn(move || entering.run_entry());
        let left = spawn(move || drop(leaver));
        let joining = queue.clone();
        let joined = spawn(move || joining.join());
        join(entry);
        join(left);
        queue.serve(vec![join(joined)]);
    });
}

/// As above, for a caller that takes a hold that came in time.
#[test]
fn a_waiter_that_withdraws_at_its_admission_gets_the_hold_or_loses_no_node() {
    explore(|queue| {
        let leaver = queue.join();
        let entering = queue.clone();
        let entry = spawn(move || entering.run_entry());
        let left = spawn(move || leaver.withdraw());
        let joining = queue.clone();
        let joined = spawn(move || joining.join());
        join(entry);
        if let Some(hold) = join(left) {
            assert_eq!(hold.state().end(), None, "the hold lasts");
            drop(hold);
        }
        queue.serve(vec![join(joined)]);
    });
}

/// Catches "driver: the end is recorded before the fence closes", "driver: a release closes the fence", "hold: a fenced write
/// checks the end inside the fence" and "node: the fence is locked while a fenced write is sent".
#[test]
fn no_fenced_write_is_sent_after_the_delete() {
    explore(|queue| {
        let hold = queue.acquire();
        let state = hold.state().clone();
        let writing = spawn(move || [write(&state, 1), write(&state, 1)]);
        let release = spawn(move || drop(hold));
        let written = join(writing);
        join(release);
        assert_no_write_after(Sent::Delete, 1);
        let writes = SENT.with_borrow(|all| all.iter().filter(|s| **s == Sent::Write(1)).count());
        assert_eq!(writes, written.iter().filter(|written| written.is_ok()).count());
        let refused = written.iter().filter_map(|written| written.err());
        assert!(refused.clone().all(|end| end == End::Released));
        queue.serve(Vec::new());
    });
}

/// Catches the same but the first, for a node that passes to the next caller.
#[test]
fn no_fenced_write_is_sent_after_one_of_the_next_hold() {
    explore(|queue| {
        let hold = queue.acquire();
        let state = hold.state().clone();
        let mut waiting = queue.join();
        let writing = spawn(move || write(&state, 1));
        let next = spawn(move || {
            let hold = match shuttle::future::block_on(waiting.answer()) {
                Some(Ok(hold)) => hold,
                other => panic!("the next caller is answered {other:?}"),
            };
            write(hold.state(), 2)
        });
        let entering = queue.clone();
        let release = spawn(move || {
            drop(hold);
            entering.run_entry();
        });
        let _ = join(writing);
        join(release);
        assert_eq!(join(next), Ok(()));
        assert_no_write_after(Sent::Write(2), 1);
        queue.serve(Vec::new());
    });
}

/// Catches "hold: a fenced write checks the lease".
#[test]
fn no_fenced_write_begins_after_the_lease_term_ended() {
    explore(|queue| {
        let hold = queue.acquire();
        let [ending, writing] = [(); 2].map(|()| hold.state().clone());
        let ended = spawn(move || {
            // The clock of this thread says that the lease is over.
            ending.session().lease.check(BootInstant::now().after(TIMEOUT)).wake();
            write(&ending, 2)
        });
        let written = spawn(move || write(&writing, 1));
        let release = spawn(move || drop(hold));
        assert!(join(ended).is_err(), "a write begins after the lease has ended");
        let _ = join(written);
        join(release);
        assert_no_write_after(Sent::Delete, 1);
        queue.serve(Vec::new());
    });
}

/// Begins a hold while another thread ends it. Returns the wait of the caller.
fn begin_while(queue: &Arc<Queue>, ends: fn(&Queue)) -> Waiting {
    let waiting = queue.join();
    let request = CREATES.with_borrow_mut(VecDeque::pop_front).expect("a create");
    let first = queue.created(&request);
    let entering = queue.clone();
    let entry = spawn(move || {
        if entering.admit(first).is_err() {
            entering.driver.attempt_ended();
        }
    });
    let ending = queue.clone();
    let end = spawn(move || ends(&ending));
    join(entry);
    join(end);
    waiting
}

/// Catches "lease: a term begins in the step that checks the lease".
#[test]
fn a_hold_that_begins_while_its_connection_closes_is_lost() {
    explore(|queue| {
        let mut waiting = begin_while(&queue, |queue| queue.nodes.session.lease.begin_closing());
        if let Some(hold) = answer_of(&mut waiting) {
            assert_eq!(hold.state().end(), Some(End::Lost(Loss::Closed)));
        }
    });
}

#[test]
fn a_hold_that_begins_while_its_session_ends_is_lost() {
    explore(|queue| {
        let mut waiting = begin_while(&queue, Queue::end_session);
        if let Some(hold) = answer_of(&mut waiting) {
            assert_eq!(hold.state().end(), Some(End::Lost(Loss::SessionExpired)));
            drop(hold);
        }
        drop(waiting);
        assert!(!is_node_left(), "the node of a hold that was lost is left");
    });
}

/// Catches "driver: a hold whose node is deleted does not begin".
#[test]
fn a_hold_that_begins_while_its_node_is_deleted_is_lost() {
    explore(|queue| {
        let mut waiting = queue.join();
        let request = CREATES.with_borrow_mut(VecDeque::pop_front).expect("a create");
        let first = queue.created(&request);
        let path_nodes = first.node.path_nodes.clone();
        let znode = first.node.znode.clone();
        let entering = queue.clone();
        let entry = spawn(move || assert!(entering.admit(first).is_ok()));
        let gone = spawn(move || {
            // Another client deletes the node.
            sent(Sent::Delete);
            path_nodes.gone(&znode);
        });
        let joining = queue.clone();
        let joined = spawn(move || joining.join());
        join(entry);
        join(gone);
        let hold = answer_of(&mut waiting).expect("a hold");
        assert_eq!(hold.state().end(), Some(End::Lost(Loss::NodeDeleted)));
        let joined = join(joined);
        assert!(queue.run_entry(), "the next caller waits for a hold that is lost");
        drop(waiting);
        let mut joined = vec![joined];
        assert!(answer_of(&mut joined[0]).is_some_and(|hold| hold.state().end().is_none()));
        drop(hold);
        joined.clear();
        queue.serve(joined);
    });
}

/// Catches "driver: the delete is sent in the step".
#[test]
fn a_release_at_the_end_of_the_session_deletes_the_node_once() {
    explore(|queue| {
        let hold = queue.acquire();
        let release = spawn(move || drop(hold));
        let ending = queue.clone();
        let end = spawn(move || ending.end_session());
        let leaving = queue.clone();
        let left = spawn(move || drop(leaving.join()));
        join(release);
        join(end);
        join(left);
        // An entry of this session ends with it.
        let entries = CREATES.with_borrow(VecDeque::len);
        assert_eq!(is_node_left(), entries == 1, "{entries} entries");
    });
}

/// [`give_up`] ends the holds that are registered at that moment. A hold that is registered later gives its node up itself.
#[test]
fn a_hold_that_begins_while_its_session_ends_does_not_keep_the_next_caller_waiting() {
    explore(|queue| {
        let mut waiting = begin_while(&queue, Queue::end_session);
        // Without a hold, the entry goes on in the next session.
        let Some(_lost) = answer_of(&mut waiting) else { return };
        let _next = queue.join();
        let has_entry = CREATES.with_borrow(|creates| !creates.is_empty());
        assert!(has_entry, "the next caller waits until the guard of a lost hold is dropped");
    });
}

/// The lease may end after the release has checked for a loss and before it records its own end. A third thread
/// that asks in between gets the loss, and later the release.
#[test]
fn a_hold_that_was_seen_to_end_does_not_end_in_another_way() {
    explore(|queue| {
        let hold = queue.acquire();
        let [ending, seeing, state] = [(); 3].map(|()| hold.state().clone());
        let ended = spawn(move || {
            ending.session().lease.check(BootInstant::now().after(TIMEOUT)).wake();
        });
        let seen = spawn(move || seeing.end());
        let release = spawn(move || drop(hold));
        join(ended);
        let seen = join(seen);
        join(release);
        assert!(seen.is_none() || seen == state.end(), "{seen:?} became {:?}", state.end());
        queue.serve(Vec::new());
    });
}
