//! Requests of other processes to give a lock back, as the holder sees them.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::client::{Failure, NodeEvent};
use crate::queue::HoldState;
use crate::session::Connection;
use crate::session::follower::NodeFollower;

/// The data of a node whose contender is to give way, as Curator writes it.
pub(crate) const REVOKE: &[u8] = b"__REVOKE__";

/// The node is polled at this interval if there is no room for a watch, or a read fails.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Resolves when the data of the hold's node ask the holder to give way.
pub(crate) async fn requested(connection: &Arc<Connection>, hold: &Arc<HoldState>) {
    let requested = hold.revocation(|| {
        let requested = CancellationToken::new();
        // In a session task, because the caller may keep the future without polling it.
        connection.spawn(follow(hold.clone(), requested.clone()));
        requested
    });
    requested.cancelled().await;
}

/// Follows the node until a request arrives or the hold ends.
async fn follow(hold: Arc<HoldState>, requested: CancellationToken) {
    let arrived = async {
        while until_requested(&hold).await.is_err() {
            sleep(POLL_INTERVAL).await;
        }
    };
    tokio::select! {
        biased;
        () = hold.ended().cancelled() => {}
        () = hold.session().ended().cancelled() => {}
        () = arrived => {
            // Before the holder complies.
            hold.mark_revoked();
            requested.cancel();
        }
    }
}

async fn until_requested(hold: &HoldState) -> Result<(), Failure> {
    let session = hold.session();
    let mut follower = NodeFollower::new(hold.node());
    loop {
        let room = session.try_reserve_spare_watch(hold.node());
        let is_watched = room.is_some();
        let node = {
            let client = session.client()?;
            follower.read(&client, room).await?
        };
        if node.data == REVOKE {
            return Ok(());
        }
        let limit = (!is_watched).then_some(POLL_INTERVAL);
        if follower.changed(limit).await == Some(NodeEvent::Deleted) {
            // The hold is about to end.
            pending::<()>().await;
        }
    }
}
