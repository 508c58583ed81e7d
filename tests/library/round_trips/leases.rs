//! What a semaphore sends, request by request.

use super::link::{Linked, settle, without_removals};
use crate::harness::Operation::{self, Create, Delete, GetData, List};
use crate::prelude::*;
use crate::recipes::leases::{asks, asks_for, served};

const ALL: Shortcuts = Shortcuts::ALL;
const LIMIT: usize = 3;

/// The folders are there.
async fn arena() -> Arena {
    let arena = Arena::with_parent().await;
    for folder in ["locks", "leases"] {
        arena.create(&format!("{}/{folder}", arena.path), CreateMode::Persistent).await;
    }
    arena
}

/// A client, and its semaphore.
async fn client(arena: &Arena, rules: Shortcuts) -> (Linked, InterProcessSemaphoreV2) {
    let linked = Linked::new(arena, rules).await;
    let semaphore = linked.curator.semaphore(&arena.path, LIMIT).unwrap();
    linked.proxy.clear_log();
    (linked, semaphore)
}

/// So many leases, and what it took to have them; the lock beside them is given back.
async fn acquired(
    linked: &Linked,
    semaphore: &InterProcessSemaphoreV2,
    count: usize,
) -> (Guards, Vec<Operation>) {
    let leases = within("the leases", semaphore.acquire_many(count)).await.unwrap();
    assert_eq!(leases.iter().count(), count);
    let given_back = async || {
        linked.log().contains(&Delete)
            && linked.proxy.replies(Delete) == linked.proxy.requests(Delete)
    };
    eventually("the lock is given back", given_back).await;
    settle().await;
    round_trip(&linked.curator).await;
    (leases, linked.took())
}

async fn released(linked: &Linked, leases: Guards) {
    let count = leases.iter().count();
    leases.release().await.unwrap();
    assert_eq!(linked.took(), vec![Delete; count]);
}

/// Without the gap rule each create is followed by a listing.
#[tokio::test(start_paused = true)]
async fn leases_of_a_known_path_cost_a_create_and_a_delete_each_and_the_same_for_the_lock() {
    for (rules, each) in [(ALL, &[Create][..]), (Shortcuts::NONE, &[Create, List])] {
        for count in 1..=LIMIT {
            let arena = arena().await;
            let (linked, semaphore) = client(&arena, rules).await;
            let (leases, mut took) = acquired(&linked, &semaphore, 1).await;
            if rules == ALL {
                // Beside it, once in a session, the path is listed for other recipes.
                let order = [Create, GetData, List, Delete];
                took.sort_by_key(|one| order.iter().position(|of| of == one));
                let expected = [Create, Create, GetData, GetData, List, List, List, Delete];
                assert_eq!(took, expected);
            }
            released(&linked, leases).await;
            for _ in 0..3 {
                let (leases, took) = acquired(&linked, &semaphore, count).await;
                assert_eq!(took, [each.repeat(1 + count), vec![Delete]].concat(), "{count}");
                released(&linked, leases).await;
            }
        }
    }
}

/// Each change of the children is an event and a listing to the one that waits, and to nobody else.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_given_back_costs_the_first_waiter_a_listing_and_the_others_nothing() {
    let arena = arena().await;
    let (first, second) = (client(&arena, ALL).await, client(&arena, ALL).await);
    let third = client(&arena, ALL).await;
    let (leases, _) = acquired(&first.0, &first.1, 3).await;
    for (linked, semaphore) in [&second, &third] {
        for _ in 0..2 {
            settle().await;
            linked.took();
            let tried = within("a try", semaphore.try_acquire()).await.unwrap();
            assert!(matches!(tried, Attempt::Busy));
        }
        assert_eq!(linked.took(), [List], "all is taken");
    }
    let settled = async || {
        for (linked, _) in [&second, &third, &second, &third] {
            round_trip(&linked.curator).await;
            settle().await;
        }
    };
    let waiting = asks_for(&second.1, 2);
    arena.nodes_are(1, 5).await;
    settled().await;
    // The last is with a watch.
    let took = second.0.took();
    assert_eq!(took.iter().filter(|one| **one == Create).count(), 3);
    assert_eq!(took.last(), Some(&List));
    let last = asks(&third.1);
    arena.nodes_are(2, 5).await;
    settled().await;
    third.0.took();
    let mut leases = leases.into_iter();
    leases.next().unwrap().release().await.unwrap();
    settled().await;
    assert_eq!((second.0.took(), third.0.took()), (vec![List], vec![]));
    assert!(!waiting.is_finished());
    leases.next().unwrap().release().await.unwrap();
    let two = served(waiting).await;
    settled().await;
    // It gives the lock back, and the next makes its lease.
    assert_eq!(without_removals(second.0.took()), [List, Delete]);
    settled().await;
    assert_eq!(third.0.took()[0], Create);
    assert!(!last.is_finished());
    two.release().await.unwrap();
    drop(served(last).await);
}
