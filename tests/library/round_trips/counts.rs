//! The requests of each operation, one by one.

use super::link::{Linked, linked};
use crate::harness::Operation::{Create, Delete, GetData, List};
use crate::prelude::*;
use crate::recipes::conformance::{Make, latch, mutex, read, selector, write};

#[tokio::test(start_paused = true)]
async fn the_first_acquire_learns_what_the_next_needs() {
    for recipe in [mutex as Make, read, write, latch, selector] {
        let arena = Arena::with_parent().await;
        let linked = Linked::new(&arena).await;
        let lock = linked.made(&arena, recipe);
        linked.took();
        for round in 0..4 {
            let guard = lock.acquire().await.unwrap();
            let expected = if round == 0 { &[Create, GetData, List][..] } else { &[Create] };
            assert_eq!(linked.took(), expected, "{lock:?}, {round}");
            guard.release().await.unwrap();
            assert_eq!(linked.took(), [Delete], "{lock:?}, {round}");
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
        let arena = Arena::with_parent().await;
        let [first, second] = linked(&arena).await;
        let hold = first.made(&arena, holder).acquire().await.unwrap();
        // The parent, the own node, and the holder's.
        let waiting = second.enters(&arena, next, 3).await;
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

#[tokio::test(start_paused = true)]
async fn a_busy_lock_costs_one_read_and_no_write() {
    for (holder, recipe) in [(mutex as Make, mutex as Make), (write, read), (read, write)] {
        let arena = Arena::with_parent().await;
        let [ours, theirs] = linked(&arena).await;
        let lock = ours.made(&arena, recipe);
        let known = async || {
            lock.acquire().await.unwrap().release().await.unwrap();
            ours.took();
        };
        known().await;
        let hold = theirs.made(&arena, holder).acquire().await.unwrap();
        assert!(lock.try_acquire().await.unwrap().is_none());
        round_trip(&ours.curator).await;
        assert_eq!(ours.took(), [List], "{lock:?}");
        hold.release().await.unwrap();
        known().await;
        let guard = lock.try_acquire().await.unwrap().unwrap();
        assert_eq!(ours.took(), [List, Create], "{lock:?}");
        guard.release().await.unwrap();
        assert_eq!(ours.took(), [Delete]);
    }
}

/// The lock path is missing, and so are further levels above it.
#[tokio::test(start_paused = true)]
async fn the_first_acquire_of_a_missing_path_makes_it_and_tries_again() {
    for (levels, made) in [("one", 1), ("two/levels", 3), ("as/many/as/four", 7)] {
        let arena = Arena::with_parent().await;
        let linked = Linked::new(&arena).await;
        let path = format!("{}/{levels}", arena.path);
        let mutex = linked.curator.mutex(&path).unwrap();
        linked.proxy.clear_log();
        let guard = mutex.acquire().await.unwrap();
        let first = [Create, GetData, List];
        assert_eq!(linked.took(), [&first[..], &vec![Create; made][..], &first[..]].concat());
        guard.release().await.unwrap();
    }
}
