//! What the holds of one process cost while no other process contends: no request, so only their own time.

use tokio::time::sleep;

use crate::prelude::*;

/// Five strangers hold in turns, for half a second each. With one place for all tasks, those that ask later wait for all five again.
#[tokio::test(start_paused = true)]
async fn each_caller_with_a_node_of_its_own_has_a_place_of_its_own() {
    if is_real() {
        return does_not_apply("the trips to a real server take no known time");
    }
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
