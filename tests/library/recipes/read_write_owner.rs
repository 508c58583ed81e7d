//! Who re-enters a read-write lock: an owner reads in its read, writes in its write, reads in its write; and is told at
//! once that it cannot write in its read.

use std::time::Duration;

use zookeeper_recipes::interop::Owner;
use zookeeper_recipes::{Error, ErrorKind, Released};

use super::read_write_lock::{got_write, settled};
use crate::harness::{Arena, acquired, fails, within};

#[track_caller]
fn is_upgrade<T: std::fmt::Debug>(arena: &Arena, acquired: Result<T, Error>) {
    let error = fails(acquired, ErrorKind::WouldDeadlock);
    assert_eq!(error.path(), Some(arena.path.as_str()));
    assert!(error.to_string().contains(&arena.path), "{error}");
}

/// As Curator's thread does (TestInterProcessReadWriteLock#testDowngrading), each way of acquiring.
#[tokio::test(start_paused = true)]
async fn an_owner_that_writes_reads_beside_it() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let lock = arena.read_write(&curator);
    Owner::new()
        .scope(async {
            for way in 0..4 {
                let written = within("the writer", lock.write()).await.unwrap();
                let next = arena.writes(&other).await;
                let limit = Duration::from_secs(50);
                let read = match way {
                    0 => within("a read", lock.read()).await.unwrap(),
                    1 => acquired(lock.try_read().await.unwrap()).expect("beside"),
                    2 => within("by the guard", written.read()).await.unwrap(),
                    _ => acquired(lock.read_timeout(limit).await.unwrap()).expect("beside"),
                };
                assert_eq!(read.fencing_token(), written.fencing_token());
                let digits = &written.node()[written.node().len() - 10..];
                assert!(read.node().ends_with(&format!("-__READ__{digits}")), "{}", read.node());
                let nested = within("nested", lock.read()).await.unwrap();
                assert_eq!(nested.node(), read.node());
                // It writes still.
                drop(within("nested", lock.write()).await.unwrap());
                written.release().await.unwrap();
                settled(&other).await;
                assert!(!next.is_finished());
                // From now on to write would be an upgrade.
                is_upgrade(&arena, within("at once", lock.write()).await);
                drop((read, nested));
                got_write(next).await.release().await.unwrap();
            }
        })
        .await;
    arena.children_are(0).await;
}

/// Curator: TestInterProcessReadWriteLock#testThatUpgradingIsDisallowed; there it waits until the time is up.
#[tokio::test(start_paused = true)]
async fn an_owner_that_reads_is_told_at_once_that_it_cannot_write() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let lock = arena.read_write(&curator);
    Owner::new()
        .scope(async {
            let read = lock.read().await.unwrap();
            let rival = arena.read_write(&other).read().await.unwrap();
            is_upgrade(&arena, within("at once", lock.write()).await);
            is_upgrade(&arena, within("at once", lock.try_write()).await);
            let limit = Duration::from_secs(3600);
            is_upgrade(&arena, within("at once", lock.write_timeout(limit)).await);
            assert_eq!(arena.children().await.len(), 2, "no node was made for it");
            drop((read, rival));
            arena.children_are(0).await;
            // It reads no more.
            within("the writer", lock.write()).await.unwrap().release().await.unwrap();
        })
        .await;
}

/// Whatever else it reads, and wherever the write guard is: else it would wait for a writer that waits for itself.
#[tokio::test(start_paused = true)]
async fn what_an_owner_down_grades_is_the_owners() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let lock = arena.read_write(&curator);
    let owner = Owner::new();
    let (write, first) = owner
        .scope(async {
            let write = lock.write().await.unwrap();
            let first = lock.read().await.unwrap();
            (write, first)
        })
        .await;
    // Outside the scope.
    let down = within("the down-grade", write.downgrade()).await.unwrap();
    assert_eq!(down.node(), first.node(), "it reads already");
    drop(first);
    let writer = arena.writes(&other).await;
    owner
        .scope(async {
            let again = within("nested", lock.read()).await.unwrap();
            assert_eq!(again.node(), down.node());
            is_upgrade(&arena, within("at once", lock.write()).await);
        })
        .await;
    assert_eq!(down.release().await.unwrap(), Released::Confirmed);
    got_write(writer).await.release().await.unwrap();
}
