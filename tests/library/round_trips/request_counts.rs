//! The requests on the wire, one by one, with each rule and without it.

use zookeeper_recipes_dev::Operation::{Create, Delete, GetData, List};

use crate::prelude::*;
use crate::support::contenders::{Make, latch, mutex, read, selector, write};
use crate::support::counted_client::{CountedClient, counted_clients};

const ALL: Shortcuts = Shortcuts::ALL;

#[tokio::test(start_paused = true)]
async fn the_first_acquire_learns_what_the_next_needs() {
    for (rules, first, again) in [
        (ALL, &[Create, GetData, List][..], &[Create][..]),
        (Shortcuts { gap: false, ..ALL }, &[Create, List], &[Create, List]),
        (Shortcuts::NONE, &[Create, List], &[Create, List]),
    ] {
        for recipe in [mutex as Make, read, write, latch, selector] {
            let testbed = Testbed::with_parent().await;
            let client = CountedClient::new(&testbed, rules).await;
            let lock = client.made(&testbed, recipe);
            client.took();
            for round in 0..4 {
                let guard = lock.acquire().await.unwrap();
                let expected = if round == 0 { first } else { again };
                assert_eq!(client.took(), expected, "{lock:?}, {rules:?}, {round}");
                guard.release().await.unwrap();
                assert_eq!(client.took(), [Delete], "{lock:?}, {rules:?}, {round}");
            }
        }
    }
}

/// A writer lists: the head rule does not hold for it.
#[tokio::test(start_paused = true)]
async fn a_hand_over_takes_no_request_of_the_next_one() {
    for (holder, next, head, listed) in [
        (mutex as Make, mutex as Make, true, &[][..]),
        (mutex, mutex, false, &[List][..]),
        (latch, latch, true, &[]),
        (write, read, true, &[]),
        (write, read, false, &[List]),
        (write, write, true, &[List]),
        (read, write, true, &[List]),
    ] {
        let testbed = Testbed::with_parent().await;
        let [first, second] = counted_clients(&testbed, Shortcuts { head, ..ALL }).await;
        let hold = first.made(&testbed, holder).acquire().await.unwrap();
        // The parent, the own node, and the holder's.
        let waiting = second.enters(&testbed, next, 3).await;
        assert_eq!(second.took(), [Create, GetData, List, GetData, GetData]);
        first.took();
        hold.release().await.unwrap();
        let guard = within("the next", waiting).await.unwrap().unwrap();
        assert_eq!(second.took(), listed, "{guard:?}, head: {head}");
        assert_eq!(first.took(), [Delete]);
        guard.release().await.unwrap();
        assert_eq!(second.took(), [Delete]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_lock_costs_one_read_and_no_write() {
    for (look_first, busy, free) in
        [(true, &[List][..], &[List, Create][..]), (false, &[Create, List, Delete], &[Create])]
    {
        for (holder, recipe) in [(mutex as Make, mutex as Make), (write, read), (read, write)] {
            let testbed = Testbed::with_parent().await;
            let [ours, theirs] = counted_clients(&testbed, Shortcuts { look_first, ..ALL }).await;
            let lock = ours.made(&testbed, recipe);
            let known = async || {
                lock.acquire().await.unwrap().release().await.unwrap();
                ours.took();
            };
            known().await;
            let hold = theirs.made(&testbed, holder).acquire().await.unwrap();
            assert!(lock.try_acquire().await.unwrap().is_none());
            // The delete of a refused try is not awaited.
            round_trip(&ours.curator).await;
            assert_eq!(ours.took(), busy, "{lock:?}, look first: {look_first}");
            hold.release().await.unwrap();
            known().await;
            let guard = lock.try_acquire().await.unwrap().unwrap();
            assert_eq!(ours.took(), free, "{lock:?}, look first: {look_first}");
            guard.release().await.unwrap();
            assert_eq!(ours.took(), [Delete]);
        }
    }
}

/// The lock path is missing, and so are further levels above it.
#[tokio::test(start_paused = true)]
async fn the_first_acquire_of_a_missing_path_makes_it_and_tries_again() {
    for (levels, made) in [("one", 1), ("two/levels", 3), ("as/many/as/four", 7)] {
        let testbed = Testbed::with_parent().await;
        let client = CountedClient::new(&testbed, ALL).await;
        let path = format!("{}/{levels}", testbed.path);
        let mutex = client.curator.mutex(&path).unwrap();
        client.proxy.clear_log();
        let guard = mutex.acquire().await.unwrap();
        let first = [Create, GetData, List];
        assert_eq!(client.took(), [&first[..], &vec![Create; made][..], &first[..]].concat());
        guard.release().await.unwrap();
    }
}
