//! Tasks of one client take turns under one node; fenced writes, strangers and revokers in between.

use std::time::Duration;

use zookeeper_recipes::interop::Revoker;
use zookeeper_recipes::zookeeper_client::CreateMode;
use zookeeper_recipes::{Error, ErrorKind, Guard, Shortcuts};

use super::link::{Acquiring, Linked, got, is_pending, settle};
use crate::harness::{Arena, Message, Operation, acquired, fails, within};

async fn data(arena: &Arena, path: &str) -> Vec<u8> {
    arena.admin.get_data(path).await.unwrap().0
}

fn is_unknown(written: &Result<(), Error>) -> bool {
    written.as_ref().is_err_and(|error| error.kind() == ErrorKind::OutcomeUnknown)
}

/// A hold, and a task of the same client that wants it next.
async fn held_and_awaited(arena: &Arena) -> (Linked, Guard, Acquiring) {
    let linked = Linked::knowing(arena, Shortcuts::ALL).await;
    let holder = arena.mutex(&linked.curator).acquire().await.unwrap();
    let next = linked.parks(arena).await;
    linked.took();
    (linked, holder, next)
}

#[tokio::test(start_paused = true)]
async fn a_seat_is_passed_on_without_a_request() {
    let arena = Arena::with_parent().await;
    let (linked, holder, next) = held_and_awaited(&arena).await;
    let node = holder.node().to_owned();
    holder.release().await.unwrap();
    let guard = got(next).await;
    assert_eq!((guard.node(), linked.took()), (node.as_str(), vec![]));
    guard.release().await.unwrap();
    assert_eq!(linked.took(), [Operation::Delete]);
}

/// It is on the way when the hold is released: whatever the next one writes goes behind it.
#[tokio::test(start_paused = true)]
async fn a_fenced_write_that_is_on_the_way_goes_ahead_of_the_next_ones() {
    let arena = Arena::with_parent().await;
    let (linked, holder, next) = held_and_awaited(&arena).await;
    let fenced = holder.fenced();
    let on_the_way = linked.proxy.hold(Message::request(Operation::Multi));
    let path = arena.path.clone();
    let write = tokio::spawn(async move { fenced.set(&path, b"first").await });
    within("the write", on_the_way.struck()).await;
    holder.release().await.unwrap();
    let guard = got(next).await;
    let (fenced, path) = (guard.fenced(), arena.path.clone());
    let second = tokio::spawn(async move { fenced.set(&path, b"second").await });
    on_the_way.heal();
    within("the second write", second).await.unwrap().unwrap();
    // Its hold ended meanwhile: it was not told.
    let first = within("the first write", write).await.unwrap();
    assert!(first.is_ok() || is_unknown(&first), "{first:?}");
    assert_eq!(data(&arena, &arena.path).await, b"second");
    guard.release().await.unwrap();
}

/// The link breaks behind a fenced write, which a server may have still: the next one holds by another node.
#[tokio::test(start_paused = true)]
async fn behind_a_broken_link_nothing_is_passed_on() {
    let arena = Arena::with_parent().await;
    let (linked, holder, mut next) = held_and_awaited(&arena).await;
    let counter = format!("{}-counter", arena.path);
    arena.create(&counter, CreateMode::Persistent).await;
    let fenced = holder.fenced();
    let on_the_way = linked.proxy.hold(Message::request(Operation::Multi));
    let (writer, path) = (fenced.clone(), counter.clone());
    let first = tokio::spawn(async move { writer.set(&path, b"first").await });
    within("the write", on_the_way.struck()).await;
    let refused = linked.cut_off().await;
    let unknown = within("the first write", first).await.unwrap();
    assert!(is_unknown(&unknown), "{unknown:?}");
    let node = holder.node().to_owned();
    let released = tokio::spawn(holder.release());
    settle().await;
    assert!(is_pending(&mut next).await, "a server may still have the first write");
    refused.heal();
    let guard = got(next).await;
    assert_ne!(guard.node(), node);
    within("the release", released).await.unwrap().unwrap();
    let late = fenced.set(&counter, b"late").await;
    fails(late, ErrorKind::Closed);
    guard.fenced().set(&counter, b"next").await.unwrap();
    assert_eq!(data(&arena, &counter).await, b"next");
    guard.release().await.unwrap();
    arena.admin.delete(&counter, None).await.unwrap();
}

