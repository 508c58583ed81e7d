//! What each recipe counts as.

use crate::prelude::*;
use crate::recipes::contract::ROWS;
use crate::support::scrape::Scraped;

/// Before the first acquire: a query for recipes that are not held would find nothing otherwise.
#[tokio::test(start_paused = true)]
async fn what_is_made_begins_at_zero_and_sets_no_other_back() {
    let (scraped, testbed) = (Scraped::new(), Testbed::new().await);
    let curator = testbed.curator().await;
    let all_are = |recipe, count| {
        for gauge in ["waiting", "holding"] {
            assert_eq!(scraped.find(gauge, &[("recipe", recipe)]), count, "{gauge} {recipe}");
        }
    };
    // Who only looks holds nothing: an alert on services without a leader would fire.
    let _observers = (testbed.observer(&curator), curator.observe_group(&testbed.path).unwrap());
    all_are("leader_latch", None);
    all_are("group_member", None);
    all_are("leader_selector", None);
    let _selector = testbed.selector(&curator);
    all_are("leader_selector", Some(0.0));
    let _lock = testbed.read_write(&curator);
    all_are("read_lock", Some(0.0));
    all_are("write_lock", Some(0.0));
    let guard = testbed.mutex(&curator).acquire().await.unwrap();
    let _other = testbed.mutex(&curator);
    assert_eq!(scraped.find("holding", &[("recipe", "mutex")]), Some(1.0));
    guard.release().await.unwrap();
    all_are("mutex", Some(0.0));
}

