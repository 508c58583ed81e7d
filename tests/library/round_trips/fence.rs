//! A fenced write of a hold that was released takes effect before the next one holds, or never.

use zookeeper_recipes::zookeeper_client::CreateMode;
use zookeeper_recipes::{FencedError, Loss, MutexGuard, Shortcuts};

use super::link::{Acquiring, Linked, got, is_pending, settle};
use crate::harness::{Arena, Message, Operation, within};

const ALL: Shortcuts = Shortcuts::ALL;

async fn data(arena: &Arena, path: &str) -> Vec<u8> {
    arena.admin.get_data(path).await.unwrap().0
}

/// A hold, and one of its own behind it.
async fn held_and_awaited(arena: &Arena) -> (Linked, MutexGuard, Acquiring) {
    let linked = Linked::knowing(arena, ALL).await;
    let holder = arena.mutex(&linked.curator).acquire().await.unwrap();
    let next = linked.parks(arena).await;
    linked.proxy.clear_log();
    (linked, holder, next)
}

/// It is on the way when the hold is released: the delete goes behind it, and so does whatever the next one writes.
#[tokio::test(start_paused = true)]
async fn a_fenced_write_that_is_on_the_way_goes_ahead_of_the_delete() {
    let arena = Arena::with_parent().await;
    let (linked, holder, next) = held_and_awaited(&arena).await;
    let fenced = holder.fenced();
    let on_the_way = linked.proxy.hold(Message::request(Operation::Multi));
    let path = arena.path.clone();
    let write = tokio::spawn(async move { fenced.set(&path, b"first").await });
    within("the write", on_the_way.struck()).await;
    let released = tokio::spawn(holder.release());
    let guard = got(next).await;
    let (fenced, path) = (guard.fenced(), arena.path.clone());
    let second = tokio::spawn(async move { fenced.set(&path, b"second").await });
    on_the_way.heal();
    within("the release", released).await.unwrap().unwrap();
    within("the second write", second).await.unwrap().unwrap();
    // Its hold ended meanwhile: it was not told.
    let first = within("the first write", write).await.unwrap();
    assert!(matches!(first, Ok(()) | Err(FencedError::Unknown { .. })), "{first:?}");
    assert_eq!(data(&arena, &arena.path).await, b"second");
    assert_eq!(linked.took()[..3], [Operation::Multi, Operation::Delete, Operation::Multi]);
    guard.release().await.unwrap();
}

/// On one thread nothing else runs between the two: what the next one sends right away is behind the delete.
#[tokio::test(start_paused = true)]
async fn the_delete_is_sent_before_the_next_one_can_send_anything() {
    let arena = Arena::with_parent().await;
    let (linked, holder, next) = held_and_awaited(&arena).await;
    drop(holder);
    let guard = got(next).await;
    guard.fenced().set(&arena.path, b"next").await.unwrap();
    assert_eq!(linked.took()[..2], [Operation::Delete, Operation::Multi]);
    guard.release().await.unwrap();
}

/// The link breaks behind a fenced write. A server may have it still, so the next one holds only when the delete was
/// answered; `again`: another write is asked for meanwhile, and kept for the next connection.
async fn broken_off(again: bool) {
    let (arena, linked) = Linked::known().await;
    let counter = format!("{}-counter", arena.path);
    arena.create(&counter, CreateMode::Persistent).await;
    let holder = arena.mutex(&linked.curator).acquire().await.unwrap();
    let fenced = holder.fenced();
    let mut next = linked.parks(&arena).await;
    let on_the_way = linked.proxy.hold(Message::request(Operation::Multi));
    let write = |data: &'static [u8]| {
        let (fenced, path) = (fenced.clone(), counter.clone());
        tokio::spawn(async move { fenced.set(&path, data).await })
    };
    let first = write(b"first");
    within("the write", on_the_way.struck()).await;
    let refused = linked.cut_off().await;
    let unknown = within("the first write", first).await.unwrap();
    assert!(matches!(unknown, Err(FencedError::Unknown { .. })), "{unknown:?}");
    let second = again.then(|| write(b"second"));
    settle().await;
    let released = tokio::spawn(holder.release());
    settle().await;
    assert!(is_pending(&mut next).await, "a server may still have the first write");
    assert_eq!(arena.children().await.len(), 2);
    refused.heal();
    let guard = got(next).await;
    within("the release", released).await.unwrap().unwrap();
    assert_eq!(arena.children().await.len(), 1, "the delete was answered before");
    if let Some(second) = second {
        let told = within("the second write", second).await.unwrap();
        assert!(matches!(told, Ok(()) | Err(FencedError::Unknown { .. })), "{told:?}");
    }
    let late = fenced.set(&counter, b"late").await.unwrap_err();
    assert!(matches!(late, FencedError::Lost { loss: Loss::Released, .. }), "{late:?}");
    guard.fenced().set(&counter, b"next").await.unwrap();
    assert_eq!(data(&arena, &counter).await, b"next");
    guard.release().await.unwrap();
    arena.admin.delete(&counter, None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn behind_a_broken_link_the_next_one_waits_for_the_delete() {
    broken_off(false).await;
}

#[tokio::test(start_paused = true)]
async fn a_later_write_does_not_make_up_for_one_that_was_broken_off() {
    broken_off(true).await;
}

/// Without a fenced write nothing can be late: it is not waited for.
#[tokio::test(start_paused = true)]
async fn without_fenced_writes_a_broken_link_delays_nobody() {
    let (arena, linked) = Linked::known().await;
    let holder = arena.mutex(&linked.curator).acquire().await.unwrap();
    let next = linked.parks(&arena).await;
    let refused = linked.cut_off().await;
    let released = tokio::spawn(holder.release());
    let guard = got(next).await;
    refused.heal();
    within("the release", released).await.unwrap().unwrap();
    guard.release().await.unwrap();
}
