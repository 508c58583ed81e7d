//! Curator and we share one count, which may be the limit of a semaphore.

use std::sync::Arc;

use zookeeper_recipes_dev::{Testbed, does_not_apply, eventually};

use crate::support::commands::{Party, acquired, unique};
use crate::support::mixed_path::MixedPath;
use crate::support::peer_process::Peer;
use crate::support::peers::{CURATOR, OURS, is_curator_2_7_1, shared};

/// A shared count of a peer, with a session of its own.
struct Counter {
    party: Party,
    name: String,
}

impl Counter {
    async fn join(peer: &Arc<Peer>, testbed: &Testbed, path: &str, seed: i32) -> Self {
        let party = Party::join(peer, testbed.server.connect_string()).await;
        let name = unique("count");
        party.peer.ask(format!("count {name} {} {path} {seed}", party.session)).await;
        Self { party, name }
    }

    async fn value(&self) -> i32 {
        self.party.peer.ask(format!("value {}", self.name)).await.parse().unwrap()
    }

    async fn set(&self, value: i32) {
        self.party.peer.ask(format!("set {} {value}", self.name)).await;
    }

    /// To what this side saw last, if nobody has set it since.
    async fn try_add(&self, more: i32) -> bool {
        self.party.peer.ask(format!("try-add {} {more}", self.name)).await == "yes"
    }

    async fn sees(&self, value: i32) {
        eventually("it sees it", async || self.value().await == value).await;
    }
}

/// Each sees what the other sets. Curator: `TestSharedCount#testMultiClientDifferentSeed` and `#testMultiClients`.
#[tokio::test]
async fn ours_and_curators() {
    let (Some(ours), Some(curator)) = (shared(OURS), shared(CURATOR)) else { return };
    let testbed = Testbed::real().await;
    for [first, second] in [[&ours, &curator], [&curator, &ours]] {
        let first = Counter::join(first, &testbed, &testbed.path, -1).await;
        // The seed of the second is of no account.
        let second = Counter::join(second, &testbed, &testbed.path, 7).await;
        assert_eq!(first.value().await, -1);
        if second.party.peer.name == CURATOR && is_curator_2_7_1() {
            does_not_apply("Curator 2.7.1 keeps its own seed until another client sets the count");
        } else {
            assert_eq!(second.value().await, -1);
        }
        for value in [i32::MIN, 0, 1, i32::MAX] {
            first.set(value).await;
            second.sees(value).await;
            second.set(value ^ 5).await;
            first.sees(value ^ 5).await;
        }
        counted_up(&first, &second).await;
        testbed.admin.delete(&testbed.path, None).await.unwrap();
    }
}

/// Both add one at a time, each twenty times, over what the other adds meanwhile: none is lost.
async fn counted_up(first: &Counter, second: &Counter) {
    first.set(100).await;
    second.sees(100).await;
    let count_up = async |counter: &Counter| {
        for _ in 0..20 {
            while !counter.try_add(1).await {}
        }
    };
    tokio::join!(count_up(first), count_up(second));
    first.sees(140).await;
    second.sees(140).await;
}

/// A greater limit lets one more in, on the other side as well. A smaller one takes no lease away, and keeps out whoever comes.
#[tokio::test]
async fn a_semaphore_of_both_has_as_many_leases_as_the_count_says() {
    let (Some(ours), Some(curator)) = (shared(OURS), shared(CURATOR)) else { return };
    for [first, second] in [[&ours, &curator], [&curator, &ours]] {
        let mixed_path = MixedPath::of("semaphore").await;
        let limit_path = format!("{}/limit", mixed_path.path());
        let mut limits = Vec::new();
        let mut locks = Vec::new();
        for peer in [first, second] {
            let limit = Counter::join(peer, &mixed_path.testbed, &limit_path, 1).await;
            for _ in 0..2 {
                locks.push(limit.party.counted(&limit.name, mixed_path.path()).await);
            }
            limits.push(limit);
        }
        let set = async |value| {
            limits[1].set(value).await;
            limits[0].sees(value).await;
            limits[1].sees(value).await;
        };
        // Curator 2.7.1 keeps its own seed until another client sets the count.
        set(2).await;
        set(1).await;
        let [a, b, c] = [0, 2, 1].map(|number| &locks[number]);
        a.acquire().await;
        mixed_path.settles().await;
        let b_waits = b.begin_acquire();
        // The lease that is held, the one that waits, and the turn.
        mixed_path.nodes_are(3).await;
        let c_waits = c.begin_acquire();
        mixed_path.nodes_are(4).await;
        assert!(!b_waits.is_there());
        set(2).await;
        acquired(b_waits).await.expect("acquired");
        // When the second of two values is seen, the first has come to each semaphore.
        set(0).await;
        set(1).await;
        a.release().await;
        mixed_path.nodes_are(3).await;
        assert!(!c_waits.is_there(), "two hold");
        let left = b.release().await;
        let came = acquired(c_waits).await.expect("acquired");
        assert!(left <= came, "{} got in {} ns before", c.name, left - came);
        c.release().await;
        mixed_path.nodes_are(0).await;
    }
}
