//! Semaphores: leases, and several at once.

use crate::support::commands::acquired;
use crate::support::mixed_path::MixedPath;
use crate::support::peers::{CURATOR, OURS, shared};

#[tokio::test]
async fn two_leases() {
    let (Some(ours), Some(curator)) = (shared(OURS), shared(CURATOR)) else { return };
    let mixed_path = MixedPath::of("semaphore:2").await;
    let mut locks = Vec::new();
    for peer in [&ours, &curator, &ours, &curator] {
        locks.push(mixed_path.lock(peer, "semaphore:2").await);
    }
    let [a, b, c, d] = [0, 1, 2, 3].map(|number| &locks[number]);
    // With one lease of each given, a third waits, whoever asks and whoever leaves.
    for (stays, leaves, third) in [(a, b, c), (a, b, d), (b, a, c), (b, a, d)] {
        stays.acquire().await;
        leaves.acquire().await;
        mixed_path.settles().await;
        mixed_path.keeps_out_until(third, async || leaves.release().await).await;
        stays.release().await;
        third.release().await;
        mixed_path.nodes_are(0).await;
    }
    // Both at once wait for the one that is given; and keep out whoever wants one.
    for (single, many) in [(a, b), (b, a)] {
        single.acquire().await;
        mixed_path.nodes_are(1).await;
        let waiting = many.begin_acquire_many(2);
        mixed_path.queues_behind(1).await;
        assert!(!waiting.is_there());
        let left = single.release().await;
        assert!(left <= acquired(waiting).await.unwrap());
        mixed_path.nodes_are(2).await;
        mixed_path.keeps_out_until(single, async || many.release().await).await;
        single.release().await;
        mixed_path.nodes_are(0).await;
    }
}
