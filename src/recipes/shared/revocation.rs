//! What a holder sees of a request to give its lock back.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::client::{Failure, NodeEvent, NodeWatch};
use crate::queue::HoldState;
use crate::session::Session;

/// What a node's data is when its contender is asked to give way; Curator's.
pub(crate) const REVOKE: &[u8] = b"__REVOKE__";

/// How often to look where there is no room for a watch, or reading fails.
const LOOK: Duration = Duration::from_secs(1);

/// Resolves when the hold's node asks for it.
pub(crate) async fn requested(session: &Arc<Session>, hold: &Arc<HoldState>) {
    let requested = hold.revocation(|| {
        let requested = CancellationToken::new();
        // A task of the session's: the caller may keep the future, and not poll it.
        session.spawn(look_out(hold.clone(), requested.clone()));
        requested
    });
    requested.cancelled().await;
}

/// Watches the node until it asks, or the hold ends.
async fn look_out(hold: Arc<HoldState>, requested: CancellationToken) {
    let asks = async {
        loop {
            match look(&hold).await {
                Ok((true, _)) => return,
                Ok((false, watch)) => changed(watch).await,
                Err(_) => tokio::time::sleep(LOOK).await,
            }
        }
    };
    tokio::select! {
        biased;
        () = hold.ended().cancelled() => {}
        () = hold.epoch().over().cancelled() => {}
        () = asks => {
            // Before the holder complies.
            hold.node_is_revoked();
            requested.cancel();
        }
    }
}

/// Room for a watch is given back with it.
type Watch = Option<(NodeWatch, tokio::sync::OwnedSemaphorePermit)>;

/// Whether the node asks; and a watch from before, if there is room.
async fn look(hold: &HoldState) -> Result<(bool, Watch), Failure> {
    let client = hold.epoch().client()?;
    let (node, watch) = match hold.epoch().spare_room(hold.node()) {
        None => (client.read(hold.node()).await?, None),
        Some(room) => {
            let (node, watch) = client.read_and_watch(hold.node()).await?;
            (node, Some((watch, room)))
        }
    };
    Ok((node.data == REVOKE, watch))
}

async fn changed(watch: Watch) {
    match watch {
        None => tokio::time::sleep(LOOK).await,
        Some((watch, _room)) => {
            if watch.await != NodeEvent::Changed {
                // The hold is about to learn that it has ended.
                std::future::pending::<()>().await;
            }
        }
    }
}
