//! Attacks on the head rule: the deletion of the first contender admits the next one without a listing.

use zookeeper_recipes::{Guard, Loss, Shortcuts};

use super::link::{Linked, Waiting, held, linked, without_removals};
use crate::harness::{Arena, Cut, Message, Operation, eventually, within};

const ALL: Shortcuts = Shortcuts::ALL;

/// The holder's client and the next one's, the hold, and the next one.
async fn held_and_awaited(arena: &Arena) -> (Linked, Linked, Guard, Waiting) {
    let [first, second] = linked(arena, ALL).await;
    let holder = arena.mutex(&first.curator).acquire().await.unwrap();
    let next = second.waits(arena, 3).await;
    (first, second, holder, next)
}

/// The two events of one transaction come one after the other: a waiter that acts on the first learns of the second.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_admitted_between_two_events_of_one_transaction_loses() {
    let arena = Arena::with_parent().await;
    let (_first, second, holder, next) = held_and_awaited(&arena).await;
    let own = arena.newcomer(&[holder.node()]).await;
    let held_back = second.proxy.hold(Message::reply(Operation::Event).nth(2));
    arena.admin.delete_all(&[holder.node().to_owned(), own.clone()]).await;
    within("the second event", held_back.struck()).await;
    let guard = within("the lock", next).await.unwrap().unwrap();
    assert_eq!(guard.node(), own);
    held_back.heal();
    assert_eq!(within("the loss", guard.lost()).await, Loss::NodeDeleted);
}

/// After a reconnect the client tells of what it missed in any order.
#[tokio::test(start_paused = true)]
async fn after_a_reconnect_the_deletion_lists() {
    let arena = Arena::with_parent().await;
    let (_first, second, holder, next) = held_and_awaited(&arena).await;
    let set = second.proxy.replies(Operation::SetWatches);
    second.proxy.cut(Cut::Reset);
    eventually("its watches again", async || second.proxy.replies(Operation::SetWatches) > set)
        .await;
    second.round_trip().await;
    second.proxy.clear_log();
    holder.release().await.unwrap();
    let guard = held(next).await;
    assert_eq!(without_removals(second.took()), [Operation::List]);
    guard.release().await.unwrap();
}

/// Its own watch has fired, and is younger than the predecessor's: the order in which they were armed is not known
/// to be the one that the rule needs.
#[tokio::test(start_paused = true)]
async fn an_own_watch_that_was_armed_again_lists() {
    let arena = Arena::with_parent().await;
    let (_first, second, holder, next) = held_and_awaited(&arena).await;
    let own = arena.newcomer(&[holder.node()]).await;
    let watched = second.proxy.replies(Operation::GetData);
    arena.admin.set_data(&own, b"changed", None).await.unwrap();
    eventually("the watch again", async || second.proxy.replies(Operation::GetData) > watched)
        .await;
    second.round_trip().await;
    second.proxy.clear_log();
    holder.release().await.unwrap();
    let guard = held(next).await;
    assert_eq!(second.took(), [Operation::List]);
    guard.release().await.unwrap();
}

/// The answer to the watch tells that the predecessor is gone: that is its deletion, too.
#[tokio::test(start_paused = true)]
async fn a_predecessor_that_goes_before_it_is_watched() {
    let arena = Arena::with_parent().await;
    let [first, second] = linked(&arena, ALL).await;
    let holder = arena.mutex(&first.curator).acquire().await.unwrap();
    // The third is the predecessor's, after those of the parent and the own node.
    let late = second.proxy.hold(Message::request(Operation::GetData).nth(3));
    let next = arena.waits(&second.curator).await;
    within("the request", late.struck()).await;
    arena.admin.delete(holder.node(), None).await.unwrap();
    second.proxy.clear_log();
    late.heal();
    let guard = held(next).await;
    assert_eq!(second.took(), []);
    guard.release().await.unwrap();
}
