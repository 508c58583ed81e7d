//! What goes beyond one lock: several as one, requests to let go, who is there, and what else is under a lock path.

use std::sync::Arc;

use zookeeper_recipes::zookeeper_client::CreateMode;
use zookeeper_testkit::random_path;

use crate::lock::{Party, acquired};
use crate::pair::{Side, Stage};
use crate::peer::Peer;
use crate::peers;
use crate::rows::{EXCLUDES, NAMES_US, shown};
use crate::rules::Rule;

/// Two mutexes as one, and each of the two alone.
#[tokio::test]
#[ignore = "make test-all"]
async fn multi_locks() {
    let Some(curator) = peers::curator() else { return };
    let members = |path: &str| vec![format!("{path}/a"), format!("{path}/b")];
    let stage = Stage::with_queues(members).await;
    let [a, b] = members(stage.path()).try_into().unwrap();
    let mut sides = Vec::new();
    for peer in [&peers::ours(), &curator] {
        let party = stage.party(peer).await;
        let both = party.lock("multi", &format!("{a},{b}")).await;
        let last = party.lock("mutex", &b).await;
        sides.push((both, last));
    }
    for (holder, contender) in [(0, 1), (1, 0)] {
        let ((both, last), (others, others_last)) = (&sides[holder], &sides[contender]);
        stage.keeps_out(both, others).await;
        stage.keeps_out(both, others_last).await;
        // Kept out by the last member, it lets go of the first.
        stage.keeps_out(last, others).await;
    }
    let sides = sides.into_iter().flat_map(|(both, last)| [both, last]).map(Side::alone);
    let holds = stage.in_peace(Rule::ReadersTogether, &sides.collect::<Vec<_>>()).await;
    shown("multi-lock", "ours, Curator", EXCLUDES, &holds);
}

/// Who holds is asked by the other to let go, does so, and the other gets in.
async fn revocation(holder: &Arc<Peer>, revoker: &Arc<Peer>) {
    let stage = Stage::new().await;
    let holder = stage.lock(holder, "mutex").await;
    let party = stage.party(revoker).await;
    let heir = party.lock("mutex", stage.path()).await;
    // Curator's listener goes with each release.
    for _ in 0..2 {
        holder.revocable().await;
        holder.acquire().await;
        let waiting = heir.begin_acquire();
        stage.queues_behind(1).await;
        let requested = holder.begin_requested();
        let node = heir.participants().await.remove(0);
        party.revoke(&node).await;
        requested.await;
        // A request takes nothing away.
        assert!(holder.is_held().await && !waiting.is_there());
        let left = holder.release().await;
        assert!(left <= acquired(waiting).await.unwrap());
        heir.release().await;
        stage.nodes_are(0).await;
    }
}

/// Who waits is asked, and knows it when it holds.
async fn revocation_of_a_waiter(waiter: &Arc<Peer>, revoker: &Arc<Peer>) {
    let stage = Stage::new().await;
    let waiter = stage.lock(waiter, "mutex").await;
    let party = stage.party(revoker).await;
    let holder = party.lock("mutex", stage.path()).await;
    holder.acquire().await;
    waiter.revocable().await;
    let waiting = waiter.begin_acquire();
    stage.queues_behind(1).await;
    let node = holder.participants().await.remove(1);
    party.revoke(&node).await;
    holder.release().await;
    waiting.await;
    waiter.begin_requested().await;
    assert!(waiter.is_held().await);
    waiter.release().await;
    stage.nodes_are(0).await;
}

/// Both sides list the same queue.
#[tokio::test]
#[ignore = "make test-all"]
async fn participants() {
    let Some(curator) = peers::curator() else { return };
    for kind in ["mutex", "write"] {
        let stage = Stage::new().await;
        let one = stage.lock(&peers::ours(), kind).await;
        let other = stage.lock(&curator, kind).await;
        for (holder, contender) in [(&one, &other), (&other, &one)] {
            holder.acquire().await;
            let first = stage.nodes().await.remove(0);
            let waiting = contender.begin_acquire();
            stage.queues_behind(1).await;
            let second = stage.nodes().await.into_iter().find(|node| *node != first).unwrap();
            let queue = [first, second];
            assert_eq!(holder.participants().await, queue);
            assert_eq!(contender.participants().await, queue);
            holder.release().await;
            waiting.await;
            contender.release().await;
            stage.nodes_are(0).await;
        }
    }
    let result = "both list the same nodes, the holder first";
    shown("participants", "ours, Curator, of a mutex and of writers", result, "");
}

