//! What a mutex does while nothing fails.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::task::JoinHandle;
use zookeeper_recipes::session::RetryPolicy;
use zookeeper_recipes::zookeeper_client::Permission;
use zookeeper_recipes::{Attempt, Error, ErrorKind, Lock, Loss, Released};

use crate::harness::{Arena, BUSY, fails, lost_by, within};

/// Curator: TestInterProcessMutexBase#testLocker.
#[tokio::test(start_paused = true)]
async fn with_holds_the_lock_while_its_body_runs() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let (mutex, rival) = (arena.mutex(&curator), arena.mutex(&other));
    let value = mutex
        .with(async |hold| {
            assert!(hold.is_held());
            assert!(matches!(rival.try_acquire().await.unwrap(), Attempt::Busy));
            7
        })
        .await;
    assert_eq!(value.unwrap(), 7);
    assert_eq!(arena.children().await.len(), 0);
    assert!(matches!(rival.try_acquire().await.unwrap(), Attempt::Acquired(_)));
}

/// The body's own error counts more than that the release is refused; and that does not count.
#[tokio::test(start_paused = true)]
async fn run_releases_before_it_returns_and_gives_what_the_body_gave() {
    let (arena, curator) = Arena::with_curator().await;
    let mutex = arena.mutex(&curator);
    let own = || fails(curator.mutex(""), ErrorKind::InvalidInput);
    assert_eq!(mutex.run(async |_| Ok::<_, Error>(7)).await.unwrap(), 7);
    assert_eq!(arena.children().await.len(), 0);
    fails(mutex.run(async |_| Err::<(), _>(own())).await, ErrorKind::InvalidInput);
    assert_eq!(arena.children().await.len(), 0, "before `?` can leave the function");
    arena.admin.delete(&arena.path, None).await.unwrap();
    arena.restrict(Permission::CREATE | Permission::READ).await;
    assert_eq!(mutex.run(async |_| Ok::<_, Error>(7)).await.unwrap(), 7);
    let other = curator.mutex_for(&arena.path, "other").unwrap();
    arena.children_are(1).await;
    within("the end", curator.close()).await;
    fails(other.run(async |_| Ok::<_, Error>(())).await, ErrorKind::Closed);
}

