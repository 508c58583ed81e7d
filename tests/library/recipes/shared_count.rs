//! The shared count: Curator's tests of it, its znode, and what is told to whom.

use futures_util::StreamExt;
use zookeeper_recipes::interop::CountWatch;

use crate::prelude::*;

async fn start(testbed: &Testbed, curator: &Curator, seed: i32) -> SharedCount {
    within("the start", SharedCount::start(curator, &testbed.path, seed)).await.unwrap()
}

/// Waits until it is told this value.
async fn told(watch: &mut CountWatch, value: i32) {
    within(&format!("told {value}"), async { while watch.changed().await.unwrap() != value {} })
        .await;
}

async fn data(testbed: &Testbed) -> Vec<u8> {
    testbed.admin.get_data(&testbed.path).await.unwrap().0
}

async fn write(testbed: &Testbed, data: &[u8]) {
    testbed.admin.set_data(&testbed.path, data, None).await.unwrap();
}

/// Behind a proxy, with the watch on the node in place.
async fn linked(testbed: &Testbed, seed: i32) -> (Link, Curator, SharedCount) {
    let (link, curator) = testbed.linked(testbed.builder()).await;
    let count = start(testbed, &curator, seed).await;
    eventually("a watch", async || link.replies(Operation::GetData) >= 2).await;
    (link, curator, count)
}

/// Curator: `TestSharedCount#testSimpleVersioned` and `#testMultiClientVersioned`.
#[tokio::test(start_paused = true)]
async fn a_write_over_an_old_version_is_refused() {
    let testbed = Testbed::new().await;
    let count = start(&testbed, &testbed.curator().await, 0).await;
    let first = count.versioned();
    assert_eq!((first.value, first.version), (0, 0));
    let stat = testbed.stat(&testbed.path).await.unwrap();
    assert_eq!(first.zxid, stat.mzxid);
    assert!(count.try_set(&first, 1).await.unwrap());
    let second = count.versioned();
    assert_eq!((second.value, second.version), (1, 1));
    assert!(second.zxid > first.zxid);
    assert!(!count.try_set(&first, 9).await.unwrap(), "by what is known here");
    count.set(10).await.unwrap();
    assert_eq!(count.versioned().version, 2);
}

/// Another process writes, also the value that was there before.
#[tokio::test(start_paused = true)]
async fn a_write_over_a_foreign_write_is_refused_and_reads_it() {
    let testbed = Testbed::new().await;
    let count = start(&testbed, &testbed.curator().await, 10).await;
    for value in [99_i32, 10] {
        let before = count.versioned();
        write(&testbed, &value.to_be_bytes()).await;
        assert!(!count.try_set(&before, 11).await.unwrap());
        assert_eq!(count.value(), value, "read again");
    }
    assert!(count.try_set(&count.versioned(), 11).await.unwrap());
    assert_eq!(data(&testbed).await, 11_i32.to_be_bytes());
}

#[tokio::test(start_paused = true)]
async fn a_write_over_a_value_or_a_version_that_never_was_is_refused() {
    let testbed = Testbed::new().await;
    let count = start(&testbed, &testbed.curator().await, 11).await;
    let mut value = count.versioned();
    value.value = 20;
    let mut version = count.versioned();
    version.version = 10;
    for never in [value, version] {
        assert!(!count.try_set(&never, 7).await.unwrap());
    }
    assert_eq!(count.value(), 11);
}

#[tokio::test(start_paused = true)]
async fn a_count_without_versions_left_is_an_unusable_path() {
    let testbed = Testbed::new().await;
    let count = start(&testbed, &testbed.curator().await, 11).await;
    let mut exhausted = count.versioned();
    exhausted.version = -1;
    fails(count.try_set(&exhausted, 12).await, ErrorKind::UnusablePath);
    assert_eq!(data(&testbed).await, 11_i32.to_be_bytes());
}

