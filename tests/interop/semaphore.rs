//! Semaphores: leases, several at once, a limit that changes.

use crate::lock::{Lock, acquired};
use crate::pair::{Side, Stage};
use crate::peers;
use crate::rows::shown;
use crate::rules::Rule;

#[tokio::test]
async fn two_leases() {
    let Some(curator) = peers::curator() else { return };
    let (one, other) = (&peers::ours(), &curator);
    let stage = Stage::of_a_semaphore().await;
    let mut sides = Vec::new();
    for peer in [one, other, one, other] {
        sides.push(Side::reader(stage.lock(peer, "semaphore:2").await));
    }
    let [a, b, c, d] = [0, 1, 2, 3].map(|i| &sides[i].lock);
    // With one lease of each given, a third waits, whoever asks and whoever leaves.
    for (stays, leaves, third) in [(a, b, c), (a, b, d), (b, a, c), (b, a, d)] {
        stays.acquire().await;
        leaves.acquire().await;
        stage.settles().await;
        stage.keeps_out_until(third, async || leaves.release().await).await;
        stays.release().await;
        third.release().await;
        stage.nodes_are(0).await;
    }
    // Both at once wait for the one that is given; and keep out whoever wants one.
    for (single, many) in [(a, b), (b, a)] {
        single.acquire().await;
        stage.nodes_are(1).await;
        let waiting = many.begin_acquire_many(2);
        stage.queues_behind(1).await;
        assert!(!waiting.is_there());
        let left = single.release().await;
        assert!(left <= acquired(waiting).await.unwrap());
        stage.nodes_are(2).await;
        stage.keeps_out_until(single, async || many.release().await).await;
        single.release().await;
        stage.nodes_are(0).await;
    }
    let holds = stage.in_peace(Rule::AtMost(2), &sides).await;
    shown(
        "semaphore of two",
        "ours, Curator",
        "as many as the limit, each waits for the other",
        &holds,
    );
}

/// The limit is a shared count, which both set.
#[tokio::test]
#[ignore = "make test-all"]
async fn a_live_limit() {
    let Some(curator) = peers::curator() else { return };
    let (one, other) = (&peers::ours(), &curator);
    let stage = Stage::of_a_semaphore().await;
    let count_path = format!("{}-count", stage.path());
    let mut counters = Vec::new();
    let mut locks = Vec::new();
    for peer in [one, other, one, other] {
        let party = stage.party(peer).await;
        let counter = party.counter(&count_path, 1).await;
        locks.push(party.lock(&format!("counted:{}", counter.name), stage.path()).await);
        counters.push(counter);
    }
    let locks: [Lock; 4] = locks.try_into().ok().unwrap();
    for (setter, [first, second, third]) in [(1, [0, 1, 2]), (0, [1, 0, 3])] {
        let (first, second, third) = (&locks[first], &locks[second], &locks[third]);
        // From one to two while the second waits, and back while both hold.
        first.acquire().await;
        stage.nodes_are(1).await;
        let waiting = second.begin_acquire();
        stage.queues_behind(2).await;
        assert!(!waiting.is_there());
        counters[setter].set(2).await;
        assert!(acquired(waiting).await.is_some());
        stage.nodes_are(2).await;
        counters[setter].set(1).await;
        for counter in &counters {
            counter.sees(1).await;
        }
        // One that leaves is not enough.
        let waiting = third.begin_acquire();
        stage.queues_behind(3).await;
        first.release().await;
        stage.nodes_are(3).await;
        assert!(!waiting.is_there());
        let left = second.release().await;
        assert!(left <= acquired(waiting).await.unwrap());
        third.release().await;
        stage.nodes_are(0).await;
    }
    counters[1].set(3).await;
    for counter in &counters {
        counter.sees(3).await;
    }
    let sides = locks.map(Side::reader);
    let holds = stage.in_peace(Rule::AtMost(3), &sides).await;
    stage.arena.admin.delete(&count_path, None).await.unwrap();
    let result = "each sees the limit that the other sets";
    shown("semaphore by a shared count", "ours, Curator", result, &holds);
}
