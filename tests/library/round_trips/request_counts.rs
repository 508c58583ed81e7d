//! The requests on the wire, one by one.

use zookeeper_recipes_dev::Operation::{Create, Delete, GetData, List};

use crate::prelude::*;
use crate::support::contenders::{Make, latch, mutex, read, selector, write};
use crate::support::counted_client::{CountedClient, counted_clients, without_removals};

#[tokio::test(start_paused = true)]
async fn the_first_acquire_learns_what_the_next_needs() {
    for recipe in [mutex as Make, read, write, latch, selector] {
        let testbed = Testbed::with_parent().await;
        let client = CountedClient::new(&testbed).await;
        let lock = client.made(&testbed, recipe);
        client.took();
        for round in 0..4 {
            let guard = lock.acquire().await.unwrap();
            let expected = if round == 0 { &[Create, GetData, List][..] } else { &[Create] };
            assert_eq!(client.took(), expected, "{lock:?}, {round}");
            guard.release().await.unwrap();
            assert_eq!(client.took(), [Delete], "{lock:?}, {round}");
        }
    }
}

/// A writer lists: the head rule does not hold for it.
#[tokio::test(start_paused = true)]
async fn a_hand_over_takes_no_request_of_the_next_one() {
    for (holder, next, listed) in [
        (mutex as Make, mutex as Make, &[][..]),
        (latch, latch, &[]),
        (write, read, &[]),
        (write, write, &[List]),
        (read, write, &[List]),
    ] {
        let testbed = Testbed::with_parent().await;
        let [first, second] = counted_clients(&testbed).await;
        let hold = first.made(&testbed, holder).acquire().await.unwrap();
        // The parent, the own node, and the holder's.
        let waiting = second.enters(&testbed, next, 3).await;
        assert_eq!(second.took(), [Create, GetData, List, GetData, GetData]);
        first.took();
        hold.release().await.unwrap();
        let guard = within("the next", waiting).await.unwrap().unwrap();
        assert_eq!(second.took(), listed, "{guard:?}");
        assert_eq!(first.took(), [Delete]);
        guard.release().await.unwrap();
        assert_eq!(second.took(), [Delete]);
    }
}

/// The new predecessor is watched already, and the contender before it is watched from now on.
#[tokio::test(start_paused = true)]
async fn a_waiter_whose_predecessor_leaves_lists_and_watches_one_more() {
    let testbed = Testbed::with_parent().await;
    let [first, second, third, fourth] = counted_clients(&testbed).await;
    let hold = first.made(&testbed, mutex).acquire().await.unwrap();
    let next = second.enters(&testbed, mutex, 3).await;
    let leaves = third.enters(&testbed, mutex, 4).await;
    let last = fourth.enters(&testbed, mutex, 4).await;
    fourth.took();
    leaves.abort();
    testbed.children_are(3).await;
    eventually("a watch", async || fourth.log().contains(&GetData)).await;
    round_trip(&fourth.curator).await;
    assert_eq!(without_removals(fourth.took()), [List, GetData]);
    hold.release().await.unwrap();
    held(next).await.release().await.unwrap();
    held(last).await.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_busy_lock_costs_one_read_and_no_write() {
    for (holder, recipe) in [(mutex as Make, mutex as Make), (write, read), (read, write)] {
        let testbed = Testbed::with_parent().await;
        let [ours, theirs] = counted_clients(&testbed).await;
        let lock = ours.made(&testbed, recipe);
        let known = async || {
            lock.acquire().await.unwrap().release().await.unwrap();
            ours.took();
        };
        known().await;
        let hold = theirs.made(&testbed, holder).acquire().await.unwrap();
        fails(lock.try_acquire().await, ErrorKind::Busy);
        round_trip(&ours.curator).await;
        assert_eq!(ours.took(), [List], "{lock:?}");
        hold.release().await.unwrap();
        known().await;
        let guard = lock.try_acquire().await.unwrap();
        assert_eq!(ours.took(), [List, Create], "{lock:?}");
        guard.release().await.unwrap();
        assert_eq!(ours.took(), [Delete]);
    }
}

/// The node of the holder may be kept without a hold, and only a contender makes its process delete it.
#[tokio::test(start_paused = true)]
async fn a_try_beside_a_holder_with_retention_creates_a_node_and_deletes_it() {
    let testbed = Testbed::with_parent().await;
    let [ours, theirs] = counted_clients(&testbed).await;
    let lock = ours.made(&testbed, mutex);
    lock.acquire().await.unwrap().release().await.unwrap();
    let kept = testbed.mutex(&theirs.curator).with_retention(Duration::from_secs(10));
    let hold = kept.acquire().await.unwrap();
    ours.took();
    fails(lock.try_acquire().await, ErrorKind::Busy);
    testbed.children_are(1).await;
    let writes: Vec<_> =
        ours.took().into_iter().filter(|sent| [Create, Delete].contains(sent)).collect();
    assert_eq!(writes, [Create, Delete]);
    hold.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_try_at_a_lock_that_another_task_of_the_client_holds_costs_nothing() {
    let testbed = Testbed::with_parent().await;
    let client = CountedClient::new(&testbed).await;
    let lock = client.made(&testbed, mutex);
    let guard = lock.acquire().await.unwrap();
    client.took();
    fails(lock.try_acquire().await, ErrorKind::Busy);
    assert_eq!(client.took(), []);
    guard.release().await.unwrap();
}

/// The listing of the wait showed another client's node, so only that of the try is a baseline.
#[tokio::test(start_paused = true)]
async fn a_try_after_a_wait_lists_once() {
    let testbed = Testbed::with_parent().await;
    let [ours, theirs] = counted_clients(&testbed).await;
    let hold = theirs.made(&testbed, mutex).acquire().await.unwrap();
    let waiting = ours.enters(&testbed, mutex, 3).await;
    hold.release().await.unwrap();
    held(waiting).await.release().await.unwrap();
    ours.took();
    let guard = ours.made(&testbed, mutex).try_acquire().await.unwrap();
    assert_eq!(ours.took(), [List, Create]);
    guard.release().await.unwrap();
}

/// The lock path is missing, and so are further levels above it.
#[tokio::test(start_paused = true)]
async fn the_first_acquire_of_a_missing_path_makes_it_and_tries_again() {
    for (levels, made) in [("one", 1), ("two/levels", 3), ("as/many/as/four", 7)] {
        let testbed = Testbed::with_parent().await;
        let client = CountedClient::new(&testbed).await;
        let path = format!("{}/{levels}", testbed.path);
        let mutex = client.curator.mutex(&path).unwrap();
        client.proxy.clear_log();
        let guard = mutex.acquire().await.unwrap();
        let first = [Create, GetData, List];
        assert_eq!(client.took(), [&first[..], &vec![Create; made][..], &first[..]].concat());
        guard.release().await.unwrap();
    }
}

/// The close has begun, and its task has not run yet.
#[tokio::test(start_paused = true)]
async fn no_node_is_created_for_an_acquire_behind_a_close() {
    let (testbed, client) = CountedClient::known().await;
    let mutex = testbed.mutex(&client.curator);
    let (_, acquired) = tokio::join!(client.curator.close(), mutex.acquire());
    fails(acquired, ErrorKind::Closed);
    assert!(!client.took().contains(&Create));
}