/// A multi-lock counts as its members, which are mutexes; a selector's run and a latch as candidates.
#[tokio::test(start_paused = true)]
async fn each_recipe_counts_as_itself() {
    let (scraped, testbed) = (Scraped::new(), Testbed::new().await);
    let curator = testbed.curator().await;
    for (row, recipe, count) in [
        ("mutex", "mutex", 1.0),
        ("read", "read_lock", 1.0),
        ("write", "write_lock", 1.0),
        ("multi", "mutex", 2.0),
        ("latch", "leader_latch", 1.0),
        ("selector", "leader_selector", 1.0),
    ] {
        let labels = [("recipe", recipe)];
        let lock = ROWS.iter().find(|one| one.name == row).unwrap().ours;
        let lock = lock(&curator, &format!("{}/{row}", testbed.path));
        let before = scraped.value("hold_seconds_count", &labels);
        let guard = within(row, lock.acquire()).await.unwrap();
        scraped.is(&[("holding", &labels, count), ("holding", &[], count)]);
        if row != "read" {
            let waiting = tokio::spawn(async move { lock.acquire().await.map(drop) });
            scraped.comes_to("waiting", &labels, 1.0).await;
            waiting.abort();
            // A waiter that was served, and then dropped, would count otherwise.
            assert!(waiting.await.unwrap_err().is_cancelled());
        }
        guard.release().await.unwrap();
        scraped.comes_to("waiting", &[], 0.0).await;
        scraped.is(&[("holding", &[], 0.0), ("hold_seconds_count", &labels, before + count)]);
        scraped.is(&[("losses_total", &labels, 0.0)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_nested_hold_does_not_count_and_a_read_beside_a_write_does() {
    let (scraped, testbed) = (Scraped::new(), Testbed::new().await);
    let curator = testbed.curator().await;
    let mutex = testbed.mutex(&curator);
    let nested = async {
        let guards = (mutex.acquire().await.unwrap(), mutex.acquire().await.unwrap());
        scraped.is(&[("holding", &[], 1.0), ("acquire_seconds_count", &[], 1.0)]);
        drop(guards);
    };
    Owner::new().scope(nested).await;
    testbed.children_are(0).await;
    let write = testbed.read_write(&curator).write().await.unwrap();
    let read = write.read().await.unwrap();
    scraped.is(&[("holding", &[("recipe", "read_lock")], 1.0), ("holding", &[], 2.0)]);
    write.release().await.unwrap();
    scraped.is(&[("holding", &[("recipe", "write_lock")], 0.0), ("holding", &[], 1.0)]);
    drop(read);
    scraped.is(&[("holding", &[], 0.0), ("losses_total", &[], 0.0)]);
}

#[tokio::test(start_paused = true)]
async fn leases_count_one_by_one_and_the_mutex_beside_them_does_not() {
    let (scraped, testbed) = (Scraped::new(), Testbed::new().await);
    let curator = testbed.curator().await;
    let labels = [("recipe", "semaphore")];
    let semaphore = curator.semaphore(&testbed.path, 3).unwrap();
    let two = semaphore.acquire_many(2).await.unwrap();
    scraped.is(&[
        ("holding", &labels, 2.0),
        ("holding", &[], 2.0),
        ("acquire_seconds_count", &labels, 1.0),
        ("acquire_seconds_count", &[], 1.0),
    ]);
    assert!(semaphore.try_acquire_many(2).await.unwrap_err().is_busy());
    scraped.is(&[("acquire_seconds_count", &[("outcome", "busy")], 1.0)]);
    let waiting = tokio::spawn(async move { semaphore.acquire_many(2).await });
    scraped.comes_to("waiting", &labels, 1.0).await;
    drop(two);
    let two = within("leases", waiting).await.unwrap().unwrap();
    scraped.is(&[("waiting", &[], 0.0), ("holding", &labels, 2.0)]);
    two.release().await.unwrap();
    scraped.is(&[("holding", &[], 0.0), ("hold_seconds_count", &labels, 4.0)]);
}

#[tokio::test(start_paused = true)]
async fn a_slot_counts_once() {
    let (scraped, testbed) = (Scraped::new(), Testbed::new().await);
    let curator = testbed.curator().await;
    let labels = [("recipe", "slots")];
    let slots = curator.slots(&testbed.path, 1).unwrap();
    scraped.is(&[("holding", &labels, 0.0), ("waiting", &labels, 0.0)]);
    let slot = slots.acquire().await.unwrap();
    for labels in [&labels[..], &[]] {
        scraped.is(&[("holding", labels, 1.0), ("acquire_seconds_count", labels, 1.0)]);
    }
    assert!(slots.try_acquire().await.unwrap_err().is_busy());
    scraped.is(&[("acquire_seconds_count", &[("outcome", "busy")], 1.0)]);
    let waiting = tokio::spawn(async move { slots.acquire().await });
    scraped.comes_to("waiting", &labels, 1.0).await;
    slot.release().await.unwrap();
    let slot = within("a slot", waiting).await.unwrap().unwrap();
    scraped.is(&[("waiting", &[], 0.0), ("holding", &[], 1.0)]);
    testbed.kill_session(&curator).await;
    within("the loss", slot.lost()).await;
    scraped.comes_to("holding", &[], 0.0).await;
    scraped.is(&[("hold_seconds_count", &[], 2.0), ("losses_total", &[], 1.0)]);
}

#[tokio::test(start_paused = true)]
async fn each_failed_try_of_a_candidate_counts_and_so_does_each_further_try() {
    let (scraped, testbed) = (Scraped::new(), Testbed::with_parent().await);
    let curator = testbed.curator().await;
    let stray = testbed.stranger().await;
    let latch = testbed.latch(&curator);
    let failed = [("recipe", "leader_latch"), ("outcome", "failed")];
    let enters = [("operation", "enter")];
    for tries in 1..10 {
        assert_eq!(latch.leadership().await.unwrap_err().kind(), ErrorKind::UnusablePath);
        let retries = f64::from(tries) - 1.0;
        scraped.is(&[("acquire_seconds_count", &failed, f64::from(tries))]);
        scraped.is(&[("retries_total", &enters, retries), ("waiting", &[], 0.0)]);
    }
    testbed.remove(&stray).await;
    within("leadership", latch.leadership()).await.unwrap();
    scraped.is(&[("acquire_seconds_count", &failed, 9.0), ("retries_total", &enters, 9.0)]);
    scraped.is(&[("holding", &[("recipe", "leader_latch")], 1.0)]);
}
