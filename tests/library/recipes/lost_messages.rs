//! Requests and replies that get lost: the outcome is unknown, and is found out.

use tokio::task::JoinHandle;
use zookeeper_recipes::{AcquireError, Curator, MutexGuard, Released};

use crate::harness::{Arena, Link, Message, Operation, struck_once, within};

/// Starts to acquire, until the reply to the create is bound to be lost.
async fn acquire_and_lose_the_reply(
    arena: &Arena,
    link: &Link,
    curator: &Curator,
) -> JoinHandle<Result<MutexGuard, AcquireError>> {
    let lost = link.lose(Message::reply(Operation::Create));
    let mutex = arena.mutex(curator);
    let acquiring = tokio::spawn(async move { mutex.acquire().await });
    within("the loss", lost.struck()).await;
    acquiring
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_reply_is_lost_is_adopted() {
    let arena = Arena::new().await;
    let (link, curator) = arena.linked_with_parent(arena.builder()).await;
    let lost = link.lose(Message::reply(Operation::Create));
    let guard = within("the lock", arena.mutex(&curator).acquire()).await.unwrap();
    struck_once(&lost).await;
    // The second create under this parent, and the last: it was not repeated.
    assert!(guard.node().ends_with("0000000001"), "{}", guard.node());
    assert_eq!(arena.children().await.len(), 1);
    let stat = arena.stat(guard.node()).await.unwrap();
    assert_eq!(stat.czxid, guard.fencing_token().value());
    assert!(guard.is_held());
    assert_eq!(guard.release().await.unwrap(), Released::Unlocked);
    arena.children_are(0).await;
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_request_is_lost_is_repeated() {
    let arena = Arena::new().await;
    let (link, curator) = arena.linked_with_parent(arena.builder()).await;
    let lost = link.lose(Message::request(Operation::Create));
    let guard = within("the lock", arena.mutex(&curator).acquire()).await.unwrap();
    struck_once(&lost).await;
    assert_eq!(arena.children().await.len(), 1);
    guard.release().await.unwrap();
    arena.children_are(0).await;
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_reply_is_lost_and_whose_caller_is_gone_is_removed() {
    let arena = Arena::new().await;
    let (link, curator) = arena.linked_with_parent(arena.builder()).await;
    let acquiring = acquire_and_lose_the_reply(&arena, &link, &curator).await;
    acquiring.abort();
    arena.children_are(0).await;
    within("the lock", arena.mutex(&curator).acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_reply_and_session_are_lost_is_not_adopted_by_the_next_session() {
    let arena = Arena::new().await;
    let (link, curator) = arena.linked_with_parent(arena.builder()).await;
    let acquiring = acquire_and_lose_the_reply(&arena, &link, &curator).await;
    // It may have been adopted already, and then be lost with the session.
    arena.kill_session(&curator).await;
    let guard = within("the lock", acquiring).await.unwrap().unwrap();
    match arena.stat(guard.node()).await {
        Some(stat) => assert_eq!(stat.ephemeral_owner, curator.session_id().unwrap()),
        None => _ = within("the loss", guard.lost()).await,
    }
    drop(guard);
    arena.children_are(0).await;
}
