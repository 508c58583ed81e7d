//! Asking a holder to give its lock back: who is asked, who sees it, and who does not have to.

use std::time::Duration;

use zookeeper_recipes::zookeeper_client::{Acls, CreateMode, Permission};
use zookeeper_recipes::{
    BoxFuture, ConfigError, Curator, LockGuard, Loss, Participant, RevokeError, Revoker,
};

use super::conformance::{Lock, locks};
use crate::harness::{Arena, Cut, anyone, within};

/// How long nothing is to happen.
const QUIET: Duration = Duration::from_millis(300);

type Hold = Box<dyn LockGuard>;

/// Each kind of lock that has one node, at a path of its own.
fn kinds(arena: &Arena, curator: &Curator) -> Vec<Lock> {
    let mut kinds = locks(arena, curator);
    kinds.retain(|lock| lock.members().is_empty());
    kinds
}

/// A hold of each kind.
async fn holds(arena: &Arena, curator: &Curator) -> Vec<Hold> {
    let mut holds = Vec::new();
    for lock in kinds(arena, curator) {
        holds.push(within(lock.path(), lock.acquire()).await.unwrap());
    }
    holds
}

fn node(held: &Hold) -> &str {
    held.node().unwrap()
}

type Requested = BoxFuture<'static, Result<(), Loss>>;

async fn is_quiet(requested: &mut Requested) {
    assert!(tokio::time::timeout(QUIET, requested).await.is_err(), "nobody asked");
}

/// Curator: TestInterProcessMutex#testRevoking.
#[tokio::test(start_paused = true)]
async fn a_holder_gives_way_to_whoever_asks() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let guard = within("the lock", arena.mutex(&curator).acquire()).await.unwrap();
    let holder = tokio::spawn(async move {
        guard.revocation_requested().await.unwrap();
        guard.release().await.unwrap();
    });
    let participants = arena.mutex(&other).participants().await.unwrap();
    let [one] = participants.as_slice() else { panic!("{participants:?}") };
    assert!(one.holds);
    let acquiring = arena.waits(&other).await;
    assert!(Revoker::new(&other).attempt_revoke(&one.path).await.unwrap());
    within("the holder", holder).await.unwrap();
    within("the next", acquiring).await.unwrap().unwrap().release().await.unwrap();
}

/// Also CURATOR-650, a wish: leases are asked for as any hold.
#[tokio::test(start_paused = true)]
async fn a_request_is_seen_by_who_listens_and_the_hold_goes_on() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    for held in holds(&arena, &curator).await {
        let kind = held.path().to_owned();
        drop(held.revocation_requested());
        let (mut one, mut two) = (held.revocation_requested(), held.revocation_requested());
        is_quiet(&mut one).await;
        is_quiet(&mut two).await;
        assert!(Revoker::new(&other).attempt_revoke(node(&held)).await.unwrap(), "{kind}");
        assert_eq!(within(&kind, one).await, Ok(()));
        // Who listens twice is told twice, and who comes later, too.
        assert_eq!(within(&kind, two).await, Ok(()));
        assert_eq!(within(&kind, held.revocation_requested()).await, Ok(()));
        assert!(held.is_held(), "{kind}: it is a request");
        let data = arena.admin.get_data(node(&held)).await.unwrap().0;
        assert_eq!(data, b"__REVOKE__");
        held.release().await.unwrap();
    }
}

/// Curator's holder misses it: CURATOR has no id for that. Nor is it missed by who listened before, and did not then.
#[tokio::test(start_paused = true)]
async fn a_request_from_before_anyone_listened_is_seen() {
    let (arena, curator) = Arena::with_curator().await;
    for listened in [false, true] {
        for held in holds(&arena, &curator).await {
            if listened {
                is_quiet(&mut held.revocation_requested()).await;
            }
            assert!(Revoker::new(&curator).attempt_revoke(node(&held)).await.unwrap());
            let requested = within(held.path(), held.revocation_requested()).await;
            assert_eq!(requested, Ok(()), "{held:?}, listened before: {listened}");
            held.release().await.unwrap();
        }
    }
}

