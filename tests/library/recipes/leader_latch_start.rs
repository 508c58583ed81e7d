//! Leader latches that are started before there is any connection.

use zookeeper_recipes::zookeeper_client::Permission;
use zookeeper_recipes::{AcquireError, ConnectionState, LeaderError, LeaderLatch};

use super::latches::{ended, gained, is_quiet};
use crate::harness::{Arena, Operation, round_trip, until, within};

/// CURATOR-110. Curator: `TestLeaderLatch#testNoServerAtStart`: one gain, no loss.
#[tokio::test(start_paused = true)]
async fn a_latch_that_was_started_without_a_server_leads_when_there_is_one() {
    let arena = Arena::new().await;
    let (_link, refused, curator) = arena.unconnected(arena.builder()).await;
    assert_eq!(curator.state(), ConnectionState::Connecting);
    let latch = arena.latch(&curator);
    let mut watch = latch.watch();
    latch.start().unwrap();
    within("a refusal", refused.struck()).await;
    is_quiet(&mut watch).await;
    assert!(!latch.has_leadership() && latch.leadership().is_none());
    assert_eq!(curator.state(), ConnectionState::Connecting);
    refused.heal();
    let leads = gained(&mut watch).await;
    assert_eq!(curator.state(), ConnectionState::Connected);
    round_trip(&curator).await;
    is_quiet(&mut watch).await;
    assert!(leads.is_held());
    assert_eq!(arena.children().await.len(), 1);
    latch.close().await.unwrap();
}

/// Curator: `TestLeaderLatch#testProperCloseWithoutConnectionEstablished`: it never takes part, also when there is a
/// connection.
#[tokio::test(start_paused = true)]
async fn a_latch_that_was_closed_before_any_connection_never_takes_part() {
    let arena = Arena::new().await;
    let (link, refused, curator) = arena.unconnected(arena.builder()).await;
    let (closed, dropped) = (arena.latch(&curator), arena.latch(&curator));
    let (mut watch, mut of_dropped) = (closed.watch(), dropped.watch());
    closed.start().unwrap();
    dropped.start().unwrap();
    within("a refusal", refused.struck()).await;
    within("the close", closed.close()).await.unwrap();
    drop(dropped);
    for watch in [&mut watch, &mut of_dropped] {
        assert!(matches!(ended(watch).await, LeaderError::Closed { .. }));
    }
    assert!(matches!(closed.start(), Err(LeaderError::Closed { .. })));
    refused.heal();
    until(&curator, ConnectionState::Connected).await;
    round_trip(&curator).await;
    assert_eq!(link.requests(Operation::Create), 0);
    assert!(arena.stat(&arena.path).await.is_none());
    // The curator is as good as new.
    let (latch, _) = arena.leading(&curator).await;
    latch.close().await.unwrap();
}

/// There is a session in the end, and no permission to make what is to be above the latch: whoever waits is told so.
#[tokio::test(start_paused = true)]
async fn a_latch_whose_namespace_cannot_be_made_ends_and_says_so() {
    let arena = Arena::new().await;
    arena.restrict(Permission::READ).await;
    let namespace = format!("{}/namespace", arena.path);
    let builder = arena.builder().namespace(&namespace);
    let (_link, refused, curator) = arena.unconnected(builder).await;
    let latch = LeaderLatch::new(&curator, "/latch").unwrap();
    let mut watch = latch.watch();
    latch.start().unwrap();
    within("a refusal", refused.struck()).await;
    is_quiet(&mut watch).await;
    refused.heal();
    let error = ended(&mut watch).await;
    let LeaderError::Ended(AcquireError::NoAuth { path, .. }) = &error else { panic!("{error:?}") };
    assert_eq!(*path, namespace);
    within("the close", latch.close()).await.unwrap();
}
