//! What the page says that Curator does and we do not, where no other test of this folder shows it.

use std::time::Duration;

use zookeeper_testkit::{Direction, FaultProxy, Operation};

use crate::harness::eventually;
use crate::lock::{Party, acquired};
use crate::pair::Stage;
use crate::peers;

const LIMIT: Duration = Duration::from_secs(1);

/// Without an answer of the servers. Ours ends by its limit; Curator's goes on, here for three times as long.
#[tokio::test]
async fn a_limit_bounds_curators_wait_and_all_of_ours() {
    let Some(curator) = peers::curator() else { return };
    let stage = Stage::new().await;
    let mut locks = Vec::new();
    for peer in [curator, peers::ours()] {
        let link = FaultProxy::start(stage.servers()).await.unwrap();
        let party = Party::join(&peer, link.connect_string()).await;
        let lock = party.lock("mutex", stage.path()).await;
        lock.acquire().await;
        lock.release().await;
        locks.push((lock, link));
    }
    stage.nodes_are(0).await;
    let silence: Vec<_> = locks.iter().map(|(_, link)| link.stall(Direction::Both)).collect();
    let [theirs, ours] = [0, 1].map(|i| locks[i].0.begin_acquire_for(LIMIT));
    let error = ours.error().await;
    assert!(error.contains("TimedOut"), "{error}");
    // That nothing comes has no event to be awaited.
    tokio::time::sleep(2 * LIMIT).await;
    assert!(!theirs.is_there());
    drop(silence);
    if acquired(theirs).await.is_some() {
        locks[0].0.release().await;
    }
    stage.nodes_are(0).await;
}

/// Ours lists and writes nothing: `mutex::a_busy_lock_is_none_not_an_error_and_leaves_no_node`.
#[tokio::test]
async fn curator_makes_a_node_to_learn_that_a_lock_is_busy() {
    let Some(curator) = peers::curator() else { return };
    let stage = Stage::new().await;
    let holder = stage.lock(&peers::ours(), "mutex").await;
    holder.acquire().await;
    let link = FaultProxy::start(stage.servers()).await.unwrap();
    let party = Party::join(&curator, link.connect_string()).await;
    let tries = party.lock("mutex", stage.path()).await;
    link.clear_log();
    assert_eq!(acquired(tries.begin_acquire_for(Duration::ZERO)).await, None);
    let log = link.log();
    assert!(log.contains(&Operation::Create) && log.contains(&Operation::Delete), "{log:?}");
    holder.release().await;
    stage.nodes_are(0).await;
}

#[tokio::test]
async fn curators_mutex_and_write_lock_on_one_path_both_hold() {
    let Some(curator) = peers::curator() else { return };
    let stage = Stage::new().await;
    let mutex = stage.lock(&curator, "mutex").await;
    let write = stage.lock(&curator, "write").await;
    stage.lets_in(&mutex, &write).await;
    stage.lets_in(&write, &mutex).await;
}

/// A holder whose node is gone: somebody else holds by now, or may.
#[tokio::test]
async fn a_release_of_what_was_lost_is_an_error_of_ours_only() {
    let Some(curator) = peers::curator() else { return };
    let stage = Stage::new().await;
    let theirs = stage.lock(&curator, "mutex").await;
    let ours = stage.lock(&peers::ours(), "mutex").await;
    for lock in [&theirs, &ours] {
        lock.acquire().await;
        let node = stage.nodes().await.remove(0);
        stage.arena.admin.delete(&node, None).await.unwrap();
    }
    eventually("ours is told", async || !ours.is_held().await).await;
    assert!(theirs.is_held().await);
    theirs.release().await;
    let error = ours.peer.begin(format!("release {}", ours.name)).error().await;
    assert!(error.contains("Lost"), "{error}");
}
