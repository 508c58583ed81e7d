//! What a leader latch does while nothing fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use zookeeper_recipes::zookeeper_client::CreateMode;
use zookeeper_recipes::{ConfigError, LeaderLatch, Loss, Participant};

use super::latches::{ceased, gained, is_quiet, leaders, leadership, round_trip, the_leader, told};
use crate::harness::{Arena, eventually, within};

/// Curator: `TestLeaderLatch#testBasic`: one leads at a time. (There in the order of the starts as well, as one client is
/// slow enough; here the first to start is the first to lead however many clients there are.)
#[tokio::test(flavor = "multi_thread")]
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

/// Curator: `TestLeaderLatch#testBasicAlt`: the same, started in tasks, in any order. (There with one participant only, by
/// mistake.)
#[tokio::test(flavor = "multi_thread")]
async fn one_leads_at_a_time_whatever_the_order_of_the_starts() {
    let arena = Arena::new().await;
    let curators = arena.curators(3).await;
    let mut latches: Vec<_> =
        (0..10).map(|place| arena.latch(&curators[place % curators.len()])).collect();
    let mut starting = JoinSet::new();
    for latch in &latches {
        let latch = latch.clone();
        starting.spawn(async move {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..50))).await;
            latch.start().unwrap();
        });
    }
    within("the starts", starting.join_all()).await;
    while !latches.is_empty() {
        let leader = the_leader(&latches).await;
        latches.remove(leader).close().await.unwrap();
    }
    arena.children_are(0).await;
}

/// Curator: `TestLeaderLatch#testWaiting`: each gets it, round after round, and never two at once.
#[tokio::test(flavor = "multi_thread")]
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
#[tokio::test(flavor = "multi_thread")]
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

/// Curator: `TestLeaderLatch#testRelativePath`.
#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_is_none_is_refused() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    for path in ["parent", "parent/child", "", "/parent/", "//parent", "/parent/../child", "/a\0"] {
        let error = LeaderLatch::new(&curator, path).unwrap_err();
        assert!(matches!(error, ConfigError::InvalidPath { .. }), "{path:?}: {error:?}");
    }
}

/// Curator: `TestLeaderLatch#testUncreatedPathGetLeader` (CURATOR-436).
#[tokio::test(flavor = "multi_thread")]
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
#[tokio::test(flavor = "multi_thread")]
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

#[tokio::test(flavor = "multi_thread")]
async fn with_a_namespace_the_latch_is_under_it() {
    let arena = Arena::new().await;
    let curator = arena.connect(arena.builder().namespace(&arena.path)).await;
    let latch = LeaderLatch::new(&curator, "/one/two/me").unwrap();
    latch.start().unwrap();
    let leads = leadership(&latch).await;
    assert_eq!(leads.path(), "/one/two/me");
    assert!(leads.node().starts_with("/one/two/me/_c_"), "{}", leads.node());
    assert!(arena.stat(&format!("{}{}", arena.path, leads.node())).await.is_some());
    assert_eq!(latch.leader().await.unwrap().unwrap().path, leads.node());
    latch.close().await.unwrap();
}

/// Who they are, and whether they lead.
fn named(participants: &[Participant]) -> Vec<(String, bool)> {
    participants.iter().map(|one| (one.id().into_owned(), one.holds)).collect()
}

#[tokio::test(flavor = "multi_thread")]
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

/// A latch counts latches only, and nothing of what lies beside them.
#[tokio::test(flavor = "multi_thread")]
async fn children_that_are_no_latches_neither_lead_nor_wait() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    arena.create(&arena.path, CreateMode::Persistent).await;
    let strangers = ["0", "zzz", "latch-", "_c_x-latch-", "latch-7", "latch-000000000x"];
    for name in strangers {
        arena.create(&format!("{}/{name}", arena.path), CreateMode::Ephemeral).await;
    }
    let (latch, leads) = arena.leading(&curator).await;
    let all = latch.participants().await.unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0].path, leads.node());
    latch.close().await.unwrap();
    assert_eq!(arena.children().await.len(), strangers.len());
}

/// Every handle is the same latch, whichever it was started by.
#[tokio::test(flavor = "multi_thread")]
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

/// Two latches of one process contend as those of two do, and the next leads at once.
#[tokio::test(flavor = "multi_thread")]
async fn latches_of_one_client_contend() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let (first, leads) = arena.leading(&curator).await;
    let second = arena.queued(&curator).await;
    let mut watch = second.watch();
    assert!(!second.has_leadership());
    is_quiet(&mut watch).await;
    first.close().await.unwrap();
    assert!(!first.has_leadership() && !leads.is_held());
    let next = gained(&mut watch).await;
    assert!(next.fencing_token() > leads.fencing_token());
    second.close().await.unwrap();
    arena.children_are(0).await;
}

/// So many paths, and on each some latches of one process.
#[tokio::test(flavor = "multi_thread")]
async fn many_latches_in_one_process_have_a_leader_on_each_path() {
    const PATHS: usize = 60;
    const EACH: usize = 4;
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let mut paths = Vec::new();
    for number in 0..PATHS {
        let path = format!("{}/{number}", arena.path);
        let latch = || LeaderLatch::new(&curator, &path).unwrap();
        let latches: Vec<_> = (0..EACH).map(|_| latch()).collect();
        latches.iter().for_each(|latch| latch.start().unwrap());
        paths.push(latches);
    }
    for term in 0..EACH {
        let mut closing = JoinSet::new();
        for latches in &mut paths {
            let leader = the_leader(latches).await;
            let latch = latches.remove(leader);
            closing.spawn(async move { latch.close().await });
        }
        for closed in within("the closes", closing.join_all()).await {
            closed.unwrap();
        }
        assert!(paths.iter().all(|latches| latches.len() == EACH - term - 1));
    }
    eventually("nothing is left", async || {
        for number in 0..PATHS {
            let path = format!("{}/{number}", arena.path);
            if !crate::harness::children(&arena.admin, &path).await.is_empty() {
                return false;
            }
        }
        true
    })
    .await;
}

/// Fenced writes of a leader are refused when it leads no more.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_leader_writes_fenced_is_refused_after_its_term() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let (latch, leads) = arena.leading(&curator).await;
    let mut watch = told(&latch);
    let fenced = leads.fenced();
    let path = format!("{}-written", arena.path);
    fenced.create(&path, b"first").await.unwrap();
    arena.remove(leads.node()).await;
    fenced.set(&path, b"second").await.unwrap_err();
    ceased(&mut watch).await;
    // The next term is another leadership, which may.
    let next = gained(&mut watch).await;
    next.fenced().set(&path, b"third").await.unwrap();
    fenced.set(&path, b"fourth").await.unwrap_err();
    assert_eq!(arena.admin.get_data(&path).await.unwrap().0, b"third");
    arena.remove(&path).await;
}
