//! What a multi-lock does while its servers answer. (Orders and failures that can be forced without one: `tests/api`.)

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use zookeeper_recipes::LocalLock;
use zookeeper_recipes::zookeeper_client::Client;
use zookeeper_recipes::{
    AcquireError, BoxFuture, ConfigError, Curator, InterProcessLock, InterProcessMultiLock,
    InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphore,
    InterProcessSemaphoreMutex, LockGuard, Owner, ReleaseError, Released,
};
use zookeeper_testkit::TestServer;

use crate::harness::{Arena, BUSY, LONG, children, eventually, within};

/// Curator's own test has these two.
const MEMBERS: [&str; 2] = ["our-lock-1", "our-lock-2"];

pub(crate) fn paths(arena: &Arena) -> [String; 2] {
    MEMBERS.map(|name| format!("{}/{name}", arena.path))
}

pub(crate) fn multi(arena: &Arena, curator: &Curator) -> InterProcessMultiLock {
    InterProcessMultiLock::from_paths(curator, paths(arena)).unwrap()
}

/// How many hold or wait, by member, as the server has it.
pub(crate) async fn contenders(arena: &Arena) -> [usize; 2] {
    let [one, two] = paths(arena);
    [children(&arena.admin, &one).await.len(), children(&arena.admin, &two).await.len()]
}

pub(crate) async fn contenders_are(arena: &Arena, counts: [usize; 2]) {
    let are = async || contenders(arena).await == counts;
    eventually(&format!("{counts:?} contenders"), are).await;
}

/// Curator: TestInterProcessMutexBase#testLocker.
#[tokio::test(flavor = "multi_thread")]
async fn with_holds_all_members_while_its_body_runs() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let (both, rival) = (multi(&arena, &curator), multi(&arena, &other));
    let value = both.with(async |guard| {
        assert!(guard.is_held());
        assert_eq!(contenders(&arena).await, [1, 1]);
        assert!(rival.try_acquire().await.unwrap().is_none());
        7
    });
    assert_eq!(value.await.unwrap(), 7);
    assert_eq!(contenders(&arena).await, [0, 0]);
    assert!(rival.try_acquire().await.unwrap().is_some());
}

/// Curator: TestInterProcessMutexBase#testWithNamespace.
#[tokio::test(flavor = "multi_thread")]
async fn with_a_namespace_the_members_are_under_it() {
    let arena = Arena::new().await;
    let curator = arena.connect(arena.builder().namespace(&arena.path)).await;
    let paths = MEMBERS.map(|name| format!("/{name}"));
    let both = InterProcessMultiLock::from_paths(&curator, &paths).unwrap();
    let guard = both.acquire_timeout(Duration::from_secs(10)).await.unwrap().unwrap();
    assert!(guard.members().iter().map(|member| member.path()).eq(&paths));
    assert_eq!(contenders(&arena).await, [1, 1]);
    guard.release().await.unwrap();
    assert_eq!(contenders(&arena).await, [0, 0]);
}

/// Curator: TestInterProcessMutexBase#testReentrantSingleLock.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_share_a_multi_lock_exclude_each_other() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let both = multi(&arena, &curator);
    let (inside, times) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let (both, inside, times) = (both.clone(), inside.clone(), times.clone());
        tasks.spawn(async move {
            let guard = both.acquire().await.unwrap();
            assert!(!inside.swap(true, Ordering::SeqCst), "two are inside");
            tokio::task::yield_now().await;
            times.fetch_add(1, Ordering::SeqCst);
            assert!(inside.swap(false, Ordering::SeqCst));
            assert_eq!(guard.release().await.unwrap(), Released::Unlocked);
        });
    }
    within("ten tasks", tasks.join_all()).await;
    assert_eq!(times.load(Ordering::SeqCst), 10);
    contenders_are(&arena, [0, 0]).await;
}

/// Curator: TestInterProcessMutexBase#testReentrant.
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_enters_three_times_and_the_last_guard_releases() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let (both, rival) = (multi(&arena, &curator), multi(&arena, &other));
    let nested = async {
        let one = both.acquire().await.unwrap();
        let two = both.try_acquire().await.unwrap().unwrap();
        let three = both.acquire_timeout(LONG).await.unwrap().unwrap();
        assert_eq!(contenders(&arena).await, [1, 1], "nested guards have no nodes");
        assert_eq!(three.release().await.unwrap(), Released::StillHeld);
        assert_eq!(one.release().await.unwrap(), Released::StillHeld);
        assert!(two.is_held());
        assert!(rival.try_acquire().await.unwrap().is_none());
        assert_eq!(two.release().await.unwrap(), Released::Unlocked);
        assert!(rival.try_acquire().await.unwrap().is_some());
    };
    Owner::new().scope(nested).await;
    contenders_are(&arena, [0, 0]).await;
}

