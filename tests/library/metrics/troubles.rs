//! Lost answers, repetitions, and what is still to be removed.

use zookeeper_recipes::{FencedError, Loss, SharedCount};
use zookeeper_testkit::{Cut, Message, Operation};

use super::scrape::Scraped;
use crate::harness::{Arena, eventually, within};

fn unknown(operation: &'static str) -> [(&'static str, &'static str); 1] {
    [("operation", operation)]
}

#[tokio::test]
async fn a_create_whose_reply_is_lost() {
    let (scraped, arena) = (Scraped::new(), Arena::new().await);
    let (link, curator) = arena.linked_with_parent(arena.builder()).await;
    assert_eq!(scraped.find("unknown_outcomes_total", &unknown("create")), Some(0.0));
    let lost = link.lose(Message::reply(Operation::Create));
    let guard = within("the lock", arena.mutex(&curator).acquire()).await.unwrap();
    assert_eq!(lost.strikes(), 1);
    scraped.is(&[
        ("unknown_outcomes_total", &unknown("create"), 1.0),
        ("unknown_outcomes_total", &[], 1.0),
        ("holding", &[], 1.0),
        ("waiting", &[], 0.0),
    ]);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_delete_whose_reply_is_lost_is_a_duty_until_it_is_done() {
    let (scraped, arena) = (Scraped::new(), Arena::new().await);
    let (link, curator) = arena.linked_with_parent(arena.builder()).await;
    let guard = within("the lock", arena.mutex(&curator).acquire()).await.unwrap();
    let refused = link.refuse();
    let lost = link.lose(Message::reply(Operation::Delete));
    drop(guard);
    scraped.is(&[("holding", &[], 0.0)]);
    within("the loss", lost.struck()).await;
    scraped.comes_to("unknown_outcomes_total", &unknown("cleanup"), 1.0).await;
    scraped.is(&[("cleanup_duties", &[], 1.0)]);
    refused.heal();
    scraped.comes_to("cleanup_duties", &[], 0.0).await;
    assert!(scraped.value("retries_total", &[("operation", "cleanup")]) >= 1.0);
    arena.children_are(0).await;
}

/// What a waiter leaves that is dropped while there is no connection.
#[tokio::test]
async fn a_duty_that_passes_to_the_next_session() {
    let (scraped, arena) = (Scraped::new(), Arena::new().await);
    let (link, curator) = arena.linked_with_parent(arena.builder()).await;
    let guard = within("the lock", arena.mutex(&curator).acquire()).await.unwrap();
    let refused = link.refuse();
    assert!(link.cut(Cut::Reset) > 0);
    within("a refusal", refused.struck()).await;
    arena.kill_session(&curator).await;
    drop(guard);
    scraped.comes_to("cleanup_duties", &[], 1.0).await;
    refused.heal();
    scraped.comes_to("cleanup_duties", &[], 0.0).await;
    scraped.is(&[("sessions_lost_total", &[], 1.0), ("losses_total", &[], 0.0)]);
    arena.children_are(0).await;
}

#[tokio::test]
async fn a_listing_that_is_lost_is_tried_again_and_no_unknown_outcome() {
    let (scraped, arena) = (Scraped::new(), Arena::new().await);
    let (curator, (link, other)) = (arena.curator().await, arena.linked(arena.builder()).await);
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    let lost = link.lose(Message::reply(Operation::List));
    assert!(within("an answer", arena.mutex(&other).try_acquire()).await.unwrap().is_none());
    assert_eq!(lost.strikes(), 1);
    assert!(scraped.value("retries_total", &[("operation", "request")]) >= 1.0, "{scraped}");
    scraped.is(&[("unknown_outcomes_total", &[], 0.0)]);
    guard.release().await.unwrap();
}

/// A lost read of its watches, and a lost session.
#[tokio::test]
async fn a_waiter_in_trouble() {
    let (scraped, arena) = (Scraped::new(), Arena::new().await);
    let (curator, (link, other)) = (arena.curator().await, arena.linked(arena.builder()).await);
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    // The first is for the watch on the parent, which nobody waits for.
    let lost = link.lose(Message::reply(Operation::GetData).nth(2));
    let mutex = arena.mutex(&other);
    let waiting = tokio::spawn(async move { mutex.acquire().await });
    within("the loss", lost.struck()).await;
    eventually("it watches again", async || {
        scraped.value("retries_total", &[("operation", "watch")]) >= 1.0
    })
    .await;
    scraped.is(&[("retries_total", &[("operation", "enter")], 0.0), ("waiting", &[], 1.0)]);
    arena.children_are(2).await;
    arena.kill_session(&other).await;
    eventually("it enters again", async || {
        scraped.value("retries_total", &[("operation", "enter")]) >= 1.0
    })
    .await;
    scraped.is(&[("waiting", &[], 1.0), ("holding", &[], 1.0)]);
    guard.release().await.unwrap();
    within("the lock", waiting).await.unwrap().unwrap().release().await.unwrap();
    scraped.is(&[("waiting", &[], 0.0), ("unknown_outcomes_total", &[], 0.0)]);
}

#[tokio::test]
async fn a_count_that_is_followed_over_a_lost_read() {
    let (scraped, arena) = (Scraped::new(), Arena::new().await);
    let (link, curator) = arena.linked(arena.builder()).await;
    let count = SharedCount::start(&curator, &arena.path, 1).await.unwrap();
    eventually("a watch", async || link.replies(Operation::GetData) >= 2).await;
    let lost = link.lose(Message::reply(Operation::GetData));
    arena.admin.set_data(&arena.path, &2_i32.to_be_bytes(), None).await.unwrap();
    within("the loss", lost.struck()).await;
    eventually("it is known", async || count.value() == 2).await;
    assert!(scraped.value("retries_total", &[("operation", "follow")]) >= 1.0, "{scraped}");
    scraped.is(&[("unknown_outcomes_total", &[], 0.0)]);
}

#[tokio::test]
async fn a_count_whose_write_is_lost() {
    let (scraped, arena) = (Scraped::new(), Arena::new().await);
    let (link, curator) = arena.linked(arena.builder()).await;
    let count = SharedCount::start(&curator, &arena.path, 1).await.unwrap();
    let lost = link.lose(Message::reply(Operation::SetData));
    within("the write", count.set(2)).await.unwrap();
    assert_eq!(lost.strikes(), 1);
    scraped.is(&[
        ("unknown_outcomes_total", &unknown("count"), 1.0),
        ("retries_total", &[("operation", "count")], 1.0),
    ]);
}

#[tokio::test]
async fn a_fenced_write_whose_reply_is_lost() {
    let (scraped, arena) = (Scraped::new(), Arena::new().await);
    let (link, curator) = arena.linked_with_parent(arena.builder()).await;
    let guard = within("the lock", arena.mutex(&curator).acquire()).await.unwrap();
    let lost = link.lose(Message::reply(Operation::Multi));
    let written =
        within("an answer", guard.fenced().create(&format!("{}-x", arena.path), b"")).await;
    assert!(matches!(written, Err(FencedError::Unknown { .. })), "{written:?}");
    assert_eq!(lost.strikes(), 1);
    scraped.is(&[("unknown_outcomes_total", &unknown("fenced_write"), 1.0)]);
    assert_ne!(guard.loss(), Some(Loss::NodeDeleted));
    guard.release().await.unwrap();
}
