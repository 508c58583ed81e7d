//! What a read-write lock does while nothing fails.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use zookeeper_recipes::{AcquireError, Curator, FencingToken, ReadGuard, Released, WriteGuard};

use crate::harness::{Arena, BUSY, round_trip, within};

pub(crate) type Reading = JoinHandle<Result<ReadGuard, AcquireError>>;
pub(crate) type Writing = JoinHandle<Result<WriteGuard, AcquireError>>;

impl Arena {
    /// Starts to read, and waits until the node is there.
    pub(crate) async fn reads(&self, curator: &Curator) -> Reading {
        let (before, lock) = (self.children().await.len(), self.read_write(curator).read());
        let reading = tokio::spawn(async move { lock.acquire().await });
        self.children_are(before + 1).await;
        reading
    }

    /// Starts to write, and waits until the node is there.
    pub(crate) async fn writes(&self, curator: &Curator) -> Writing {
        let (before, lock) = (self.children().await.len(), self.read_write(curator).write());
        let writing = tokio::spawn(async move { lock.acquire().await });
        self.children_are(before + 1).await;
        writing
    }

    pub(crate) async fn three_curators(&self) -> [Curator; 3] {
        [self.curator().await, self.curator().await, self.curator().await]
    }
}

pub(crate) async fn got_read(reading: Reading) -> ReadGuard {
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
    let arena = Arena::new().await;
    let [one, two, three] = arena.three_curators().await;
    let locks = [&one, &two, &three].map(|curator| arena.read_write(curator));
    let first = locks[0].read().try_acquire().await.unwrap().expect("free");
    let second = locks[1].read().try_acquire().await.unwrap().expect("shared with a reader");
    let again = locks[0].read().try_acquire().await.unwrap().expect("shared with itself");
    assert_ne!(again.node(), first.node());
    assert!(again.fencing_token() > second.fencing_token(), "tokens are in the order of entering");
    assert!(locks[2].write().try_acquire().await.unwrap().is_none());
    assert_eq!(arena.children().await.len(), 3, "a refused try leaves nothing");
    for guard in [first, second, again] {
        assert!(locks[2].write().try_acquire().await.unwrap().is_none(), "somebody reads");
        guard.release().await.unwrap();
    }
    let writer = locks[2].write().try_acquire().await.unwrap().expect("free");
    for lock in &locks {
        assert!(lock.read().try_acquire().await.unwrap().is_none());
        assert!(lock.write().try_acquire().await.unwrap().is_none());
        let (read, write) = (lock.read(), lock.write());
        let both = tokio::join!(read.acquire_timeout(BUSY), write.acquire_timeout(BUSY));
        assert!(both.0.unwrap().is_none() && both.1.unwrap().is_none());
    }
    assert_eq!(writer.release().await.unwrap(), Released::Unlocked);
    arena.children_are(0).await;
}

/// Readers that come later do not pass it by, though all who hold are readers.
#[tokio::test(start_paused = true)]
async fn a_writer_that_waits_is_served_before_readers_that_come_later() {
    let arena = Arena::new().await;
    let curators = arena.three_curators().await;
    for round in 0..5 {
        let first = arena.read_write(&curators[0]).read().acquire().await.unwrap();
        let (served, mut order) = mpsc::unbounded_channel::<(&str, FencingToken)>();
        let writer = arena.writes(&curators[round % 3]).await;
        let writing = served.clone();
        let writer = tokio::spawn(async move {
            let guard = got_write(writer).await;
            writing.send(("writes", guard.fencing_token())).unwrap();
            guard.release().await.unwrap();
        });
        let mut readers = Vec::new();
        for curator in curators.iter().cycle().take(9) {
            let (reader, served) = (arena.reads(curator).await, served.clone());
            readers.push(tokio::spawn(async move {
                let guard = got_read(reader).await;
                served.send(("reads", guard.fencing_token())).unwrap();
                guard.release().await.unwrap();
            }));
            let late = arena.read_write(curator).read();
            assert!(late.try_acquire().await.unwrap().is_none(), "a try passes nobody by either");
        }
        for curator in &curators {
            settled(curator).await;
        }
        assert!(order.try_recv().is_err(), "nobody is served while the first one reads");
        first.release().await.unwrap();
        let (does, token) = within("the writer", order.recv()).await.unwrap();
        assert_eq!(does, "writes", "round {round}");
        for _ in 0..9 {
            let (does, later) = within("a reader", order.recv()).await.unwrap();
            assert!(does == "reads" && later > token, "invariant 4");
        }
        within("the writer", writer).await.unwrap();
        for reader in readers {
            within("a reader", reader).await.unwrap();
        }
        arena.children_are(0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn all_readers_behind_one_writer_get_in_when_it_is_done() {
    const READERS: usize = 24;
    let arena = Arena::new().await;
    let curators = arena.three_curators().await;
    let holder = arena.read_write(&curators[0]).write().acquire().await.unwrap();
    let mut readers = Vec::new();
    for curator in curators.iter().cycle().take(READERS) {
        readers.push(arena.reads(curator).await);
    }
    let behind = arena.writes(&curators[1]).await;
    for curator in &curators {
        settled(curator).await;
    }
    assert!(!readers.iter().any(JoinHandle::is_finished));
    holder.release().await.unwrap();
    let mut guards = Vec::new();
    for reader in readers {
        guards.push(got_read(reader).await);
    }
    // All of them at one time.
    assert!(guards.iter().all(ReadGuard::is_held));
    assert!(guards.is_sorted_by(|one, next| one.fencing_token() < next.fencing_token()));
    assert_eq!(arena.children().await.len(), READERS + 1);
    assert!(!behind.is_finished());
    drop(guards);
    got_write(behind).await.release().await.unwrap();
    arena.children_are(0).await;
}
