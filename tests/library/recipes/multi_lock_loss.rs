//! How a member of a multi-lock is lost, and who learns of it.

use std::sync::Arc;
use std::time::Duration;

use zookeeper_recipes::{
    AcquireError, ConnectionState, Curator, InterProcessLock, InterProcessMultiLock,
    InterProcessMutex, Loss, MultiGuard, ReleaseError, WithError,
};

use super::multi_lock::{contenders, contenders_are, multi, paths};
use crate::harness::{Arena, within};

type Waiting = tokio::task::JoinHandle<Result<MultiGuard, AcquireError>>;

fn spawn(both: &InterProcessMultiLock) -> Waiting {
    let both = both.clone();
    tokio::spawn(async move { both.acquire().await })
}

/// A member on each of two sessions.
fn on_two(arena: &Arena, curators: [&Curator; 2]) -> InterProcessMultiLock {
    let paths = paths(arena);
    let member = |number: usize| -> Arc<dyn InterProcessLock> {
        Arc::new(InterProcessMutex::new(curators[number], &paths[number]).unwrap())
    };
    InterProcessMultiLock::new([member(0), member(1)]).unwrap()
}

/// Curator: TestInterProcessMutexBase#testKilledSession. (There the second waits for the servers to expire the first
/// one's session, and the first is never told.)
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_whose_session_is_killed_is_told_and_the_next_is_served() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let guard = multi(&arena, &curator).acquire().await.unwrap();
    let (token, lost) = (guard.cancellation_token(), tokio::spawn(guard.lost()));
    let next = spawn(&multi(&arena, &other));
    contenders_are(&arena, [2, 1]).await;
    arena.kill_session(&curator).await;
    assert_eq!(within("the loss", lost).await.unwrap().loss, Loss::SessionExpired);
    within("the token", token.cancelled()).await;
    assert!(!guard.is_held());
    let next = within("the next", next).await.unwrap().unwrap();
    for (newer, older) in next.members().iter().zip(guard.members()) {
        assert!(newer.fencing_token() > older.fencing_token(), "invariant 4");
    }
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.failures().len(), 2, "both were lost: {error}");
    next.release().await.unwrap();
    // The same handle works on, in the next session.
    let both = multi(&arena, &curator);
    drop(within("a new session", both.acquire()).await.unwrap());
}

/// Curator: TestInterProcessMutexBase#testWaitingProcessKilledServer.
#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_costs_nobody_the_place_in_the_queue() {
    let arena = Arena::own().await;
    let (curator, other) = (arena.patient_curator().await, arena.patient_curator().await);
    let guard = multi(&arena, &curator).acquire().await.unwrap();
    let next = spawn(&multi(&arena, &other));
    contenders_are(&arena, [2, 1]).await;
    arena.server.restart().await.unwrap();
    for curator in [&curator, &other] {
        let mut state = curator.watch_state();
        let back = state.wait_for(|state| {
            matches!(state, ConnectionState::Connected | ConnectionState::Reconnected)
        });
        within("the connection", back).await.unwrap();
    }
    assert!(guard.is_held(), "{:?}", guard.loss());
    guard.release().await.unwrap();
    within("the next", next).await.unwrap().unwrap().release().await.unwrap();
    contenders_are(&arena, [0, 0]).await;
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
async fn the_loss_of_a_member_while_another_is_waited_for_ends_the_attempt() {
    let arena = Arena::new().await;
    let (one, two, other) = (arena.curator().await, arena.curator().await, arena.curator().await);
    let second = InterProcessMutex::new(&other, &paths(&arena)[1]).unwrap();
    let holder = second.acquire().await.unwrap();
    let both = on_two(&arena, [&one, &two]);
    let waiting = spawn(&both);
    contenders_are(&arena, [1, 2]).await;
    arena.kill_session(&one).await;
    match within("the error", waiting).await.unwrap() {
        Err(AcquireError::MemberLost { path, position: 0, loss, .. }) => {
            assert_eq!((path, loss), (paths(&arena)[0].clone(), Loss::SessionExpired));
        }
        other => panic!("{other:?}"),
    }
    contenders_are(&arena, [0, 1]).await;
    holder.release().await.unwrap();
    within("the next", both.acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn with_cancels_its_body_at_the_loss_of_a_member() {
    let arena = Arena::new().await;
    let (one, two) = (arena.curator().await, arena.curator().await);
    let both = on_two(&arena, [&one, &two]);
    let result = both.with(async |_| {
        arena.kill_session(&one).await;
        std::future::pending::<()>().await;
    });
    match within("the loss", result).await {
        Err(WithError::Lost { path, loss, .. }) => {
            assert_eq!((path, loss), (paths(&arena)[0].clone(), Loss::SessionExpired));
        }
        other => panic!("{other:?}"),
    }
    contenders_are(&arena, [0, 0]).await;
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
