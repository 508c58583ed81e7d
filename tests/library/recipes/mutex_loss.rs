//! How a hold or a place in the queue is lost, and who learns of it.

use zookeeper_recipes::{ConnectionState, FencedError, Loss, ReleaseError, WithError};

use crate::harness::{Arena, until, within};

#[tokio::test(start_paused = true)]
async fn with_cancels_its_body_at_the_loss() {
    let (arena, curator) = Arena::with_curator().await;
    let mutex = arena.mutex(&curator);
    let result = mutex
        .with(async |_| {
            arena.kill_session(&curator).await;
            std::future::pending::<()>().await;
        })
        .await;
    match result {
        Err(WithError::Lost { path, loss, .. }) => {
            assert_eq!((path.as_str(), loss), (arena.path.as_str(), Loss::SessionExpired));
        }
        other => panic!("{other:?}"),
    }
    drop(within("the lock", mutex.acquire()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_no_server_answers_loses_before_the_servers_give_the_lock_away() {
    let arena = Arena::own().await;
    let curator = arena.short_lived_curator().await;
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    let lost = tokio::spawn(guard.lost());
    arena.server.stop().await.unwrap();
    assert_eq!(within("the loss", lost).await.unwrap(), Loss::LeaseEnded);
    assert!(!guard.is_held());
    // The server kept the session (its clock starts anew): the node is still there, and the hold stays
    // lost all the same.
    arena.server.start_again().await.unwrap();
    until(&curator, ConnectionState::Reconnected).await;
    assert!(!guard.is_held());
    let other = format!("{}-other", arena.path);
    let error = within("the write", guard.fenced().create(&other, b"")).await.unwrap_err();
    assert!(matches!(error, FencedError::Lost { loss: Loss::LeaseEnded, .. }), "{error:?}");
    let error = within("the release", guard.release()).await.unwrap_err();
    assert!(matches!(error, ReleaseError::Lost { loss: Loss::LeaseEnded, .. }), "{error:?}");
    arena.children_are(0).await;
    drop(within("the lock", arena.mutex(&curator).acquire()).await.unwrap());
}
