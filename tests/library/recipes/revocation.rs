//! Asking a holder to give its lock back: who is asked, who sees it, and who does not have to.

use std::time::Duration;

use futures_util::future::BoxFuture;
use zookeeper_recipes::zookeeper_client::{Acl, Acls, AuthId, Permission};
use zookeeper_recipes::{
    ConfigError, Curator, InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphore,
    InterProcessSemaphoreMutex, Lease, Loss, MutexGuard, Participant, ReadGuard, RevokeError,
    Revoker, WriteGuard,
};

use crate::harness::{Arena, Cut, within};

/// How long nothing is to happen.
const QUIET: Duration = Duration::from_millis(300);

const KINDS: [&str; 5] = ["mutex", "read", "write", "lease", "semaphore mutex"];

/// A hold of any kind.
enum Held {
    Mutex(MutexGuard),
    Read(ReadGuard),
    Write(WriteGuard),
    Lease(Lease),
}

/// What is the same for each of them.
macro_rules! each {
    ($held:expr, $guard:ident => $what:expr) => {
        match $held {
            Held::Mutex($guard) => $what,
            Held::Read($guard) => $what,
            Held::Write($guard) => $what,
            Held::Lease($guard) => $what,
        }
    };
}

impl Held {
    /// Of this kind, alone at a path of its own.
    async fn new(kind: &str, curator: &Curator, arena: &Arena) -> Self {
        let path = format!("{}/{}", arena.path, kind.replace(' ', "-"));
        let rw = || InterProcessReadWriteLock::new(curator, &path).unwrap();
        let acquiring = async {
            match kind {
                "mutex" => InterProcessMutex::new(curator, &path)?.acquire().await.map(Held::Mutex),
                "read" => rw().read().acquire().await.map(Held::Read),
                "write" => rw().write().acquire().await.map(Held::Write),
                "lease" => {
                    let semaphore = InterProcessSemaphore::new(curator, &path, 1)?;
                    semaphore.acquire().await.map(Held::Lease)
                }
                _ => {
                    let mutex = InterProcessSemaphoreMutex::new(curator, &path)?;
                    mutex.acquire().await.map(Held::Mutex)
                }
            }
            .map_err(Box::<dyn std::error::Error>::from)
        };
        within(kind, acquiring).await.unwrap()
    }

    fn node(&self) -> &str {
        each!(self, guard => guard.node())
    }

    fn is_held(&self) -> bool {
        each!(self, guard => guard.is_held())
    }

    fn requested(&self) -> BoxFuture<'static, Result<(), Loss>> {
        each!(self, guard => Box::pin(guard.revocation_requested()))
    }

    async fn release(self) {
        each!(self, guard => drop(guard.release().await.unwrap()));
    }
}

async fn is_quiet(requested: &mut BoxFuture<'static, Result<(), Loss>>) {
    assert!(tokio::time::timeout(QUIET, requested).await.is_err(), "nobody asked");
}

/// Curator: TestInterProcessMutex#testRevoking.
#[tokio::test(start_paused = true)]
async fn a_holder_gives_way_to_whoever_asks() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let guard = within("the lock", arena.mutex(&curator).acquire()).await.unwrap();
    let holder = tokio::spawn(async move {
        guard.revocation_requested().await.unwrap();
        guard.release().await.unwrap();
    });
    let rival = arena.mutex(&other);
    let participants = rival.participants().await.unwrap();
    let [one] = participants.as_slice() else { panic!("{participants:?}") };
    assert!(one.holds);
    let mutex = rival.clone();
    let acquiring = tokio::spawn(async move { mutex.acquire().await });
    arena.children_are(2).await;
    assert!(Revoker::new(&other).attempt_revoke(&one.path).await.unwrap());
    within("the holder", holder).await.unwrap();
    within("the next", acquiring).await.unwrap().unwrap().release().await.unwrap();
}

