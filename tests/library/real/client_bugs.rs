//! Defects of the `zookeeper-client` crate that this crate gets around, as no other test shows.

use zookeeper_recipes::zookeeper_client::SessionState;

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread")]
async fn client_s2_a_create_that_timed_out_and_is_sent_later_is_removed() {
    let testbed = Testbed::real().await;
    let (link, curator) = testbed.linked_with_parent(testbed.builder()).await;
    let refused = cut_off(&link).await;
    link.clear_log();
    let limit = Duration::from_millis(300);
    fails(testbed.mutex(&curator).acquire_timeout(limit).await, ErrorKind::Unavailable);
    assert_eq!(link.log(), [], "nothing was sent");
    refused.heal();
    // The client sends what it kept.
    eventually("the create", async || link.log().contains(&Operation::Create)).await;
    eventually("the deletion", async || {
        link.log().iter().rev().any(|one| *one == Operation::Delete)
    })
    .await;
    testbed.children_are(0).await;
    within("the lock", testbed.mutex(&curator).acquire()).await.unwrap().release().await.unwrap();
}

/// And S17: one kind of watch, the one-shot watch of data.
#[tokio::test(flavor = "multi_thread")]
async fn client_s4_the_watches_that_we_use_outlive_a_connection() {
    let testbed = Testbed::real().await;
    let (link, curator) = testbed.linked_with_parent(testbed.builder()).await;
    let other = testbed.curator().await;
    for released_meanwhile in [false, true] {
        let holder = testbed.mutex(&other).acquire().await.unwrap();
        let reads = link.replies(Operation::GetData);
        let mutex = testbed.mutex(&curator);
        let waiting = tokio::spawn(async move { mutex.acquire().await });
        // Its own node and the one before it.
        eventually("two watches", async || link.replies(Operation::GetData) >= reads + 2).await;
        let set = link.replies(Operation::SetWatches);
        let refused = cut_off(&link).await;
        if released_meanwhile {
            holder.release().await.unwrap();
            refused.heal();
        } else {
            refused.heal();
            eventually("again", async || link.replies(Operation::SetWatches) > set).await;
            holder.release().await.unwrap();
        }
        within("the waiter", waiting).await.unwrap().unwrap().release().await.unwrap();
    }
    assert_eq!(link.requests(Operation::Exists), 0);
}

/// The client would send more than 128 KiB of watched paths in two packets, take the second answer for a fault,
/// and cut the link until it calls itself expired.
#[tokio::test(flavor = "multi_thread")]
async fn client_s5_a_reconnection_with_many_waiters_keeps_the_session() {
    const WAITERS: usize = 150;
    let mut testbed = Testbed::real().await;
    // Callers that have a node each. Two watches each: 300 KB, were there no budget.
    testbed.path = format!("{}/{}", testbed.path, "x".repeat(900));
    let (link, curator) = testbed.linked_with_parent(testbed.patient_builder()).await;
    let session = curator.session_id().unwrap();
    let other = testbed.curator().await;
    let holder = testbed.mutex(&other).acquire().await.unwrap();
    let mut waiters = JoinSet::new();
    for _ in 0..WAITERS {
        let mutex = testbed.mutex(&curator).with_node_per_hold();
        waiters.spawn(async move { mutex.acquire().await.unwrap().release().await.unwrap() });
    }
    testbed.children_are(WAITERS + 1).await;
    // As many watches as ever.
    eventually("the watches", async || link.replies(Operation::GetData) >= 90).await;
    // Answered behind them: the client knows of them, and a reset cannot take their answers from it.
    let client = curator.client().unwrap();
    within("an answer", client.sync("/")).await.unwrap();
    link.cut(Cut::Reset);
    eventually("they are set again", async || link.replies(Operation::SetWatches) > 0).await;
    within("an answer", client.sync("/")).await.unwrap();
    assert_eq!(link.accepted(), 2, "the connection after the cut has held");
    assert_eq!(link.requests(Operation::SetWatches), 1);
    assert_eq!(curator.session_id().unwrap(), session);
    drop(client);
    holder.release().await.unwrap();
    // The first. Those without a watch look once a second, and the others may be behind them.
    within("a waiter", waiters.join_next()).await.unwrap().unwrap();
    assert_eq!(curator.session_id().unwrap(), session);
}

/// A state watch that is made after the end never tells of it.
#[tokio::test(flavor = "multi_thread")]
async fn client_s9_a_session_that_was_over_before_is_seen_to_be_over() {
    let testbed = Testbed::real().await;
    let client = testbed.client().await;
    let session = client.session().clone();
    zookeeper_testkit::kill_session(testbed.server.connect_string(), &session).await.unwrap();
    eventually("the end", async || client.state() == SessionState::Expired).await;
    let curator = Curator::builder().from_client(client).unwrap();
    fails(within("the error", testbed.mutex(&curator).acquire()).await, ErrorKind::Closed);
}
