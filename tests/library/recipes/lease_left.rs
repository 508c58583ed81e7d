//! What a guard says of its lease, for what has to be over by its end and cannot ask again.

use std::sync::Arc;
use std::time::Duration;

use zookeeper_recipes::LocalLock;
use zookeeper_recipes::{
    InterProcessLock, InterProcessMultiLock, InterProcessMutex, LockGuard, Loss,
};

use crate::harness::{Arena, Cut, Direction, SHORT, eventually, within};

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_while_the_servers_answer() {
    let arena = Arena::new().await;
    let curator = arena.short_lived_curator().await;
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    for _ in 0..3 {
        let renewed = guard.lease_renewed();
        let left = guard.lease_left();
        assert!(!left.is_zero() && left <= SHORT * 2 / 3, "{left:?}");
        within("a renewal", renewed).await.unwrap();
    }
    let renewed = guard.lease_renewed();
    guard.release().await.unwrap();
    // Of what was given back nothing is told but that.
    assert_eq!(within("the end", renewed).await, Err(Loss::Released));
}

#[tokio::test(start_paused = true)]
async fn it_runs_down_when_no_server_answers_and_ends_with_the_hold() {
    let (arena, link, curator) = Arena::with_link(Arena::short_lived_builder).await;
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    let stalled = link.stall(Direction::Both);
    // What was under way may still renew it.
    let mut left = guard.lease_left();
    while within("a renewal, or the loss", guard.lease_renewed()).await.is_ok() {
        left = guard.lease_left();
    }
    assert!(left <= SHORT * 2 / 3, "{left:?}");
    assert_eq!((guard.loss(), guard.lease_left()), (Some(Loss::LeaseEnded), Duration::ZERO));
    drop(stalled);
    // The session is there again, and renews its lease; this hold stays lost.
    let other = InterProcessMutex::new(&curator, &format!("{}-other", arena.path)).unwrap();
    let other = within("another lock", other.acquire()).await.unwrap();
    assert!(!other.lease_left().is_zero() && guard.lease_left().is_zero());
    assert_eq!(within("the loss", guard.lease_renewed()).await, Err(Loss::LeaseEnded));
    other.release().await.unwrap();
}

/// The shortest counts, and the loss of one is that of all.
#[tokio::test(start_paused = true)]
async fn of_several_locks_the_shortest_lease_counts() {
    let (arena, link, curator) = Arena::with_link(Arena::short_lived_builder).await;
    let long = arena.patient_curator().await;
    let locks: Vec<Arc<dyn InterProcessLock>> = vec![
        Arc::new(arena.mutex(&curator)),
        Arc::new(InterProcessMutex::new(&long, &format!("{}-long", arena.path)).unwrap()),
        Arc::new(LocalLock::new("local")),
    ];
    let guard = InterProcessMultiLock::new(locks).unwrap().acquire().await.unwrap();
    assert!(guard.lease_left() <= SHORT * 2 / 3, "{:?}", guard.lease_left());
    within("a renewal", guard.lease_renewed()).await.unwrap();
    let members: Vec<_> = guard.members().iter().map(|member| member.lease_left()).collect();
    assert!(members[1] > SHORT && members[2] == Duration::MAX, "{members:?}");
    let refused = link.refuse();
    link.cut(Cut::Reset);
    eventually("the loss", async || guard.lease_renewed().await.is_err()).await;
    assert!(guard.lease_left().is_zero());
    assert_eq!(guard.loss().unwrap().position, 0);
    drop(refused);
    drop(guard);
}

/// A lock of your own need not know a lease: it has no end, but that of the hold.
#[tokio::test(start_paused = true)]
async fn a_lock_without_a_lease_is_held_until_it_is_not() {
    let lock = LocalLock::new("local");
    let guard = InterProcessLock::acquire(&lock).await.unwrap();
    assert_eq!((guard.lease_left(), guard.node()), (Duration::MAX, None));
    let (renewed, asked) = (guard.lease_renewed(), guard.revocation_requested());
    lock.lose(Loss::NodeDeleted);
    assert_eq!(within("the loss", renewed).await, Err(Loss::NodeDeleted));
    assert_eq!(within("the loss", asked).await, Err(Loss::NodeDeleted));
    assert_eq!(guard.lease_left(), Duration::ZERO);
    let guard: Box<dyn LockGuard> = guard;
    assert!(guard.members().is_empty());
}
