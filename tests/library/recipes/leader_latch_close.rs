//! Closes of a leader latch that meet trouble: they end, and say what is known.

use std::time::Duration;

use zookeeper_recipes::ReleaseError;

use crate::harness::{Arena, Cut, Direction, within};

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
}
