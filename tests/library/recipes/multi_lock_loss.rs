//! How a member of a multi-lock is lost, and who learns of it.

use std::sync::Arc;
use std::time::Duration;

use zookeeper_recipes::{
    AcquireError, Curator, InterProcessLock, InterProcessMultiLock, InterProcessMutex, Loss,
    ReleaseError,
};

use super::multi_lock::{contenders, contenders_are, paths};
use crate::harness::{Arena, within};

/// A member on each of two sessions.
fn on_two(arena: &Arena, curators: [&Curator; 2]) -> InterProcessMultiLock {
    let paths = paths(arena);
    let member = |number: usize| -> Arc<dyn InterProcessLock> {
        Arc::new(InterProcessMutex::new(curators[number], &paths[number]).unwrap())
    };
    InterProcessMultiLock::new([member(0), member(1)]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_loss_of_one_member_is_told_and_the_others_stay_held() {
    let arena = Arena::new().await;
    let (one, two) = (arena.curator().await, arena.curator().await);
    let both = on_two(&arena, [&one, &two]);
    let guard = both.acquire().await.unwrap();
    let (token, lost) = (guard.cancellation_token(), tokio::spawn(guard.lost()));
    arena.kill_session(&two).await;
    let lost = within("the loss", lost).await.unwrap();
    assert_eq!((lost.position, lost.loss), (1, Loss::SessionExpired));
    assert_eq!(lost.path, paths(&arena)[1]);
    within("the token", token.cancelled()).await;
    assert_eq!(guard.loss(), Some(lost));
    assert!(guard.members()[0].is_held() && !guard.members()[1].is_held());
    assert_eq!(contenders(&arena).await, [1, 0]);
    let error = guard.release().await.unwrap_err();
    let [failure] = error.failures() else { panic!("{error}") };
    assert!(matches!(failure.error, ReleaseError::Lost { loss: Loss::SessionExpired, .. }));
    assert_eq!(failure.position, 1);
    assert_eq!(contenders(&arena).await, [0, 0]);
    within("again", both.acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_holds_when_no_server_answers() {
    let arena = Arena::own().await;
    let curator = arena.curator().await;
    let silent = InterProcessMutex::new(&curator, &paths(&arena)[1]).unwrap();
    let local = zookeeper_recipes::LocalLock::new("/local");
    let members: [Arc<dyn InterProcessLock>; 2] = [Arc::new(local.clone()), Arc::new(silent)];
    let both = InterProcessMultiLock::new(members).unwrap();
    both.acquire().await.unwrap().release().await.unwrap();
    arena.server.pause().await.unwrap();
    let limit = Duration::from_millis(500);
    match within("the deadline", both.acquire_timeout(limit)).await {
        Err(AcquireError::Member { position: 1, source, .. }) => match *source {
            AcquireError::TimedOut { waited, .. } => assert!(waited <= limit),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
    assert_eq!(local.holder(), None);
    arena.server.resume().await.unwrap();
    contenders_are(&arena, [0, 0]).await;
}
