//! Requests to let go, which either side sends to the other.

use zookeeper_recipes_dev::eventually;

use crate::support::commands::acquired;
use crate::support::mixed_path::{MixedPath, each};
use crate::support::peers::{CURATOR, OURS, shared};

/// Who holds is asked and keeps the lock until it lets go; who waits is asked, and knows it when it holds.
#[tokio::test]
async fn each_asks_the_other() {
    each(&[(CURATOR, OURS), (OURS, CURATOR)], async |(asked, asks)| {
        let (Some(asked), Some(asks)) = (shared(asked), shared(asks)) else { return };
        let mixed_path = MixedPath::of("mutex").await;
        let (holder, waiter) =
            (mixed_path.lock(&asked, "mutex").await, mixed_path.lock(&asked, "mutex").await);
        let party = mixed_path.party(&asks).await;
        holder.revocable().await;
        waiter.revocable().await;
        holder.acquire().await;
        let waiting = waiter.begin_acquire();
        mixed_path.queues_behind(1).await;
        // Curator's waiter watches its node once it has created it, and sees no request that came before.
        let own = mixed_path.nodes().await.pop().expect("a waiter");
        let servers = &mixed_path.testbed.servers;
        eventually("it listens", async || servers.is_watched(&own).await).await;
        let requested = holder.begin_requested();
        for node in mixed_path.nodes().await {
            party.revoke(&node).await;
        }
        requested.await;
        assert!(holder.is_held().await && !waiting.is_there());
        let left = holder.release().await;
        assert!(left <= acquired(waiting).await.unwrap());
        waiter.begin_requested().await;
        assert!(waiter.is_held().await);
        waiter.release().await;
        mixed_path.nodes_are(0).await;
    })
    .await;
}