#[tokio::test(start_paused = true)]
async fn the_node_is_curators() {
    let testbed = Testbed::reaping(Duration::from_millis(10)).await;
    let curator = testbed.connect(testbed.builder().namespace(&testbed.path)).await;
    let count = SharedCount::start(&curator, "/limits/orders", -2).await.unwrap();
    let path = format!("{}/limits/orders", testbed.path);
    let (bytes, stat) = testbed.admin.get_data(&path).await.unwrap();
    assert_eq!(bytes, [0xff, 0xff, 0xff, 0xfe]);
    assert_eq!((stat.ephemeral_owner, stat.version), (0, 0), "persistent");
    testbed.admin.set_data(&path, &[0, 0, 1, 2], None).await.unwrap();
    eventually("the value", async || count.value() == 258).await;
    // It outlives who made it.
    within("the end", curator.close()).await;
    assert!(testbed.stat(&path).await.is_some());
    testbed.admin.delete(&path, None).await.unwrap();
    // What is above it are containers.
    eventually("they are reaped", async || testbed.stat(&testbed.path).await.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn foreign_data_are_an_error_and_leave_the_last_value() {
    let testbed = Testbed::new().await;
    let (link, curator, count) = linked(&testbed, 3).await;
    let mut watch = count.watch();
    for foreign in [b"".as_slice(), b"\0\0\x01", b"\0\0\0\0\x01", b"seventeen"] {
        let reads = link.replies(Operation::GetData);
        write(&testbed, foreign).await;
        eventually("it is read", async || link.replies(Operation::GetData) > reads).await;
        assert_eq!(count.value(), 3);
        let starting = SharedCount::start(&curator, &testbed.path, 3).await.unwrap_err();
        let text = starting.to_string();
        assert!(
            text.contains(&testbed.path) && text.contains(&foreign.len().to_string()),
            "{text}"
        );
        assert_eq!(starting.kind(), ErrorKind::UnusablePath);
        let set = count.try_set(&count.versioned(), 4).await;
        assert_eq!(fails(set, ErrorKind::UnusablePath).path(), Some(testbed.path.as_str()));
        assert_eq!(data(&testbed).await, foreign, "it is left as it is");
    }
    write(&testbed, b"text\nof more than thirty-two bytes in all").await;
    let error = SharedCount::start(&curator, &testbed.path, 3).await.unwrap_err().to_string();
    assert!(error.contains("text\\nof") && error.contains('…'), "{error}");
    write(&testbed, &5_i32.to_be_bytes()).await;
    assert_eq!(within("a count", watch.changed()).await.unwrap(), 5);
    // A blind write is one.
    write(&testbed, b"seventeen").await;
    count.set(6).await.unwrap();
    assert_eq!(within("a count", watch.changed()).await.unwrap(), 6);
    assert_eq!(data(&testbed).await, 6_i32.to_be_bytes());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_node_leaves_the_last_value_until_it_is_there_again() {
    let testbed = Testbed::new().await;
    let curator = testbed.short_lived_curator().await;
    let count = start(&testbed, &curator, 3).await;
    let mut watch = count.watch();
    testbed.admin.delete(&testbed.path, None).await.unwrap();
    let error = fails(count.set(4).await, ErrorKind::NotFound);
    assert_eq!(error.path(), Some(testbed.path.as_str()));
    fails(count.try_set(&count.versioned(), 4).await, ErrorKind::NotFound);
    assert_eq!(count.value(), 3);
    let before = count.versioned();
    let again = start(&testbed, &testbed.curator().await, 8).await;
    assert_eq!(within("made again", watch.changed()).await.unwrap(), 8);
    // Of the same version, and not the same.
    assert_eq!((count.versioned().version, before.version), (0, 0));
    assert!(!count.try_set(&before, 9).await.unwrap());
    // There is a watch again.
    again.set(10).await.unwrap();
    told(&mut watch, 10).await;
}

#[tokio::test(start_paused = true)]
async fn the_end_is_told_to_whoever_watches() {
    let (testbed, curator) = Testbed::with_curator().await;
    let count = start(&testbed, &curator, 1).await;
    let (mut watch, stream) = (count.watch(), count.watch());
    count.set(2).await.unwrap();
    let streaming = tokio::spawn(stream.collect::<Vec<_>>());
    eventually("the watch", async || watch.value() == 2).await;
    within("the end", curator.close()).await;
    fails(within("told", watch.changed()).await, ErrorKind::Closed);
    assert_eq!(within("the stream", streaming).await.unwrap().last(), Some(&2));
    fails(count.set(3).await, ErrorKind::Closed);
    fails(count.try_set(&count.versioned(), 3).await, ErrorKind::Closed);
    fails(SharedCount::start(&curator, &testbed.path, 1).await, ErrorKind::Closed);
    assert_eq!(count.value(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_slow_watcher_is_told_the_latest() {
    let testbed = Testbed::new().await;
    let count = start(&testbed, &testbed.curator().await, 0).await;
    let mut watch = count.watch();
    for value in 1..=9 {
        count.set(value).await.unwrap();
    }
    assert_eq!(watch.next().await, Some(9));
    // A stream that was polled in vain, and then asked otherwise, tells nothing twice.
    assert!(futures_util::poll!(watch.next()).is_pending());
    count.set(10).await.unwrap();
    assert_eq!(watch.changed().await.unwrap(), 10);
    assert!(futures_util::poll!(watch.next()).is_pending());
    count.set(11).await.unwrap();
    assert_eq!(watch.value(), 11);
    assert!(futures_util::poll!(watch.next()).is_pending());
}

#[tokio::test(start_paused = true)]
async fn with_the_last_handle_the_watch_goes_and_nobody_reads_any_more() {
    let testbed = Testbed::new().await;
    let (link, curator, count) = linked(&testbed, 3).await;
    let mut watch = count.clone().watch();
    drop(count);
    write(&testbed, &4_i32.to_be_bytes()).await;
    told(&mut watch, 4).await;
    assert_eq!(link.requests(Operation::RemoveWatches), 0);
    drop(watch);
    eventually("it is taken back", async || link.replies(Operation::RemoveWatches) > 0).await;
    let reads = link.requests(Operation::GetData);
    write(&testbed, &5_i32.to_be_bytes()).await;
    round_trip(&curator).await;
    assert_eq!(link.requests(Operation::GetData), reads);
    within("the end", curator.close()).await;
}

/// Its path is longer than all that a session may watch.
#[tokio::test(start_paused = true)]
async fn without_room_for_a_watch_it_is_read_now_and_then() {
    let testbed = Testbed::new().await;
    let curator = testbed.short_lived_curator().await;
    let path = format!("{}/{}", testbed.path, "x".repeat(97 * 1024));
    let count = SharedCount::start(&curator, &path, 3).await.unwrap();
    let mut watch = count.watch();
    for value in [4_i32, 5] {
        testbed.admin.set_data(&path, &value.to_be_bytes(), None).await.unwrap();
        told(&mut watch, value).await;
    }
    testbed.admin.delete(&path, None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_not_permitted_is_named() {
    let (testbed, curator) = Testbed::with_curator().await;
    let path = testbed.path.as_str();
    let create = async |permission| {
        let acls = [anyone(permission | Permission::DELETE | Permission::ADMIN)];
        testbed.node(path, &7_i32.to_be_bytes(), CreateMode::Persistent, &acls).await;
    };
    create(Permission::READ).await;
    let denied = |error: Error, doing, path: &str| {
        assert_eq!((error.kind(), error.path()), (ErrorKind::PermissionDenied, Some(path)));
        assert!(error.to_string().contains(doing), "{error}");
    };
    let count = SharedCount::start(&curator, path, 3).await.unwrap();
    denied(count.set(8).await.unwrap_err(), "set", path);
    denied(count.try_set(&count.versioned(), 8).await.unwrap_err(), "set", path);
    let below = format!("{path}/below");
    denied(SharedCount::start(&curator, &below, 3).await.unwrap_err(), "create", &below);
    testbed.admin.delete(path, None).await.unwrap();
    create(Permission::WRITE).await;
    denied(SharedCount::start(&curator, path, 3).await.unwrap_err(), "read", path);
}
