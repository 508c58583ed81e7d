//! What a multi-lock does while its servers answer. (Orders and failures that can be forced without one: `tests/library/api`.)

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use zookeeper_recipes::LocalLock;
use zookeeper_recipes::{
    AcquireError, BoxFuture, InterProcessLock, InterProcessMultiLock, InterProcessMutex,
    InterProcessReadWriteLock, InterProcessSemaphore, InterProcessSemaphoreMutex, LockGuard, Loss,
    ReleaseError, Released,
};

use crate::harness::{Admin, Arena, children, eventually, within};

/// Curator's own test has these two.
const MEMBERS: [&str; 2] = ["our-lock-1", "our-lock-2"];

pub(crate) fn paths(arena: &Arena) -> [String; 2] {
    MEMBERS.map(|name| format!("{}/{name}", arena.path))
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

/// Fails, once it has seen how many hold another lock.
#[derive(Debug)]
struct Bad {
    admin: Admin,
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
#[tokio::test(start_paused = true)]
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

#[tokio::test(start_paused = true)]
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

/// Two that take the same members in opposite order. (That without either they wait for each other for ever is in
/// `tests/library/api`, where it can be forced.)
#[tokio::test(start_paused = true)]
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

#[tokio::test(start_paused = true)]
async fn the_loss_of_one_member_is_told_and_the_others_stay_held() {
    let arena = Arena::new().await;
    let (one, two) = (arena.curator().await, arena.curator().await);
    let [here, there] = paths(&arena);
    let member = |curator, path: &str| -> Arc<dyn InterProcessLock> {
        Arc::new(InterProcessMutex::new(curator, path).unwrap())
    };
    let both = InterProcessMultiLock::new([member(&one, &here), member(&two, &there)]).unwrap();
    let guard = both.acquire().await.unwrap();
    let (token, lost) = (guard.cancellation_token(), tokio::spawn(guard.lost()));
    arena.kill_session(&two).await;
    let lost = within("the loss", lost).await.unwrap();
    assert_eq!((lost.position, lost.loss), (1, Loss::SessionExpired));
    assert_eq!(lost.path, paths(&arena)[1]);
    within("the token", token.cancelled()).await;
    assert_eq!(guard.loss(), Some(lost));
    assert!(guard.members()[0].is_held() && !guard.members()[1].is_held());
    assert_eq!(contenders(&arena).await, [1, 0]);
    let error = guard.release().await.unwrap_err();
    let [failure] = error.failures() else { panic!("{error}") };
    assert!(matches!(failure.error, ReleaseError::Lost { loss: Loss::SessionExpired, .. }));
    assert_eq!(failure.position, 1);
    assert_eq!(contenders(&arena).await, [0, 0]);
    within("again", both.acquire()).await.unwrap().release().await.unwrap();
}
