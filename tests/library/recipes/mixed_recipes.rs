//! Two recipes of different kinds on one path, and clients whose names the filter does not count.

use crate::prelude::*;
use crate::support::contenders::{Make, latch, mutex, read, write};
use crate::support::counted_client::settle;
use crate::support::leases::{asks, served};

/// It was refused for this child.
#[track_caller]
fn refused<T: std::fmt::Debug>(acquired: Result<T, Error>, path: &str, child: &str) {
    let error = fails(acquired, ErrorKind::UnusablePath);
    let text = error.to_string();
    assert!(text.contains(child) && text.contains(path), "{text}");
    assert_eq!(error.path(), Some(path));
}

/// A selector is a mutex.
#[tokio::test(start_paused = true)]
async fn recipes_that_do_not_count_each_others_nodes_refuse_each_other() {
    let testbed = Testbed::new().await;
    for (first, second, tries) in [
        (mutex as Make, read as Make, true),
        (mutex, write, true),
        (read, mutex, true),
        (write, mutex, true),
        (mutex, latch, false),
        (latch, mutex, true),
    ] {
        let [curator, other] = testbed.curators().await;
        let (first, second) = (first(&curator, &testbed.path), second(&other, &testbed.path));
        let guard = within("the first", first.acquire()).await.unwrap();
        let name = guard.node().rsplit('/').next().unwrap();
        refused(within("the second", second.acquire()).await, &testbed.path, name);
        refused(within("the second", second.acquire_timeout(BUSY)).await, &testbed.path, name);
        if tries {
            refused(within("a try", second.try_acquire()).await, &testbed.path, name);
        }
        assert!(guard.is_held(), "who was there first goes on");
        guard.release().await.unwrap();
        // The nodes of those that were refused are gone.
        testbed.children_are(0).await;
        within("the second", second.acquire()).await.unwrap().release().await.unwrap();
    }
}

/// A contender's node of a latch, under the test's path.
async fn node_of_a_latch(testbed: &Testbed) -> String {
    let name = "_c_5f3c28ba-2fa1-41d2-883f-0016d3cca427-latch-0000000000";
    let node = format!("{}/{name}", testbed.path);
    testbed.create(&node, CreateMode::Persistent).await;
    node
}

/// The next task would hold together with the other recipe's contender, and not know it.
#[tokio::test(start_paused = true)]
async fn next_to_another_recipe_no_node_is_passed_on() {
    let (testbed, curator) = Testbed::with_curator().await;
    let mutex = testbed.mutex(&curator);
    let guard = within("the lock", mutex.acquire()).await.unwrap();
    let other = node_of_a_latch(&testbed).await;
    let next = tokio::spawn(async move { mutex.acquire().await });
    settle().await;
    guard.release().await.unwrap();
    let child = other.rsplit('/').next().unwrap();
    refused(within("the error", next).await.unwrap(), &testbed.path, child);
}

/// The waiter is behind another client when the other recipe comes, so it is not refused. The next caller is: the listing by which
/// the waiter came to hold is no baseline of the gap rule.
#[tokio::test(start_paused = true)]
async fn a_waiter_from_before_the_other_recipe_is_served_and_the_next_is_refused() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let mutex = testbed.mutex(&curator);
    within("the path", mutex.acquire()).await.unwrap().release().await.unwrap();
    let holder = testbed.mutex(&other).acquire().await.unwrap();
    let waiting = testbed.waits(&curator).await;
    round_trip(&curator).await;
    let child = node_of_a_latch(&testbed).await;
    // The own watch is younger now than that of the predecessor, so the waiter has to list.
    let own = testbed.newcomer(&[holder.node(), &child]).await;
    testbed.admin.set_data(&own, b"changed", None).await.unwrap();
    round_trip(&curator).await;
    settle().await;
    holder.release().await.unwrap();
    held(waiting).await.release().await.unwrap();
    let child = child.rsplit('/').next().unwrap();
    refused(within("the error", mutex.acquire()).await, &testbed.path, child);
}

