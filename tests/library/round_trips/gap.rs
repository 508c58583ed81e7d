//! Attacks on the gap rule, in one incarnation of the lock path: a create that gets the number that was expected has
//! nobody new before it.

use zookeeper_recipes::Shortcuts;
use zookeeper_recipes::zookeeper_client::CreateMode;
use zookeeper_testkit::Operation::{Create, Delete, GetData, List};
use zookeeper_testkit::{Cut, Message, Operation};

use super::link::{Linked, Waiting, got, held, is_pending, settle, still_waits, without_removals};
use crate::harness::{Arena, eventually, struck_once, within};

const ALL: Shortcuts = Shortcuts::ALL;

#[tokio::test(flavor = "multi_thread")]
async fn somebody_who_came_in_between_is_waited_for() {
    let arena = Arena::with_parent().await;
    let linked = Linked::knowing(&arena, ALL).await;
    let stranger = arena.stranger().await;
    let next = linked.waits(&arena, 2).await;
    still_waits(&linked, &next).await;
    assert_eq!(linked.took(), [Create, List, GetData, GetData]);
    arena.admin.delete(&stranger, None).await.unwrap();
    held(next).await.release().await.unwrap();
    // What the listing showed was not ours alone.
    linked.took();
    let guard = arena.mutex(&linked.curator).acquire().await.unwrap();
    assert_eq!(linked.took(), [Create, List]);
    guard.release().await.unwrap();
}

/// It is gone when our create comes; only the number tells that it was there.
#[tokio::test(flavor = "multi_thread")]
async fn any_create_in_between_lists() {
    let arena = Arena::with_parent().await;
    let linked = Linked::knowing(&arena, ALL).await;
    let mutex = arena.mutex(&linked.curator);
    for round in 0..3 {
        let node = format!("{}/{round}", arena.path);
        match round {
            0 => arena.create(&node, CreateMode::Persistent).await,
            1 => arena.create(&node, CreateMode::Ephemeral).await,
            _ => arena.count_up(1).await,
        }
        let guard = mutex.acquire().await.unwrap();
        assert_eq!(linked.took(), [Create, List], "{round}");
        guard.release().await.unwrap();
        // Foreign children that are no contenders do not hinder the rule.
        assert_eq!(linked.took(), [Delete]);
        let guard = mutex.acquire().await.unwrap();
        assert_eq!(linked.took(), [Create], "{round}");
        guard.release().await.unwrap();
        linked.took();
    }
    for round in 0..2 {
        arena.admin.delete(&format!("{}/{round}", arena.path), None).await.unwrap();
    }
    // To delete changes no number.
    let guard = mutex.acquire().await.unwrap();
    assert_eq!(linked.took(), [Create]);
    guard.release().await.unwrap();
}

/// It has the number that ours would have had, and the name of a contender; no create of ours is before it.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_an_administrator_made_with_the_next_number_is_waited_for() {
    let arena = Arena::with_parent().await;
    let linked = Linked::knowing(&arena, ALL).await;
    let fake = format!("{}/not-a-guid-lock-0000000001", arena.path);
    arena.create(&fake, CreateMode::Persistent).await;
    let next = linked.waits(&arena, 2).await;
    still_waits(&linked, &next).await;
    arena.admin.delete(&fake, None).await.unwrap();
    held(next).await.release().await.unwrap();
}

/// A listing that shows somebody else teaches nothing, though the count is right.
#[tokio::test(flavor = "multi_thread")]
async fn a_listing_that_shows_a_stranger_is_not_built_on() {
    let arena = Arena::with_parent().await;
    let linked = Linked::knowing(&arena, ALL).await;
    let stranger = arena.stranger().await;
    let gives_up = linked.waits(&arena, 2).await;
    gives_up.abort();
    arena.children_are(1).await;
    linked.took();
    let next = linked.waits(&arena, 2).await;
    still_waits(&linked, &next).await;
    // The contender that gave up removes its watches, sooner or later.
    assert_eq!(without_removals(linked.took()), [Create, List, GetData, GetData]);
    // Nor does one that only looked.
    assert!(arena.mutex(&linked.curator).try_acquire().await.unwrap().is_none());
    next.abort();
    arena.children_are(1).await;
    let next = linked.waits(&arena, 2).await;
    still_waits(&linked, &next).await;
    arena.admin.delete(&stranger, None).await.unwrap();
    held(next).await.release().await.unwrap();
}

