//! What a read-write lock does while nothing fails.

use std::time::Duration;

use tokio::task::JoinHandle;
use zookeeper_recipes::{Attempt, Curator, Error, Guard, Released, WriteGuard};

use crate::harness::{Arena, BUSY, acquired, round_trip, within};

pub(crate) type Reading = JoinHandle<Result<Guard, Error>>;
pub(crate) type Writing = JoinHandle<Result<WriteGuard, Error>>;

impl Arena {
    /// Starts to read, and waits until the node is there.
    pub(crate) async fn reads(&self, curator: &Curator) -> Reading {
        let (before, lock) = (self.children().await.len(), self.read_write(curator));
        let reading = tokio::spawn(async move { lock.read().await });
        self.children_are(before + 1).await;
        reading
    }

    /// Starts to write, and waits until the node is there.
    pub(crate) async fn writes(&self, curator: &Curator) -> Writing {
        let (before, lock) = (self.children().await.len(), self.read_write(curator));
        let writing = tokio::spawn(async move { lock.write().await });
        self.children_are(before + 1).await;
        writing
    }
}

pub(crate) async fn got_read(reading: Reading) -> Guard {
    let guard = within("the reader", reading).await.unwrap().unwrap();
    assert!(guard.is_held(), "{:?}", guard.loss());
    guard
}

pub(crate) async fn got_write(writing: Writing) -> WriteGuard {
    let guard = within("the writer", writing).await.unwrap().unwrap();
    assert!(guard.is_held(), "{:?}", guard.loss());
    guard
}

/// What the servers had sent to this client, it has acted on.
pub(crate) async fn settled(curator: &Curator) {
    for _ in 0..2 {
        round_trip(curator).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// kazoo: test_read_lock, and test_write_lock. Nobody re-enters: a second read of one task is a hold of its own, which a
/// waiting writer would keep out.
#[tokio::test(start_paused = true)]
async fn readers_hold_together_and_a_writer_alone() {
    let (arena, [one, two, three]) = Arena::with_curators().await;
    let locks = [&one, &two, &three].map(|curator| arena.read_write(curator));
    let first = acquired(locks[0].try_read().await.unwrap()).expect("free");
    let second = acquired(locks[1].try_read().await.unwrap()).expect("shared with a reader");
    let again = acquired(locks[0].try_read().await.unwrap()).expect("shared with itself");
    assert_ne!(again.node(), first.node());
    assert!(again.fencing_token() > second.fencing_token(), "tokens are in the order of entering");
    assert!(matches!(locks[2].try_write().await.unwrap(), Attempt::Busy));
    assert_eq!(arena.children().await.len(), 3, "a refused try leaves nothing");
    for guard in [first, second, again] {
        assert!(matches!(locks[2].try_write().await.unwrap(), Attempt::Busy), "somebody reads");
        guard.release().await.unwrap();
    }
    let writer = acquired(locks[2].try_write().await.unwrap()).expect("free");
    for lock in &locks {
        assert!(matches!(lock.try_read().await.unwrap(), Attempt::Busy));
        assert!(matches!(lock.try_write().await.unwrap(), Attempt::Busy));
        let both = tokio::join!(lock.read_timeout(BUSY), lock.write_timeout(BUSY));
        assert!(matches!((both.0.unwrap(), both.1.unwrap()), (Attempt::Busy, Attempt::Busy)));
    }
    assert_eq!(writer.release().await.unwrap(), Released::Confirmed);
    arena.children_are(0).await;
}

/// Readers that come later do not pass it by, though all who hold are readers.
#[tokio::test(start_paused = true)]
async fn a_writer_that_waits_is_served_before_readers_that_come_later() {
    let (arena, curators) = Arena::with_curators::<3>().await;
    for curator in &curators {
        let first = arena.read_write(&curators[0]).read().await.unwrap();
        let writer = arena.writes(curator).await;
        let mut readers = Vec::new();
        for curator in curators.iter().cycle().take(9) {
            readers.push(arena.reads(curator).await);
            let late = arena.read_write(curator).try_read().await.unwrap();
            assert!(matches!(late, Attempt::Busy), "a try passes nobody by either");
        }
        let none_reads = async || {
            for curator in &curators {
                settled(curator).await;
            }
            assert!(!readers.iter().any(JoinHandle::is_finished), "one passed the writer by");
        };
        none_reads().await;
        assert!(!writer.is_finished(), "one reads");
        first.release().await.unwrap();
        let writer = got_write(writer).await;
        let token = writer.fencing_token();
        none_reads().await;
        writer.release().await.unwrap();
        for reader in readers {
            assert!(got_read(reader).await.fencing_token() > token, "invariant 4");
        }
        arena.children_are(0).await;
    }
}