/// Curator: TestInterProcessMutexBase#testReentrant2Threads, with the assertion that it lacks.
#[tokio::test(flavor = "multi_thread")]
async fn another_owner_does_not_get_in_while_one_is_nested() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let both = multi(&arena, &curator);
    let nested = async {
        let _one = both.acquire().await.unwrap();
        let _two = both.acquire().await.unwrap();
        let other = Owner::new().scope(both.acquire_timeout(BUSY)).await;
        assert!(other.unwrap().is_none(), "another owner is in");
        let _three = both.acquire().await.unwrap();
    };
    Owner::new().scope(nested).await;
    contenders_are(&arena, [0, 0]).await;
}

/// Curator: TestInterProcessMutexBase#test2Clients.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_clients_one_holds_and_then_the_other() {
    let arena = Arena::new().await;
    let (one, two) = (arena.curator().await, arena.curator().await);
    let (one, two) = (multi(&arena, &one), multi(&arena, &two));
    let (mut first, mut second) = (Box::pin(one.acquire()), Box::pin(two.acquire()));
    let (guard, mut waiting) = tokio::select! {
        guard = &mut first => (guard.unwrap(), second),
        guard = &mut second => (guard.unwrap(), first),
    };
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut waiting).await.is_err(), "both hold");
    assert!(guard.is_held());
    assert_eq!(contenders(&arena).await, [2, 1], "who waits for the first has not the second");
    guard.release().await.unwrap();
    let guard = within("the other client", waiting).await.unwrap();
    assert!(guard.is_held());
}

/// Curator: TestInterProcessMutexBase#testContainerCleanup.
#[tokio::test(flavor = "multi_thread")]
async fn the_lock_paths_go_when_nobody_uses_them() {
    let builder = TestServer::builder().container_check_interval(Duration::from_millis(10));
    let arena = Arena::on(Arc::new(builder.start().await.unwrap())).await;
    let curator = arena.curator().await;
    let both = multi(&arena, &curator);
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let both = both.clone();
        tasks.spawn(async move { both.with(async |_| tokio::task::yield_now().await).await });
    }
    for done in within("ten tasks", tasks.join_all()).await {
        done.unwrap();
    }
    eventually("the parent is reaped", async || arena.stat(&arena.path).await.is_none()).await;
    within("the locks", both.acquire()).await.unwrap().release().await.unwrap();
}

/// Curator: TestInterProcessMultiMutex#testSomeReleasesFail.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_fails_keeps_no_other_and_is_told() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let (good, bad) = (arena.mutex(&curator), LocalLock::new("/bad"));
    let members: [Arc<dyn InterProcessLock>; 2] = [Arc::new(good), Arc::new(bad.clone())];
    let both = InterProcessMultiLock::new(members).unwrap();
    let guard = both.acquire().await.unwrap();
    bad.fail_next_release(ReleaseError::other("/bad", "as the test wants"));
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.to_string(), "member 1, /bad: cannot release /bad: as the test wants");
    assert_eq!(error.loss(), None);
    assert_eq!(arena.children().await.len(), 0, "the good one is released");
    assert!(bad.holder().is_some(), "the bad one is not");
}

/// Fails, once it has seen how many hold another lock.
#[derive(Debug)]
struct Bad {
    admin: Client,
    other: String,
    seen: Arc<AtomicUsize>,
}

type Acquiring<'a, T> = BoxFuture<'a, Result<T, AcquireError>>;

impl InterProcessLock for Bad {
    fn path(&self) -> &str {
        "/bad"
    }

    fn acquire(&self) -> Acquiring<'_, Box<dyn LockGuard>> {
        Box::pin(async {
            let holders = children(&self.admin, &self.other).await.len();
            self.seen.store(holders, Ordering::SeqCst);
            Err(AcquireError::other("/bad", "as the test wants"))
        })
    }

    fn acquire_timeout(&self, _: Duration) -> Acquiring<'_, Option<Box<dyn LockGuard>>> {
        Box::pin(async { self.acquire().await.map(Some) })
    }

    fn try_acquire(&self) -> Acquiring<'_, Option<Box<dyn LockGuard>>> {
        Box::pin(async { self.acquire().await.map(Some) })
    }
}

