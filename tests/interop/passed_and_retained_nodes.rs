//! Curator and kazoo next to a node of ours that is passed on between tasks, or retained while no task wants it.

use std::time::Duration;

use zookeeper_recipes_dev::eventually;
use zookeeper_testkit::{Cut, Direction, FaultProxy};

use crate::support::commands::{Party, acquired};
use crate::support::mixed_path::{MixedPath, each};
use crate::support::peers::{CURATOR, KAZOO, OURS, shared};

const OTHERS: [&str; 2] = [CURATOR, KAZOO];

/// Of ours: a server ends it that long after the last sign of life.
const SESSION: Duration = Duration::from_secs(6);

/// How late the answers and events of a server reach ours.
const NEWS: Duration = Duration::from_millis(30);

/// Two tasks of ours take turns under one node. The stranger waits for the one that asked before it, and not for the one
/// that asks again after the news of the stranger came.
#[tokio::test]
async fn a_stranger_has_its_turn_among_tasks_that_pass_a_node_on() {
    each(&OTHERS, async |whose| {
        let (Some(ours), Some(other)) = (shared(OURS), shared(whose)) else { return };
        let mixed_path = MixedPath::of("mutex").await;
        let proxy = FaultProxy::start(mixed_path.servers()).await.unwrap();
        let party = Party::join(&ours, proxy.connect_string()).await;
        let _late = proxy.delay(Direction::ToClient, NEWS);
        let one = party.lock("mutex", mixed_path.path()).await;
        let two = party.lock("mutex", mixed_path.path()).await;
        let stranger = mixed_path.lock(&other, "mutex").await;
        for _ in 0..5 {
            one.acquire().await;
            let node = mixed_path.nodes().await;
            let waits = two.begin_acquire();
            // Both tasks of the session are listed under its node.
            eventually("it waits", async || one.participants().await.len() == 2).await;
            one.release().await;
            // The node passes on once a listing showed that it is the only one. So the next task joins before the stranger.
            acquired(waits).await.expect("acquired");
            let waits = one.begin_acquire();
            eventually("it waits", async || two.participants().await.len() == 2).await;
            let strangers = stranger.begin_acquire();
            // The listing comes behind the news of the stranger, on the connection of the node.
            eventually("ours knows of it", async || two.participants().await.len() == 3).await;
            two.release().await;
            acquired(waits).await.expect("acquired");
            assert_eq!(mixed_path.nodes().await[0], node[0], "it is passed on");
            let again = two.begin_acquire();
            one.release().await;
            // Nobody would release the lock if `again` had it.
            acquired(strangers).await.expect("acquired");
            assert!(!again.is_there(), "it got in before {}", stranger.name);
            stranger.release().await;
            acquired(again).await.expect("acquired");
            two.release().await;
            mixed_path.nodes_are(0).await;
        }
    })
    .await;
}

/// Two readers of ours hold by one node. One that comes after a writer waits behind it, whoever writes.
#[tokio::test]
async fn a_stranger_that_writes_has_its_turn_among_readers_that_share_a_node() {
    each(&OTHERS, async |whose| {
        let (Some(ours), Some(other)) = (shared(OURS), shared(whose)) else { return };
        let mixed_path = MixedPath::of("write").await;
        let party = mixed_path.party(&ours).await;
        let one = party.lock("read", mixed_path.path()).await;
        let two = party.lock("read", mixed_path.path()).await;
        let stranger = mixed_path.lock(&other, "write").await;
        for _ in 0..5 {
            one.acquire().await;
            two.acquire().await;
            mixed_path.nodes_are(1).await;
            let strangers = stranger.begin_acquire();
            mixed_path.nodes_are(2).await;
            one.release().await;
            // Without the writer it would hold at once.
            let again = one.begin_acquire();
            mixed_path.nodes_are(3).await;
            two.release().await;
            acquired(strangers).await.expect("acquired");
            assert!(!again.is_there(), "it got in before {}", stranger.name);
            let left = stranger.release().await;
            let came = acquired(again).await.expect("acquired");
            assert!(left <= came, "it got in {} ns before", left - came);
            one.release().await;
            mixed_path.nodes_are(0).await;
        }
    })
    .await;
}

