//! Several leases at once: all of them or none, first come, first served, and never more than there are.

use tokio::task::JoinSet;
use zookeeper_recipes::zookeeper_client::CreateMode;
use zookeeper_recipes::{ConfigError, InterProcessSemaphore};

use super::leases::{asks, asks_for};
use crate::harness::{Arena, within};

/// All or nothing: while one waits for several, no other of ours keeps a part of what it waits for.
#[tokio::test(start_paused = true)]
async fn only_one_has_nodes_that_are_not_granted() {
    let arena = Arena::new().await;
    let curators = [arena.curator().await, arena.curator().await, arena.curator().await];
    let mut semaphores = Vec::new();
    for curator in &curators {
        semaphores.push(arena.semaphore(curator, 3));
    }
    let held = within("two", semaphores[0].acquire_many(2)).await.unwrap();
    let three = asks_for(&semaphores[1], 3);
    arena.nodes_are(1, 5).await;
    let two = asks_for(&semaphores[2], 2);
    arena.nodes_are(2, 5).await;
    // Of one client with the first, too.
    let one = asks(&semaphores[1]);
    arena.nodes_are(3, 5).await;
    assert!(held.iter().all(|lease| lease.is_held()));
    let mut held = held.into_iter();
    held.next().unwrap().release().await.unwrap();
    arena.nodes_are(3, 4).await;
    assert!(!three.is_finished(), "one of three is not there yet");
    held.next().unwrap().release().await.unwrap();
    let three = three.served().await;
    arena.nodes_are(2, 5).await;
    assert!(!two.is_finished() && !one.is_finished());
    three.release().await.unwrap();
    let (two, one) = (two.served().await, one.served().await);
    arena.nodes_are(0, 3).await;
    two.release().await.unwrap();
    one.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn first_come_first_served_however_many_each_asks_for() {
    let arena = Arena::new().await;
    let curators = [arena.curator().await, arena.curator().await, arena.curator().await];
    let first = arena.semaphore(&curators[0], 4);
    let first = within("all", first.acquire_many(4)).await.unwrap();
    // Its own node in the queue is not counted below.
    arena.nodes_are(0, 4).await;
    let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    for place in 0..12 {
        let semaphore = arena.semaphore(&curators[place % 3], 4);
        let sender = sender.clone();
        let count = fastrand::usize(1..=4);
        tasks.spawn(async move {
            let leases = semaphore.acquire_many(count).await.unwrap();
            // By their tokens: who is served is told later than it is so.
            sender.send((leases[0].fencing_token(), place)).unwrap();
            leases.release().await.unwrap();
        });
        crate::harness::eventually("it is queued", async || arena.locks().await.len() == place + 1)
            .await;
    }
    first.release().await.unwrap();
    within("all of them", tasks.join_all()).await;
    drop(sender);
    let mut served = Vec::new();
    while let Some(one) = order.recv().await {
        served.push(one);
    }
    served.sort();
    assert!(served.iter().map(|(_, place)| *place).eq(0..12), "{served:?}");
    arena.nodes_are(0, 0).await;
}

/// One by one, in whatever order; what is not taken out goes with the rest.
#[tokio::test(start_paused = true)]
async fn leases_that_were_had_together_go_one_by_one() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let semaphore = arena.semaphore(&curator, 3);
    let leases = within("three", semaphore.acquire_many(3)).await.unwrap();
    let nodes: Vec<_> = leases.iter().map(|lease| lease.node().to_owned()).collect();
    assert_eq!(nodes, arena.leases().await, "in the order of their nodes");
    let mut leases: Vec<_> = leases.into_iter().collect();
    leases.remove(1).release().await.unwrap();
    assert_eq!(arena.leases().await, [nodes[0].as_str(), nodes[2].as_str()]);
    assert!(leases.iter().all(|lease| lease.is_held()));
    let again = within("the free one", semaphore.try_acquire()).await.unwrap();
    assert!(again.is_some());
    drop(again);
    arena.nodes_are(0, 2).await;
    drop(leases.remove(0));
    arena.nodes_are(0, 1).await;
    assert!(leases[0].is_held());
    drop(leases);
    arena.nodes_are(0, 0).await;
}

/// Curator takes any number, and waits for ever.
#[tokio::test(start_paused = true)]
async fn a_limit_that_cannot_be_curators_is_refused() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let largest = i32::MAX as usize;
    for limit in [0, largest + 1, usize::MAX] {
        let error = InterProcessSemaphore::new(&curator, &arena.path, limit).unwrap_err();
        match &error {
            ConfigError::InvalidOption { option, value, .. } => {
                assert_eq!(*option, "limit");
                assert!(value.contains(&limit.to_string()), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
    for limit in [1, largest] {
        let semaphore = InterProcessSemaphore::new(&curator, &arena.path, limit).unwrap();
        assert_eq!(semaphore.limit(), limit);
        within("a lease", semaphore.acquire()).await.unwrap().release().await.unwrap();
    }
}

/// As Curator counts them. Nobody gets in by mistake; but one lease less is there.
#[tokio::test(start_paused = true)]
async fn children_of_others_under_leases_count() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    arena.create(&arena.path, CreateMode::Persistent).await;
    arena.create(&format!("{}/leases", arena.path), CreateMode::Persistent).await;
    let foreign = arena.below("leases", "zzz");
    arena.create(&foreign, CreateMode::Persistent).await;
    let semaphore = arena.semaphore(&curator, 2);
    let lease = within("the other lease", semaphore.acquire()).await.unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    let waiting = asks(&semaphore);
    arena.nodes_are(1, 3).await;
    assert!(!waiting.is_finished());
    arena.delete(&[foreign]).await;
    waiting.served().await.release().await.unwrap();
    lease.release().await.unwrap();
}
