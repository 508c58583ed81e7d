//! Writes that ZooKeeper refuses once the hold is over.

use zookeeper_recipes::zookeeper_client::{Acl, AuthId};

use crate::prelude::*;
use crate::support::stopped::stopped;

#[tokio::test(start_paused = true)]
async fn while_the_lock_is_held_writes_take_effect_under_the_namespace() {
    let testbed = Testbed::new().await;
    let curator = testbed.connect(testbed.builder().namespace(&testbed.path)).await;
    let mutex = curator.mutex("/lock").unwrap();
    let guard = mutex.acquire().await.unwrap();
    let fenced = guard.fenced();
    let on_server = format!("{}/counter", testbed.path);
    fenced.create("/counter", b"1").await.unwrap();
    assert_eq!(testbed.data(&on_server).await.as_deref(), Some(&b"1"[..]));
    fenced.clone().set("/counter", b"2").await.unwrap();
    assert_eq!(testbed.data(&on_server).await.as_deref(), Some(&b"2"[..]));
    fenced.delete("/counter").await.unwrap();
    assert_eq!(testbed.data(&on_server).await, None);
    fenced.create("/counter", b"3").await.unwrap();
    guard.release().await.unwrap();
    fails(fenced.delete("/counter").await, ErrorKind::Closed);
    assert!(testbed.stat(&on_server).await.is_some());
}

/// The server refuses, before this process knows of anything.
#[tokio::test(start_paused = true)]
async fn a_holder_whose_node_is_gone_is_refused_by_the_server() {
    let testbed = Testbed::new().await;
    // A long session: nobody looks for the node within the test's time.
    let curator = testbed.connect(testbed.patient_builder()).await;
    let guard = testbed.mutex(&curator).acquire().await.unwrap();
    let counter = format!("{}-counter", testbed.path);
    let fenced = guard.fenced();
    fenced.create(&counter, b"1").await.unwrap();
    testbed.admin.delete(guard.node(), None).await.unwrap();
    assert!(guard.is_held(), "nobody has told it");
    assert_eq!(lost_by(fenced.set(&counter, b"2").await), Loss::NodeDeleted);
    assert_eq!(testbed.data(&counter).await.as_deref(), Some(&b"1"[..]));
    assert!(!guard.is_held(), "the server's refusal is news of the hold");
    assert_eq!(within("the loss", guard.lost()).await, Loss::NodeDeleted);
    assert_eq!(lost_by(fenced.delete(&counter).await), Loss::NodeDeleted);
    drop(guard);
    testbed.admin.delete(&counter, None).await.unwrap();
}

/// The node is there still, but by now the servers could have deleted it.
#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_for_a_lease_sends_nothing() {
    let (testbed, link, curator) = Testbed::with_link(Testbed::short_lived_builder).await;
    let guard = testbed.mutex(&curator).acquire().await.unwrap();
    let fenced = guard.fenced();
    stopped(SHORT * 2 / 3);
    let written = fenced.create(&format!("{}-counter", testbed.path), b"").await;
    assert_eq!(lost_by(written), Loss::LeaseEnded);
    assert_eq!(link.requests(Operation::Multi), 0);
    assert_eq!(lost_by(guard.release().await), Loss::LeaseEnded);
}

#[tokio::test(start_paused = true)]
async fn what_the_server_refuses_is_told_apart() {
    let (testbed, curator) = Testbed::with_curator().await;
    let guard = testbed.mutex(&curator).acquire().await.unwrap();
    let fenced = guard.fenced();
    let missing = format!("{}-missing", testbed.path);
    let below = format!("{missing}/child");
    fails(fenced.set("no/path", b"").await, ErrorKind::InvalidInput);
    for outcome in [fenced.set(&missing, b"").await, fenced.delete(&missing).await] {
        assert_eq!(fails(outcome, ErrorKind::NotFound).path(), Some(missing.as_str()));
    }
    let error = fails(fenced.create(&below, b"").await, ErrorKind::NotFound);
    assert_eq!(error.path(), Some(below.as_str()));
    fails(fenced.create(&testbed.path, b"").await, ErrorKind::AlreadyExists);
    fails(fenced.delete(&testbed.path).await, ErrorKind::Refused);
    fails(fenced.delete("/").await, ErrorKind::Refused);
    assert!(guard.is_held(), "none of it concerns the hold");
    guard.release().await.unwrap();
}

/// The server closes the connection on a message that is too large.
#[tokio::test(start_paused = true)]
async fn data_that_are_too_large_are_refused_before_they_are_sent() {
    let (testbed, curator) = Testbed::with_curator().await;
    let guard = testbed.mutex(&curator).acquire().await.unwrap();
    let fenced = guard.fenced();
    let missing = format!("{}-missing", testbed.path);
    fails(fenced.create(&missing, &vec![0; 1 << 20]).await, ErrorKind::InvalidInput);
    fenced.create(&missing, &vec![0; 1_000_000]).await.unwrap();
    fenced.delete(&missing).await.unwrap();
    assert!(guard.is_held(), "none of it concerns the hold");
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_we_may_not_write_is_a_denied_permission() {
    let (testbed, curator) = Testbed::with_curator().await;
    let guard = testbed.mutex(&curator).acquire().await.unwrap();
    let fenced = guard.fenced();
    let missing = format!("{}-missing", testbed.path);
    let read_only = [Acl::new(Permission::READ | Permission::DELETE, AuthId::anyone())];
    testbed.admin.create(&missing, b"theirs", CreateMode::Persistent, &read_only).await.unwrap();
    fails(fenced.set(&missing, b"ours").await, ErrorKind::PermissionDenied);
    assert!(guard.is_held(), "none of it concerns the hold");
    fenced.delete(&missing).await.unwrap();
    guard.release().await.unwrap();
}

/// The check of the hold's node reads it.
#[tokio::test(start_paused = true)]
async fn a_lock_whose_node_we_may_not_read_cannot_be_fenced_and_says_so() {
    let (testbed, curator) = Testbed::with_curator().await;
    let unreadable = [Acl::new(Permission::CREATE | Permission::DELETE, AuthId::anyone())];
    testbed.create(&testbed.path, CreateMode::Container).await;
    let mutex = testbed.mutex(&curator.with_acls(Acls::new(&unreadable)));
    let guard = mutex.acquire().await.unwrap();
    let written = guard.fenced().create(&format!("{}-x", testbed.path), b"").await;
    assert_eq!(fails(written, ErrorKind::PermissionDenied).path(), Some(guard.node()));
    assert!(guard.is_held());
    guard.release().await.unwrap();
}
