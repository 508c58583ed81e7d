//! What a semaphore sends, request by request.

use crate::harness::Operation::{self, Create, Delete, GetData, List};
use tokio::task::JoinHandle;
use zookeeper_recipes::zookeeper_client::CreateMode;
use zookeeper_recipes::{AcquireError, InterProcessSemaphore, Leases, Shortcuts};

use super::link::{Linked, settle, without_removals};
use crate::harness::{Arena, BUSY, children, eventually, within};

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
async fn client(arena: &Arena, rules: Shortcuts) -> (Linked, InterProcessSemaphore) {
    let linked = Linked::new(arena, rules).await;
    let semaphore = InterProcessSemaphore::new(&linked.curator, &arena.path, LIMIT).unwrap();
    linked.proxy.clear_log();
    (linked, semaphore)
}

/// So many leases, and what it took to have them; the lock beside them is given back.
async fn acquired(
    linked: &Linked,
    semaphore: &InterProcessSemaphore,
    count: usize,
) -> (Leases, Vec<Operation>) {
    let leases = within("the leases", semaphore.acquire_many(count)).await.unwrap();
    assert_eq!(leases.len(), count);
    let given_back = async || {
        linked.log().contains(&Delete)
            && linked.proxy.replies(Delete) == linked.proxy.requests(Delete)
    };
    eventually("the lock is given back", given_back).await;
    settle().await;
    linked.round_trip().await;
    (leases, linked.took())
}

async fn released(linked: &Linked, leases: Leases) {
    let count = leases.len();
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

#[tokio::test(start_paused = true)]
async fn clients_that_take_turns_list_what_the_other_created() {
    let arena = arena().await;
    let clients = [client(&arena, ALL).await, client(&arena, ALL).await];
    for round in 0..4 {
        for (linked, semaphore) in &clients {
            let (leases, took) = acquired(linked, semaphore, 1).await;
            // The listing of leases comes with a watch, in case there are too few.
            if round > 0 {
                assert_eq!(
                    without_removals(took),
                    [Create, List, Create, List, Delete],
                    "in round {round}"
                );
            }
            released(linked, leases).await;
        }
    }
}

type Waiting = JoinHandle<Result<Leases, AcquireError>>;

/// Waits for so many leases; returns when all that it asks at once is answered.
async fn waits(
    arena: &Arena,
    linked: &Linked,
    semaphore: &InterProcessSemaphore,
    count: usize,
) -> Waiting {
    let leases = format!("{}/leases", arena.path);
    let before = children(&arena.admin, &leases).await.len();
    let semaphore = semaphore.clone();
    let waiting = tokio::spawn(async move { semaphore.acquire_many(count).await });
    eventually("its nodes", async || children(&arena.admin, &leases).await.len() == before + count)
        .await;
    for _ in 0..2 {
        linked.round_trip().await;
        settle().await;
    }
    waiting
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
            assert!(within("a try", semaphore.try_acquire()).await.unwrap().is_none());
        }
        assert_eq!(linked.took(), [List], "all is taken");
    }
    let waiting = waits(&arena, &second.0, &second.1, 2).await;
    // The last is with a watch.
    let took = second.0.took();
    assert_eq!(took.iter().filter(|one| **one == Create).count(), 3);
    assert_eq!(took.last(), Some(&List));
    let semaphore = third.1.clone();
    let last = tokio::spawn(async move { semaphore.acquire().await });
    let locks = format!("{}/locks", arena.path);
    eventually("it queues", async || children(&arena.admin, &locks).await.len() == 2).await;
    let settled = async || {
        for (linked, _) in [&second, &third, &second, &third] {
            linked.round_trip().await;
            settle().await;
        }
    };
    settled().await;
    third.0.took();
    let mut leases = leases.into_iter();
    leases.next().unwrap().release().await.unwrap();
    settled().await;
    assert_eq!((second.0.took(), third.0.took()), (vec![List], vec![]));
    assert!(!waiting.is_finished());
    leases.next().unwrap().release().await.unwrap();
    let two = within("the first waiter", waiting).await.unwrap().unwrap();
    settled().await;
    // It gives the lock back, and the next makes its lease.
    assert_eq!(without_removals(second.0.took()), [List, Delete]);
    settled().await;
    assert_eq!(third.0.took()[0], Create);
    assert!(!last.is_finished());
    two.release().await.unwrap();
    drop(within("the second waiter", last).await.unwrap().unwrap());
}

/// Where no listing is made, those of others that were in the last one count all the same.
#[tokio::test(start_paused = true)]
async fn a_strangers_lease_counts_where_nothing_is_listed() {
    let arena = arena().await;
    let (linked, semaphore) = client(&arena, ALL).await;
    let (theirs, their_semaphore) = client(&arena, ALL).await;
    let (held, _) = acquired(&theirs, &their_semaphore, 1).await;
    // Both folders are known from now on, with one lease of somebody else's.
    let (leases, _) = acquired(&linked, &semaphore, 1).await;
    released(&linked, leases).await;
    let (mine, took) = acquired(&linked, &semaphore, LIMIT - 1).await;
    assert!(!took.contains(&List), "{took:?}");
    assert!(semaphore.acquire_timeout(BUSY).await.unwrap().is_none(), "one too many");
    let folder = format!("{}/leases", arena.path);
    eventually("what was asked for in vain is gone", async || {
        children(&arena.admin, &folder).await.len() == mine.len() + held.len()
    })
    .await;
    held.release().await.unwrap();
    let (last, _) = acquired(&linked, &semaphore, 1).await;
    for leases in [mine, last] {
        leases.release().await.unwrap();
    }
}
