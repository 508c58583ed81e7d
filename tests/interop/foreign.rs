//! What else is under a lock path, and what its nodes say of their owners.

use zookeeper_recipes::zookeeper_client::CreateMode;

use crate::lock::acquired;
use crate::matrix::{BLOCKS_IT, NAMES_US, shown};
use crate::pair::Stage;
use crate::peers;

/// Curator ranks every child by its text; we rank contenders. So ours may hold while Curator waits, never both.
#[tokio::test]
async fn a_foreign_child_that_sorts_first() {
    let Some(curator) = peers::curator() else { return };
    let stage = Stage::new().await;
    let ours = stage.lock(&peers::ours(), "mutex").await;
    let theirs = stage.lock(&curator, "mutex").await;
    stage.keeps_out(&ours, &theirs).await;
    let child = format!("{}/0", stage.path());
    stage.arena.create(&child, CreateMode::Persistent).await;
    stage.keeps_out_while(&theirs).await;
    ours.acquire().await;
    stage.keeps_out_while(&theirs).await;
    let waiting = theirs.begin_acquire();
    stage.queues_behind(2).await;
    ours.release().await;
    stage.nodes_are(2).await;
    assert!(!waiting.is_there());
    stage.arena.admin.delete(&child, None).await.unwrap();
    assert!(acquired(waiting).await.is_some());
    theirs.release().await;
    shown(("mutex", "Curator, beside a foreign child `0`", BLOCKS_IT), "");
}

/// kazoo shows the data of contenders as text.
#[tokio::test]
async fn kazoo_shows_our_identity() {
    let (Some(curator), Some(kazoo)) = (peers::curator(), peers::kazoo()) else { return };
    let stage = Stage::new().await;
    let party = stage.party(&peers::ours()).await;
    let ours = party.lock("mutex", stage.path()).await;
    let theirs = stage.lock(&kazoo, "mutex").await;
    let curators = stage.lock(&curator, "mutex").await;
    ours.acquire().await;
    let kazoo_waits = theirs.begin_acquire();
    stage.queues_behind(1).await;
    let curator_waits = curators.begin_acquire();
    stage.queues_behind(2).await;
    // Ours names itself after its session; Curator's data is the machine's address.
    let contenders = theirs.participants().await;
    assert_eq!(contenders[..2], [party.session, theirs.name.clone()]);
    assert!(contenders[2].parse::<std::net::IpAddr>().is_ok(), "{contenders:?}");
    ours.release().await;
    kazoo_waits.await;
    theirs.release().await;
    curator_waits.await;
    curators.release().await;
    stage.nodes_are(0).await;
    shown(("mutex", "kazoo's `contenders()`, of ours and Curator's", NAMES_US), "");
}