/// Also CURATOR-650, a wish: leases are asked for as any hold.
#[tokio::test(start_paused = true)]
async fn a_request_is_seen_by_who_listens_and_the_hold_goes_on() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let revoker = Revoker::new(&other);
    for kind in KINDS {
        let held = Held::new(kind, &curator, &arena).await;
        let (mut one, mut two) = (held.requested(), held.requested());
        is_quiet(&mut one).await;
        is_quiet(&mut two).await;
        assert!(revoker.attempt_revoke(held.node()).await.unwrap(), "{kind}");
        assert_eq!(within(kind, one).await, Ok(()));
        // Who listens twice is told twice, and who comes later, too.
        assert_eq!(within(kind, two).await, Ok(()));
        assert_eq!(within(kind, held.requested()).await, Ok(()));
        assert!(held.is_held(), "{kind}: it is a request");
        let data = arena.admin.get_data(held.node()).await.unwrap().0;
        assert_eq!(data, b"__REVOKE__");
        held.release().await;
    }
}

/// Curator's holder misses it: CURATOR has no id for that.
#[tokio::test(start_paused = true)]
async fn a_request_from_before_anyone_listened_is_seen() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    for kind in KINDS {
        let held = Held::new(kind, &curator, &arena).await;
        assert!(Revoker::new(&curator).attempt_revoke(held.node()).await.unwrap(), "{kind}");
        // Written by hand is as good.
        let requested = held.requested();
        assert_eq!(within(kind, requested).await, Ok(()));
        held.release().await;
    }
}

