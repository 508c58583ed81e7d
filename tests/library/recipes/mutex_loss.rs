//! How a hold or a place in the queue is lost, and who learns of it.

use zookeeper_recipes::session::ConnectionState;
use zookeeper_recipes::{ErrorKind, Loss};

use crate::harness::{Arena, fails, lost_by, until, within};

#[tokio::test(start_paused = true)]
async fn with_cancels_its_body_at_the_loss() {
    let (arena, curator) = Arena::with_curator().await;
    let mutex = arena.mutex(&curator);
    let ended = mutex
        .with(async |_| {
            arena.kill_session(&curator).await;
            std::future::pending::<()>().await;
        })
        .await;
    let error = fails(ended, ErrorKind::Lost);
    assert_eq!(error.path(), Some(arena.path.as_str()));
    assert_eq!((error.loss(), error.is_transient()), (Some(Loss::SessionExpired), false));
    drop(within("the lock", mutex.acquire()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_no_server_answers_loses_before_the_servers_give_the_lock_away() {
    let arena = Arena::own().await;
    let curator = arena.short_lived_curator().await;
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    arena.server.stop().await.unwrap();
    assert_eq!(within("the loss", guard.lost()).await, Loss::LeaseEnded);
    assert!(!guard.is_held());
    // The server kept the session (its clock starts anew): the node is still there, and the hold stays
    // lost all the same.
    arena.server.start_again().await.unwrap();
    until(&curator, ConnectionState::Reconnected).await;
    assert!(!guard.is_held());
    let other = format!("{}-other", arena.path);
    let written = within("the write", guard.fenced().create(&other, b"")).await;
    assert_eq!(lost_by(written), Loss::LeaseEnded);
    assert_eq!(lost_by(within("the release", guard.release()).await), Loss::LeaseEnded);
    arena.children_are(0).await;
    drop(within("the lock", arena.mutex(&curator).acquire()).await.unwrap());
}
