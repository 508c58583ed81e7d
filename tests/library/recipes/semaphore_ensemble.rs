//! A semaphore on an ensemble that goes away and comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use zookeeper_recipes::{InterProcessSemaphore, RetryPolicy};

use crate::harness::{Arena, TICK, eventually, within};

/// Long against what a busy machine holds a task up for: a third of it is between the end of a hold and the next.
const SESSION: Duration = Duration::from_secs(6);

/// Curator: TestInterProcessSemaphoreCluster#testCluster. (Its check that one is in at a time is inverted, and proves
/// nothing.)
#[tokio::test(start_paused = true)]
async fn work_under_a_lease_stops_with_the_quorum_and_goes_on_with_two_of_three() {
    let arena = Arena::three(TICK, 10).await;
    let retry = RetryPolicy::n_times(1000, Duration::from_millis(50));
    let builder = arena.builder().session_timeout(SESSION).retry(retry);
    let inside = Arc::new(AtomicUsize::new(0));
    let (stop, works) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let curator = arena.connect(builder.clone()).await;
        let semaphore = InterProcessSemaphore::new(&curator, &arena.path, 1).unwrap();
        let (inside, stop, works) = (inside.clone(), stop.clone(), works.clone());
        tasks.spawn(async move {
            while !stop.is_cancelled() {
                let acquired = tokio::select! {
                    acquired = semaphore.acquire() => acquired,
                    () = stop.cancelled() => return,
                };
                let Ok(lease) = acquired else { continue };
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are in");
                tokio::time::sleep(Duration::from_millis(10)).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                // Whether it was held to the end is not the question here.
                if lease.release().await.is_ok() {
                    works.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
    }
    let done = || works.load(Ordering::SeqCst);
    eventually("they work", async || done() > 20).await;
    for member in arena.servers.members() {
        member.stop().await.unwrap();
    }
    let before = done();
    tokio::time::sleep(SESSION / 3).await;
    assert!(done() <= before + 1, "they work without a server");
    let before = done();
    for member in &arena.servers.members()[1..] {
        member.launch().await.unwrap();
    }
    eventually("they go on", async || done() > before + 20).await;
    stop.cancel();
    within("all of them", tasks.join_all()).await;
}
