//! What the holds of one process cost while no other process contends: no request, so only their own time.

use tokio::time::sleep;

use crate::prelude::*;

/// Sixteen tasks hold ten times, for a millisecond each.
async fn sixteen_tasks_take<G, F>(acquire: impl Fn() -> F + Clone + Send + 'static) -> Duration
where
    G: Send + 'static,
    F: Future<Output = Result<G, Error>> + Send + 'static,
{
    // The path is there.
    drop(acquire().await.expect("a hold"));
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..16 {
        let acquire = acquire.clone();
        tasks.spawn(async move {
            for _ in 0..10 {
                let guard = acquire().await.expect("a hold");
                sleep(Duration::from_millis(1)).await;
                drop(guard);
            }
        });
    }
    tasks.join_all().await;
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn exclusive_holds_follow_each_other_at_once() {
    let (testbed, [curator]) = Testbed::with_curators().await;
    let mutex = testbed.mutex(&curator);
    let took = sixteen_tasks_take(move || {
        let mutex = mutex.clone();
        async move { mutex.acquire().await }
    });
    let took = took.await;
    assert!(took < Duration::from_millis(200), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn write_holds_follow_each_other_at_once() {
    let (testbed, [curator]) = Testbed::with_curators().await;
    let lock = testbed.read_write(&curator);
    let took = sixteen_tasks_take(move || {
        let lock = lock.clone();
        async move { lock.write().await }
    });
    let took = took.await;
    assert!(took < Duration::from_millis(200), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn reads_hold_together() {
    let (testbed, [curator]) = Testbed::with_curators().await;
    let lock = testbed.read_write(&curator);
    let took = sixteen_tasks_take(move || {
        let lock = lock.clone();
        async move { lock.read().await }
    });
    let took = took.await;
    assert!(took < Duration::from_millis(40), "{took:?}");
}

/// Five strangers hold in turns, for half a second each. With one place for all tasks, those that ask later wait for all five again.
#[tokio::test(start_paused = true)]
async fn each_caller_with_a_node_of_its_own_has_a_place_of_its_own() {
    let (testbed, curators) = Testbed::with_curators::<6>().await;
    let [strangers @ .., curator] = &curators;
    let mut others = JoinSet::new();
    for stranger in strangers {
        let mutex = testbed.mutex(stranger);
        others.spawn(async move {
            loop {
                let guard = mutex.acquire().await.expect("a hold");
                sleep(Duration::from_millis(500)).await;
                guard.release().await.expect("a release");
            }
        });
    }
    testbed.children_are(strangers.len()).await;
    let mutex = testbed.mutex(curator).with_node_per_hold();
    let mut callers = JoinSet::new();
    for _ in 0..200 {
        let mutex = mutex.clone();
        callers.spawn(async move { mutex.acquire_timeout(Duration::from_secs(3)).await.is_ok() });
        sleep(Duration::from_millis(50)).await;
    }
    let served = callers.join_all().await;
    assert_eq!(served.iter().filter(|served| **served).count(), 200);
    others.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn permits_pass_from_task_to_task() {
    let (testbed, [curator]) = Testbed::with_curators().await;
    let semaphore = testbed.semaphore(&curator, 3);
    let took = sixteen_tasks_take(move || {
        let semaphore = semaphore.clone();
        async move { semaphore.acquire().await }
    });
    let took = took.await;
    // 160 holds in three places are 54 ms.
    assert!(took < Duration::from_millis(90), "{took:?}");
}
