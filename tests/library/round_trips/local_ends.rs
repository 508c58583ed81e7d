//! The local rule, and the end of a session, of a client, of a runtime.

use zookeeper_recipes::{AcquireError, Loss, SessionError, Shortcuts};

use super::link::{Linked, got, held};
use crate::harness::{Arena, Message, Operation, within};

const ALL: Shortcuts = Shortcuts::ALL;

/// The delete of the released node never arrives: both nodes go with the session.
#[tokio::test(start_paused = true)]
async fn a_delete_that_is_lost_with_the_session_takes_the_successor_along() {
    let arena = Arena::with_parent().await;
    let (linked, other) = (Linked::knowing(&arena, ALL).await, Linked::new(&arena, ALL).await);
    let holder = arena.mutex(&linked.curator).acquire().await.unwrap();
    let next = linked.parks(&arena).await;
    let strangers = other.waits(&arena, 4).await;
    let on_the_way = linked.proxy.hold(Message::request(Operation::Delete));
    let released = tokio::spawn(holder.release());
    let next = got(next).await;
    within("the delete", on_the_way.struck()).await;
    assert_eq!(arena.children().await.len(), 3);
    let refused = linked.cut_off().await;
    arena.kill_session(&linked.curator).await;
    let theirs = held(strangers).await;
    assert!(theirs.fencing_token() > next.fencing_token());
    refused.heal();
    assert_eq!(within("the loss", next.lost()).await, Loss::SessionExpired);
    on_the_way.heal();
    // It had given the hold up while that lasted.
    within("the release", released).await.unwrap().unwrap();
    assert!(theirs.is_held());
    theirs.release().await.unwrap();
    drop(next);
    arena.children_are(0).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_killed_with_waiters_serves_them_all_in_the_next() {
    let arena = Arena::with_parent().await;
    let linked = Linked::knowing(&arena, ALL).await;
    let holder = arena.mutex(&linked.curator).acquire().await.unwrap();
    let session = linked.curator.session_id().unwrap();
    let mut waiters = Vec::new();
    for _ in 0..8 {
        let acquiring = linked.parks(&arena).await;
        waiters.push(tokio::spawn(async move {
            let guard = acquiring.await.unwrap();
            assert!(guard.is_held());
            guard.release().await.unwrap();
        }));
    }
    arena.kill_session(&linked.curator).await;
    for waiter in waiters {
        within("a waiter", waiter).await.unwrap();
    }
    assert!(!holder.is_held());
    assert_ne!(linked.curator.session_id().unwrap(), session);
    drop(holder);
    arena.children_are(0).await;
}

#[tokio::test(start_paused = true)]
async fn closing_tells_each_waiter() {
    let arena = Arena::with_parent().await;
    let linked = Linked::knowing(&arena, ALL).await;
    let holder = arena.mutex(&linked.curator).acquire().await.unwrap();
    let mut waiters = Vec::new();
    for _ in 0..4 {
        waiters.push(linked.parks(&arena).await);
    }
    within("the end", linked.curator.clone().close()).await.unwrap();
    for waiter in waiters {
        let error = within("an answer", waiter).await.unwrap_err();
        assert!(
            matches!(error, AcquireError::Session { source: SessionError::Closed, .. }),
            "{error:?}"
        );
    }
    assert!(!holder.is_held());
    drop(holder);
    arena.children_are(0).await;
}

mod real {
    use super::*;
    use zookeeper_recipes::zookeeper_client::CreateMode;

    /// The one who waits is polled by another runtime than the session's, and the guard is dropped outside of any.
    #[test]
    fn a_hand_over_between_runtimes() {
        let own = tokio::runtime::Runtime::new().unwrap();
        let (arena, linked) = own.block_on(async {
            let arena = Arena::real().await;
            arena.create(&arena.path, CreateMode::Persistent).await;
            let linked = Linked::knowing(&arena, ALL).await;
            (arena, linked)
        });
        let mutex = arena.mutex(&linked.curator);
        let holder = own.block_on(mutex.acquire()).unwrap();
        let next = own.block_on(linked.parks(&arena));
        let on_the_way = linked.proxy.hold(Message::request(Operation::Delete));
        let waiter = std::thread::spawn(move || {
            let other =
                tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            other.block_on(got(next))
        });
        drop(holder);
        let guard = waiter.join().unwrap();
        assert!(guard.is_held());
        own.block_on(within("the delete", on_the_way.struck()));
        on_the_way.heal();
        drop(guard);
        own.block_on(arena.children_are(0));
    }
}
