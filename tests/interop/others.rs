//! What goes beyond one lock: several as one, requests to let go, who is there.

use std::sync::Arc;

use zookeeper_testkit::random_path;

use crate::lock::{Party, acquired};
use crate::matrix::{EXCLUDES, LISTS, REVOKES, shown};
use crate::pair::{Side, Stage};
use crate::peer::Peer;
use crate::peers;
use crate::rules::Rule;

/// Two mutexes as one, and each of the two alone.
async fn multi_locks(one: &Arc<Peer>, other: &Arc<Peer>) -> String {
    let members = |path: &str| vec![format!("{path}/a"), format!("{path}/b")];
    let stage = Stage::with_queues(members).await;
    let [a, b] = members(stage.path()).try_into().unwrap();
    let mut sides = Vec::new();
    for peer in [one, other] {
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
    stage.in_peace(Rule::ReadersTogether, &sides.collect::<Vec<_>>()).await
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

/// Both sides tell the same queue, the holder first.
async fn participants(kind: &str, one: &Arc<Peer>, other: &Arc<Peer>) {
    let stage = Stage::new().await;
    let one = stage.lock(one, kind).await;
    let other = stage.lock(other, kind).await;
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

#[tokio::test]
async fn ours_and_curators_multi_lock() {
    let Some(curator) = peers::curator() else { return };
    let holds = multi_locks(&peers::ours(), &curator).await;
    shown(("multi-lock", "ours, Curator", EXCLUDES), holds);
}

#[tokio::test]
async fn ours_asks_curators_holder() {
    let Some(curator) = peers::curator() else { return };
    revocation(&curator, &peers::ours()).await;
    revocation_of_a_waiter(&curator, &peers::ours()).await;
    shown(("revocation", "Curator's holder or waiter, asked by ours", REVOKES), "");
}

#[tokio::test]
async fn curators_asks_our_holder() {
    let Some(curator) = peers::curator() else { return };
    revocation(&peers::ours(), &curator).await;
    revocation_of_a_waiter(&peers::ours(), &curator).await;
    shown(("revocation", "our holder or waiter, asked by Curator", REVOKES), "");
}

#[tokio::test]
async fn ours_and_curators_participants() {
    let Some(curator) = peers::curator() else { return };
    participants("mutex", &peers::ours(), &curator).await;
    participants("write", &peers::ours(), &curator).await;
    shown(("participants", "ours, Curator, of a mutex and of writers", LISTS), "");
}

/// Curator's namespace is a path before all others; so is ours.
#[tokio::test]
async fn ours_and_curators_namespace() {
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
    shown(("mutex", "ours in a namespace, Curator in it", EXCLUDES), holds);
}