/// It is told when it holds.
#[tokio::test(start_paused = true)]
async fn a_waiter_can_be_asked_before_it_holds() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let holder = within("the lock", arena.mutex(&curator).acquire()).await.unwrap();
    let acquiring = arena.waits(&other).await;
    let waits = arena.mutex(&curator).participants().await.unwrap().pop().unwrap();
    assert!(!waits.holds);
    assert!(Revoker::new(&curator).attempt_revoke(&waits.path).await.unwrap());
    // Who looks sees it of who was asked, and of nobody else.
    let all = arena.mutex(&curator).participants().await.unwrap();
    let asked: Vec<_> = all.iter().map(Participant::revocation_requested).collect();
    assert_eq!(asked, [false, true]);
    // And is no less in the queue for it.
    assert!(!acquiring.is_finished());
    is_quiet(&mut (Box::pin(holder.revocation_requested()) as Requested)).await;
    holder.release().await.unwrap();
    let guard = within("the waiter", acquiring).await.unwrap().unwrap();
    within("the request", guard.revocation_requested()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn other_data_is_no_request() {
    let (arena, curator) = Arena::with_curator().await;
    for held in holds(&arena, &curator).await {
        let mut requested = held.revocation_requested();
        for data in [&b"x"[..], b"", b"__REVOKE__ ", b"__revoke__"] {
            arena.admin.set_data(node(&held), data, None).await.unwrap();
            is_quiet(&mut requested).await;
        }
        arena.admin.set_data(node(&held), b"__REVOKE__", None).await.unwrap();
        assert_eq!(within(held.path(), requested).await, Ok(()));
    }
}

#[tokio::test(start_paused = true)]
async fn who_listens_is_told_how_the_hold_ended_before() {
    let arena = Arena::new().await;
    for loss in [Loss::Released, Loss::NodeDeleted, Loss::SessionExpired] {
        let curator = arena.short_lived_curator().await;
        let mut held = holds(&arena, &curator).await;
        let of = |one: &Hold| (one.path().to_owned(), one.revocation_requested());
        let requested: Vec<_> = held.iter().map(of).collect();
        match loss {
            // They can outlive the guards.
            Loss::Released => held.clear(),
            Loss::NodeDeleted => {
                let nodes: Vec<_> = held.iter().map(|one| node(one).to_owned()).collect();
                arena.delete(&nodes).await;
            }
            _ => arena.kill_session(&curator).await,
        }
        for (kind, requested) in requested.into_iter().chain(held.iter().map(of)) {
            assert_eq!(within(&kind, requested).await, Err(loss), "{kind}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_made_while_the_holder_is_cut_off_is_seen_after() {
    let (arena, link, curator) = Arena::with_link(Arena::builder).await;
    for held in holds(&arena, &curator).await {
        let mut requested = held.revocation_requested();
        is_quiet(&mut requested).await;
        let refused = link.refuse();
        link.cut(Cut::Reset);
        within("a refusal", refused.struck()).await;
        arena.admin.set_data(node(&held), b"__REVOKE__", None).await.unwrap();
        refused.heal();
        assert_eq!(within(held.path(), requested).await, Ok(()));
        assert!(held.is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_gone_cannot_be_asked() {
    let (arena, curator) = Arena::with_curator().await;
    let mut gone = vec![format!("{}/nowhere/_c_x-lock-0000000007", arena.path)];
    for held in holds(&arena, &curator).await {
        gone.push(node(&held).to_owned());
        held.release().await.unwrap();
    }
    for node in gone {
        assert!(!Revoker::new(&curator).attempt_revoke(&node).await.unwrap(), "{node}");
        assert!(arena.stat(&node).await.is_none(), "nothing was made");
    }
}

/// A lock's own path, say, has other data, which nobody wants to have overwritten.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_no_contenders_is_not_written() {
    let (arena, curator) = Arena::with_curator().await;
    let _held = within("the lock", arena.mutex(&curator).acquire()).await.unwrap();
    let (parent, revoker) = (arena.path.as_str(), Revoker::new(&curator));
    let before = arena.stat(parent).await.unwrap();
    for node in ["/", "", "relative-0000000001", "/a//b-0000000001", parent, "/x/_c_y-lock-"] {
        let error = revoker.attempt_revoke(node).await.unwrap_err();
        match error {
            RevokeError::Config(ConfigError::InvalidPath { path, .. }) => assert_eq!(path, node),
            other => panic!("{node:?}: {other:?}"),
        }
    }
    assert_eq!(arena.stat(parent).await.unwrap().version, before.version);
}

#[tokio::test(start_paused = true)]
async fn who_may_not_write_is_told_and_the_holder_is_not() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    arena.create(&arena.path, CreateMode::Persistent).await;
    let acls = [anyone(Permission::READ | Permission::DELETE)];
    let mutex = arena.mutex(&curator).with_acls(Acls::new(&acls)).unwrap();
    let guard = mutex.acquire().await.unwrap();
    let mut requested: Requested = Box::pin(guard.revocation_requested());
    match Revoker::new(&other).attempt_revoke(guard.node()).await.unwrap_err() {
        RevokeError::NoAuth { node, .. } => assert_eq!(node, guard.node()),
        other => panic!("{other:?}"),
    }
    is_quiet(&mut requested).await;
    guard.release().await.unwrap();
    assert_eq!(within("the end", requested).await, Err(Loss::Released));
}