/// A stranger waits for those that asked before the news of it, and for no other.
#[tokio::test(start_paused = true)]
async fn a_stranger_is_served_before_those_that_asked_after_it_came() {
    let arena = Arena::with_parent().await;
    let (linked, holder, next) = held_and_awaited(&arena).await;
    let stranger = arena.waits(&arena.curator().await).await;
    linked.round_trip().await;
    let mutex = arena.mutex(&linked.curator);
    let mut late: Acquiring = Box::pin(async move { mutex.acquire().await });
    assert!(is_pending(&mut late).await);
    holder.release().await.unwrap();
    let guard = got(next).await;
    assert!(!stranger.is_finished());
    guard.release().await.unwrap();
    let stranger = within("the stranger", stranger).await.unwrap().unwrap();
    assert!(is_pending(&mut late).await);
    stranger.release().await.unwrap();
    got(late).await.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_to_be_given_up_is_not_passed_on() {
    let arena = Arena::with_parent().await;
    let (_linked, holder, next) = held_and_awaited(&arena).await;
    let revoker = Revoker::new(&arena.curator().await);
    assert!(revoker.attempt_revoke(holder.node()).await.unwrap());
    within("the request", holder.revocation_requested()).await;
    let node = holder.node().to_owned();
    holder.release().await.unwrap();
    let guard = got(next).await;
    assert_ne!(guard.node(), node);
    guard.release().await.unwrap();
}

/// Not to one of another identity, nor to one that wants a node of its own.
#[tokio::test(start_paused = true)]
async fn a_node_passes_only_to_those_whose_node_would_be_the_same() {
    let arena = Arena::with_parent().await;
    let linked = Linked::knowing(&arena, Shortcuts::ALL).await;
    let mutex = arena.mutex(&linked.curator);
    let named = arena.mutex(&linked.curator.with_identity("another"));
    for other in [named, mutex.clone().with_node_per_hold()] {
        let holder = mutex.acquire().await.unwrap();
        let (node, token) = (holder.node().to_owned(), holder.fencing_token());
        let next = tokio::spawn(async move { other.acquire().await });
        linked.round_trip().await;
        holder.release().await.unwrap();
        let guard = within("the next", next).await.unwrap().unwrap();
        assert_ne!(guard.node(), node);
        assert!(guard.fencing_token() > token);
        guard.release().await.unwrap();
    }
}

/// A caller of the same client gets the lock without a create; a stranger gets it soon.
#[tokio::test(start_paused = true)]
async fn a_kept_node_is_given_up_when_a_stranger_comes() {
    let arena = Arena::with_parent().await;
    let linked = Linked::knowing(&arena, Shortcuts::ALL).await;
    let mutex = arena.mutex(&linked.curator).with_retention(Duration::from_secs(10));
    let guard = mutex.acquire().await.unwrap();
    let node = guard.node().to_owned();
    guard.release().await.unwrap();
    linked.round_trip().await;
    linked.took();
    for _ in 0..3 {
        let guard = mutex.acquire().await.unwrap();
        assert_eq!(guard.node(), node);
        guard.release().await.unwrap();
    }
    assert!(!linked.took().contains(&Operation::Create));
    settle().await;
    let stranger = arena.mutex(&arena.curator().await);
    let guard = stranger.acquire_timeout(Duration::from_secs(1)).await.unwrap();
    acquired(guard).expect("the node was given up").release().await.unwrap();
    // And by itself, when its time is over.
    mutex.acquire().await.unwrap().release().await.unwrap();
    arena.children_are(0).await;
}
