//! Attacks on the gap rule, in one incarnation of the lock path: a create that gets the number that was expected has
//! nobody new before it.

use crate::harness::Operation::{Create, Delete, GetData, List};
use zookeeper_recipes::Shortcuts;
use zookeeper_recipes::zookeeper_client::CreateMode;

use super::link::{Linked, held, still_waits, without_removals};
use crate::harness::{Arena, Cut, Operation, eventually};

const ALL: Shortcuts = Shortcuts::ALL;

#[tokio::test(start_paused = true)]
async fn somebody_who_came_in_between_is_waited_for() {
    let arena = Arena::with_parent().await;
    let linked = Linked::knowing(&arena, ALL).await;
    let stranger = arena.stranger().await;
    let next = linked.waits(&arena, 2).await;
    still_waits(&linked, &next).await;
    assert_eq!(linked.took(), [Create, List, GetData, GetData]);
    arena.admin.delete(&stranger, None).await.unwrap();
    held(next).await.release().await.unwrap();
    // What the listing showed was not ours alone.
    linked.took();
    let guard = arena.mutex(&linked.curator).acquire().await.unwrap();
    assert_eq!(linked.took(), [Create, List]);
    guard.release().await.unwrap();
}

/// It is gone when our create comes; only the number tells that it was there.
#[tokio::test(start_paused = true)]
async fn any_create_in_between_lists() {
    let arena = Arena::with_parent().await;
    let linked = Linked::knowing(&arena, ALL).await;
    let mutex = arena.mutex(&linked.curator);
    for round in 0..3 {
        let node = format!("{}/{round}", arena.path);
        match round {
            0 => arena.create(&node, CreateMode::Persistent).await,
            1 => arena.create(&node, CreateMode::Ephemeral).await,
            _ => arena.count_up(1).await,
        }
        let guard = mutex.acquire().await.unwrap();
        assert_eq!(linked.took(), [Create, List], "{round}");
        guard.release().await.unwrap();
        // Foreign children that are no contenders do not hinder the rule.
        assert_eq!(linked.took(), [Delete]);
        let guard = mutex.acquire().await.unwrap();
        assert_eq!(linked.took(), [Create], "{round}");
        guard.release().await.unwrap();
        linked.took();
    }
    for round in 0..2 {
        arena.admin.delete(&format!("{}/{round}", arena.path), None).await.unwrap();
    }
    // To delete changes no number.
    let guard = mutex.acquire().await.unwrap();
    assert_eq!(linked.took(), [Create]);
    guard.release().await.unwrap();
}

/// A listing that shows somebody else teaches nothing, though the count is right.
#[tokio::test(start_paused = true)]
async fn a_listing_that_shows_a_stranger_is_not_built_on() {
    let arena = Arena::with_parent().await;
    let linked = Linked::knowing(&arena, ALL).await;
    let stranger = arena.stranger().await;
    let gives_up = linked.waits(&arena, 2).await;
    gives_up.abort();
    arena.children_are(1).await;
    linked.took();
    let next = linked.waits(&arena, 2).await;
    still_waits(&linked, &next).await;
    // The contender that gave up removes its watches, sooner or later.
    assert_eq!(without_removals(linked.took()), [Create, List, GetData, GetData]);
    // Nor does one that only looked.
    assert!(arena.mutex(&linked.curator).try_acquire().await.unwrap().is_none());
    next.abort();
    arena.children_are(1).await;
    let next = linked.waits(&arena, 2).await;
    still_waits(&linked, &next).await;
    arena.admin.delete(&stranger, None).await.unwrap();
    held(next).await.release().await.unwrap();
}

/// The client arms its watches again in its own time: what is known by one ends with the connection.
#[tokio::test(start_paused = true)]
async fn after_a_reconnect_it_lists_and_watches_again() {
    let arena = Arena::with_parent().await;
    let linked = Linked::knowing(&arena, ALL).await;
    let mutex = arena.mutex(&linked.curator);
    for held_meanwhile in [false, true] {
        let guard = if held_meanwhile { Some(mutex.acquire().await.unwrap()) } else { None };
        let set = linked.proxy.replies(Operation::SetWatches);
        linked.proxy.cut(Cut::Reset);
        eventually("its watches again", async || linked.proxy.replies(Operation::SetWatches) > set)
            .await;
        linked.round_trip().await;
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
