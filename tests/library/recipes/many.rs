//! Many waiters on one lock.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use zookeeper_recipes::zookeeper_client::CreateMode;
use zookeeper_recipes::{FencingToken, Shortcuts};

use crate::harness::{Arena, Operation, within};

/// Lets so many tasks, spread over so many clients, acquire one lock; each must be alone in it.
async fn all_are_served_alone(waiters: usize, clients: usize) {
    let arena = Arena::own().await;
    let mut curators = Vec::new();
    for _ in 0..clients {
        let builder = arena.builder().session_timeout(Duration::from_secs(40));
        curators.push(arena.connect(builder).await);
    }
    let first = arena.mutex(&curators[0]).acquire().await.unwrap();
    let inside = Arc::new(AtomicUsize::new(0));
    let (served, mut tokens) = mpsc::unbounded_channel::<FencingToken>();
    let mut tasks = JoinSet::new();
    for waiter in 0..waiters {
        let mutex = arena.mutex(&curators[waiter % clients]);
        let (inside, served) = (inside.clone(), served.clone());
        tasks.spawn(async move {
            let guard = mutex.acquire().await.unwrap();
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "invariant 1");
            served.send(guard.fencing_token()).unwrap();
            inside.fetch_sub(1, Ordering::SeqCst);
            guard.release().await.unwrap();
        });
    }
    arena.children_are(waiters + 1).await;
    assert!(first.is_held(), "{:?}", first.loss());
    first.release().await.unwrap();
    // Long, but not for ever: some hundred hand-overs a second.
    tokio::time::timeout(Duration::from_secs(180), tasks.join_all()).await.expect("all are served");
    drop(served);
    let mut seen = HashSet::new();
    let mut last = None;
    while let Some(token) = tokens.recv().await {
        assert!(Some(token) > last, "invariant 4, and first come, first served");
        assert!(seen.insert(token));
        last = Some(token);
    }
    assert_eq!(seen.len(), waiters);
    arena.children_are(0).await;
}

/// What many tasks of one client ask of the server when they enter at once.
#[tokio::test(start_paused = true)]
async fn of_many_that_enter_at_once_one_lists() {
    const TASKS: usize = 300;
    let arena = Arena::new().await;
    arena.create(&arena.path, CreateMode::Persistent).await;
    for (shortcuts, least, most) in
        [(Shortcuts::ALL, 1, 1), (Shortcuts { gap: false, ..Shortcuts::ALL }, TASKS, usize::MAX)]
    {
        // A delete that is answered late is repeated only after a twelfth of the session timeout.
        let builder = arena.patient_builder().shortcuts(shortcuts);
        let (link, curator) = arena.linked(builder).await;
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS {
            let mutex = arena.mutex(&curator);
            tasks.spawn(async move { mutex.acquire().await.unwrap().release().await.unwrap() });
        }
        within("all are served", tasks.join_all()).await;
        let listings = link.requests(Operation::List);
        assert!((least..=most).contains(&listings), "{listings} with {shortcuts:?}");
        assert_eq!(link.requests(Operation::Delete), TASKS);
        arena.children_are(0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn five_hundred_over_four_clients() {
    all_are_served_alone(500, 4).await;
}

#[tokio::test(start_paused = true)]
async fn fifteen_hundred_in_one_client() {
    all_are_served_alone(1_500, 1).await;
}
