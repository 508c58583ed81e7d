//! What a read-write lock asks of the servers; which of the rules hold for it, and what happens to who bends them.

use tokio::task::JoinHandle;
use zookeeper_recipes::{AcquireError, ReadGuard, Shortcuts, WriteGuard};
use zookeeper_testkit::Operation::{Create, Delete, GetData, List, Multi};
use zookeeper_testkit::{Message, Operation};

use super::link::{Linked, settle, still_waits};
use crate::harness::{Arena, eventually, within};

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

async fn two(arena: &Arena, rules: Shortcuts) -> [Linked; 2] {
    [Linked::new(arena, rules).await, Linked::new(arena, rules).await]
}

#[tokio::test(flavor = "multi_thread")]
async fn to_read_or_to_write_again_is_a_create_and_a_delete() {
    for (rules, first, again) in [
        (ALL, &[Create, GetData, List][..], &[Create][..]),
        (Shortcuts { gap: false, ..ALL }, &[Create, List], &[Create, List]),
        (Shortcuts::NONE, &[Create, List], &[Create, List]),
    ] {
        let arena = Arena::with_parent().await;
        let linked = Linked::new(&arena, rules).await;
        let lock = linked.lock(&arena);
        linked.took();
        let read = lock.read().acquire().await.unwrap();
        assert_eq!(linked.took(), first, "{rules:?}");
        read.release().await.unwrap();
        assert_eq!(linked.took(), [Delete]);
        for _ in 0..3 {
            let write = lock.write().acquire().await.unwrap();
            assert_eq!(linked.took(), again, "{rules:?}");
            write.release().await.unwrap();
            assert_eq!(linked.took(), [Delete]);
            let read = lock.read().acquire().await.unwrap();
            assert_eq!(linked.took(), again, "{rules:?}");
            // A reader of ours holds already: no different.
            let second = lock.read().acquire().await.unwrap();
            assert_eq!(linked.took(), again, "{rules:?}");
            read.release().await.unwrap();
            second.release().await.unwrap();
            assert_eq!(linked.took(), [Delete, Delete]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_a_reader_of_somebody_else_a_read_lists() {
    let arena = Arena::with_parent().await;
    let [ours, theirs] = two(&arena, ALL).await;
    let lock = ours.lock(&arena);
    lock.read().acquire().await.unwrap().release().await.unwrap();
    let reads = theirs.lock(&arena).read().acquire().await.unwrap();
    ours.took();
    // The number is not the one that was expected, which shows when the create is answered.
    let read = lock.read().acquire().await.unwrap();
    assert_eq!(ours.took(), [Create, List]);
    read.release().await.unwrap();
    ours.took();
    // And while there is somebody else, nothing can be known: the two are sent together.
    for _ in 0..2 {
        let read = lock.read().acquire().await.unwrap();
        assert_eq!(ours.took(), [Create, List]);
        read.release().await.unwrap();
        assert_eq!(ours.took(), [Delete]);
    }
    reads.release().await.unwrap();
    lock.read().acquire().await.unwrap().release().await.unwrap();
    ours.took();
    lock.read().acquire().await.unwrap().release().await.unwrap();
    assert_eq!(ours.took(), [Create, Delete], "they are gone");
}

#[tokio::test(flavor = "multi_thread")]
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

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_lock_costs_one_read_and_no_write() {
    for (look_first, busy, free) in
        [(true, &[List][..], &[List, Create][..]), (false, &[Create, List, Delete], &[Create])]
    {
        let arena = Arena::with_parent().await;
        let [ours, theirs] = two(&arena, Shortcuts { look_first, ..ALL }).await;
        let (lock, rival) = (ours.lock(&arena), theirs.lock(&arena));
        let known = async || {
            lock.read().acquire().await.unwrap().release().await.unwrap();
            ours.took();
        };
        known().await;
        let write = rival.write().acquire().await.unwrap();
        assert!(lock.read().try_acquire().await.unwrap().is_none());
        assert_eq!(ours.took(), busy, "a read, look first: {look_first}");
        write.release().await.unwrap();
        known().await;
        let read = rival.read().acquire().await.unwrap();
        assert!(lock.write().try_acquire().await.unwrap().is_none());
        assert_eq!(ours.took(), busy, "a write, look first: {look_first}");
        read.release().await.unwrap();
        known().await;
        let read = lock.read().try_acquire().await.unwrap().unwrap();
        assert_eq!(ours.took(), free, "look first: {look_first}");
        read.release().await.unwrap();
        let write = lock.write().try_acquire().await.unwrap().unwrap();
        write.release().await.unwrap();
        assert_eq!(ours.took(), [&[Delete], free, &[Delete]].concat(), "look first: {look_first}");
    }
}

/// The head rule holds for it: no writer can turn up before it any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_behind_the_only_writer_is_admitted_without_a_listing() {
    for (head, listed) in [(true, &[][..]), (false, &[List][..])] {
        for goes_on_reading in [false, true] {
            let arena = Arena::with_parent().await;
            let [first, second] = two(&arena, Shortcuts { head, ..ALL }).await;
            let write = first.lock(&arena).write().acquire().await.unwrap();
            // The parent, the own node, and the writer's.
            let reader = second.reads(&arena, 3).await;
            assert_eq!(second.took(), [Create, GetData, List, GetData, GetData]);
            let down = if goes_on_reading {
                Some(write.downgrade().await.unwrap())
            } else {
                write.release().await.unwrap();
                None
            };
            let reader = got(reader).await;
            assert_eq!(second.took(), listed, "head: {head}");
            assert!(reader.is_held() && down.is_none_or(|down| down.is_held()));
            reader.release().await.unwrap();
            assert_eq!(second.took(), [Delete]);
        }
    }
}

/// The nearest writer before it was not the first: its deletion says nothing of that one.
#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_gives_up_admits_no_reader() {
    let arena = Arena::with_parent().await;
    let [first, second] = two(&arena, ALL).await;
    let third = Linked::new(&arena, ALL).await;
    let write = first.lock(&arena).write().acquire().await.unwrap();
    let gives_up = second.writes(&arena, 3).await;
    let reader = third.reads(&arena, 3).await;
    let listed = third.proxy.replies(Operation::List);
    gives_up.abort();
    arena.children_are(2).await;
    eventually("a listing", async || third.proxy.replies(Operation::List) > listed).await;
    still_waits(&third, &reader).await;
    assert!(write.is_held());
    third.took();
    write.release().await.unwrap();
    let reader = got(reader).await;
    assert_eq!(third.took(), [], "now it was");
    reader.release().await.unwrap();
}

/// A writer lists whoever goes: the head rule does not hold for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_writer_behind_a_writer_or_a_reader_lists() {
    for behind_a_reader in [false, true] {
        let arena = Arena::with_parent().await;
        let [first, second] = two(&arena, ALL).await;
        let lock = first.lock(&arena);
        let (mut read, mut write) = (None, None);
        if behind_a_reader {
            read = Some(lock.read().acquire().await.unwrap());
        } else {
            write = Some(lock.write().acquire().await.unwrap());
        }
        let next = second.writes(&arena, 3).await;
        second.took();
        drop((read.take(), write.take()));
        let next = got(next).await;
        assert_eq!(second.took(), [List]);
        next.release().await.unwrap();
    }
}

/// Its predecessor was the head of its listing and is gone; a read with that one's number came in the meantime.
#[tokio::test(flavor = "multi_thread")]
async fn a_down_graded_read_keeps_out_the_writer_that_waits() {
    let arena = Arena::with_parent().await;
    let [first, second] = two(&arena, ALL).await;
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
#[tokio::test(flavor = "multi_thread")]
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
#[tokio::test(flavor = "multi_thread")]
async fn a_writer_of_ours_waits_for_a_reader_of_ours() {
    let arena = Arena::with_parent().await;
    let linked = Linked::new(&arena, ALL).await;
    let lock = linked.lock(&arena);
    lock.write().acquire().await.unwrap().release().await.unwrap();
    let read = lock.read().acquire().await.unwrap();
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

#[tokio::test(flavor = "multi_thread")]
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
