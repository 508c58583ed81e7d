//! Errors of Curator's latch that no peer can prevent: two lead, and ours is not the one that is wrong.

use std::sync::Arc;
use std::time::Duration;

use zookeeper_testkit::FaultProxy;

use crate::harness::eventually;
use crate::lock::{Party, acquired};
use crate::matrix::{BREAKS, shown};
use crate::pair::Stage;
use crate::peer::Peer;
use crate::peers;

/// Long, so that the server has the old session's node when the new session looks.
const SESSION: Duration = Duration::from_secs(12);

/// CURATOR-620 and CURATOR-696, mended in 5.7: Curator's leads, is cut off for a third of its session's time, gives that
/// session up, and in another leads by the old one's node; once the server deletes that, ours leads. It is not so where the
/// machine was too busy, and the server expired the old session before.
async fn both_lead(curator: &Arc<Peer>) -> bool {
    let stage = Stage::new().await;
    let proxy = FaultProxy::start(stage.servers()).await.unwrap();
    let hasty = Party::join_hasty(curator, proxy.connect_string(), SESSION).await;
    let theirs = hasty.lock("latch", stage.path()).await;
    let ours = stage.lock(&peers::ours(), "latch").await;
    theirs.acquire().await;
    let ours_waits = ours.begin_acquire();
    stage.queues_behind(1).await;
    hasty.begins_anew(&proxy).await;
    let somebody = async || ours_waits.is_there() || theirs.is_held().await;
    eventually("somebody leads", somebody).await;
    ours_waits.await;
    let both = theirs.is_held().await && ours.is_held().await;
    ours.release().await;
    theirs.release().await;
    stage.nodes_are(0).await;
    both
}

#[tokio::test]
async fn curators_leader_leads_by_a_dead_sessions_node() {
    let Some(curator) = peers::curator() else { return };
    for _ in 0..3 {
        if both_lead(&curator).await {
            let row =
                ("leader latch", "Curator's leader that came back in a new session, ours", BREAKS);
            return shown(row, "");
        }
    }
    panic!("Curator has mended it");
}

/// CURATOR-171: it does not watch its own node. Ours does.
#[tokio::test]
async fn curators_leader_leads_without_a_node() {
    let Some(curator) = peers::curator() else { return };
    let stage = Stage::new().await;
    let theirs = stage.lock(&curator, "latch").await;
    let ours = stage.lock(&peers::ours(), "latch").await;
    for (leader, other) in [(&theirs, &ours), (&ours, &theirs)] {
        leader.acquire().await;
        let node = stage.nodes().await.remove(0);
        let other_waits = other.begin_acquire();
        stage.queues_behind(1).await;
        stage.arena.admin.delete(&node, None).await.unwrap();
        assert!(acquired(other_waits).await.is_some());
        if leader.name == theirs.name {
            assert!(leader.is_held().await, "Curator has learned to watch its node");
        } else {
            eventually("it is told", async || !leader.is_held().await).await;
        }
        other.release().await;
        leader.release().await;
        stage.nodes_are(0).await;
    }
    let row = ("leader latch", "Curator's leader whose node somebody deletes, ours", BREAKS);
    shown(row, "");
}
