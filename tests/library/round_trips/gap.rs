//! Attacks on the gap rule: a create that gets the expected number has no new contender before it. Also where the lock path
//! is deleted and made again, and its counter is driven to exactly that number, while another contender holds there.

use super::link::{Linked, sequence, still_waits, without_removals};
use crate::harness::Operation::{self, Create, GetData, List};
use crate::prelude::*;

/// The client arms its watches again in its own time: what is known by one ends with the connection.
#[tokio::test(start_paused = true)]
async fn after_a_reconnect_it_lists_and_watches_again() {
    let (arena, linked) = Linked::known().await;
    let mutex = arena.mutex(&linked.curator);
    for held_meanwhile in [false, true] {
        let guard = if held_meanwhile { Some(mutex.acquire().await.unwrap()) } else { None };
        let set = linked.proxy.replies(Operation::SetWatches);
        linked.proxy.cut(Cut::Reset);
        eventually("its watches again", async || linked.proxy.replies(Operation::SetWatches) > set)
            .await;
        round_trip(&linked.curator).await;
        if let Some(guard) = guard {
            guard.release().await.unwrap();
        }
        linked.took();
        let guard = mutex.acquire().await.unwrap();
        let asked = without_removals(linked.took());
        assert_eq!(asked, [Create, GetData, List], "held meanwhile: {held_meanwhile}");
        guard.release().await.unwrap();
        linked.is_known(&mutex).await;
    }
}

/// Makes the path again, so that the next create gets the number `expected`, and the one before it holds.
async fn drive_to(arena: &Arena, other: &Linked, expected: usize) -> Guard {
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
async fn is_not_fooled(arena: &Arena, linked: &Linked, theirs: Guard, ours: Waiting) {
    arena.children_are(2).await;
    let own = arena.newcomer(&[theirs.node()]).await;
    assert_eq!(sequence(&own), sequence(theirs.node()) + 1);
    still_waits(linked, &ours).await;
    assert!(theirs.is_held());
    theirs.release().await.unwrap();
    held(ours).await.release().await.unwrap();
}

/// The watch comes to a path made again, behind the create in the old one: the listing is from behind the watch, or
/// it would be of the old one.
#[tokio::test(start_paused = true)]
async fn a_path_made_again_before_the_watch_is_not_mistaken_for_the_one_that_was_listed() {
    let arena = Arena::with_parent().await;
    let (linked, other) = (Linked::new(&arena).await, Linked::new(&arena).await);
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
