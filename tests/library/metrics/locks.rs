//! Waiters and holders, wherever they are dropped.

use crate::prelude::*;
use crate::recipes::contract::locks;
use crate::support::scrape::Scraped;

const MUTEX: &[(&str, &str)] = &[("recipe", "mutex")];

fn ended(outcome: &'static str) -> [(&'static str, &'static str); 2] {
    [("recipe", "mutex"), ("outcome", outcome)]
}

/// Behind another session's hold, and behind one of its own.
#[tokio::test(start_paused = true)]
async fn waiters_and_holders_are_counted_and_how_acquiring_ends() {
    let (scraped, testbed) = (Scraped::new(), Testbed::new().await);
    let [curator, other, third] = testbed.curators().await;
    let is = |waiting, holding, acquired, held| {
        scraped.is(&[
            ("waiting", MUTEX, waiting),
            ("holding", MUTEX, holding),
            ("acquire_seconds_count", &ended("acquired"), acquired),
            ("hold_seconds_count", MUTEX, held),
        ]);
    };
    let guard = testbed.mutex(&curator).acquire().await.unwrap();
    is(0.0, 1.0, 1.0, 0.0);
    let nested = guard.reenter();
    let stranger = testbed.waits(&other).await;
    let last = testbed.waits(&third).await;
    is(2.0, 1.0, 1.0, 0.0);
    guard.release().await.unwrap();
    is(2.0, 1.0, 1.0, 0.0);
    nested.release().await.unwrap();
    let guard = within("the next", stranger).await.unwrap().unwrap();
    is(1.0, 1.0, 2.0, 1.0);
    drop(guard);
    let guard = within("the last", last).await.unwrap().unwrap();
    is(0.0, 1.0, 3.0, 2.0);

    let mutex = testbed.mutex(&other);
    assert!(mutex.try_acquire().await.unwrap_err().is_busy());
    scraped.is(&[("acquire_seconds_count", &ended("busy"), 1.0)]);
    assert!(mutex.acquire_timeout(BUSY).await.unwrap_err().is_busy());
    scraped.is(&[("acquire_seconds_count", &ended("given_up"), 1.0)]);
    // The count begins a moment after the limit.
    let waited = scraped.value("acquire_seconds_sum", &ended("given_up"));
    assert!(waited > 0.9 * BUSY.as_secs_f64(), "{waited}");
    testbed.children_are(1).await;
    let waiting = [testbed.waits(&other).await, testbed.waits(&curator).await];
    is(2.0, 1.0, 3.0, 2.0);
    waiting.iter().for_each(JoinHandle::abort);
    for waiting in waiting {
        assert!(waiting.await.unwrap_err().is_cancelled());
    }
    // A future that was not polled does not count.
    drop(mutex.acquire());
    scraped.is(&[("waiting", MUTEX, 0.0), ("acquire_seconds_count", &ended("given_up"), 3.0)]);
    testbed.children_are(1).await;
    let waiting = testbed.waits(&other).await;
    other.close().await;
    within("the error", waiting).await.unwrap().unwrap_err();
    scraped.is(&[("acquire_seconds_count", &ended("failed"), 1.0)]);
    guard.release().await.unwrap();
    is(0.0, 0.0, 3.0, 3.0);
    scraped.is(&[("acquire_seconds_count", MUTEX, 8.0), ("losses_total", &[], 0.0)]);
    testbed.children_are(0).await;
}

/// In all recipes. A time limit that passes counts as a caller that gave up.
#[tokio::test(start_paused = true)]
async fn a_busy_lock_does_not_count_as_failed() {
    let (scraped, testbed) = (Scraped::new(), Testbed::new().await);
    let [curator, other] = testbed.curators().await;
    let mut busy = 0.0;
    for (ours, theirs) in locks(&testbed, &curator).iter().zip(locks(&testbed, &other)) {
        if ours.path().ends_with("/read") {
            continue; // readers hold together
        }
        let held = within("the lock", theirs.acquire()).await.unwrap();
        fails(within("a try", ours.try_acquire()).await, ErrorKind::Busy);
        fails(within("a try", theirs.try_acquire()).await, ErrorKind::Busy);
        fails(within("a limit", ours.acquire_timeout(BUSY)).await, ErrorKind::Busy);
        busy += 2.0;
        held.release().await.unwrap();
    }
    let job = curator.once(format!("{}/once", testbed.path), "key").unwrap();
    let inner = async |_| job.try_run(async |_| Ok::<_, Error>(())).await.map(drop);
    fails(within("a try", job.run(inner)).await, ErrorKind::Busy);
    scraped.is(&[
        ("acquire_seconds_count", &[("outcome", "busy")], busy + 1.0),
        ("acquire_seconds_count", &[("outcome", "given_up")], busy / 2.0),
        ("acquire_seconds_count", &[("outcome", "failed")], 0.0),
    ]);
}

/// A gauge that was not told of the beginning is not told of the end.
#[tokio::test(start_paused = true)]
async fn a_recorder_that_comes_late_sees_no_less_than_nothing() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let early = testbed.mutex(&curator).acquire().await.unwrap();
    let waiting = testbed.waits(&other).await;
    let scraped = Scraped::new();
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    early.release().await.unwrap();
    scraped.is(&[("waiting", MUTEX, 0.0), ("holding", MUTEX, 0.0)]);
    let guard = within("the lock", testbed.mutex(&curator).acquire()).await.unwrap();
    scraped.is(&[("waiting", MUTEX, 0.0), ("holding", MUTEX, 1.0)]);
    guard.release().await.unwrap();
    scraped.is(&[("holding", MUTEX, 0.0)]);
}

#[tokio::test(start_paused = true)]
async fn a_path_is_a_label_only_where_that_was_asked_for() {
    let (scraped, testbed) = (Scraped::new(), Testbed::new().await);
    let plain = testbed.curator().await;
    testbed.mutex(&plain).acquire().await.unwrap().release().await.unwrap();
    assert!(!scraped.text().contains("path="), "{scraped}");
    let base = testbed.path.clone();
    let label = move |path: &str| match path.strip_prefix(&base)? {
        "" => Some("it".to_owned()),
        "/1" | "/2" => Some("its children".to_owned()),
        _ => None,
    };
    let curator = testbed.connect(testbed.builder().metrics_path_label(label)).await;
    let mut guards = Vec::new();
    for path in ["", "/1", "/2", "/3"] {
        let mutex = curator.mutex(format!("{}{path}", testbed.path)).unwrap();
        guards.push(mutex.acquire().await.unwrap());
    }
    scraped.is(&[
        ("holding", MUTEX, 4.0),
        ("holding", &[("recipe", "mutex"), ("path", "it")], 1.0),
        ("holding", &[("recipe", "mutex"), ("path", "its children")], 2.0),
        ("acquire_seconds_count", &[("path", "its children"), ("outcome", "acquired")], 2.0),
    ]);
    guards.clear();
    scraped.is(&[
        ("holding", MUTEX, 0.0),
        ("hold_seconds_count", &[("path", "its children")], 2.0),
        ("hold_seconds_count", MUTEX, 5.0),
    ]);
    curator.close().await;
}
