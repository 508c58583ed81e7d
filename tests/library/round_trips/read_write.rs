//! What a read-write lock asks of the servers; which of the rules hold for it, and what happens to who bends them.

use crate::harness::Operation::{Create, Delete, GetData, List, Multi};
use tokio::task::JoinHandle;
use zookeeper_recipes::{AcquireError, ReadGuard, Shortcuts, WriteGuard};

use super::link::{Linked, linked, settle, still_waits};
use crate::harness::{Arena, Message, Operation, eventually, within};

const ALL: Shortcuts = Shortcuts::ALL;

pub(crate) type Reading = JoinHandle<Result<ReadGuard, AcquireError>>;
pub(crate) type Writing = JoinHandle<Result<WriteGuard, AcquireError>>;

impl Linked {
    /// Starts to read, and returns when everything that it asks at once is answered: `reads` of nodes.
    pub(crate) async fn reads(&self, arena: &Arena, reads: usize) -> Reading {
        let lock = self.lock(arena).read();
        self.waits_in(arena, reads, async move { lock.acquire().await }).await
    }

    /// The same to write.
    pub(crate) async fn writes(&self, arena: &Arena, reads: usize) -> Writing {
        let lock = self.lock(arena).write();
        self.waits_in(arena, reads, async move { lock.acquire().await }).await
    }
}

pub(crate) async fn got<T>(waiting: JoinHandle<Result<T, AcquireError>>) -> T {
    within("the waiter", waiting).await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_read_beside_a_write_is_a_transaction_and_a_look() {
    let arena = Arena::with_parent().await;
    let linked = Linked::new(&arena, ALL).await;
    let lock = linked.lock(&arena);
    let write = lock.write().acquire().await.unwrap();
    linked.took();
    let read = write.read().await.unwrap();
    assert_eq!(linked.took(), [Multi, GetData]);
    read.release().await.unwrap();
    assert_eq!(linked.took(), [Delete]);
    let read = write.downgrade().await.unwrap();
    assert_eq!(linked.took(), [Multi, GetData, Delete]);
    read.release().await.unwrap();
    assert_eq!(linked.took(), [Delete]);
    // It was a create that no number tells of.
    lock.write().acquire().await.unwrap().release().await.unwrap();
    assert_eq!(linked.took(), [Create, List, Delete]);
    lock.write().acquire().await.unwrap().release().await.unwrap();
    assert_eq!(linked.took(), [Create, Delete]);
}

/// Its predecessor was the head of its listing and is gone; a read with that one's number came in the meantime.
#[tokio::test(start_paused = true)]
async fn a_down_graded_read_keeps_out_the_writer_that_waits() {
    let arena = Arena::with_parent().await;
    let [first, second] = linked(&arena, ALL).await;
    let write = first.lock(&arena).write().acquire().await.unwrap();
    let next = second.writes(&arena, 3).await;
    second.took();
    let read = write.downgrade().await.unwrap();
    eventually("a listing", async || {
        next.is_finished() || second.log().iter().filter(|one| **one == GetData).count() > 0
    })
    .await;
    still_waits(&second, &next).await;
    assert!(read.is_held());
    assert_eq!(second.took(), [List, GetData], "it watches the read");
    read.release().await.unwrap();
    let next = got(next).await;
    assert_eq!(second.took(), [List]);
    next.release().await.unwrap();
}

/// Contenders of one session do not hand over among themselves here.
#[tokio::test(start_paused = true)]
async fn a_down_graded_read_keeps_out_a_writer_of_the_same_client() {
    let arena = Arena::with_parent().await;
    let linked = Linked::new(&arena, ALL).await;
    let write = linked.lock(&arena).write().acquire().await.unwrap();
    let next = linked.writes(&arena, 2).await;
    let read = write.downgrade().await.unwrap();
    still_waits(&linked, &next).await;
    assert!(read.is_held());
    read.release().await.unwrap();
    got(next).await.release().await.unwrap();
}

/// Known of the path is that nobody else came; our own keep each other out all the same.
#[tokio::test(start_paused = true)]
async fn a_writer_of_ours_waits_for_a_reader_of_ours() {
    let arena = Arena::with_parent().await;
    let linked = Linked::new(&arena, ALL).await;
    let lock = linked.lock(&arena);
    lock.write().acquire().await.unwrap().release().await.unwrap();
    let read = lock.read().acquire().await.unwrap();
    linked.took();
    let beside = lock.read().acquire().await.unwrap();
    assert_eq!(linked.took(), [Create], "beside a reader of ours");
    beside.release().await.unwrap();
    linked.took();
    let writer = linked.writes(&arena, 2).await;
    still_waits(&linked, &writer).await;
    assert_eq!(linked.took(), [Create, List, GetData, GetData]);
    read.release().await.unwrap();
    let write = got(writer).await;
    assert_eq!(linked.took(), [Delete, List]);
    write.release().await.unwrap();
    assert_eq!(linked.took(), [Delete]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_of_ours_waits_for_a_writer_of_ours() {
    let arena = Arena::with_parent().await;
    let linked = Linked::new(&arena, ALL).await;
    let lock = linked.lock(&arena);
    let write = lock.write().acquire().await.unwrap();
    linked.took();
    let reader = linked.reads(&arena, 2).await;
    still_waits(&linked, &reader).await;
    assert_eq!(linked.took(), [Create, List, GetData, GetData]);
    // Its release is not theirs before the servers say so: they hand over, not the process.
    let on_the_way = linked.proxy.hold(Message::request(Operation::Delete));
    let released = tokio::spawn(write.release());
    within("the delete", on_the_way.struck()).await;
    settle().await;
    assert!(!reader.is_finished());
    on_the_way.heal();
    within("the release", released).await.unwrap().unwrap();
    let read = got(reader).await;
    assert_eq!(linked.took(), [Delete], "the event admits it");
    read.release().await.unwrap();
}
