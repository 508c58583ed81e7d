//! Attacks on the local rule: contenders of one client hand over among themselves.

use zookeeper_recipes::{Loss, MutexGuard, Shortcuts};

use super::link::{Acquiring, Linked, got, held, is_pending, settle, still_waits};
use crate::harness::{Arena, Message, Operation, eventually, within};

const ALL: Shortcuts = Shortcuts::ALL;

/// Somebody holds, and so many of the same client wait behind it.
async fn chain<const WAITERS: usize>(
    arena: &Arena,
    linked: &Linked,
) -> (MutexGuard, [Acquiring; WAITERS]) {
    let holder = arena.mutex(&linked.curator).acquire().await.unwrap();
    let mut waiters = Vec::new();
    for _ in 0..WAITERS {
        waiters.push(linked.parks(arena).await);
    }
    let Ok(waiters) = waiters.try_into() else { unreachable!("so many were pushed") };
    (holder, waiters)
}

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

/// The last before it gives up, and whoever stands before that one holds.
#[tokio::test(start_paused = true)]
async fn a_predecessor_that_gives_up_admits_nobody() {
    let arena = Arena::with_parent().await;
    let linked = Linked::knowing(&arena, ALL).await;
    let (holder, [second, mut third]) = chain::<2>(&arena, &linked).await;
    linked.took();
    drop(second);
    arena.children_are(2).await;
    settle().await;
    assert!(is_pending(&mut third).await);
    linked.round_trip().await;
    assert_eq!(linked.took(), [Operation::Delete]);
    assert!(holder.is_held());
    holder.release().await.unwrap();
    got(third).await.release().await.unwrap();
}

/// A foreign hold is before both: who waits for it at the servers gives up, and the one behind it takes over.
#[tokio::test(start_paused = true)]
async fn a_predecessor_that_gives_up_waiting_for_a_stranger_admits_nobody() {
    let arena = Arena::with_parent().await;
    let (linked, other) = (Linked::knowing(&arena, ALL).await, Linked::new(&arena, ALL).await);
    let theirs = arena.mutex(&other.curator).acquire().await.unwrap();
    let second = linked.waits(&arena, 2).await;
    let mut third = linked.parks(&arena).await;
    linked.proxy.clear_log();
    second.abort();
    arena.children_are(2).await;
    let asked = async {
        eventually("a listing", async || {
            is_pending(&mut third).await && linked.log().contains(&Operation::List)
        })
        .await;
    };
    asked.await;
    linked.round_trip().await;
    settle().await;
    assert!(is_pending(&mut third).await);
    assert!(theirs.is_held());
    theirs.release().await.unwrap();
    got(third).await.release().await.unwrap();
}

/// It was told that it is next, and nobody asks it any more.
#[tokio::test(start_paused = true)]
async fn whoever_is_next_and_gives_up_passes_it_on() {
    let arena = Arena::with_parent().await;
    let linked = Linked::knowing(&arena, ALL).await;
    let (holder, [second, third]) = chain::<2>(&arena, &linked).await;
    holder.release().await.unwrap();
    drop(second);
    got(third).await.release().await.unwrap();
    arena.children_are(0).await;
}

/// Somebody deletes both nodes. Its successor must not take the first deletion for a release: its own may be next.
#[tokio::test(start_paused = true)]
async fn a_hold_that_is_deleted_by_somebody_else_admits_nobody_at_once() {
    let arena = Arena::with_parent().await;
    // A short session: a sixth of it is how long a node is there before it is watched.
    let builder = || arena.builder().session_timeout(std::time::Duration::from_secs(6));
    let linked = Linked::built(&arena, builder()).await;
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
    let other = Linked::built(&arena, builder()).await;
    let theirs = arena.mutex(&other.curator).acquire().await.unwrap();
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

/// A delete that is refused keeps strangers out, and our own go in.
#[tokio::test(start_paused = true)]
async fn a_delete_that_is_lost_is_repeated_and_keeps_strangers_out_meanwhile() {
    let arena = Arena::with_parent().await;
    let (linked, other) = (Linked::knowing(&arena, ALL).await, Linked::new(&arena, ALL).await);
    let (holder, [second]) = chain::<1>(&arena, &linked).await;
    let strangers = other.waits(&arena, 4).await;
    let lost = linked.proxy.lose(Message::request(Operation::Delete));
    let released = tokio::spawn(holder.release());
    let second = got(second).await;
    within("the loss", lost.struck()).await;
    within("the release", released).await.unwrap().unwrap();
    arena.children_are(2).await;
    still_waits(&other, &strangers).await;
    assert!(second.is_held());
    second.release().await.unwrap();
    held(strangers).await.release().await.unwrap();
}
