//! Two recipes of different kinds on one path, and clients whose names the filter does not count.

use crate::prelude::*;
use crate::support::contenders::{Make, latch, mutex, read, write};

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
            assert!(matches!(waiting.await.unwrap(), Attempt::Busy), "{child} by {filter:?}");
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
