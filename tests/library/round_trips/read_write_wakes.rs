//! Whom a release of a read-write lock wakes: invariant 6 for readers and writers.

use crate::harness::Operation::{self, List};
use zookeeper_recipes::Shortcuts;

use super::link::{Linked, linked, settle, still_waits};
use super::read_write::got;
use crate::harness::Arena;

/// Events that each client has been sent since the last time, all that there are so far.
async fn woken(clients: &[Linked], seen: &mut [usize]) -> Vec<usize> {
    let mut woken = Vec::new();
    for _ in 0..2 {
        // What an event brings about can bring about others.
        for client in clients {
            client.round_trip().await;
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
    let arena = Arena::own().await;
    arena.create(&arena.path, zookeeper_recipes::zookeeper_client::CreateMode::Persistent).await;
    let clients: [_; 6] = linked(&arena, Shortcuts::ALL).await;
    let first = clients[0].lock(&arena).write().acquire().await.unwrap();
    let second = clients[1].reads(&arena, 3).await;
    let third = clients[2].reads(&arena, 3).await;
    let fourth = clients[3].writes(&arena, 3).await;
    let fifth = clients[4].writes(&arena, 3).await;
    let sixth = clients[5].reads(&arena, 3).await;
    let mut seen = vec![0; 6];
    woken(&clients, &mut seen).await;
    for client in &clients {
        client.took();
    }
    first.release().await.unwrap();
    let (second, third) = (got(second).await, got(third).await);
    assert_eq!(woken(&clients, &mut seen).await[1..], [1, 1, 0, 0, 0]);
    assert!(clients[1].took().is_empty() && clients[2].took().is_empty());
    // The own node of whoever waited is watched: its deletion comes back to itself.
    second.release().await.unwrap();
    assert_eq!(woken(&clients, &mut seen).await, [0, 1, 0, 0, 0, 0], "nobody else");
    still_waits(&clients[3], &fourth).await;
    third.release().await.unwrap();
    let fourth = got(fourth).await;
    assert_eq!(woken(&clients, &mut seen).await, [0, 0, 1, 1, 0, 0]);
    assert_eq!(clients[3].took(), [List]);
    fourth.release().await.unwrap();
    let fifth = got(fifth).await;
    assert_eq!(woken(&clients, &mut seen).await, [0, 0, 0, 1, 1, 0]);
    fifth.release().await.unwrap();
    let sixth = got(sixth).await;
    assert_eq!(woken(&clients, &mut seen).await, [0, 0, 0, 0, 1, 1]);
    // Before its own writer was the first, another one stood there: it has to look.
    assert_eq!(clients[5].took(), [List]);
    sixth.release().await.unwrap();
    arena.children_are(0).await;
}
