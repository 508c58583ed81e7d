//! Semaphores: leases, several at once, a limit that changes, and the mutex that is a semaphore of one.

use std::sync::Arc;

use crate::counter::Counter;
use crate::lock::{Lock, acquired};
use crate::matrix::{EXCLUDES, LEASES, LIVE, shown};
use crate::pair::{Side, Stage};
use crate::peer::Peer;
use crate::peers;
use crate::rules::Rule;

async fn mutexes(one: &Arc<Peer>, other: &Arc<Peer>) -> String {
    let stage = Stage::of_a_semaphore().await;
    let one = stage.lock(one, "semaphore-mutex").await;
    let other = stage.lock(other, "semaphore-mutex").await;
    stage.keeps_out(&one, &other).await;
    stage.keeps_out(&other, &one).await;
    let sides = [Side::alone(one), Side::alone(other)];
    stage.in_peace(Rule::ReadersTogether, &sides).await
}

/// Two leases.
async fn leases(one: &Arc<Peer>, other: &Arc<Peer>) -> String {
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
    stage.in_peace(Rule::AtMost(2), &sides).await
}

/// The limit is a shared count, which `one` and `other` set.
async fn live_limit(one: &Arc<Peer>, other: &Arc<Peer>) -> String {
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
        raised_and_lowered(&stage, &counters, setter, [first, second, third].map(|i| &locks[i]))
            .await;
    }
    counters[1].set(3).await;
    for counter in &counters {
        counter.sees(3).await;
    }
    let sides = locks.map(Side::reader);
    let holds = stage.in_peace(Rule::AtMost(3), &sides).await;
    stage.arena.admin.delete(&count_path, None).await.unwrap();
    holds
}

/// From one to two while the second waits, and back while both hold.
async fn raised_and_lowered(
    stage: &Stage,
    counters: &[Counter],
    setter: usize,
    [first, second, third]: [&Lock; 3],
) {
    first.acquire().await;
    stage.nodes_are(1).await;
    let waiting = second.begin_acquire();
    stage.queues_behind(2).await;
    assert!(!waiting.is_there());
    counters[setter].set(2).await;
    assert!(acquired(waiting).await.is_some());
    stage.nodes_are(2).await;
    counters[setter].set(1).await;
    for counter in counters {
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

#[tokio::test]
async fn ours_and_curators_semaphore_mutex() {
    let Some(curator) = peers::curator() else { return };
    let holds = mutexes(&peers::ours(), &curator).await;
    shown(("semaphore mutex", "ours, Curator", EXCLUDES), holds);
}

#[tokio::test]
async fn ours_and_curators_semaphore() {
    let Some(curator) = peers::curator() else { return };
    let holds = leases(&peers::ours(), &curator).await;
    shown(("semaphore of two", "ours, Curator", LEASES), holds);
}

#[tokio::test]
async fn ours_and_curators_live_limit() {
    let Some(curator) = peers::curator() else { return };
    let holds = live_limit(&peers::ours(), &curator).await;
    shown(("semaphore by a shared count", "ours, Curator", LIVE), holds);
}
