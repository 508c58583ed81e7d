//! Requests of other processes to give a lock back, as the holder sees them.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::client::{Failure, NodeEvent};
use crate::queue::HoldState;
use crate::session::Connection;

/// The data of a node whose contender is to give way, as Curator writes it.
pub(crate) const REVOKE: &[u8] = b"__REVOKE__";

/// How often to look where there is no room for a watch, or reading fails.
const LOOK: Duration = Duration::from_secs(1);

/// Resolves when the hold's node asks for it.
pub(crate) async fn requested(connection: &Arc<Connection>, hold: &Arc<HoldState>) {
    let requested = hold.revocation(|| {
        let requested = CancellationToken::new();
        // A task of the session's: the caller may keep the future, and not poll it.
        connection.spawn(look_out(hold.clone(), requested.clone()));
        requested
    });
    requested.cancelled().await;
}

/// Watches the node until it asks, or the hold ends.
async fn look_out(hold: Arc<HoldState>, requested: CancellationToken) {
    let asked = async {
        while asked(&hold).await.is_err() {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::select! {
        biased;
        () = hold.ended().cancelled() => {}
        () = hold.session().ended().cancelled() => {}
        () = asked => {
            // Before the holder complies.
            hold.node_is_revoked();
            requested.cancel();
        }
    }
}

/// Returns when the node asks.
async fn asked(hold: &HoldState) -> Result<(), Failure> {
    let (session, node) = (hold.session(), hold.node());
    loop {
        let Some(_room) = session.try_reserve_spare_watch(node) else {
            let read = session.client()?.read(node);
            if read.await?.data == REVOKE {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
            continue;
        };
        let (read, watch) = {
            let client = session.client()?;
            client.read_and_watch(node).await?
        };
        if read.data == REVOKE {
            return Ok(());
        }
        if watch.await != NodeEvent::Changed {
            // The hold is about to learn that it has ended.
            std::future::pending::<()>().await;
        }
    }
}
