//! The read-write lock and its guards under faults.

use std::time::Duration;

use zookeeper_recipes::{
    AcquireError, InterProcessReadWriteLock, ReadGuard, ReleaseError, Released, WriteGuard,
};

use crate::product::{Told, product, product_twice};
use crate::stage::Stage;

const SOON: Duration = Duration::from_millis(500);

async fn read(lock: InterProcessReadWriteLock) -> Told {
    lock.read().acquire().await.map_or(Told::Nothing, Told::Reads)
}

async fn write(lock: InterProcessReadWriteLock) -> Told {
    lock.write().acquire().await.map_or(Told::Nothing, Told::Writes)
}

/// With the lock path in place.
async fn warm(stage: &Stage) -> InterProcessReadWriteLock {
    let lock = stage.read_write();
    stage.rival_writes().await.release().await.unwrap();
    lock
}

/// Of a path that was used before: a create is all it takes.
async fn known(stage: &Stage) -> InterProcessReadWriteLock {
    let lock = warm(stage).await;
    for _ in 0..2 {
        lock.write().acquire().await.unwrap().release().await.unwrap();
    }
    lock
}

async fn behind_a_writer(stage: &Stage) -> (InterProcessReadWriteLock, WriteGuard) {
    (stage.read_write(), stage.rival_writes().await)
}

async fn behind_a_reader(stage: &Stage) -> (InterProcessReadWriteLock, ReadGuard) {
    (stage.read_write(), stage.rival_reads().await)
}

/// For a while: others may have come in between.
async fn goes_on_reading(write: WriteGuard) {
    tokio::time::sleep(SOON).await;
    let read = write.downgrade().await.unwrap();
    tokio::time::sleep(SOON).await;
    read.release().await.unwrap();
}

/// Written by us, while a rival waits to write, who must not get in before we are done.
async fn written_and_awaited(stage: &Stage) -> WriteGuard {
    let lock = known(stage).await;
    let write = lock.write().acquire().await.unwrap();
    stage.rival_waits_to_write().await;
    write
}

/// Told of an acquiring that finds out that the lock is busy.
fn is_busy<T: std::fmt::Debug>(acquired: Result<Option<T>, AcquireError>) -> Told {
    assert!(!matches!(acquired, Ok(Some(_))), "two hold: {acquired:?}");
    Told::Nothing
}

fn released(node: String, outcome: Result<Released, ReleaseError>) -> Told {
    match outcome {
        Ok(Released::Unlocked) => Told::Deleted(node),
        Err(ReleaseError::Lost { .. } | ReleaseError::Unconfirmed { .. }) => Told::Nothing,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn read_where_the_lock_is_free() {
    product_twice("ReadLock::acquire", warm, read).await;
}

#[tokio::test]
async fn write_where_the_lock_is_free() {
    product("WriteLock::acquire", warm, write).await;
}

#[tokio::test]
async fn read_and_write_again() {
    product("ReadLock::acquire, path known", known, read).await;
    product("WriteLock::acquire, path known", known, write).await;
}

#[tokio::test]
async fn read_behind_a_writer() {
    product("ReadLock::acquire, behind a writer", behind_a_writer, async |(lock, holder)| {
        let release = async {
            tokio::time::sleep(SOON).await;
            holder.release().await.unwrap();
        };
        tokio::join!(read(lock), release).0
    })
    .await;
}

#[tokio::test]
async fn read_behind_a_writer_that_goes_on_reading() {
    product("ReadLock::acquire, behind a down-grade", behind_a_writer, async |(lock, holder)| {
        tokio::join!(read(lock), goes_on_reading(holder)).0
    })
    .await;
}

#[tokio::test]
async fn write_behind_a_reader() {
    product("WriteLock::acquire, behind a reader", behind_a_reader, async |(lock, holder)| {
        let release = async {
            tokio::time::sleep(SOON).await;
            holder.release().await.unwrap();
        };
        tokio::join!(write(lock), release).0
    })
    .await;
}

/// It looks again, and finds the read.
#[tokio::test]
async fn write_behind_a_writer_that_goes_on_reading() {
    product("WriteLock::acquire, behind a down-grade", behind_a_writer, async |(lock, holder)| {
        tokio::join!(write(lock), goes_on_reading(holder)).0
    })
    .await;
}

#[tokio::test]
async fn try_and_wait_a_moment_where_it_is_busy() {
    product("ReadLock::try_acquire, behind a writer", behind_a_writer, async |(lock, _holder)| {
        is_busy(lock.read().try_acquire().await)
    })
    .await;
    product("WriteLock::acquire_timeout, behind a reader", behind_a_reader, async |busy| {
        let (lock, _holder) = busy;
        is_busy(lock.write().acquire_timeout(SOON).await)
    })
    .await;
}

#[tokio::test]
async fn a_read_beside_a_write() {
    product_twice("WriteGuard::read", written_and_awaited, async |write| {
        let read = write.read().await;
        drop(write);
        read.map_or(Told::Nothing, Told::Reads)
    })
    .await;
}

#[tokio::test]
async fn a_down_grade() {
    product_twice("WriteGuard::downgrade", written_and_awaited, async |write| {
        write.downgrade().await.map_or(Told::Nothing, Told::Reads)
    })
    .await;
}

#[tokio::test]
async fn release_a_write() {
    product("WriteGuard::release", written_and_awaited, async |write| {
        released(write.node().to_owned(), write.release().await)
    })
    .await;
}

#[tokio::test]
async fn release_a_read() {
    let held = async |stage: &Stage| {
        let lock = known(stage).await;
        let read = lock.read().acquire().await.unwrap();
        stage.rival_waits_to_write().await;
        read
    };
    product("ReadGuard::release", held, async |read| {
        released(read.node().to_owned(), read.release().await)
    })
    .await;
}

#[tokio::test]
async fn release_a_down_graded_read() {
    let held = async |stage: &Stage| written_and_awaited(stage).await.downgrade().await.unwrap();
    product("ReadGuard::release, down-graded", held, async |read| {
        released(read.node().to_owned(), read.release().await)
    })
    .await;
}

#[tokio::test]
async fn participants() {
    let ready = async |stage: &Stage| {
        let (lock, holder) = behind_a_reader(stage).await;
        stage.heard_of(holder.node()).await;
        (lock, holder)
    };
    product("InterProcessReadWriteLock::participants", ready, async |(lock, holder)| {
        if let Ok(participants) = lock.participants().await {
            let paths: Vec<_> = participants.iter().map(|one| one.path.as_str()).collect();
            assert_eq!(paths.first(), Some(&holder.node()));
        }
        Told::Nothing
    })
    .await;
}
