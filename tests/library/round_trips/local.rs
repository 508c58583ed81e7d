//! Attacks on the local rule: contenders of one client hand over among themselves.

use zookeeper_recipes::{Loss, Shortcuts};

use super::link::{Linked, got, held, is_pending, settle, still_waits};
use crate::harness::{Arena, Message, Operation, eventually, within};

const ALL: Shortcuts = Shortcuts::ALL;

#[tokio::test(start_paused = true)]
async fn a_hand_over_does_not_wait_for_the_server() {
    let arena = Arena::with_parent().await;
    for local in [true, false] {
        let linked = Linked::knowing(&arena, Shortcuts { local, ..ALL }).await;
        let holder = arena.mutex(&linked.curator).acquire().await.unwrap();
        let mutex = arena.mutex(&linked.curator);
        let next = tokio::spawn(async move { mutex.acquire().await });
        arena.children_are(2).await;
        linked.round_trip().await;
        settle().await;
        let on_the_way = linked.proxy.hold(Message::request(Operation::Delete));
        let released = tokio::spawn(holder.release());
        within("the delete", on_the_way.struck()).await;
        if local {
            let guard = held(next).await;
            assert_eq!(arena.children().await.len(), 2, "the delete is on the way");
            on_the_way.heal();
            guard.release().await.unwrap();
        } else {
            settle().await;
            assert!(!next.is_finished());
            on_the_way.heal();
            held(next).await.release().await.unwrap();
        }
        within("the release", released).await.unwrap().unwrap();
        arena.children_are(0).await;
    }
}

/// Somebody deletes both nodes. Its successor must not take the first deletion for a release: its own may be next.
#[tokio::test(start_paused = true)]
async fn a_hold_that_is_deleted_by_somebody_else_admits_nobody_at_once() {
    let arena = Arena::with_parent().await;
    // A short session: a sixth of it is how long a node is there before it is watched.
    let linked = Linked::built(&arena, arena.short_lived_builder()).await;
    let mutex = arena.mutex(&linked.curator);
    mutex.acquire().await.unwrap().release().await.unwrap();
    let watched = linked.proxy.replies(Operation::GetData);
    let holder = mutex.acquire().await.unwrap();
    let mut next = linked.parks(&arena).await;
    let own = arena.newcomer(&[holder.node()]).await;
    eventually("their watches", async || linked.proxy.replies(Operation::GetData) >= watched + 2)
        .await;
    linked.round_trip().await;
    let second_event = linked.proxy.hold(Message::reply(Operation::Event).nth(2));
    arena.admin.delete_all(&[holder.node().to_owned(), own.clone()]).await;
    let theirs = arena.mutex(&arena.curator().await).acquire().await.unwrap();
    within("the second event", second_event.struck()).await;
    assert_eq!(within("the loss", holder.lost()).await, Loss::NodeDeleted);
    settle().await;
    assert!(is_pending(&mut next).await, "admitted next to another, on the word of a deletion");
    second_event.heal();
    let mutex = tokio::spawn(next);
    arena.children_are(2).await;
    still_waits(&linked, &mutex).await;
    theirs.release().await.unwrap();
    let guard = held(mutex).await;
    assert_ne!(guard.node(), own);
    guard.release().await.unwrap();
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