/// It is told when it holds.
#[tokio::test(start_paused = true)]
async fn a_waiter_can_be_asked_before_it_holds() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let holder = within("the lock", arena.mutex(&curator).acquire()).await.unwrap();
    let mutex = arena.mutex(&other);
    let acquiring = tokio::spawn(async move { mutex.acquire().await });
    arena.children_are(2).await;
    let waits = arena.mutex(&curator).participants().await.unwrap().pop().unwrap();
    assert!(!waits.holds);
    assert!(Revoker::new(&curator).attempt_revoke(&waits.path).await.unwrap());
    // Who looks sees it of who was asked, and of nobody else.
    let all = arena.mutex(&curator).participants().await.unwrap();
    let asked: Vec<_> = all.iter().map(Participant::revocation_requested).collect();
    assert_eq!(asked, [false, true]);
    // And is no less in the queue for it.
    assert!(!acquiring.is_finished());
    let mut of_holder: BoxFuture<'static, _> = Box::pin(holder.revocation_requested());
    is_quiet(&mut of_holder).await;
    holder.release().await.unwrap();
    let guard = within("the waiter", acquiring).await.unwrap().unwrap();
    within("the request", guard.revocation_requested()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn other_data_is_no_request() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    for kind in KINDS {
        let held = Held::new(kind, &curator, &arena).await;
        let mut requested = held.requested();
        for data in [&b"x"[..], b"", b"__REVOKE__ ", b"__revoke__"] {
            arena.admin.set_data(held.node(), data, None).await.unwrap();
            is_quiet(&mut requested).await;
        }
        arena.admin.set_data(held.node(), b"__REVOKE__", None).await.unwrap();
        assert_eq!(within(kind, requested).await, Ok(()));
        held.release().await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_stops_listening_can_begin_again() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    for kind in KINDS {
        let held = Held::new(kind, &curator, &arena).await;
        drop(held.requested());
        is_quiet(&mut held.requested()).await;
        // While nobody listens.
        Revoker::new(&curator).attempt_revoke(held.node()).await.unwrap();
        assert_eq!(within(kind, held.requested()).await, Ok(()));
        assert_eq!(within(kind, held.requested()).await, Ok(()));
        held.release().await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_listens_is_told_how_the_hold_ended_before() {
    let arena = Arena::new().await;
    for kind in KINDS {
        let curator = arena.short_lived_curator().await;
        let held = Held::new(kind, &curator, &arena).await;
        // It can outlive the guard.
        let requested = tokio::spawn(held.requested());
        held.release().await;
        assert_eq!(within(kind, requested).await.unwrap(), Err(Loss::Released));
        let held = Held::new(kind, &curator, &arena).await;
        let requested = held.requested();
        arena.admin.delete(held.node(), None).await.unwrap();
        assert_eq!(within(kind, requested).await, Err(Loss::NodeDeleted), "{kind}");
        drop(held);
        let held = Held::new(kind, &curator, &arena).await;
        let requested = held.requested();
        arena.kill_session(&curator).await;
        assert_eq!(within(kind, requested).await, Err(Loss::SessionExpired), "{kind}");
        assert_eq!(within(kind, held.requested()).await, Err(Loss::SessionExpired), "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_made_while_the_holder_is_cut_off_is_seen_after() {
    let arena = Arena::new().await;
    let (link, curator) = arena.linked(arena.builder()).await;
    for kind in KINDS {
        let held = Held::new(kind, &curator, &arena).await;
        let mut requested = held.requested();
        is_quiet(&mut requested).await;
        let refused = link.refuse();
        link.cut(Cut::Reset);
        within("a refusal", refused.struck()).await;
        arena.admin.set_data(held.node(), b"__REVOKE__", None).await.unwrap();
        refused.heal();
        assert_eq!(within(kind, requested).await, Ok(()));
        assert!(held.is_held());
        held.release().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_gone_cannot_be_asked() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let revoker = Revoker::new(&curator);
    for kind in KINDS {
        let held = Held::new(kind, &curator, &arena).await;
        let node = held.node().to_owned();
        held.release().await;
        assert!(!revoker.attempt_revoke(&node).await.unwrap(), "{kind}");
        assert!(arena.stat(&node).await.is_none(), "nothing was made");
    }
    let never = format!("{}/nowhere/_c_x-lock-0000000007", arena.path);
    assert!(!revoker.attempt_revoke(&never).await.unwrap());
}

/// A lock's own path, say, has other data, which nobody wants to have overwritten.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_no_contenders_is_not_written() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let held = Held::new("mutex", &curator, &arena).await;
    let revoker = Revoker::new(&curator);
    let parent = held.node().rsplit_once('/').unwrap().0.to_owned();
    let before = arena.stat(&parent).await.unwrap();
    for node in ["/", "", "relative-0000000001", "/a//b-0000000001", &parent, "/x/_c_y-lock-"] {
        let error = revoker.attempt_revoke(node).await.unwrap_err();
        match error {
            RevokeError::Config(ConfigError::InvalidPath { path, .. }) => assert_eq!(path, node),
            other => panic!("{node:?}: {other:?}"),
        }
    }
    assert_eq!(arena.stat(&parent).await.unwrap().version, before.version);
    held.release().await;
}

#[tokio::test(start_paused = true)]
async fn who_may_not_write_is_told_and_the_holder_is_not() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let acls = [Acl::new(Permission::READ | Permission::DELETE, AuthId::anyone())];
    let path = format!("{}/guarded", arena.path);
    arena.create(&arena.path, zookeeper_recipes::zookeeper_client::CreateMode::Persistent).await;
    arena.create(&path, zookeeper_recipes::zookeeper_client::CreateMode::Persistent).await;
    let mutex = InterProcessMutex::new(&curator, &path).unwrap();
    let guard = mutex.with_acls(Acls::new(&acls)).unwrap().acquire().await.unwrap();
    let mut requested: BoxFuture<'static, _> = Box::pin(guard.revocation_requested());
    match Revoker::new(&other).attempt_revoke(guard.node()).await.unwrap_err() {
        RevokeError::NoAuth { node, .. } => assert_eq!(node, guard.node()),
        other => panic!("{other:?}"),
    }
    is_quiet(&mut requested).await;
    guard.release().await.unwrap();
    assert_eq!(within("the end", requested).await, Err(Loss::Released));
    arena.admin.delete(&path, None).await.unwrap();
}
