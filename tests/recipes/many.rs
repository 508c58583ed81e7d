//! Many waiters on one lock.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use zookeeper_recipes::FencingToken;

use crate::harness::Arena;

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

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_over_four_clients() {
    all_are_served_alone(500, 4).await;
}

/// Past the budget of watches: most of them look now and then instead.
#[tokio::test(flavor = "multi_thread")]
async fn fifteen_hundred_in_one_client() {
    all_are_served_alone(1_500, 1).await;
}
