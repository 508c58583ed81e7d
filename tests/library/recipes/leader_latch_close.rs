//! Closes of a leader latch that meet trouble: they end, and say what is known.

use std::time::Duration;

use zookeeper_recipes::ReleaseError;
use zookeeper_recipes::zookeeper_client::CreateMode;

use super::latches::leadership;
use super::mutex_dropped::{Polled, poll_times};
use crate::harness::{Arena, Cut, Direction, Message, Operation, round_trip, struck_once, within};

/// Dropped after 1, 2, … polls, a close goes on; before the first it has not begun.
#[tokio::test(start_paused = true)]
async fn a_close_that_is_dropped_goes_on() {
    let arena = Arena::new().await;
    let curators = arena.curators(2).await;
    for leads in [true, false] {
        for polls in 0..50 {
            let (first, _) = arena.leading(&curators[0]).await;
            let second = arena.queued(&curators[1]).await;
            let latch = if leads { first.clone() } else { second.clone() };
            let closed = poll_times(polls, latch.close()).await;
            if polls == 0 {
                round_trip(&curators[0]).await;
                assert_eq!(latch.has_leadership(), leads, "nobody asked for it");
                assert_eq!(arena.children().await.len(), 2);
                latch.close().await.unwrap();
            }
            assert!(!latch.has_leadership());
            arena.children_are(1).await;
            if leads {
                leadership(&second).await;
            }
            first.close().await.unwrap();
            second.close().await.unwrap();
            if let Polled::Finished(closed) = closed {
                closed.unwrap();
                break;
            }
        }
    }
    arena.children_are(0).await;
}

/// It does not lead from the first poll of the close on, whatever the servers say, and says what became of it.
#[tokio::test(start_paused = true)]
async fn a_close_that_nobody_confirms_says_so_and_goes_on() {
    let arena = Arena::new().await;
    let patience = Duration::from_millis(300);
    let builder = arena.patient_builder();
    let (link, curator) = arena.impatient_link(builder.connection_timeout(patience)).await;
    let (latch, leads) = arena.leading(&curator).await;
    let silence = link.stall(Direction::Both);
    let closed = within("the close", latch.close()).await;
    assert!(matches!(closed, Err(ReleaseError::Unconfirmed { .. })), "{closed:?}");
    assert!(!latch.has_leadership() && !leads.is_held());
    assert_eq!(arena.children().await.len(), 1, "the server has not heard of it");
    let again = within("the close", latch.close()).await;
    assert!(matches!(again, Err(ReleaseError::Unconfirmed { .. })), "the same outcome: {again:?}");
    link.cut(Cut::Reset);
    silence.heal();
    arena.children_are(0).await;
    // A request or a reply that is lost is no more than a delay.
    let (link, curator) = arena.linked(arena.builder()).await;
    for message in [Message::request, Message::reply] {
        let (latch, _) = arena.leading(&curator).await;
        let lost = link.lose(message(Operation::Delete));
        within("the close", latch.close()).await.unwrap();
        struck_once(&lost).await;
        assert_eq!(arena.children().await.len(), 0);
    }
}

/// How long a close may wait for the servers.
const PATIENCE: Duration = Duration::from_millis(300);

/// And for one whose node is being made; whether it is, nobody knows.
#[tokio::test(start_paused = true)]
async fn a_close_while_the_link_is_down_ends() {
    let arena = Arena::new().await;
    arena.create(&arena.path, CreateMode::Persistent).await;
    for lost in [Message::reply(Operation::Create), Message::request(Operation::Create)] {
        let builder = arena.patient_builder();
        let (link, curator) = arena.impatient_link(builder.connection_timeout(PATIENCE)).await;
        let lost = link.lose(lost);
        let refused = link.refuse();
        let latch = arena.latch(&curator);
        latch.start().unwrap();
        within("the create", lost.struck()).await;
        within("a refusal", refused.struck()).await;
        let closed = within("the close", latch.close()).await;
        assert!(matches!(closed, Err(ReleaseError::Unconfirmed { .. })), "{closed:?}");
        assert!(!latch.has_leadership());
        refused.heal();
        round_trip(&curator).await;
        arena.children_are(0).await;
    }
}