/// A semaphore's waiter lists at each change of the leases. A contender that enters later is refused.
#[tokio::test(start_paused = true)]
async fn a_contender_on_the_wrong_path_fails_no_waiter() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let semaphore = testbed.semaphore(&curator, 1);
    let holder = within("a lease", testbed.semaphore(&other, 1).acquire()).await.unwrap();
    let waiting = asks(&semaphore);
    testbed.nodes_are(1, 2).await;
    let name = "_c_5f3c28ba-2fa1-41d2-883f-0016d3cca427-lock-0000000000";
    let child = testbed.below("leases", name);
    testbed.create(&child, CreateMode::Persistent).await;
    round_trip(&curator).await;
    settle().await;
    assert!(!waiting.is_finished());
    holder.release().await.unwrap();
    eventually("it lists", async || testbed.leases().await.len() == 2).await;
    settle().await;
    assert!(!waiting.is_finished(), "the other one counts");
    testbed.remove(&child).await;
    let lease = served(waiting).await;
    testbed.create(&child, CreateMode::Persistent).await;
    let entering = within("the error", semaphore.acquire_timeout(BUSY)).await;
    refused(entering, &format!("{}/leases", testbed.path), name);
    lease.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_filter_does_not_count_is_refused_and_what_it_counts_is_waited_for() {
    let kazoo = "5f3c28ba2fa141d2883f0016d3cca427__lock__0000000000";
    let curators = "_c_5f3c28ba-2fa1-41d2-883f-0016d3cca427-lock-0000000000";
    let custom = ContenderFilter::custom("solr", |child| child.contains("-n_"));
    let rows = [
        (ContenderFilter::Curator, kazoo, false),
        (ContenderFilter::Curator, curators, true),
        (ContenderFilter::Kazoo, kazoo, true),
        (ContenderFilter::Kazoo, "5f__rlock__0000000000", true),
        (ContenderFilter::Kazoo, curators, false),
        (ContenderFilter::Inclusive, kazoo, true),
        (ContenderFilter::Inclusive, curators, true),
        (custom, "7-core-n_0000000000", true),
    ];
    let (testbed, curator) = Testbed::with_curator().await;
    let row = async |(number, (filter, child, counts)): (usize, (ContenderFilter, &str, bool))| {
        let path = format!("{}/{number}", testbed.path);
        let mutex = curator.mutex(&path).unwrap();
        let mutex = mutex.with_filter(filter.clone()).unwrap();
        // Makes the path; so ours have greater numbers than the child's.
        within("the path", mutex.acquire()).await.unwrap().release().await.unwrap();
        let node = format!("{path}/{child}");
        testbed.create(&node, CreateMode::Persistent).await;
        let waiting = within("a limit", mutex.acquire_timeout(BUSY));
        if counts {
            assert!(waiting.await.unwrap_err().is_busy(), "{child} by {filter:?}");
        } else {
            refused(waiting.await, &path, child);
        }
        testbed.admin.delete(&node, None).await.unwrap();
        let guard = within("the lock", mutex.acquire()).await.unwrap();
        assert_eq!(mutex.participants().await.unwrap().len(), 1, "{filter:?}");
        assert!(format!("{mutex:?}").contains(&format!("{filter:?}")));
        guard.release().await.unwrap();
    };
    join_all(rows.into_iter().enumerate().map(row)).await;
}

#[tokio::test(start_paused = true)]
async fn kazoo_needs_text() {
    let (testbed, curator) = Testbed::with_curator().await;
    for filter in [ContenderFilter::Kazoo, ContenderFilter::Inclusive] {
        let binary = curator.with_identity([0xff, 0xfe]);
        let selector = binary.leader_selector(&testbed.path).unwrap();
        for refused in [
            testbed.mutex(&binary).with_filter(filter.clone()).map(drop),
            selector.with_filter(filter).map(drop),
        ] {
            let error = fails(refused, ErrorKind::InvalidInput);
            assert_eq!(error.option(), Some("identity"));
            assert!(error.to_string().contains("UTF-8"), "{error}");
        }
    }
}
