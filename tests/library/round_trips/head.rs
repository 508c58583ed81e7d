//! Attacks on the head rule: the deletion of who stood first admits the next one without a listing.

use zookeeper_recipes::{MutexGuard, Shortcuts};

use super::link::{Linked, Waiting, held, linked, sequence, still_waits, without_removals};
use crate::harness::{Arena, Cut, Direction, Message, Operation, eventually, within};

const ALL: Shortcuts = Shortcuts::ALL;

/// The holder's client and the next one's, the hold, and the next one.
async fn held_and_awaited(arena: &Arena) -> (Linked, Linked, MutexGuard, Waiting) {
    let [first, second] = linked(arena, ALL).await;
    let holder = arena.mutex(&first.curator).acquire().await.unwrap();
    let next = second.waits(arena, 3).await;
    (first, second, holder, next)
}

#[tokio::test(start_paused = true)]
async fn who_lost_its_own_node_first_is_not_admitted_by_the_predecessors_deletion() {
    let arena = Arena::with_parent().await;
    for (is_away, in_one_transaction) in [(false, false), (false, true), (true, false)] {
        let [first, second, third] = linked(&arena, ALL).await;
        let holder = arena.mutex(&first.curator).acquire().await.unwrap();
        let next = second.waits(&arena, 3).await;
        let own = arena.newcomer(&[holder.node()]).await;
        // All that happens reaches it when somebody else holds.
        let stalled =
            if is_away { second.cut_off().await } else { second.proxy.stall(Direction::ToClient) };
        if in_one_transaction {
            arena.admin.delete_all(&[own.clone(), holder.node().to_owned()]).await;
        } else {
            arena.admin.delete(&own, None).await.unwrap();
            arena.admin.delete(holder.node(), None).await.unwrap();
        }
        let theirs = arena.mutex(&third.curator).acquire().await.unwrap();
        stalled.heal();
        eventually("it enters again", async || {
            next.is_finished() || arena.children().await.len() == 2
        })
        .await;
        still_waits(&second, &next).await;
        theirs.release().await.unwrap();
        let guard = held(next).await;
        assert!(sequence(guard.node()) > sequence(&own), "it entered again");
        drop(holder);
        guard.release().await.unwrap();
        arena.children_are(0).await;
    }
}

/// The two events of one transaction come one after the other: whoever acts on the first is told by the second.
#[tokio::test(start_paused = true)]
async fn who_is_admitted_between_two_events_of_one_transaction_is_told() {
    let arena = Arena::with_parent().await;
    let (_first, second, holder, next) = held_and_awaited(&arena).await;
    let own = arena.newcomer(&[holder.node()]).await;
    let held_back = second.proxy.hold(Message::reply(Operation::Event).nth(2));
    arena.admin.delete_all(&[holder.node().to_owned(), own.clone()]).await;
    within("the second event", held_back.struck()).await;
    let guard = within("the lock", next).await.unwrap().unwrap();
    assert_eq!(guard.node(), own);
    held_back.heal();
    assert_eq!(within("the loss", guard.lost()).await, zookeeper_recipes::Loss::NodeDeleted);
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
    let [first, second, third] = linked(&arena, ALL).await;
    let holder = arena.mutex(&first.curator).acquire().await.unwrap();
    for gives_up in [true, false] {
        let middle = if gives_up { Some(second.waits(&arena, 3).await) } else { None };
        // The third of it is the predecessor's, after those of the parent and the own node; but the parent
        // is watched already the second time.
        let late =
            third.proxy.hold(Message::request(Operation::GetData).nth(2 + usize::from(gives_up)));
        let mutex = arena.mutex(&third.curator);
        let last = tokio::spawn(async move { mutex.acquire().await });
        within("the request", late.struck()).await;
        if let Some(middle) = middle {
            middle.abort();
            arena.children_are(2).await;
            late.heal();
            still_waits(&third, &last).await;
            assert!(holder.is_held());
            last.abort();
            arena.children_are(1).await;
            third.proxy.clear_log();
            continue;
        }
        arena.admin.delete(holder.node(), None).await.unwrap();
        third.proxy.clear_log();
        late.heal();
        let guard = held(last).await;
        assert_eq!(third.took(), []);
        guard.release().await.unwrap();
    }
    drop(holder);
}
