//! What a leader latch does while nothing fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use zookeeper_recipes::{LeaderLatch, Loss, Participant};

use super::latches::{gained, is_quiet, leaders, leadership};
use crate::harness::{Arena, round_trip, within};

/// Curator: `TestLeaderLatch#testBasic`: one leads at a time. (There in the order of the starts as well, as one client is
/// slow enough; here the first to start is the first to lead however many clients there are.)
#[tokio::test(start_paused = true)]
async fn one_leads_at_a_time_in_the_order_of_the_starts() {
    let arena = Arena::new().await;
    let curators = arena.curators(3).await;
    let mut latches = Vec::new();
    for place in 0..10 {
        latches.push(arena.queued(&curators[place % curators.len()]).await);
    }
    let mut last = None;
    while !latches.is_empty() {
        let leads = leadership(&latches[0]).await;
        assert_eq!(leaders(&latches), 1);
        assert!(Some(leads.fencing_token()) > last, "invariant 4");
        last = Some(leads.fencing_token());
        latches.remove(0).close().await.unwrap();
        assert!(!leads.is_held());
        assert_eq!(leads.loss(), Some(Loss::Released));
        arena.children_are(latches.len()).await;
    }
}

/// Curator: `TestLeaderLatch#testWaiting`: each gets it, round after round, and never two at once.
#[tokio::test(start_paused = true)]
async fn whoever_awaits_leadership_gets_it_and_is_alone() {
    let arena = Arena::new().await;
    let (inside, terms) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for curator in arena.curators(10).await {
        let path = arena.path.clone();
        let (inside, terms) = (inside.clone(), terms.clone());
        tasks.spawn(async move {
            for _ in 0..10 {
                let latch = LeaderLatch::new(&curator, &path).unwrap();
                latch.start().unwrap();
                let leads = latch.await_leadership().await.unwrap();
                assert!(!inside.swap(true, Ordering::SeqCst), "two lead");
                tokio::time::sleep(Duration::from_millis(fastrand::u64(0..5))).await;
                assert!(leads.is_held() && latch.has_leadership());
                assert!(inside.swap(false, Ordering::SeqCst));
                terms.fetch_add(1, Ordering::SeqCst);
                latch.close().await.unwrap();
            }
        });
    }
    within("a hundred terms", tasks.join_all()).await;
    assert_eq!(terms.load(Ordering::SeqCst), 100);
    arena.children_are(0).await;
}

/// Curator: `TestLeaderLatch#testCorrectWatching`: of ten, the third closes, and that makes no leader of the second.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_closes_makes_nobody_lead() {
    let arena = Arena::new().await;
    let curators = arena.curators(2).await;
    let mut latches = Vec::new();
    for place in 0..10 {
        latches.push(arena.queued(&curators[place % 2]).await);
    }
    let first = leadership(&latches[0]).await;
    let mut second = latches[1].watch();
    let mut fourth = latches[3].watch();
    latches[2].close().await.unwrap();
    arena.children_are(9).await;
    for curator in &curators {
        round_trip(curator).await;
    }
    assert_eq!(leaders(&latches), 1);
    assert!(first.is_held());
    is_quiet(&mut second).await;
    is_quiet(&mut fourth).await;
    // And nobody waits for it in vain.
    for place in [0, 1] {
        latches[place].close().await.unwrap();
    }
    gained(&mut fourth).await;
}

/// Curator: `TestLeaderLatch#testUncreatedPathGetLeader` (CURATOR-436).
#[tokio::test(start_paused = true)]
async fn nobody_leads_where_there_is_no_path() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let latch = arena.latch(&curator);
    assert_eq!(latch.leader().await.unwrap(), None);
    assert_eq!(latch.participants().await.unwrap(), []);
    assert!(!latch.has_leadership());
    assert!(latch.leadership().is_none());
    // To look makes nothing.
    assert!(arena.stat(&arena.path).await.is_none());
}

/// Names, modes and data are the documented ones of Curator's class.
#[tokio::test(start_paused = true)]
async fn the_nodes_are_curators_latches() {
    let arena = Arena::new().await;
    let curator = arena.connect(arena.builder().identity("me@here")).await;
    for (id, data) in [(None, "me@here"), (Some("A is A"), "A is A"), (Some(""), "")] {
        let mut latch = arena.latch(&curator);
        if let Some(id) = id {
            latch = latch.with_id(id).unwrap();
        }
        assert_eq!((latch.id().as_ref(), latch.path()), (data, arena.path.as_str()));
        latch.start().unwrap();
        let leads = leadership(&latch).await;
        assert_eq!(leads.path(), arena.path);
        let children = arena.children().await;
        let [name] = children.as_slice() else { panic!("{children:?}") };
        assert_eq!(name.len(), 56);
        assert!(name.starts_with("_c_") && name[39..].starts_with("-latch-00000000"), "{name}");
        assert_eq!(leads.node(), format!("{}/{name}", arena.path));
        let (bytes, stat) = arena.admin.get_data(leads.node()).await.unwrap();
        assert_eq!(bytes, data.as_bytes());
        assert_eq!(stat.ephemeral_owner, curator.session_id().unwrap());
        assert_eq!(stat.czxid, leads.fencing_token().value());
        latch.close().await.unwrap();
    }
    arena.children_are(0).await;
}

/// Who they are, and whether they lead.
fn named(participants: &[Participant]) -> Vec<(String, bool)> {
    participants.iter().map(|one| (one.id().into_owned(), one.holds)).collect()
}

#[tokio::test(start_paused = true)]
async fn all_are_told_the_leader_first() {
    let arena = Arena::new().await;
    let curators = arena.curators(2).await;
    let mut latches = Vec::new();
    for (place, id) in ["one", "two", "three"].into_iter().enumerate() {
        let latch = arena.latch(&curators[place % 2]).with_id(id).unwrap();
        latch.start().unwrap();
        arena.children_are(place + 1).await;
        latches.push(latch);
    }
    // One that has not been started may ask, and does not take part.
    latches.push(arena.latch(&curators[1]).with_id("four").unwrap());
    let leads = leadership(&latches[0]).await;
    for latch in &latches {
        let all = latch.participants().await.unwrap();
        assert_eq!(
            named(&all),
            [("one".into(), true), ("two".into(), false), ("three".into(), false)]
        );
        assert_eq!(all[0].path, leads.node());
        assert_eq!(all[0].fencing_token(), leads.fencing_token());
        assert_eq!(latch.leader().await.unwrap().as_ref(), Some(&all[0]));
    }
    latches[0].close().await.unwrap();
    let second = leadership(&latches[1]).await;
    let leader = latches[3].leader().await.unwrap().unwrap();
    assert_eq!((leader.id().as_ref(), leader.path.as_str()), ("two", second.node()));
}

/// Every handle is the same latch, whichever it was started by.
#[tokio::test(start_paused = true)]
async fn clones_are_one_latch() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let latch = arena.latch(&curator);
    let clone = latch.clone();
    let mut watch = clone.watch();
    let waiting = tokio::spawn({
        let latch = latch.clone();
        async move { latch.await_leadership().await }
    });
    clone.start().unwrap();
    let leads = within("leadership", waiting).await.unwrap().unwrap();
    assert!(latch.has_leadership() && clone.has_leadership());
    assert_eq!(gained(&mut watch).await.node(), leads.node());
    assert_eq!(arena.children().await.len(), 1);
    drop(clone);
    assert!(latch.has_leadership(), "a handle is left");
    latch.close().await.unwrap();
}
