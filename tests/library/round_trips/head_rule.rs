//! Attacks on the head rule: the deletion of the first contender admits the next one without a listing.

use crate::prelude::*;
use crate::support::contenders::{Held, mutex};
use crate::support::counted_client::{
    CountedClient, counted_clients, still_waits, without_removals,
};

/// The holder's client and the next one's, the hold, and the next one.
async fn held_and_awaited(
    testbed: &Testbed,
) -> (CountedClient, CountedClient, Guard, Waiting<Held>) {
    let [first, second] = counted_clients(testbed).await;
    let holder = testbed.mutex(&first.curator).acquire().await.unwrap();
    let next = second.enters(testbed, mutex, 3).await;
    (first, second, holder, next)
}

/// The two events of one transaction come one after the other: a waiter that acts on the first learns of the second.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_admitted_between_two_events_of_one_transaction_loses() {
    let testbed = Testbed::with_parent().await;
    let (_first, second, holder, next) = held_and_awaited(&testbed).await;
    let own = testbed.newcomer(&[holder.node()]).await;
    let held_back = second.proxy.hold(Message::reply(Operation::Event).nth(2));
    testbed.admin.delete_all(&[holder.node().to_owned(), own.clone()]).await;
    within("the second event", held_back.struck()).await;
    let guard = within("the lock", next).await.unwrap().unwrap();
    assert_eq!(guard.node(), own);
    held_back.heal();
    assert_eq!(within("the loss", guard.lost()).await, Loss::NodeDeleted);
}

/// After a reconnect the client reports what it missed in any order. A watch of the own node that was armed again is younger than the
/// predecessor's. In both cases it is not known whether the watches were armed in the order that the rule needs.
#[tokio::test(start_paused = true)]
async fn where_the_order_of_the_watches_is_unknown_the_deletion_lists() {
    for reconnects in [true, false] {
        let testbed = Testbed::with_parent().await;
        let (_first, second, holder, next) = held_and_awaited(&testbed).await;
        let armed = if reconnects { Operation::SetWatches } else { Operation::GetData };
        let before = second.proxy.replies(armed);
        if reconnects {
            second.proxy.cut(Cut::Reset);
        } else {
            let own = testbed.newcomer(&[holder.node()]).await;
            testbed.admin.set_data(&own, b"changed", None).await.unwrap();
        }
        eventually("a watch again", async || second.proxy.replies(armed) > before).await;
        round_trip(&second.curator).await;
        second.proxy.clear_log();
        holder.release().await.unwrap();
        let guard = held(next).await;
        assert_eq!(without_removals(second.took()), [Operation::List], "{reconnects}");
        guard.release().await.unwrap();
    }
}

/// A request to give the lock up is such a change.
#[tokio::test(start_paused = true)]
async fn a_change_of_the_data_of_the_first_admits_nobody() {
    let testbed = Testbed::with_parent().await;
    let (_first, second, holder, next) = held_and_awaited(&testbed).await;
    second.proxy.clear_log();
    testbed.admin.set_data(holder.node(), b"__REVOKE__", None).await.unwrap();
    eventually("it lists", async || second.log().contains(&Operation::List)).await;
    still_waits(&second, &next).await;
    assert!(holder.is_held());
    holder.release().await.unwrap();
    held(next).await.release().await.unwrap();
}

/// The answer to the watch tells that the predecessor is gone: that is its deletion, too.
#[tokio::test(start_paused = true)]
async fn a_predecessor_that_goes_before_it_is_watched() {
    let testbed = Testbed::with_parent().await;
    let [first, second] = counted_clients(&testbed).await;
    let holder = testbed.mutex(&first.curator).acquire().await.unwrap();
    // The third is the predecessor's, after those of the parent and the own node.
    let late = second.proxy.hold(Message::request(Operation::GetData).nth(3));
    let next = testbed.waits(&second.curator).await;
    within("the request", late.struck()).await;
    testbed.admin.delete(holder.node(), None).await.unwrap();
    second.proxy.clear_log();
    late.heal();
    let guard = held(next).await;
    assert_eq!(second.took(), []);
    guard.release().await.unwrap();
}
