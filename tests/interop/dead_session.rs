//! Curator's waiter that holds by a node of its dead session (CURATOR-604): what no peer can prevent, and what does not
//! happen to ours.

use std::sync::Arc;
use std::time::Duration;

use zookeeper_testkit::FaultProxy;

use crate::lock::Party;
use crate::matrix::{BREAKS, shown};
use crate::pair::Stage;
use crate::peer::Peer;
use crate::peers;

/// Long, so that the server has the old session's node when the new session looks.
const SESSION: Duration = Duration::from_secs(12);

/// Ours holds; Curator's waits, is cut off for a third of its session's time, gives that session up and comes back with
/// another; ours lets go. It is not so where the machine was too busy, and the server expired the old session before.
async fn both_hold(curator: &Arc<Peer>) -> bool {
    let stage = Stage::new().await;
    let proxy = FaultProxy::start(stage.servers()).await.unwrap();
    let hasty = Party::join_hasty(curator, proxy.connect_string(), SESSION).await;
    let waiter = hasty.lock("mutex", stage.path()).await;
    let first = stage.lock(&peers::ours(), "mutex").await;
    let third = stage.lock(&peers::ours(), "mutex").await;
    first.acquire().await;
    let waiter_waits = waiter.begin_acquire();
    stage.queues_behind(1).await;
    let third_waits = third.begin_acquire();
    stage.queues_behind(2).await;
    hasty.begins_anew(&proxy).await;
    // By its dead session's node it is before the third, which gets in when that node goes.
    first.release().await;
    third_waits.await;
    let both = waiter_waits.is_there() && waiter.is_held().await;
    third.release().await;
    waiter_waits.await;
    waiter.release().await;
    stage.nodes_are(0).await;
    both
}

#[tokio::test]
async fn curators_waiter_holds_by_a_dead_sessions_node() {
    let Some(curator) = peers::curator() else { return };
    for _ in 0..3 {
        if both_hold(&curator).await {
            let row = ("mutex", "Curator's waiter that came back in a new session, ours", BREAKS);
            return shown(row, "");
        }
    }
    panic!("Curator has mended it");
}