/// Its create was sent when nobody else was there, and comes behind a stranger's.
#[tokio::test(flavor = "multi_thread")]
async fn a_create_that_is_overtaken_lists() {
    let arena = Arena::with_parent().await;
    let linked = Linked::knowing(&arena, ALL).await;
    let late = linked.proxy.hold(Message::request(Operation::Create));
    let mutex = arena.mutex(&linked.curator);
    let next = tokio::spawn(async move { mutex.acquire().await });
    within("the create", late.struck()).await;
    let stranger = arena.stranger().await;
    late.heal();
    arena.children_are(2).await;
    still_waits(&linked, &next).await;
    arena.admin.delete(&stranger, None).await.unwrap();
    held(next).await.release().await.unwrap();
}

/// The client arms its watches again in its own time: what is known by one ends with the connection.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_reconnect_it_lists_and_watches_again() {
    let arena = Arena::with_parent().await;
    let linked = Linked::knowing(&arena, ALL).await;
    let mutex = arena.mutex(&linked.curator);
    for held_meanwhile in [false, true] {
        let guard = if held_meanwhile { Some(mutex.acquire().await.unwrap()) } else { None };
        let set = linked.proxy.replies(Operation::SetWatches);
        linked.proxy.cut(Cut::Reset);
        eventually("its watches again", async || linked.proxy.replies(Operation::SetWatches) > set)
            .await;
        linked.round_trip().await;
        if let Some(guard) = guard {
            guard.release().await.unwrap();
        }
        linked.took();
        let guard = mutex.acquire().await.unwrap();
        let asked = without_removals(linked.took());
        assert_eq!(asked, [Create, GetData, List], "held meanwhile: {held_meanwhile}");
        guard.release().await.unwrap();
        linked.is_known(&mutex).await;
    }
}

/// The outcome of a create is unknown: it took a number, or it did not.
#[tokio::test(flavor = "multi_thread")]
async fn a_create_whose_reply_is_lost_ends_what_was_known() {
    let arena = Arena::with_parent().await;
    let linked = Linked::knowing(&arena, ALL).await;
    let mutex = arena.mutex(&linked.curator);
    for message in [Message::reply, Message::request] {
        let lost = linked.proxy.lose(message(Operation::Create));
        let guard = within("the lock", mutex.acquire()).await.unwrap();
        struck_once(&lost).await;
        assert_eq!(arena.children().await.len(), 1);
        let mut next = linked.parks(&arena).await;
        assert!(is_pending(&mut next).await);
        guard.release().await.unwrap();
        got(next).await.release().await.unwrap();
        linked.took();
        mutex.acquire().await.unwrap().release().await.unwrap();
        mutex.acquire().await.unwrap().release().await.unwrap();
        assert_eq!(linked.took()[..], [Create, Delete, Create, Delete]);
    }
}

/// Creates of many tasks under way at a time, a stranger's among them: each is judged by its own number.
#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_among_own_creates_under_way() {
    let arena = Arena::with_parent().await;
    let linked = Linked::knowing(&arena, ALL).await;
    let other = Linked::new(&arena, ALL).await;
    let spawn = |linked: &Linked| {
        let mutex = arena.mutex(&linked.curator);
        tokio::spawn(async move { mutex.acquire().await })
    };
    // Ours, ours, the stranger's, ours, ours.
    let between = linked.proxy.hold(Message::request(Operation::Create).nth(3));
    let (first, second) = (spawn(&linked), spawn(&linked));
    arena.children_are(2).await;
    let (fourth, fifth) = (spawn(&linked), spawn(&linked));
    within("the third create", between.struck()).await;
    let third = spawn(&other);
    arena.children_are(3).await;
    between.heal();
    arena.children_are(5).await;
    // Tasks that are started together create in any order.
    let one_of = async |mut one: Waiting, mut other: Waiting| {
        let (guard, rest) = tokio::select! {
            guard = &mut one => (guard, other),
            guard = &mut other => (guard, one),
        };
        (guard.unwrap().unwrap(), rest)
    };
    let (guard, rest) = within("the first", one_of(first, second)).await;
    still_waits(&other, &third).await;
    guard.release().await.unwrap();
    let guard = held(rest).await;
    still_waits(&other, &third).await;
    guard.release().await.unwrap();
    let guard = held(third).await;
    settle().await;
    assert!(!fourth.is_finished() && !fifth.is_finished());
    guard.release().await.unwrap();
    let (guard, rest) = within("the fourth", one_of(fourth, fifth)).await;
    still_waits(&linked, &rest).await;
    guard.release().await.unwrap();
    held(rest).await.release().await.unwrap();
}
