//! Attacks on the gap rule by a lock path that is deleted and made again, and whose counter is driven to exactly the
//! number that the rule expects, while somebody else holds there.

use std::time::Duration;

use crate::harness::Operation::{Create, List};
use zookeeper_recipes::{MutexGuard, Shortcuts};

use super::link::{Linked, Waiting, held, sequence, still_waits};
use crate::harness::{Arena, Direction, Message, Operation, eventually, within};

const ALL: Shortcuts = Shortcuts::ALL;

/// Makes the path again, so that the next create gets the number `expected`, and the one before it holds.
async fn drive_to(arena: &Arena, other: &Linked, expected: usize) -> MutexGuard {
    arena.make_again().await;
    arena.count_up(expected - 1).await;
    let theirs = arena.mutex(&other.curator).acquire().await.unwrap();
    assert_eq!(sequence(theirs.node()), i64::try_from(expected).unwrap() - 1);
    theirs
}

/// Starts to acquire.
fn spawn(arena: &Arena, linked: &Linked) -> Waiting {
    let mutex = arena.mutex(&linked.curator);
    tokio::spawn(async move { mutex.acquire().await })
}

/// It has the number that was expected, and waits all the same.
async fn is_not_fooled(arena: &Arena, linked: &Linked, theirs: MutexGuard, ours: Waiting) {
    arena.children_are(2).await;
    let own = arena.newcomer(&[theirs.node()]).await;
    assert_eq!(sequence(&own), sequence(theirs.node()) + 1);
    still_waits(linked, &ours).await;
    assert!(theirs.is_held());
    theirs.release().await.unwrap();
    held(ours).await.release().await.unwrap();
}

async fn knows(arena: &Arena) -> (Linked, Linked) {
    let linked = Linked::knowing(arena, ALL).await;
    // The next one gets the number 3.
    for _ in 0..2 {
        arena.mutex(&linked.curator).acquire().await.unwrap().release().await.unwrap();
    }
    linked.proxy.clear_log();
    (linked, Linked::new(arena, ALL).await)
}

/// The event of the parent's deletion reaches the client after its create was sent, right before the answer.
#[tokio::test(start_paused = true)]
async fn a_path_made_again_unheard_is_listed() {
    let arena = Arena::with_parent().await;
    let (linked, other) = knows(&arena).await;
    let stalled = linked.proxy.stall(Direction::ToClient);
    let theirs = drive_to(&arena, &other, 3).await;
    let ours = spawn(&arena, &linked);
    arena.children_are(2).await;
    assert_eq!(linked.took(), [Create], "it trusts what it knows");
    stalled.heal();
    is_not_fooled(&arena, &linked, theirs, ours).await;
    assert!(linked.took().contains(&List));
}

/// The watch comes to a path made again, behind the create in the old one: the listing is from behind the watch, or
/// it would be of the old one.
#[tokio::test(start_paused = true)]
async fn a_path_made_again_before_the_watch_is_not_mistaken_for_the_one_that_was_listed() {
    let arena = Arena::with_parent().await;
    let (linked, other) = (Linked::new(&arena, ALL).await, Linked::new(&arena, ALL).await);
    let late = linked.proxy.hold(Message::request(Operation::GetData));
    let ours = spawn(&arena, &linked);
    within("the watch", late.struck()).await;
    arena.children_are(1).await;
    let theirs = drive_to(&arena, &other, 1).await;
    late.heal();
    is_not_fooled(&arena, &linked, theirs, ours).await;
    let mutex = arena.mutex(&linked.curator);
    mutex.acquire().await.unwrap().release().await.unwrap();
    linked.took();
    let guard = mutex.acquire().await.unwrap();
    assert_eq!(linked.took(), [Create], "and the rule holds for the new one");
    guard.release().await.unwrap();
}

/// The server deletes empty containers by itself.
#[tokio::test(start_paused = true)]
async fn a_path_that_the_server_reaped_is_made_again() {
    let arena = Arena::reaping(Duration::from_millis(100)).await;
    let linked = Linked::knowing(&arena, ALL).await;
    let mutex = arena.mutex(&linked.curator);
    for _ in 0..2 {
        eventually("it is reaped", async || arena.stat(&arena.path).await.is_none()).await;
        linked.took();
        let guard = within("the lock", mutex.acquire()).await.unwrap();
        assert_eq!(sequence(guard.node()), 0);
        assert!(linked.took().contains(&List));
        guard.release().await.unwrap();
    }
}
