//! Holds that are lost: at that moment, once, with the cause; whatever becomes of the guard.

use std::time::Duration;

use zookeeper_recipes::{Loss, LossPolicy, MutexGuard};
use zookeeper_testkit::{Cut, Direction};

use super::scrape::Scraped;
use crate::harness::{Arena, within};

/// The guard lives still, then goes.
async fn is_lost_once(scraped: &Scraped, guard: MutexGuard, loss: Loss, cause: &str) {
    assert_eq!(within("the loss", guard.lost()).await, loss);
    let once = |scraped: &Scraped| {
        scraped.is(&[
            ("holding", &[], 0.0),
            ("losses_total", &[("recipe", "mutex"), ("cause", cause)], 1.0),
            ("losses_total", &[], 1.0),
            ("hold_seconds_count", &[("recipe", "mutex")], 1.0),
        ]);
    };
    once(scraped);
    guard.release().await.unwrap_err();
    once(scraped);
}

#[tokio::test]
async fn a_node_that_somebody_deletes() {
    let (scraped, arena) = (Scraped::new(), Arena::new().await);
    let curator = arena.curator().await;
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    // Each cause is there, at zero, before the first loss.
    assert_eq!(scraped.find("losses_total", &[("cause", "node_deleted")]), Some(0.0));
    scraped.is(&[("holding", &[("recipe", "mutex")], 1.0)]);
    arena.admin.delete(guard.node(), None).await.unwrap();
    is_lost_once(&scraped, guard, Loss::NodeDeleted, "node_deleted").await;
}

#[tokio::test]
async fn a_session_that_is_killed() {
    let (scraped, arena) = (Scraped::new(), Arena::new().await);
    let curator = arena.curator().await;
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    arena.kill_session(&curator).await;
    is_lost_once(&scraped, guard, Loss::SessionExpired, "session_expired").await;
}

#[tokio::test]
async fn a_lease_that_ends() {
    let (scraped, arena) = (Scraped::new(), Arena::new().await);
    let builder = arena.builder().session_timeout(Duration::from_secs(6));
    let (link, curator) = arena.linked(builder).await;
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    let stalled = link.stall(Direction::ToClient);
    is_lost_once(&scraped, guard, Loss::LeaseEnded, "lease_ended").await;
    stalled.heal();
}

#[tokio::test]
async fn a_connection_that_breaks_under_a_policy_that_does_not_wait() {
    let (scraped, arena) = (Scraped::new(), Arena::new().await);
    let builder = arena.builder().loss_policy(LossPolicy::Suspended);
    let (link, curator) = arena.linked(builder).await;
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    assert!(link.cut(Cut::Reset) > 0);
    is_lost_once(&scraped, guard, Loss::Suspended, "suspended").await;
}

#[tokio::test]
async fn a_curator_that_is_closed() {
    let (scraped, arena) = (Scraped::new(), Arena::new().await);
    let curator = arena.curator().await;
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    curator.close().await.unwrap();
    is_lost_once(&scraped, guard, Loss::Closed, "closed").await;
}

/// No guard is asked, and no task waits for the loss.
#[tokio::test]
async fn holds_that_nobody_looks_at() {
    let (scraped, arena) = (Scraped::new(), Arena::new().await);
    let curator = arena.curator().await;
    let lock = arena.read_write(&curator);
    let read = lock.read();
    let mut guards = Vec::new();
    for _ in 0..3 {
        guards.push(read.acquire().await.unwrap());
    }
    scraped.is(&[("holding", &[("recipe", "read_lock")], 3.0)]);
    arena.kill_session(&curator).await;
    scraped.comes_to("holding", &[], 0.0).await;
    let expired = [("recipe", "read_lock"), ("cause", "session_expired")];
    scraped.is(&[("losses_total", &expired, 3.0), ("losses_total", &[], 3.0)]);
    drop(guards);
    scraped.is(&[("losses_total", &[], 3.0), ("holding", &[], 0.0)]);
}