#[tokio::test]
#[ignore = "make test-all"]
async fn each_asks_the_other() {
    let Some(curator) = peers::curator() else { return };
    for (holder, revoker, who) in [
        (&curator, &peers::ours(), "Curator's holder or waiter, asked by ours"),
        (&peers::ours(), &curator, "our holder or waiter, asked by Curator"),
    ] {
        revocation(holder, revoker).await;
        revocation_of_a_waiter(holder, revoker).await;
        shown("revocation", who, "is told, and keeps the lock until it lets go", "");
    }
}

/// Curator's namespace is a path before all others; so is ours.
#[tokio::test]
#[ignore = "make test-all"]
async fn a_namespace() {
    let Some(curator) = peers::curator() else { return };
    let namespace = random_path("app");
    let queues = |path: &str| vec![format!("{namespace}{path}")];
    let stage = Stage::with_queues(queues).await;
    let mut locks = Vec::new();
    for peer in [&peers::ours(), &curator] {
        let party = Party::join_in(peer, stage.servers(), &namespace[1..]).await;
        locks.push(party.lock("mutex", stage.path()).await);
    }
    let [ours, theirs] = locks.try_into().ok().unwrap();
    stage.keeps_out(&ours, &theirs).await;
    stage.keeps_out(&theirs, &ours).await;
    let holds = stage.in_peace(Rule::ReadersTogether, &[ours, theirs].map(Side::alone)).await;
    shown("mutex", "ours in a namespace, Curator in it", EXCLUDES, &holds);
}

/// Curator ranks every child by its text; we rank contenders. So ours may hold while Curator waits, never both.
#[tokio::test]
#[ignore = "make test-all"]
async fn a_foreign_child_that_sorts_first() {
    let Some(curator) = peers::curator() else { return };
    let stage = Stage::new().await;
    let ours = stage.lock(&peers::ours(), "mutex").await;
    let theirs = stage.lock(&curator, "mutex").await;
    stage.keeps_out(&ours, &theirs).await;
    let child = format!("{}/0", stage.path());
    stage.arena.create(&child, CreateMode::Persistent).await;
    stage.keeps_out_while(&theirs).await;
    ours.acquire().await;
    stage.keeps_out_while(&theirs).await;
    let waiting = theirs.begin_acquire();
    stage.queues_behind(2).await;
    ours.release().await;
    stage.nodes_are(2).await;
    assert!(!waiting.is_there());
    stage.arena.admin.delete(&child, None).await.unwrap();
    assert!(acquired(waiting).await.is_some());
    theirs.release().await;
    let result = "waits until it is gone; ours does not";
    shown("mutex", "Curator, beside a foreign child `0`", result, "");
}

/// kazoo shows the data of contenders as text.
#[tokio::test]
#[ignore = "make test-all"]
async fn kazoo_shows_our_identity() {
    let (Some(curator), Some(kazoo)) = (peers::curator(), peers::kazoo()) else { return };
    let stage = Stage::new().await;
    let party = stage.party(&peers::ours()).await;
    let ours = party.lock("mutex", stage.path()).await;
    let theirs = stage.lock(&kazoo, "mutex").await;
    let curators = stage.lock(&curator, "mutex").await;
    ours.acquire().await;
    let kazoo_waits = theirs.begin_acquire();
    stage.queues_behind(1).await;
    let curator_waits = curators.begin_acquire();
    stage.queues_behind(2).await;
    // Ours names itself after its session; Curator's data is the machine's address.
    let contenders = theirs.participants().await;
    assert_eq!(contenders[..2], [party.session, theirs.name.clone()]);
    assert!(contenders[2].parse::<std::net::IpAddr>().is_ok(), "{contenders:?}");
    ours.release().await;
    kazoo_waits.await;
    theirs.release().await;
    curator_waits.await;
    curators.release().await;
    stage.nodes_are(0).await;
    shown("mutex", "kazoo's `contenders()`, of ours and Curator's", NAMES_US, "");
}
