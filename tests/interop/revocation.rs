//! Requests to let go, which either side sends to the other.

use crate::lock::acquired;
use crate::peers::{CURATOR, OURS, shared};
use crate::stage::{Stage, each};

/// Who holds is asked and keeps the lock until it lets go; who waits is asked, and knows it when it holds.
#[tokio::test]
async fn each_asks_the_other() {
    each(&[(CURATOR, OURS), (OURS, CURATOR)], async |(asked, asks)| {
        let (Some(asked), Some(asks)) = (shared(asked), shared(asks)) else { return };
        let stage = Stage::of("mutex").await;
        let (holder, waiter) =
            (stage.lock(&asked, "mutex").await, stage.lock(&asked, "mutex").await);
        let party = stage.party(&asks).await;
        holder.revocable().await;
        waiter.revocable().await;
        holder.acquire().await;
        let waiting = waiter.begin_acquire();
        stage.queues_behind(1).await;
        let requested = holder.begin_requested();
        for node in stage.nodes().await {
            party.revoke(&node).await;
        }
        requested.await;
        assert!(holder.is_held().await && !waiting.is_there());
        let left = holder.release().await;
        assert!(left <= acquired(waiting).await.unwrap());
        waiter.begin_requested().await;
        assert!(waiter.is_held().await);
        waiter.release().await;
        stage.nodes_are(0).await;
    })
    .await;
}
