//! What a read-write lock asks of the servers, and which waiters a release wakes: invariant 6 for readers and writers.

use zookeeper_recipes_dev::Operation::{self, Create, Delete, GetData, List, Multi};

use crate::prelude::*;
use crate::support::contenders::{read, write};
use crate::support::counted_client::{CountedClient, counted_clients, settle, still_waits};

#[tokio::test(start_paused = true)]
async fn a_read_beside_a_write_is_a_transaction_and_a_look() {
    let testbed = Testbed::with_parent().await;
    let client = CountedClient::new(&testbed).await;
    let lock = testbed.read_write(&client.curator);
    let write = lock.write().await.unwrap();
    client.took();
    let read = write.read().await.unwrap();
    assert_eq!(client.took(), [Multi, GetData]);
    read.release().await.unwrap();
    assert_eq!(client.took(), [Delete]);
    let read = write.downgrade().await.unwrap();
    assert_eq!(client.took(), [Multi, GetData, Delete]);
    read.release().await.unwrap();
    assert_eq!(client.took(), [Delete]);
    // It was a create that no number tells of.
    lock.write().await.unwrap().release().await.unwrap();
    assert_eq!(client.took(), [Create, List, Delete]);
    lock.write().await.unwrap().release().await.unwrap();
    assert_eq!(client.took(), [Create, Delete]);
}

/// Events that each client has been sent since the last time, all that there are so far.
async fn woken(clients: &[CountedClient], seen: &mut [usize]) -> Vec<usize> {
    let mut woken = Vec::new();
    for _ in 0..2 {
        // What an event brings about can bring about others.
        for client in clients {
            round_trip(&client.curator).await;
        }
        settle().await;
    }
    for (client, seen) in clients.iter().zip(seen) {
        let events = client.proxy.replies(Operation::Event);
        woken.push(events - *seen);
        *seen = events;
    }
    woken
}

/// A queue of a writer, two readers, two writers, and a reader, each of another client.
#[tokio::test(start_paused = true)]
async fn a_release_wakes_its_successors_only() {
    let testbed = Testbed::with_parent().await;
    let clients: [_; 6] = counted_clients(&testbed).await;
    let first = testbed.read_write(&clients[0].curator).write().await.unwrap();
    let second = clients[1].enters(&testbed, read, 3).await;
    let third = clients[2].enters(&testbed, read, 3).await;
    let fourth = clients[3].enters(&testbed, write, 3).await;
    let fifth = clients[4].enters(&testbed, write, 3).await;
    let sixth = clients[5].enters(&testbed, read, 3).await;
    let mut seen = vec![0; 6];
    woken(&clients, &mut seen).await;
    for client in &clients {
        client.took();
    }
    first.release().await.unwrap();
    let (second, third) = (held(second).await, held(third).await);
    assert_eq!(woken(&clients, &mut seen).await[1..], [1, 1, 0, 0, 0]);
    assert!(clients[1].took().is_empty() && clients[2].took().is_empty());
    // A client that waited watches its own node: its deletion comes back to itself.
    second.release().await.unwrap();
    assert_eq!(woken(&clients, &mut seen).await, [0, 1, 0, 0, 0, 0], "no other client");
    still_waits(&clients[3], &fourth).await;
    third.release().await.unwrap();
    let fourth = held(fourth).await;
    assert_eq!(woken(&clients, &mut seen).await, [0, 0, 1, 1, 0, 0]);
    assert_eq!(clients[3].took(), [List]);
    fourth.release().await.unwrap();
    let fifth = held(fifth).await;
    assert_eq!(woken(&clients, &mut seen).await, [0, 0, 0, 1, 1, 0]);
    fifth.release().await.unwrap();
    let sixth = held(sixth).await;
    assert_eq!(woken(&clients, &mut seen).await, [0, 0, 0, 0, 1, 1]);
    // Before its own writer was the first, another one stood there: it has to look.
    assert_eq!(clients[5].took(), [List]);
    sixth.release().await.unwrap();
    testbed.children_are(0).await;
}

/// A node for each of them would cost a quorum write each, and a listing as long as all of them together.
#[tokio::test(start_paused = true)]
async fn a_thousand_readers_behind_a_writer_share_a_node() {
    let testbed = Testbed::new().await;
    let writer = testbed.patient_curator().await;
    let (link, curator) = testbed.linked(testbed.patient_builder()).await;
    for readers_first in [false, true] {
        let path = format!("{}/{readers_first}", testbed.path);
        let lock = curator.read_write_lock(&path).unwrap();
        let others = writer.read_write_lock(&path).unwrap();
        let reader = if readers_first { Some(others.read().await.unwrap()) } else { None };
        let waiting = {
            let others = others.clone();
            tokio::spawn(async move { others.write().await })
        };
        eventually("the writer", async || {
            children(&testbed.admin, &path).await.len() == 1 + usize::from(readers_first)
        })
        .await;
        let creates = link.requests(Operation::Create);
        let listings = link.requests(Operation::List);
        let mut readers = JoinSet::new();
        for _ in 0..1000 {
            let lock = lock.clone();
            readers.spawn(async move { lock.read().await });
        }
        eventually("the readers", async || {
            children(&testbed.admin, &path).await.len() == 2 + usize::from(readers_first)
        })
        .await;
        round_trip(&curator).await;
        let entered = link.requests(Operation::List) - listings;
        drop(reader);
        within("the writer", waiting).await.unwrap().unwrap().release().await.unwrap();
        let guards = within("all readers", readers.join_all()).await;
        assert!(guards.iter().all(|guard| guard.as_ref().unwrap().is_held()));
        let admitted = link.requests(Operation::List) - listings - entered;
        assert_eq!(link.requests(Operation::Create) - creates, 1);
        assert!(entered <= 2 && admitted <= 2, "{entered} listings, then {admitted}");
    }
}
