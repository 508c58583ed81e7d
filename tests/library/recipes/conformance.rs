//! What every recipe promises alike: a row is a recipe, a test is a promise that each row keeps.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::{JoinHandle, JoinSet};
use zookeeper_recipes::zookeeper_client::{Acls, Error as ClientError};
use zookeeper_recipes::{
    AcquireError, BoxFuture, ConnectionState, Curator, FencingToken, InterProcessLock,
    InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphore,
    InterProcessSemaphoreMutex, LeaderError, LeaderLatch, LeaderRun, LeaderSelector, Leadership,
    LockGuard, Loss, ReleaseError, Released,
};

use super::mutex_dropped::{Polled, poll_times};
use crate::harness::{Arena, children, eventually, within};

pub(crate) type Lock = Arc<dyn InterProcessLock>;
type Guard = Box<dyn LockGuard>;

/// Makes a recipe at a path.
pub(crate) type Make = fn(&Curator, &str) -> Lock;

#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) ours: Make,
    /// A contender that excludes `ours`.
    rival: Make,
    /// Of a node's name, between GUID and number.
    infix: &'static str,
    /// The release of a lost hold is an error. (A latch or a run enters again.)
    is_lock: bool,
}

pub(crate) fn mutex(curator: &Curator, path: &str) -> Lock {
    Arc::new(InterProcessMutex::new(curator, path).unwrap())
}

pub(crate) fn read(curator: &Curator, path: &str) -> Lock {
    Arc::new(InterProcessReadWriteLock::new(curator, path).unwrap().read())
}

pub(crate) fn write(curator: &Curator, path: &str) -> Lock {
    Arc::new(InterProcessReadWriteLock::new(curator, path).unwrap().write())
}

fn semaphore(curator: &Curator, path: &str) -> Lock {
    Arc::new(InterProcessSemaphore::new(curator, path, 1).unwrap())
}

fn semaphore_mutex(curator: &Curator, path: &str) -> Lock {
    Arc::new(InterProcessSemaphoreMutex::new(curator, path).unwrap())
}

fn multi(curator: &Curator, path: &str) -> Lock {
    let members = ["one", "other"].map(|name| format!("{path}/{name}"));
    Arc::new(InterProcessMultiLock::from_paths(curator, members).unwrap())
}

pub(crate) fn latch(curator: &Curator, path: &str) -> Lock {
    let (curator, path) = (curator.clone(), path.to_owned());
    Arc::new(Election { curator, path, selects: false })
}

fn selector(curator: &Curator, path: &str) -> Lock {
    let (curator, path) = (curator.clone(), path.to_owned());
    Arc::new(Election { curator, path, selects: true })
}

pub(crate) const ROWS: [Row; 8] = [
    Row { name: "mutex", ours: mutex, rival: mutex, infix: "-lock-", is_lock: true },
    Row { name: "read", ours: read, rival: write, infix: "-__READ__", is_lock: true },
    Row { name: "write", ours: write, rival: read, infix: "-__WRIT__", is_lock: true },
    Row { name: "semaphore", ours: semaphore, rival: semaphore, infix: "-lease-", is_lock: true },
    Row {
        name: "semaphore-mutex",
        ours: semaphore_mutex,
        rival: semaphore_mutex,
        infix: "-lease-",
        is_lock: true,
    },
    Row { name: "multi", ours: multi, rival: multi, infix: "-lock-", is_lock: true },
    Row { name: "latch", ours: latch, rival: latch, infix: "-latch-", is_lock: false },
    Row { name: "selector", ours: selector, rival: selector, infix: "-lock-", is_lock: false },
];

/// The locks, each at a path of its own.
pub(crate) fn locks(arena: &Arena, curator: &Curator) -> Vec<Lock> {
    let locks = ROWS.into_iter().filter(|row| row.is_lock);
    locks.map(|row| (row.ours)(curator, &row.path(arena))).collect()
}

/// A latch or a selector in the place of a lock: leading is holding, and each acquire is a candidate of its own.
#[derive(Debug)]
struct Election {
    curator: Curator,
    path: String,
    selects: bool,
}

