//! Attacks on the stand-by rule: the third in line lists while the second holds.

use zookeeper_recipes::{MutexGuard, Shortcuts};

use super::link::{Linked, Waiting, held, linked, still_waits};
use crate::harness::{Arena, Message, Operation, eventually, within};

const ALL: Shortcuts = Shortcuts::ALL;

/// Four clients; the first one holds, the second one waits, and the third one behind it.
async fn queue(arena: &Arena) -> ([Linked; 4], MutexGuard, Waiting, Waiting) {
    let clients: [_; 4] = linked(arena, ALL).await;
    let holder = arena.mutex(&clients[0].curator).acquire().await.unwrap();
    let next = clients[1].waits(arena, 3).await;
    let last = clients[2].waits(arena, 4).await;
    (clients, holder, next, last)
}

#[tokio::test(start_paused = true)]
async fn the_release_of_the_one_it_stands_by_for_admits_only_its_successor() {
    let arena = Arena::with_parent().await;
    let ([_first, _second, third, fourth], holder, next, last) = queue(&arena).await;
    let far = fourth.waits(&arena, 4).await;
    third.proxy.clear_log();
    fourth.proxy.clear_log();
    holder.release().await.unwrap();
    let next = held(next).await;
    still_waits(&third, &last).await;
    still_waits(&fourth, &far).await;
    assert_eq!(third.took(), [Operation::List]);
    assert_eq!(fourth.took(), [], "it knows nothing of the one that went");
    next.release().await.unwrap();
    let last = held(last).await;
    still_waits(&fourth, &far).await;
    // It stood by for the second, and the third's watch is the nearer one now.
    assert_eq!((third.took(), fourth.took()), (vec![], vec![Operation::List]));
    last.release().await.unwrap();
    held(far).await.release().await.unwrap();
    assert_eq!(fourth.took(), [Operation::Delete]);
}

/// Its release and the second's come together: the listing that the first asks for is from after both.
#[tokio::test(start_paused = true)]
async fn two_releases_at_once_admit_the_third_by_its_listing() {
    let arena = Arena::with_parent().await;
    let ([_first, _second, third, fourth], holder, next, last) = queue(&arena).await;
    let listing = third.proxy.hold(Message::request(Operation::List));
    holder.release().await.unwrap();
    let next = held(next).await;
    within("the listing", listing.struck()).await;
    next.release().await.unwrap();
    let behind = fourth.waits(&arena, 3).await;
    listing.heal();
    let guard = held(last).await;
    still_waits(&fourth, &behind).await;
    guard.release().await.unwrap();
    held(behind).await.release().await.unwrap();
}

/// A change of the first one's data is no deletion, and the listing says so.
#[tokio::test(start_paused = true)]
async fn a_change_of_the_data_of_the_first_admits_nobody() {
    let arena = Arena::with_parent().await;
    let ([_first, second, third, _fourth], holder, next, last) = queue(&arena).await;
    let watched = third.proxy.replies(Operation::GetData);
    arena.admin.set_data(holder.node(), b"__REVOKE__", None).await.unwrap();
    eventually("the watch again", async || third.proxy.replies(Operation::GetData) > watched).await;
    still_waits(&third, &last).await;
    still_waits(&second, &next).await;
    holder.release().await.unwrap();
    held(next).await.release().await.unwrap();
    held(last).await.release().await.unwrap();
}
