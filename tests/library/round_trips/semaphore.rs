//! The requests of a semaphore, one by one.

use zookeeper_recipes_dev::Operation::{self, Create, Delete, GetData, List};

use crate::prelude::*;
use crate::support::counted_client::{CountedClient, settle, without_removals};
use crate::support::leases::{asks, asks_for, served};

const LIMIT: usize = 3;

/// The folders are there.
async fn testbed() -> Testbed {
    let testbed = Testbed::with_parent().await;
    for folder in ["locks", "leases"] {
        testbed.create(&format!("{}/{folder}", testbed.path), CreateMode::Persistent).await;
    }
    testbed
}

/// A client, and its semaphore.
async fn client_and_semaphore(testbed: &Testbed) -> (CountedClient, InterProcessSemaphoreV2) {
    let client = CountedClient::new(testbed).await;
    let semaphore = client.curator.semaphore(&testbed.path, LIMIT).unwrap();
    client.proxy.clear_log();
    (client, semaphore)
}

/// So many leases, and what it took to have them; the lock beside them is given back.
async fn acquired(
    client: &CountedClient,
    semaphore: &InterProcessSemaphoreV2,
    count: usize,
) -> (Guards, Vec<Operation>) {
    let leases = within("the leases", semaphore.acquire_many(count)).await.unwrap();
    assert_eq!(leases.iter().count(), count);
    let given_back = async || {
        client.log().contains(&Delete)
            && client.proxy.replies(Delete) == client.proxy.requests(Delete)
    };
    eventually("the lock is given back", given_back).await;
    settle().await;
    round_trip(&client.curator).await;
    (leases, client.took())
}

async fn released(client: &CountedClient, leases: Guards) {
    let count = leases.iter().count();
    leases.release().await.unwrap();
    assert_eq!(client.took(), vec![Delete; count]);
}

#[tokio::test(start_paused = true)]
async fn leases_of_a_known_path_cost_a_create_and_a_delete_each_and_the_same_for_the_lock() {
    for count in 1..=LIMIT {
        let testbed = testbed().await;
        let (client, semaphore) = client_and_semaphore(&testbed).await;
        let (leases, mut took) = acquired(&client, &semaphore, 1).await;
        // The third listing, once in a session, checks the path for other recipes.
        let order = [Create, GetData, List, Delete];
        took.sort_by_key(|one| order.iter().position(|of| of == one));
        let expected = [Create, Create, GetData, GetData, List, List, List, Delete];
        assert_eq!(took, expected);
        released(&client, leases).await;
        for _ in 0..3 {
            let (leases, took) = acquired(&client, &semaphore, count).await;
            assert_eq!(took, [vec![Create; 1 + count], vec![Delete]].concat(), "{count}");
            released(&client, leases).await;
        }
    }
}

/// Each change of the children is an event and a listing to the one that waits, and to nobody else.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_given_back_costs_the_first_waiter_a_listing_and_the_others_nothing() {
    let testbed = testbed().await;
    let (first, second) =
        (client_and_semaphore(&testbed).await, client_and_semaphore(&testbed).await);
    let third = client_and_semaphore(&testbed).await;
    let (leases, _) = acquired(&first.0, &first.1, 3).await;
    for (client, semaphore) in [&second, &third] {
        for _ in 0..2 {
            settle().await;
            client.took();
            let tried = within("a try", semaphore.try_acquire()).await;
            fails(tried, ErrorKind::Busy);
        }
        assert_eq!(client.took(), [List], "all is taken");
    }
    let settled = async || {
        for (client, _) in [&second, &third, &second, &third] {
            round_trip(&client.curator).await;
            settle().await;
        }
    };
    let waiting = asks_for(&second.1, 2);
    testbed.nodes_are(1, 5).await;
    settled().await;
    // The last is with a watch.
    let took = second.0.took();
    assert_eq!(took.iter().filter(|one| **one == Create).count(), 3);
    assert_eq!(took.last(), Some(&List));
    let last = asks(&third.1);
    testbed.nodes_are(2, 5).await;
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