struct Leading {
    leadership: Leadership,
    part: Part,
}

enum Part {
    Latch(LeaderLatch),
    Run(LeaderRun<()>),
}

impl InterProcessLock for Election {
    fn path(&self) -> &str {
        &self.path
    }

    fn acquire(&self) -> BoxFuture<'_, Result<Guard, AcquireError>> {
        Box::pin(async move {
            let (leadership, part) = if self.selects {
                let (begins, mut began) = tokio::sync::mpsc::unbounded_channel();
                let selector = LeaderSelector::new(&self.curator, &self.path).unwrap();
                let run = selector.run(move |leadership: Leadership| {
                    let token = leadership.cancellation_token();
                    begins.send(leadership).unwrap();
                    token.cancelled_owned()
                });
                match began.recv().await {
                    Some(leadership) => (leadership, Part::Run(run)),
                    None => return Err(ended(run).await),
                }
            } else {
                let latch = LeaderLatch::new(&self.curator, &self.path).unwrap();
                latch.start().unwrap();
                match latch.await_leadership().await {
                    Ok(leadership) => (leadership, Part::Latch(latch)),
                    Err(LeaderError::Ended(error)) => return Err(error),
                    Err(error) => panic!("{error:?}"),
                }
            };
            Ok(Box::new(Leading { leadership, part }) as Guard)
        })
    }

    fn acquire_timeout(
        &self,
        limit: Duration,
    ) -> BoxFuture<'_, Result<Option<Guard>, AcquireError>> {
        Box::pin(async move { tokio::time::timeout(limit, self.acquire()).await.ok().transpose() })
    }

    fn try_acquire(&self) -> BoxFuture<'_, Result<Option<Guard>, AcquireError>> {
        unimplemented!("an election has none")
    }
}

async fn ended(run: LeaderRun<()>) -> AcquireError {
    match run.await {
        Err(zookeeper_recipes::TermError::Acquire(error)) => error,
        other => panic!("{other:?}"),
    }
}

impl Debug for Leading {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.leadership.fmt(f)
    }
}

impl LockGuard for Leading {
    fn path(&self) -> &str {
        self.leadership.path()
    }

    fn loss(&self) -> Option<Loss> {
        self.leadership.loss()
    }

    fn lost(&self) -> BoxFuture<'static, Loss> {
        Box::pin(self.leadership.lost())
    }

    fn fencing_token(&self) -> Option<FencingToken> {
        Some(self.leadership.fencing_token())
    }

    fn node(&self) -> Option<&str> {
        Some(self.leadership.node())
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, Result<Released, ReleaseError>> {
        Box::pin(async move {
            match self.part {
                Part::Latch(latch) => latch.close().await?,
                Part::Run(run) => run.close().await?,
            }
            Ok(Released::Unlocked)
        })
    }
}

/// The hold itself, or that of the first member.
fn first(guard: &Guard) -> &dyn LockGuard {
    guard.members().first().map_or(&**guard, |member| &**member)
}

fn node(guard: &Guard) -> &str {
    first(guard).node().unwrap()
}

fn token(guard: &Guard) -> FencingToken {
    first(guard).fencing_token().unwrap()
}

/// A multi-lock fails by one of its members.
pub(crate) fn of_member(error: AcquireError) -> AcquireError {
    match error {
        AcquireError::Member { source, .. } => (*source).clone(),
        error => error,
    }
}

/// A contender's node: its path, its session, and the transaction that created it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Node {
    created: i64,
    path: String,
    session: i64,
}

/// All ephemeral nodes below `path`, first come first.
async fn nodes(arena: &Arena, path: &str) -> Vec<Node> {
    let (mut found, mut folders) = (Vec::new(), vec![path.to_owned()]);
    while let Some(folder) = folders.pop() {
        for name in children(&arena.admin, &folder).await {
            let path = format!("{folder}/{name}");
            match arena.stat(&path).await {
                Some(stat) if stat.ephemeral_owner == 0 => folders.push(path),
                Some(stat) => {
                    found.push(Node { created: stat.czxid, path, session: stat.ephemeral_owner });
                }
                None => {}
            }
        }
    }
    found.sort();
    found
}