/// Curator: TestInterProcessMultiMutex#testSomeLocksFailToLock. (There the members behind the one that failed are
/// acquired all the same before all are released.)
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_fails_releases_those_before_it() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let seen = Arc::new(AtomicUsize::new(0));
    let bad = Bad { admin: arena.admin.clone(), other: arena.path.clone(), seen: seen.clone() };
    let behind = LocalLock::new("/behind");
    let members: [Arc<dyn InterProcessLock>; 3] =
        [Arc::new(arena.mutex(&curator)), Arc::new(bad), Arc::new(behind.clone())];
    let all = InterProcessMultiLock::new(members).unwrap();
    let held = behind.acquire().await.unwrap();
    match within("the error, though another member is busy", all.acquire()).await {
        Err(AcquireError::Member { path, position: 1, .. }) => assert_eq!(path, "/bad"),
        other => panic!("{other:?}"),
    }
    assert_eq!(seen.swap(0, Ordering::SeqCst), 1, "the good one was held");
    assert_eq!(arena.children().await.len(), 0, "and is released");
    assert!(behind.waiters().is_empty());
    assert!(all.try_acquire().await.is_err());
    assert_eq!((seen.load(Ordering::SeqCst), arena.children().await.len()), (1, 0));
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_member_is_none_and_nothing_is_left() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let names = ["a", "b", "c"].map(|name| format!("{}/{name}", arena.path));
    let all = InterProcessMultiLock::from_paths(&curator, &names).unwrap();
    let count = async || {
        let mut counts = Vec::new();
        for name in &names {
            counts.push(children(&arena.admin, name).await.len());
        }
        counts
    };
    let third = InterProcessMutex::new(&other, &names[2]).unwrap();
    let holder = third.acquire().await.unwrap();
    assert!(all.try_acquire().await.unwrap().is_none());
    assert_eq!(count().await, [0, 0, 1]);
    // One deadline for the three.
    assert!(all.acquire_timeout(BUSY).await.unwrap().is_none());
    eventually("nothing is left", async || count().await == [0, 0, 1]).await;
    assert!(holder.is_held());
    holder.release().await.unwrap();
    let guard = all.acquire_timeout(Duration::from_secs(10)).await.unwrap().unwrap();
    assert_eq!(count().await, [1, 1, 1]);
    guard.release().await.unwrap();
    assert_eq!(count().await, [0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_recipe_can_be_a_member() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let path = |name: &str| format!("{}/{name}", arena.path);
    let read_write = |name: &str| InterProcessReadWriteLock::new(&curator, &path(name)).unwrap();
    let semaphore = InterProcessSemaphore::new(&curator, &path("semaphore"), 2).unwrap();
    let semaphore_mutex = InterProcessSemaphoreMutex::new(&curator, &path("one")).unwrap();
    let mutex = InterProcessMutex::new(&curator, &path("mutex")).unwrap();
    let all = InterProcessMultiLock::new([
        Arc::new(mutex) as Arc<dyn InterProcessLock>,
        Arc::new(semaphore_mutex),
        Arc::new(read_write("read").read()),
        Arc::new(read_write("write").write()),
        Arc::new(semaphore),
    ])
    .unwrap();
    let guard = within("all", all.acquire()).await.unwrap();
    let mut tokens = guard.members().iter().map(|member| member.fencing_token());
    assert!(tokens.len() == 5 && tokens.all(|token| token.is_some()));
    // Two of them can be shared.
    for name in ["read", "write"] {
        let free = read_write(name).read().try_acquire().await.unwrap().is_some();
        assert_eq!(free, name == "read");
    }
    assert!(all.try_acquire().await.unwrap().is_none());
    assert_eq!(guard.release().await, Ok(Released::Unlocked));
    let limit = Duration::from_secs(10);
    assert!(all.acquire_timeout(limit).await.unwrap().is_some());
    // Both halves of one lock would wait for each other.
    let lock = read_write("both");
    let halves: [Arc<dyn InterProcessLock>; 2] = [Arc::new(lock.read()), Arc::new(lock.write())];
    assert!(InterProcessMultiLock::new(halves).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_paths_are_refused() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let refused = |paths: &[&str]| InterProcessMultiLock::from_paths(&curator, paths).unwrap_err();
    let none = refused(&[]);
    assert!(matches!(none, ConfigError::InvalidOption { option: "members", .. }), "{none:?}");
    let bad = refused(&["/good", "bad"]);
    assert!(matches!(bad, ConfigError::InvalidPath { option: "lock path", .. }), "{bad:?}");
    let twice = refused(&["/a", "/b", "/a"]);
    assert!(matches!(twice, ConfigError::InvalidPath { option: "member", .. }), "{twice:?}");
    assert!(twice.to_string().contains("\"/a\""), "{twice}");
}

/// Two that take the same members in opposite order. (That without either they wait for each other for ever is in
/// `tests/api`, where it can be forced.)
#[tokio::test(flavor = "multi_thread")]
async fn opposite_orders_end_with_a_deadline_or_sorted() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let [one, two] = paths(&arena);
    let forth = InterProcessMultiLock::from_paths(&curator, [&one, &two]).unwrap();
    let back = InterProcessMultiLock::from_paths(&other, [&two, &one]).unwrap();
    let limit = Duration::from_millis(100);
    let mut tasks = JoinSet::new();
    for both in [forth.clone(), back.clone()] {
        tasks.spawn(async move {
            for _ in 0..10 {
                match both.acquire_timeout(limit).await {
                    Ok(Some(guard)) => assert_eq!(guard.release().await, Ok(Released::Unlocked)),
                    Ok(None) => {}
                    // On a busy machine the servers may not have answered at all.
                    Err(AcquireError::Member { source, .. }) => {
                        assert!(matches!(*source, AcquireError::TimedOut { .. }), "{source:?}");
                    }
                    Err(error) => panic!("{error:?}"),
                }
            }
        });
    }
    within("the deadlines", tasks.join_all()).await;
    contenders_are(&arena, [0, 0]).await;
    let mut tasks = JoinSet::new();
    for both in [forth, back].map(|both| both.sorted_by_path()) {
        tasks.spawn(async move {
            for _ in 0..20 {
                both.acquire().await.unwrap().release().await.unwrap();
            }
        });
    }
    within("all rounds", tasks.join_all()).await;
    contenders_are(&arena, [0, 0]).await;
}
