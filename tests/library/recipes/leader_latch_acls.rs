//! Latches that may not: they end, once, and say why.

use std::time::Duration;

use zookeeper_recipes::zookeeper_client::{Acls, Permission};
use zookeeper_recipes::{AcquireError, Curator, LeaderError, LeaderLatch, ReleaseError};

use super::latches::{ended, told};
use crate::harness::{Arena, Link, Operation, round_trip, within};

/// The latch ends with the refusal of `operation`, once; each of its watches and waiters is told; and it asks for
/// nothing any more.
async fn ends_refused(link: &Link, curator: &Curator, latch: &LeaderLatch, operation: &str) {
    let (mut watch, mut stream) = (latch.watch(), latch.watch());
    let waiting = tokio::spawn({
        let latch = latch.clone();
        async move { latch.await_leadership().await.unwrap_err() }
    });
    latch.start().unwrap();
    let told = within("the refusal", waiting).await.unwrap();
    for error in [told, ended(&mut watch).await, ended(&mut watch).await] {
        let LeaderError::Ended(AcquireError::NoAuth { path, operation: refused, .. }) = &error
        else {
            panic!("{error:?}")
        };
        assert_eq!((path.as_str(), *refused), (latch.path(), operation));
    }
    let ended = within("the stream", futures_util::StreamExt::next(&mut stream)).await;
    assert!(ended.is_none());
    assert!(!latch.has_leadership());
    assert!(matches!(latch.start(), Err(LeaderError::Ended(_))));
    // No storm: Curator's selector asked 738 times a second. What was sent along with the create has arrived.
    round_trip(curator).await;
    link.clear_log();
    tokio::time::sleep(Duration::from_millis(500)).await;
    round_trip(curator).await;
    let mut log = link.log();
    // Probes; and what it had made is deleted in the background.
    log.retain(|one| *one != Operation::Sync);
    assert!(matches!(log[..], [] | [Operation::Delete]), "{log:?}");
    within("the close", latch.close()).await.unwrap();
}

/// Curator: `TestLeaderAcls#testAclErrorWithLeader` (CURATOR-365): who may not is told of it, and does not try for ever.
#[tokio::test(start_paused = true)]
async fn a_latch_without_permission_ends_and_says_so() {
    let arena = Arena::new().await;
    let builder = arena.builder().auth("digest", b"ours:secret").acls(Acls::creator_all());
    let ours = arena.connect(builder).await;
    let (latch, _) = arena.leading(&ours).await;
    latch.close().await.unwrap();
    let (link, stranger) = arena.linked(arena.builder()).await;
    let second = format!("{}/second", arena.path);
    for path in [&arena.path, &second] {
        let latch = LeaderLatch::new(&stranger, path).unwrap();
        let creates = link.requests(Operation::Create);
        ends_refused(&link, &stranger, &latch, "create").await;
        assert!(link.requests(Operation::Create) <= creates + 2, "{:?}", link.log());
    }
    assert!(arena.stat(&second).await.is_none());
    // Whoever may is not disturbed.
    let (latch, _) = arena.leading(&ours).await;
    latch.close().await.unwrap();
}

/// `zookeeper-async` keeps node and listener when the delete fails, and panics at the second stop.
#[tokio::test(start_paused = true)]
async fn a_close_that_may_not_delete_says_so_and_does_not_lead_any_more() {
    let arena = Arena::new().await;
    arena.restrict(Permission::CREATE | Permission::READ).await;
    let curator = arena.curator().await;
    let (latch, leads) = arena.leading(&curator).await;
    let mut watch = told(&latch);
    let node = leads.node().to_owned();
    for _ in 0..2 {
        match within("the close", latch.close()).await.unwrap_err() {
            ReleaseError::NoAuth { node: named, .. } => assert_eq!(named, node),
            other => panic!("{other:?}"),
        }
        assert!(!latch.has_leadership() && !leads.is_held());
    }
    assert!(matches!(ended(&mut watch).await, LeaderError::Closed { .. }));
    // It is still in the way of the next, and goes with the session at the latest.
    assert_eq!(arena.children().await.len(), 1);
    within("the end", curator.close()).await.unwrap();
    arena.children_are(0).await;
}
