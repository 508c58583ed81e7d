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

/// Sixteen tasks of one process hold in a loop, for five milliseconds each. Returns the waits of a caller of another process, the
/// shortest first.
async fn foreign_waits<G: Send + 'static, H: Send + 'static, F, O>(
    acquire: impl Fn() -> F + Clone + Send + 'static,
    other: impl Fn() -> O,
) -> Vec<Duration>
where
    F: Future<Output = Result<G, Error>> + Send + 'static,
    O: Future<Output = Result<H, Error>>,
{
    let mut tasks = JoinSet::new();
    for _ in 0..16 {
        let acquire = acquire.clone();
        tasks.spawn(async move {
            loop {
                let guard = acquire().await.expect("a hold");
                sleep(Duration::from_millis(5)).await;
                drop(guard);
            }
        });
    }
    sleep(Duration::from_secs(1)).await;
    let mut waits = Vec::new();
    for round in 0..40 {
        sleep(Duration::from_millis(100 + 7 * round)).await;
        let began = Instant::now();
        let guard = within("the other process", other()).await.expect("a hold");
        waits.push(began.elapsed());
        drop(guard);
    }
    tasks.shutdown().await;
    waits.sort();
    waits
}

#[tokio::test(start_paused = true)]
async fn a_caller_of_another_process_waits_for_the_company_at_most() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    for (permits, median, longest) in [(1, 142, 177), (3, 78, 86)] {
        let path = format!("{}/{permits}", testbed.path);
        let semaphore = curator.semaphore(&path, permits).unwrap();
        let others = other.semaphore(&path, permits).unwrap();
        let waits = foreign_waits(
            move || {
                let semaphore = semaphore.clone();
                async move { semaphore.acquire().await }
            },
            || others.acquire(),
        );
        let waits = waits.await;
        assert!(waits[20] <= Duration::from_millis(median), "{permits}: {waits:?}");
        assert!(waits[39] <= Duration::from_millis(longest), "{permits}: {waits:?}");
    }
    let lock = testbed.read_write(&curator);
    let others = testbed.read_write(&other);
    let waits = foreign_waits(
        move || {
            let lock = lock.clone();
            async move { lock.read().await }
        },
        || others.write(),
    );
    let waits = waits.await;
    assert!(waits[20] <= Duration::from_millis(22), "{waits:?}");
    assert!(waits[39] <= Duration::from_millis(33), "{waits:?}");
}

/// Sixteen tasks of each of four processes read in a loop, and a fifth process writes. The create and the news of it take one trip,
/// the listings of the readers one, their deletes and the news of these one, and the listing of the writer one.
#[tokio::test(start_paused = true)]
async fn a_writer_waits_for_four_trips_and_for_reads_that_have_begun() {
    if is_real() {
        return does_not_apply("the trips to a real server take no known time");
    }
    const ONE_WAY: Duration = Duration::from_millis(4);
    const TRIP: Duration = Duration::from_millis(8);
    // Some reads always overlap, or the nodes are mostly kept without a reader.
    for (length, pause) in [(2, 0), (0, 50)] {
        let [length, pause] = [length, pause].map(Duration::from_millis);
        let testbed =
            Testbed::with(TestServer::builder(), |one| one.latency(ONE_WAY..=ONE_WAY)).await;
        let writer = testbed.read_write(&testbed.curator().await);
        let mut readers = JoinSet::new();
        for curator in testbed.curators::<4>().await {
            let lock = testbed.read_write(&curator).with_retention(Duration::from_secs(60));
            for _ in 0..16 {
                let lock = lock.clone();
                readers.spawn(async move {
                    loop {
                        let read = lock.read().await.expect("a read");
                        sleep(length).await;
                        drop(read);
                        sleep(pause).await;
                    }
                });
            }
        }
        for round in 0..10 {
            sleep(Duration::from_millis(100 + 7 * round)).await;
            let began = Instant::now();
            let write = within("the writer", writer.write()).await.expect("a hold");
            assert!(began.elapsed() <= 4 * TRIP + length, "{:?}", began.elapsed());
            drop(write);
        }
        readers.shutdown().await;
    }
}
