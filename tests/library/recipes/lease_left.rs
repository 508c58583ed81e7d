//! What a guard says of its lease, for what has to be over by its end and cannot ask again.

use std::time::Duration;

use zookeeper_recipes::Loss;

use crate::harness::{Arena, Direction, SHORT, within};

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_while_the_servers_answer() {
    let arena = Arena::new().await;
    let curator = arena.short_lived_curator().await;
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    for _ in 0..3 {
        let renewed = guard.session_lease_renewed();
        let left = guard.session_lease_left();
        assert!(!left.is_zero() && left <= SHORT * 2 / 3, "{left:?}");
        within("a renewal", renewed).await.unwrap();
    }
    let view = guard.view();
    guard.release().await.unwrap();
    assert_eq!(
        (view.loss(), view.is_held(), view.session_lease_left()),
        (None, false, Duration::ZERO)
    );
}

#[tokio::test(start_paused = true)]
async fn it_runs_down_when_no_server_answers_and_ends_with_the_hold() {
    let (arena, link, curator) = Arena::with_link(Arena::short_lived_builder).await;
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    let stalled = link.stall(Direction::Both);
    // What was under way may still renew it.
    let mut left = guard.session_lease_left();
    while within("a renewal, or the loss", guard.session_lease_renewed()).await.is_ok() {
        left = guard.session_lease_left();
    }
    assert!(left <= SHORT * 2 / 3, "{left:?}");
    assert_eq!(
        (guard.loss(), guard.session_lease_left()),
        (Some(Loss::LeaseEnded), Duration::ZERO)
    );
    drop(stalled);
    // The session is there again, and renews its lease; this hold stays lost.
    let other = curator.mutex(format!("{}-other", arena.path)).unwrap();
    let other = within("another lock", other.acquire()).await.unwrap();
    assert!(!other.session_lease_left().is_zero() && guard.session_lease_left().is_zero());
    assert_eq!(within("the loss", guard.session_lease_renewed()).await, Err(Loss::LeaseEnded));
    other.release().await.unwrap();
}
