//! A latch that has lost its leadership and kept its node leads again by that, and nobody else has in between; whoever
//! else of its process waits.

use std::time::Duration;

use zookeeper_recipes::zookeeper_client::CreateMode;
use zookeeper_recipes::{FencedError, Loss, LossPolicy, Revoker};

use super::latches::{ceased, gained, is_quiet, leadership, told};
use crate::harness::{Arena, Cut, Direction, Message, Operation, round_trip, within};

/// The servers do not answer for longer than the lease, but keep the session.
#[tokio::test(start_paused = true)]
async fn after_a_lease_that_ended_it_leads_again_on_the_same_node() {
    let arena = Arena::new().await;
    let builder = arena.builder().session_timeout(Duration::from_secs(12));
    let (link, curator) = arena.linked(builder).await;
    let (latch, leads) = arena.leading(&curator).await;
    // One of the same session, whose turn is told in here, and one of another.
    let behind = arena.queued(&curator).await;
    let rival = arena.queued(&arena.curator().await).await;
    let session = curator.session_id().unwrap();
    let mut watch = told(&latch);
    let mut others = [told(&behind), told(&rival)];
    // The server hears us, so that it keeps the session; we do not hear it.
    let silence = link.stall(Direction::ToClient);
    ceased(&mut watch).await;
    assert_eq!(leads.loss(), Some(Loss::LeaseEnded));
    assert!(!latch.has_leadership() && latch.leadership().is_none());
    silence.heal();
    let again = gained(&mut watch).await;
    assert_eq!(curator.session_id().unwrap(), session, "the session lived");
    assert_eq!(again.node(), leads.node());
    assert_eq!(again.fencing_token(), leads.fencing_token());
    assert!(again.is_held() && latch.has_leadership() && !leads.is_held());
    round_trip(&curator).await;
    for other in &mut others {
        is_quiet(other).await;
    }
    latch.close().await.unwrap();
    let [of_behind, of_rival] = &mut others;
    gained(of_behind).await;
    behind.close().await.unwrap();
    gained(of_rival).await;
}

/// A term on a node that was led by before is one like any other.
#[tokio::test(start_paused = true)]
async fn the_second_term_on_a_node_is_a_whole_one() {
    let arena = Arena::new().await;
    // Its own node is looked after each second or so.
    let strict = arena.builder().session_timeout(Duration::from_secs(8));
    let (link, curator) = arena.linked(strict.loss_policy(LossPolicy::Suspended)).await;
    let (latch, leads) = arena.leading(&curator).await;
    let mut watch = told(&latch);
    link.cut(Cut::Reset);
    ceased(&mut watch).await;
    let again = gained(&mut watch).await;
    assert_eq!(again.node(), leads.node());
    // The first one's writes are refused, though its node is there.
    let path = format!("{}-written", arena.path);
    let refused = leads.fenced().create(&path, b"late").await.unwrap_err();
    assert!(matches!(refused, FencedError::Lost { loss: Loss::Suspended, .. }), "{refused:?}");
    again.fenced().create(&path, b"fine").await.unwrap();
    arena.remove(&path).await;
    // A request to step down is the second's.
    within("the first's end", leads.revocation_requested()).await.unwrap_err();
    let asked = tokio::spawn(again.revocation_requested());
    assert!(Revoker::new(&curator).attempt_revoke(again.node()).await.unwrap());
    within("the request", asked).await.unwrap().unwrap();
    assert!(again.is_held(), "it is a request");
    // And it is told when its node is deleted.
    let lost = tokio::spawn(again.lost());
    arena.remove(again.node()).await;
    assert_eq!(within("the loss", lost).await.unwrap(), Loss::NodeDeleted);
    ceased(&mut watch).await;
    let third = gained(&mut watch).await;
    assert!(third.fencing_token() > again.fencing_token());
    latch.close().await.unwrap();
    arena.children_are(0).await;
}

/// A stray child of another recipe is an error to who enters. It is none to who is there, whatever happens to that.
#[tokio::test(start_paused = true)]
async fn a_stray_child_does_not_keep_a_latch_from_leading_again() {
    let arena = Arena::new().await;
    let strict = arena.builder().loss_policy(LossPolicy::Suspended);
    let (link, curator) = arena.linked(strict).await;
    let (latch, leads) = arena.leading(&curator).await;
    let waits = arena.queued(&curator).await;
    let mut watch = told(&latch);
    arena.create(&format!("{}/lock-0000000007", arena.path), CreateMode::Ephemeral).await;
    link.cut(Cut::Reset);
    ceased(&mut watch).await;
    assert_eq!(gained(&mut watch).await.node(), leads.node());
    latch.close().await.unwrap();
    leadership(&waits).await;
}

/// Somebody deleted the path, and others lead there. Who leaves a place that it has lost in that way, lets nobody of its own
/// process in: the successor's node is gone as well.
#[tokio::test(start_paused = true)]
async fn a_lost_place_that_is_given_up_lets_nobody_in() {
    let arena = Arena::new().await;
    // So long that the process looks after its nodes only later.
    let (link, curator) = arena.linked(arena.patient_builder()).await;
    let (first, leads) = arena.leading(&curator).await;
    let second = arena.queued(&curator).await;
    round_trip(&curator).await;
    let (mut of_first, mut of_second) = (told(&first), told(&second));
    arena.wipe().await;
    let (third, now) = arena.leading(&arena.curator().await).await;
    // So the first learns of it, and looks where it stands.
    let listing = link.hold(Message::request(Operation::List));
    leads.fenced().create(&format!("{}-written", arena.path), b"late").await.unwrap_err();
    ceased(&mut of_first).await;
    within("a listing", listing.struck()).await;
    let closing = tokio::spawn(async move { first.close().await });
    let told = tokio::time::timeout(Duration::from_millis(500), of_second.changed()).await;
    assert!(told.is_err(), "two lead: {told:?}");
    listing.heal();
    within("the close", closing).await.unwrap().unwrap();
    round_trip(&curator).await;
    is_quiet(&mut of_second).await;
    assert!(now.is_held() && !second.has_leadership());
    third.close().await.unwrap();
    assert!(gained(&mut of_second).await.fencing_token() > now.fencing_token());
}