/// A permit passes to the task that asked before the stranger, and not to the one that asks again after it.
#[tokio::test]
async fn a_stranger_has_its_turn_among_tasks_that_pass_a_permit_on() {
    let (Some(ours), Some(curator)) = (shared(OURS), shared(CURATOR)) else { return };
    let mixed_path = MixedPath::of("semaphore:1").await;
    let party = mixed_path.party(&ours).await;
    let one = party.lock("semaphore:1", mixed_path.path()).await;
    let two = party.lock("semaphore:1", mixed_path.path()).await;
    let stranger = mixed_path.lock(&curator, "semaphore:1").await;
    for _ in 0..5 {
        one.acquire().await;
        mixed_path.settles().await;
        let held = mixed_path.nodes().await;
        let waits = two.begin_acquire();
        // The lease that is held, the one that waits, and the turn.
        mixed_path.nodes_are(3).await;
        let strangers = stranger.begin_acquire();
        mixed_path.nodes_are(4).await;
        one.release().await;
        acquired(waits).await.expect("acquired");
        assert!(mixed_path.nodes().await.contains(&held[0]), "it is passed on");
        let again = one.begin_acquire();
        two.release().await;
        // Nobody would release the permit if `again` had it.
        acquired(strangers).await.expect("acquired");
        assert!(!again.is_there(), "it got in before {}", stranger.name);
        stranger.release().await;
        acquired(again).await.expect("acquired");
        one.release().await;
        mixed_path.nodes_are(0).await;
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Idle {
    Connected,
    /// It is held when the stranger comes, and released then.
    Held,
    /// The connection broke, and is made again.
    Cut,
    /// No message passes any more: the server ends the session.
    Silent,
    /// The session was killed.
    Killed,
}

/// A node that ours keeps for longer than a stranger waits here, and does not use.
#[tokio::test]
async fn a_stranger_has_what_ours_keeps() {
    let ways = [Idle::Connected, Idle::Held, Idle::Cut, Idle::Silent, Idle::Killed];
    let of_mutex = |whose| ways.map(|way| (whose, "retained", "mutex", way));
    let of_others = [
        ("retained-read", "write"),
        ("retained-write", "read"),
        ("retained-write", "write"),
        ("retained-semaphore:1", "semaphore:1"),
    ];
    let of_others =
        of_others.iter().flat_map(|(kept, wanted)| ways.map(|way| (CURATOR, *kept, *wanted, way)));
    let rows: Vec<_> = OTHERS.into_iter().flat_map(of_mutex).chain(of_others).collect();
    each(&rows, async |(whose, kept, wanted, way)| {
        let (Some(ours), Some(other)) = (shared(OURS), shared(whose)) else { return };
        let mixed_path = MixedPath::of(wanted).await;
        let proxy = FaultProxy::start(mixed_path.servers()).await.unwrap();
        let servers = proxy.connect_string();
        let party = match way {
            Idle::Silent => Party::join_for(&ours, servers, SESSION).await,
            _ => Party::join(&ours, servers).await,
        };
        let keeper = party.lock(kept, mixed_path.path()).await;
        let stranger = mixed_path.lock(&other, wanted).await;
        keeper.acquire().await;
        if way == Idle::Held {
            let waits = stranger.begin_acquire();
            mixed_path.queues_behind(1).await;
            let left = keeper.release().await;
            let came = acquired(waits).await.expect("acquired");
            assert!(left <= came, "{} ns before", left - came);
            stranger.release().await;
            return mixed_path.nodes_are(0).await;
        }
        keeper.release().await;
        mixed_path.nodes_are(1).await;
        let silence = (way == Idle::Silent).then(|| proxy.stall(Direction::Both));
        if way == Idle::Cut {
            assert!(proxy.cut(Cut::Reset) > 0);
        }
        if way == Idle::Killed {
            party.end(mixed_path.servers()).await;
        }
        stranger.acquire().await;
        stranger.release().await;
        mixed_path.nodes_are(0).await;
        drop(silence);
        // Ours has it again.
        keeper.acquire().await;
    })
    .await;
}