/// Also for a body that blocks the loss, and ends with an error that followed from it.
#[tokio::test(start_paused = true)]
async fn run_says_that_the_lock_was_lost_unless_the_body_said_more() {
    let (arena, curator) = Arena::with_curator().await;
    let mutex = arena.mutex(&curator);
    let lost = mutex.run(async |_| {
        arena.kill_session(&curator).await;
        pending::<Result<(), Error>>().await
    });
    assert_eq!(lost_by(within("the loss", lost).await), Loss::SessionExpired);
    for own in [None, Some(ErrorKind::InvalidInput)] {
        let ran = mutex.run(async |hold| {
            arena.remove(hold.node()).await;
            // It learns of the loss by this, and returns in the same poll.
            lost_by(hold.fenced().set(&arena.path, b"").await);
            own.map_or(Ok(()), |kind| Err(fails(curator.mutex(""), kind)))
        });
        fails(within("the end", ran).await, own.unwrap_or(ErrorKind::Lost));
    }
    let dynamic: Arc<dyn Lock> = mutex.into();
    assert_eq!(dynamic.run(async |_| Ok::<_, Error>(7)).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_busy_lock_is_none_not_an_error_and_leaves_no_node() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    let rival = arena.mutex(&other);
    assert!(matches!(rival.try_acquire().await.unwrap(), Attempt::Busy));
    assert_eq!(arena.children().await.len(), 1, "a refused try leaves nothing");
    assert!(matches!(rival.acquire_timeout(BUSY).await.unwrap(), Attempt::Busy));
    arena.children_are(1).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
    assert!(matches!(rival.try_acquire().await.unwrap(), Attempt::Acquired(_)));
}

/// kazoo counts its time-out anew for every predecessor.
#[tokio::test(start_paused = true)]
async fn a_deadline_covers_the_whole_queue() {
    let (arena, [curator, one, two, holder]) = Arena::with_curators().await;
    let mutex = arena.mutex(&curator);
    let holder = arena.mutex(&holder).acquire().await.unwrap();
    let queue = [arena.waits(&one).await, arena.waits(&two).await];
    let last = tokio::spawn(async move { mutex.acquire_timeout(BUSY).await });
    arena.children_are(4).await;
    queue.iter().for_each(JoinHandle::abort);
    assert!(matches!(within("the deadline", last).await.unwrap().unwrap(), Attempt::Busy));
    arena.children_are(1).await;
    holder.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn nested_guards_share_one_hold_in_any_order() {
    let (arena, curator) = Arena::with_curator().await;
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    let nested = guard.reenter();
    assert_eq!(nested.fencing_token(), guard.fencing_token());
    let token = nested.cancellation_token();
    assert_eq!(guard.release().await.unwrap(), Released::StillHeld);
    assert!(nested.is_held() && !token.is_cancelled());
    assert_eq!(arena.children().await.len(), 1);
    let view = nested.view();
    assert_eq!(nested.release().await.unwrap(), Released::Confirmed);
    assert!(token.is_cancelled() && !view.is_held());
    assert_eq!((view.loss(), futures_util::poll!(pin!(view.lost()))), (None, Poll::Pending));
    assert_eq!(arena.children().await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_guard_alone_keeps_the_session_open() {
    let (arena, curator) = Arena::with_curator().await;
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    drop(curator);
    arena.children_are(1).await;
    assert!(guard.is_held());
    assert_eq!(guard.release().await.unwrap(), Released::Confirmed);
}

#[tokio::test(start_paused = true)]
async fn a_lock_can_be_at_the_root_and_deep_below_a_chroot() {
    let arena = Arena::new().await;
    let chroot = format!("{}{}/deep/down", arena.server.connect_string(), arena.path);
    let curator = arena.builder().namespace("/team/app").connect(&chroot).await.unwrap();
    let deep = "/a/b/c/d/e/f/g/h";
    for path in ["/", "/one", deep] {
        let mutex = curator.mutex(path).unwrap();
        let guard = within(path, mutex.acquire()).await.unwrap();
        let on_server = format!("{}/deep/down/team/app{}", arena.path, guard.node());
        assert!(arena.stat(&on_server).await.is_some(), "{on_server}");
        let rival = curator.mutex(path).unwrap();
        assert!(matches!(rival.try_acquire().await.unwrap(), Attempt::Busy), "{path}");
        assert_eq!(guard.release().await.unwrap(), Released::Confirmed, "{path}");
    }
    // And at the server's own root.
    let arena = Arena::own().await;
    let curator = arena.curator().await;
    let mutex = curator.mutex("/").unwrap();
    let guard = within("the root", mutex.acquire()).await.unwrap();
    assert!(guard.node().starts_with("/_c_"), "{}", guard.node());
    guard.release().await.unwrap();
    curator.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_parent_that_is_deleted_as_fast_as_it_is_made_is_made_again() {
    let arena = Arena::new().await;
    let retry = RetryPolicy::n_times(10_000, Duration::from_millis(1));
    let curator = arena.connect(arena.builder().retry(retry)).await;
    let mutex = arena.mutex(&curator);
    let stop = tokio_util::sync::CancellationToken::new();
    let deleter = {
        let (admin, path, stop) = (arena.admin.clone(), arena.path.clone(), stop.clone());
        tokio::spawn(async move {
            let mut deleted = 0;
            while !stop.is_cancelled() {
                deleted += usize::from(admin.delete(&path, None).await.is_ok());
            }
            deleted
        })
    };
    let mut last = None;
    for round in 0..50 {
        let guard = within("the lock", mutex.acquire()).await.unwrap();
        assert!(Some(guard.fencing_token()) > last, "invariant 4, over re-creations, in {round}");
        last = Some(guard.fencing_token());
        guard.release().await.unwrap();
    }
    stop.cancel();
    assert!(deleter.await.unwrap() > 0, "the parent was never deleted");
    arena.children_are(0).await;
}