/// Contends in a task of its own.
struct Waiting(JoinHandle<Result<Guard, AcquireError>>);

impl Waiting {
    fn new(lock: &Lock) -> Self {
        let lock = lock.clone();
        Self(tokio::spawn(async move { lock.acquire().await }))
    }

    async fn served(self, row: Row) -> Guard {
        within(row.name, self.0).await.unwrap().unwrap_or_else(|error| panic!("{row:?}: {error}"))
    }
}

impl Debug for Row {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Row {
    fn path(self, arena: &Arena) -> String {
        format!("{}/{}", arena.path, self.name)
    }

    fn ours(self, arena: &Arena, curator: &Curator) -> Lock {
        (self.ours)(curator, &self.path(arena))
    }

    fn rival(self, arena: &Arena, curator: &Curator) -> Lock {
        (self.rival)(curator, &self.path(arena))
    }

    async fn nodes(self, arena: &Arena) -> Vec<Node> {
        nodes(arena, &self.path(arena)).await
    }

    async fn nodes_of(self, arena: &Arena, curator: &Curator) -> Vec<Node> {
        let Ok(session) = curator.session_id() else { return Vec::new() };
        self.nodes(arena).await.into_iter().filter(|node| node.session == session).collect()
    }

    async fn queues(self, arena: &Arena, curator: &Curator, lock: &Lock) -> Waiting {
        let waiting = Waiting::new(lock);
        let is_there = async || !self.nodes_of(arena, curator).await.is_empty();
        eventually(&format!("{self:?}: a place in the queue"), is_there).await;
        waiting
    }

    async fn holds(self, lock: &Lock) -> Guard {
        let guard = within(self.name, lock.acquire()).await;
        guard.unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }

    async fn nothing_is_left(self, arena: &Arena) {
        let nothing = async || self.nodes(arena).await.is_empty();
        eventually(&format!("{self:?}: no node"), nothing).await;
    }
}

/// Runs a promise for all recipes at once.
async fn each<F: Future<Output = ()>>(promise: impl Fn(Row) -> F) {
    join_all(ROWS.map(promise)).await;
}

/// The node of a hold is looked after within a sixth of the timeout: 3 s, while a busy machine has 12 s to renew the lease.
async fn attentive(arena: &Arena) -> Curator {
    arena.connect(arena.builder().session_timeout(Duration::from_secs(18))).await
}

/// A server that stops whenever a test likes, and clients whose sessions outlive that.
async fn restartable() -> (Arena, Curator, Curator) {
    let arena = Arena::own().await;
    let (curator, other) = (arena.patient_curator().await, arena.patient_curator().await);
    (arena, curator, other)
}

/// An administrator ends its session, or deletes its node.
async fn robbed(arena: &Arena, row: Row, loss: Loss) {
    let (curator, other) = (attentive(arena).await, arena.curator().await);
    let (ours, rival) = (row.ours(arena, &curator), row.rival(arena, &other));
    let guard = row.holds(&ours).await;
    let lost = tokio::spawn(guard.lost());
    let next = row.queues(arena, &other, &rival).await;
    if loss == Loss::SessionExpired {
        arena.kill_session(&curator).await;
    } else {
        arena.remove(node(&guard)).await;
    }
    assert_eq!(within(row.name, lost).await.unwrap(), loss, "{row:?}");
    assert!(!guard.is_held(), "{row:?}");
    let before = token(&guard);
    // Another member than the first stays held.
    let is_whole = loss == Loss::SessionExpired || guard.members().is_empty();
    let next = if is_whole { Ok(next.served(row).await) } else { Err(next) };
    assert!(!guard.is_held(), "{row:?}: once and for good");
    let released = guard.release().await;
    assert!(released.is_err() || !row.is_lock, "{row:?}: {released:?}");
    let next = match next {
        Ok(next) => next,
        Err(next) => next.served(row).await,
    };
    assert!(token(&next) > before, "{row:?}: invariant 4");
    next.release().await.unwrap();
    // The same handle works on, in the next session too.
    row.holds(&ours).await.release().await.unwrap();
    row.nothing_is_left(arena).await;
}

/// Curator: TestInterProcessMutexBase#testKilledSession. (There the second waits for the servers to expire the first one's
/// session, and the first is never told.) CURATOR-696: nobody leads by a node of the session before.
#[tokio::test(start_paused = true)]
async fn a_holder_whose_session_is_killed_knows_and_the_next_is_served() {
    let arena = &Arena::new().await;
    each(|row| robbed(arena, row, Loss::SessionExpired)).await;
}

/// CURATOR-171 and 49. (The latch of `zookeeper-async` hangs here for ever.)
#[tokio::test(start_paused = true)]
async fn a_holder_whose_node_an_administrator_deletes_knows_and_the_next_is_served() {
    let arena = &Arena::new().await;
    each(|row| robbed(arena, row, Loss::NodeDeleted)).await;
}

/// Kills its session, or deletes its nodes.
async fn disturbed(arena: &Arena, row: Row, killed: bool) {
    let curators = [arena.curator().await, attentive(arena).await, arena.curator().await];
    let holder = row.holds(&row.rival(arena, &curators[0])).await;
    let ours = row.ours(arena, &curators[1]);
    let waiting = row.queues(arena, &curators[1], &ours).await;
    let behind = row.rival(arena, &curators[2]);
    // Two that read would not wait for each other.
    let behind = if row.name == "write" { row.ours(arena, &curators[2]) } else { behind };
    let behind = row.queues(arena, &curators[2], &behind).await;
    let before = row.nodes_of(arena, &curators[1]).await;
    if killed {
        arena.kill_session(&curators[1]).await;
    } else {
        for node in &before {
            // With the first it may take back the others.
            let deleted = arena.admin.delete(&node.path, None).await;
            assert!(matches!(deleted, Ok(()) | Err(ClientError::NoNode)), "{deleted:?}");
        }
    }
    eventually(&format!("{row:?}: it is back at the tail"), async || {
        let mut queue = row.nodes(arena).await;
        queue.retain(|node| !node.path.contains("-lease-"));
        let last = queue.last().map(|node| node.session);
        last.is_some() && last == curators[1].session_id().ok() && queue.len() > 1
    })
    .await;
    assert!(holder.is_held(), "{row:?}");
    holder.release().await.unwrap();
    let next = behind.served(row).await;
    assert!(!waiting.0.is_finished(), "{row:?}: it has lost its place");
    next.release().await.unwrap();
    waiting.served(row).await.release().await.unwrap();
    row.nothing_is_left(arena).await;
}

/// CURATOR-211 and 307, of readers.
#[tokio::test(start_paused = true)]
async fn a_waiter_whose_session_is_killed_enters_again_at_the_tail() {
    let arena = &Arena::new().await;
    each(|row| disturbed(arena, row, true)).await;
}

/// While the holder still holds. Curator: TestInterProcessSemaphore#testNoOrphanedNodes (CURATOR-315).
#[tokio::test(start_paused = true)]
async fn a_waiter_whose_nodes_an_administrator_deletes_enters_again_at_the_tail() {
    let arena = &Arena::new().await;
    each(|row| disturbed(arena, row, false)).await;
}

/// Curator: TestInterProcessMutexBase#testWaitingProcessKilledServer.
#[tokio::test(start_paused = true)]
async fn a_restarted_server_costs_neither_holder_nor_waiter_its_nodes() {
    let (arena, curator, other) = &restartable().await;
    let held = join_all(ROWS.map(async |row| {
        let guard = row.holds(&row.ours(arena, curator)).await;
        let waiting = row.queues(arena, other, &row.rival(arena, other)).await;
        (row, guard, waiting)
    }))
    .await;
    let before = nodes(arena, &arena.path).await;
    arena.server.restart().await.unwrap();
    for curator in [curator, other] {
        let mut state = curator.watch_state();
        let back = state.wait_for(|state| {
            matches!(state, ConnectionState::Connected | ConnectionState::Reconnected)
        });
        drop(within("the connection", back).await.unwrap());
    }
    assert_eq!(nodes(arena, &arena.path).await, before);
    for (row, guard, waiting) in held {
        assert!(guard.is_held(), "{row:?}: {:?}", guard.loss());
        guard.release().await.unwrap();
        waiting.served(row).await.release().await.unwrap();
        row.nothing_is_left(arena).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_holds_when_no_server_answers() {
    let (arena, curator, other) = &restartable().await;
    let held = join_all(ROWS.map(async |row| row.holds(&row.ours(arena, curator)).await)).await;
    arena.server.pause().await.unwrap();
    let limit = Duration::from_millis(500);
    for lock in locks(arena, other) {
        let error = within("the deadline", lock.acquire_timeout(limit)).await.unwrap_err();
        let error = of_member(error);
        let AcquireError::TimedOut { path, waited, .. } = &error else {
            panic!("{lock:?}: {error:?}")
        };
        // A member of a multi-lock has what is left of the whole.
        let is_in_time = if path == lock.path() { *waited == limit } else { *waited <= limit };
        assert!(path.starts_with(&arena.path) && is_in_time, "{lock:?}: {error:?}");
    }
    arena.server.resume().await.unwrap();
    // What was created all the same is removed.
    drop(held);
    each(|row| row.nothing_is_left(arena)).await;
}

/// Curator: TestInterProcessMutexBase#testContainerCleanup. And CURATOR-180: what was reaped is made again.
#[tokio::test(start_paused = true)]
async fn the_paths_are_reaped_when_nobody_uses_them() {
    let arena = &Arena::reaping(Duration::from_millis(10)).await;
    each(async |row| {
        let ours = row.ours(arena, &arena.curator().await);
        for _ in 0..3 {
            row.holds(&ours).await.release().await.unwrap();
            let reaped = async || arena.stat(ours.path()).await.is_none();
            eventually(&format!("{row:?}: the path is reaped"), reaped).await;
        }
    })
    .await;
}

/// Curator: TestInterProcessMutexBase#testReentrantSingleLock.
#[tokio::test(start_paused = true)]
async fn tasks_that_share_one_exclude_each_other() {
    exclude_each_other(&Arena::new().await).await;
}

async fn exclude_each_other(arena: &Arena) {
    each(async |row| {
        let ours = row.ours(arena, &arena.curator().await);
        let inside = Arc::new(AtomicBool::new(false));
        let reads = row.name == "read";
        let mut tasks = JoinSet::new();
        for _ in 0..10 {
            let (ours, inside) = (ours.clone(), inside.clone());
            tasks.spawn(async move {
                let guard = ours.acquire().await.unwrap();
                assert!(reads || !inside.swap(true, Ordering::SeqCst), "two are inside: {ours:?}");
                tokio::task::yield_now().await;
                inside.store(false, Ordering::SeqCst);
                guard.release().await.unwrap();
            });
        }
        within(row.name, tasks.join_all()).await;
        row.nothing_is_left(arena).await;
    })
    .await;
}

/// Curator: TestLeaderLatch#testBasic. (There in the order of the starts as well, as one client is slow enough.) Each with its queue
/// of three clients; readers are served together, with tokens in that order.
#[tokio::test(start_paused = true)]
async fn all_are_served_in_the_order_they_came() {
    let arena = &Arena::new().await;
    each(async |row| {
        let curators: [_; 10] = arena.curators().await;
        let holder = row.holds(&row.rival(arena, &curators[9])).await;
        let mut last = token(&holder);
        let mut waiting = Vec::new();
        for curator in &curators[..9] {
            let before = row.nodes(arena).await.len();
            waiting.push(Waiting::new(&row.ours(arena, curator)));
            let queued = async || row.nodes(arena).await.len() > before;
            eventually(&format!("{row:?}: it is queued"), queued).await;
        }
        holder.release().await.unwrap();
        for next in waiting {
            let next = next.served(row).await;
            assert!(token(&next) > last, "{row:?}: invariant 4, and first come first served");
            last = token(&next);
            next.release().await.unwrap();
        }
        row.nothing_is_left(arena).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_curator_that_closes_ends_hold_and_wait() {
    let arena = &Arena::new().await;
    each(async |row| {
        let [curator, other] = arena.curators().await;
        let guard = row.holds(&row.ours(arena, &curator)).await;
        let waiting = row.queues(arena, &other, &row.rival(arena, &other)).await;
        within(row.name, other.close()).await.unwrap();
        let error = within(row.name, waiting.0).await.unwrap().unwrap_err();
        let error = of_member(error);
        assert!(matches!(error, AcquireError::Session { .. }), "{row:?}: {error:?}");
        assert!(guard.is_held(), "{row:?}");
        within(row.name, curator.close()).await.unwrap();
        assert_eq!(guard.loss(), Some(Loss::Closed), "{row:?}");
        row.nothing_is_left(arena).await;
    })
    .await;
}

/// Curator: TestInterProcessMutexBase#testWithNamespace and TestLockACLs#testLockACLs.
#[tokio::test(start_paused = true)]
async fn with_a_namespace_and_acls_the_nodes_are_under_it_and_carry_them() {
    let arena = &Arena::new().await;
    arena.admin.auth("ours:secret").await;
    let builder = arena.builder().auth("digest", b"ours:secret").acls(Acls::creator_all());
    let curator = &arena.connect(builder.namespace(&arena.path)).await;
    each(async |row| {
        let path = format!("/locks/{}", row.name);
        let guard = row.holds(&(row.ours)(curator, &path)).await;
        assert_eq!(guard.path(), if row.name == "multi" { guard.path() } else { &path });
        assert!(node(&guard).starts_with(&path), "{row:?}: {}", node(&guard));
        let held = nodes(arena, &format!("{}{path}", arena.path)).await;
        assert!(held[0].path.ends_with(node(&guard)), "{row:?}: {held:?}");
        for node in held {
            let mut path = node.path.as_str();
            while path != arena.path {
                let (acls, _) = arena.admin.get_acl(path).await.unwrap();
                let schemes: Vec<_> = acls.iter().map(|acl| acl.scheme()).collect();
                assert_eq!(schemes, ["digest"], "{row:?}: {path}");
                path = path.rsplit_once('/').unwrap().0;
            }
        }
        guard.release().await.unwrap();
    })
    .await;
}

/// Curator: TestInterProcessMutex#testWithSchema, TestInterProcessReadWriteLock#testSetNodeData: names, modes and data are the
/// documented ones.
#[tokio::test(start_paused = true)]
async fn the_nodes_are_curators() {
    let arena = &Arena::new().await;
    each(async |row| {
        let curator = arena.connect(arena.builder().identity("me@here")).await;
        let guard = row.holds(&row.ours(arena, &curator)).await;
        let nodes = row.nodes_of(arena, &curator).await;
        assert!(nodes.iter().any(|one| one.path == node(&guard)), "{row:?}: {nodes:?}");
        let name = node(&guard).rsplit('/').next().unwrap();
        assert!(name.starts_with("_c_"), "{row:?}: {name}");
        assert_eq!(name[39..], format!("{}0000000000", row.infix), "{row:?}");
        let (data, stat) = arena.admin.get_data(node(&guard)).await.unwrap();
        assert_eq!(data, b"me@here", "{row:?}");
        assert_eq!(stat.ephemeral_owner, curator.session_id().unwrap(), "{row:?}");
        assert_eq!(stat.czxid, token(&guard).value(), "{row:?}");
        guard.release().await.unwrap();
    })
    .await;
}

/// Dropped after 0, 1, 2, … polls until it finishes.
#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_at_every_poll_leaves_nothing() {
    let arena = &Arena::new().await;
    each(async |row| {
        let [curator, other] = arena.curators().await;
        let (ours, rival) = (row.ours(arena, &curator), row.rival(arena, &other));
        for busy in [false, true] {
            for polls in 0.. {
                let holder = if busy { Some(row.holds(&rival).await) } else { None };
                let finished = poll_times(polls, ours.acquire()).await;
                let done = !matches!(finished, Polled::Dropped);
                drop(finished);
                let nothing = async || row.nodes_of(arena, &curator).await.is_empty();
                eventually(&format!("{row:?}: no node after {polls} polls"), nothing).await;
                if let Some(holder) = holder {
                    assert!(holder.is_held(), "{row:?}");
                    holder.release().await.unwrap();
                }
                row.holds(&rival).await.release().await.unwrap();
                if done {
                    break;
                }
                assert!(polls < 50, "{row:?}: it never finishes");
            }
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_release_dropped_at_every_poll_releases() {
    let arena = &Arena::new().await;
    each(async |row| {
        let ours = row.ours(arena, &arena.curator().await);
        for polls in 0.. {
            let released = poll_times(polls, row.holds(&ours).await.release()).await;
            row.nothing_is_left(arena).await;
            if let Polled::Finished(released) = released {
                released.unwrap();
                break;
            }
            assert!(polls < 50, "{row:?}: it never finishes");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_dropped_lets_the_next_move_up() {
    let arena = &Arena::new().await;
    each(async |row| {
        let curators: [_; 3] = arena.curators().await;
        let guard = row.holds(&row.rival(arena, &curators[0])).await;
        let goes = row.queues(arena, &curators[1], &row.ours(arena, &curators[1])).await;
        let stays = row.queues(arena, &curators[2], &row.ours(arena, &curators[2])).await;
        goes.0.abort();
        let left = async || row.nodes_of(arena, &curators[1]).await.is_empty();
        eventually(&format!("{row:?}: it has left"), left).await;
        assert!(guard.is_held() && !stays.0.is_finished(), "{row:?}");
        drop(guard);
        stays.served(row).await.release().await.unwrap();
        row.nothing_is_left(arena).await;
    })
    .await;
}

mod real {
    use super::*;
    use tokio::runtime::{Builder, Runtime};

    #[test]
    fn what_outlives_its_runtime_neither_panics_nor_blocks() {
        let watching = Runtime::new().unwrap();
        let arena = &watching.block_on(Arena::real());
        let runtime = Runtime::new().unwrap();
        let held = runtime.block_on(async {
            let curator = &arena.short_lived_curator().await;
            join_all(ROWS.map(async |row| {
                let ours = row.ours(arena, curator);
                (row, row.holds(&ours).await, Waiting::new(&row.rival(arena, curator)), ours)
            }))
            .await
        });
        runtime.shutdown_timeout(Duration::from_secs(10));
        watching.block_on(async {
            for (row, guard, waiting, ours) in held {
                let loss = within(row.name, guard.lost()).await;
                assert!(matches!(loss, Loss::Closed | Loss::Released), "{row:?}: {loss:?}");
                drop(waiting);
                let report = within(row.name, guard.release()).await;
                assert!(report.is_err() || !row.is_lock, "{row:?}: nobody is left: {report:?}");
                if row.is_lock {
                    within(row.name, ours.acquire()).await.unwrap_err();
                    within(row.name, ours.try_acquire()).await.unwrap_err();
                }
            }
            // The servers expire the session, which nobody keeps alive any more.
            each(|row| row.nothing_is_left(arena)).await;
        });
    }

    #[test]
    fn a_guard_dropped_while_its_runtime_stands_still_is_released_when_that_runs() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let arena = &runtime.block_on(Arena::real());
        let held = runtime.block_on(async {
            let curator = &arena.curator().await;
            join_all(ROWS.map(async |row| row.holds(&row.ours(arena, curator)).await)).await
        });
        drop(held);
        runtime.block_on(each(|row| row.nothing_is_left(arena)));
    }

    /// A simulation has one thread, and shows no data race.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn tasks_on_several_threads_exclude_each_other() {
        exclude_each_other(&Arena::real().await).await;
    }

    /// Where there is no runtime, also while it unwinds.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_guard_that_is_dropped_on_a_plain_thread_serves_the_next() {
        let arena = &Arena::real().await;
        each(async |row| {
            let [curator, other] = arena.curators().await;
            let guard = row.holds(&row.rival(arena, &curator)).await;
            let next = row.queues(arena, &other, &row.ours(arena, &other)).await;
            let panicked = std::thread::spawn(move || {
                let _guard = guard;
                panic!("as the test wants");
            });
            panicked.join().unwrap_err();
            next.served(row).await.release().await.unwrap();
            row.nothing_is_left(arena).await;
        })
        .await;
    }
}
