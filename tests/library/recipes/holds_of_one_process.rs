//! What the holds of one process cost while no other process contends: no request, so only their own time.

use tokio::time::sleep;

use crate::prelude::*;

/// Sixteen tasks hold ten times, for a millisecond each.
async fn sixteen_tasks_take<G, F>(acquire: impl Fn() -> F + Clone + Send + 'static) -> Duration
where
    G: Send + 'static,
    F: Future<Output = Result<G, Error>> + Send + 'static,
{
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
