//! The read-write lock and its guards under faults.

use zookeeper_recipes::{Guard, InterProcessReadWriteLock, WriteGuard};

use crate::product::{SOON, Told, meanwhile, products};
use crate::support::fixture::FaultFixture;

async fn read(lock: InterProcessReadWriteLock) -> Told {
    lock.read().await.map_or(Told::Nothing, Told::Reads)
}

async fn write(lock: InterProcessReadWriteLock) -> Told {
    lock.write().await.map_or(Told::Nothing, |guard| Told::Holds(guard.into()))
}

/// With the lock path in place.
async fn warm(fixture: &FaultFixture) -> InterProcessReadWriteLock {
    let lock = fixture.read_write();
    fixture.rival_writes().await.release().await.unwrap();
    lock
}

/// Of a path that was used before: a create is all it takes.
async fn known(fixture: &FaultFixture) -> InterProcessReadWriteLock {
    let lock = fixture.read_write();
    fixture.is_known().await;
    lock
}

async fn behind_a_writer(fixture: &FaultFixture) -> (InterProcessReadWriteLock, WriteGuard) {
    (fixture.read_write(), fixture.rival_writes().await)
}

async fn behind_a_reader(fixture: &FaultFixture) -> (InterProcessReadWriteLock, Guard) {
    (fixture.read_write(), fixture.rival_reads().await)
}

/// For a while: others may have come in between.
async fn goes_on_reading(write: WriteGuard) {
    let read = write.downgrade().await.unwrap();
    tokio::time::sleep(SOON).await;
    read.release().await.unwrap();
}

/// Written by us, while a rival waits to write, who must not get in before we are done.
async fn written_and_awaited(fixture: &FaultFixture) -> WriteGuard {
    let lock = known(fixture).await;
    let write = lock.write().await.unwrap();
    fixture.rival_waits_to_write().await;
    write
}

products! { product_twice:
    a_downgrade: written_and_awaited, async |write| {
        write.downgrade().await.map_or(Told::Nothing, Told::Reads)
    };
}

products! { product:
    read_where_the_lock_is_free: warm, read;
    write_where_the_lock_is_free: warm, write;
    read_again: known, read;
    write_again: known, write;
    read_behind_a_writer: behind_a_writer, async |(lock, holder)| {
        meanwhile(read(lock), async || holder.release().await.unwrap()).await
    };
    read_behind_a_writer_that_goes_on_reading: behind_a_writer, async |(lock, holder)| {
        meanwhile(read(lock), async || goes_on_reading(holder).await).await
    };
    write_behind_a_reader: behind_a_reader, async |(lock, holder)| {
        meanwhile(write(lock), async || holder.release().await.unwrap()).await
    };
    /// It looks again, and finds the read.
    write_behind_a_writer_that_goes_on_reading: behind_a_writer, async |(lock, holder)| {
        meanwhile(write(lock), async || goes_on_reading(holder).await).await
    };
    try_to_read_where_it_is_busy: behind_a_writer, async |(lock, _holder)| {
        Told::busy(lock.try_read().await)
    };
    try_to_write_where_it_is_busy: behind_a_reader, async |(lock, _holder)| {
        Told::busy(lock.try_write().await)
    };
    wait_a_moment_to_read_where_it_is_busy: behind_a_writer, async |(lock, _holder)| {
        Told::busy(lock.read_timeout(SOON).await)
    };
    wait_a_moment_to_write_where_it_is_busy: behind_a_reader, async |(lock, _holder)| {
        Told::busy(lock.write_timeout(SOON).await)
    };
    a_read_beside_a_write: written_and_awaited, async |write| {
        let read = write.read().await;
        drop(write);
        read.map_or(Told::Nothing, Told::Reads)
    };
    release_a_write: written_and_awaited, async |write| {
        let node = write.node().to_owned();
        Told::released(Some(node), write.release().await)
    };
    release_a_read: async |fixture: &FaultFixture| {
        let lock = known(fixture).await;
        let read = lock.read().await.unwrap();
        fixture.rival_waits_to_write().await;
        read
    }, Told::release;
    release_a_downgraded_read: async |fixture: &FaultFixture| {
        written_and_awaited(fixture).await.downgrade().await.unwrap()
    }, Told::release;
    participants: behind_a_reader, async |(lock, holder)| Told::listed(lock.participants().await, holder.node());
}
