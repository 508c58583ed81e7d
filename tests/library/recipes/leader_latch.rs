//! How a leader latch begins, ends, and leads again after it lost its leadership. If it has kept its node, it leads by that node, and no
//! other latch leads in between. Bugs of Apache Curator's latch have their ids here.

use futures_util::FutureExt;

use crate::prelude::*;
use crate::support::counted_client::settle;
use crate::support::latches::{awaited, gained, is_candidate, is_over, leadership};

/// CURATOR-110. Curator: `TestLeaderLatch#testNoServerAtStart`: one gain, no loss.
#[tokio::test(start_paused = true)]
async fn a_latch_is_a_candidate_at_once_and_needs_no_connection() {
    let testbed = Testbed::new().await;
    let (_link, refused, curator) = testbed.unconnected(testbed.builder()).await;
    let latch = testbed.latch(&curator);
    within("a refusal", refused.struck()).await;
    is_candidate(&latch);
    assert_eq!(curator.state(), ConnectionState::Connecting);
    refused.heal();
    let leads = leadership(&latch).await;
    assert_eq!(curator.state(), ConnectionState::Connected);
    round_trip(&curator).await;
    assert!(leads.is_held() && latch.is_leader());
    assert_eq!(testbed.children().await.len(), 1);
    latch.close().await.unwrap();
}

/// Curator: `TestLeaderLatch#testProperCloseWithoutConnectionEstablished`.
#[tokio::test(start_paused = true)]
async fn a_latch_that_was_closed_before_any_connection_never_takes_part() {
    let testbed = Testbed::new().await;
    let (link, refused, curator) = testbed.unconnected(testbed.builder()).await;
    let (closed, dropped) = (testbed.latch(&curator), testbed.latch(&curator));
    within("a refusal", refused.struck()).await;
    within("the close", closed.close()).await.unwrap();
    drop(dropped);
    assert_eq!(is_over(&closed).await, ErrorKind::Closed);
    refused.heal();
    until(&curator, ConnectionState::Connected).await;
    round_trip(&curator).await;
    assert_eq!(link.requests(Operation::Create), 0);
    assert!(testbed.stat(&testbed.path).await.is_none());
    // The curator is as good as new.
    let (latch, _) = testbed.leading_latch(&curator).await;
    latch.close().await.unwrap();
}

/// The candidate never led.
#[tokio::test(start_paused = true)]
async fn a_close_returns_when_the_node_is_known_to_be_deleted() {
    let (testbed, link, curator) = Testbed::with_link(Testbed::builder).await;
    let leader = testbed.leading_latch(&testbed.curator().await).await;
    let candidate = testbed.queued_latch(&curator).await;
    let late = link.hold(Message::request(Operation::Delete));
    let closing = tokio::spawn(async move { candidate.close().await });
    within("the delete", late.struck()).await;
    settle().await;
    assert!(!closing.is_finished());
    late.heal();
    assert_eq!(within("the close", closing).await.unwrap().unwrap(), Released::Confirmed);
    assert_eq!(testbed.children().await.len(), 1);
    leader.0.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_latch_closes_once_and_its_callers_get_an_error() {
    let (testbed, curator) = Testbed::with_curator().await;
    let (latch, leads) = testbed.leading_latch(&curator).await;
    let candidate = testbed.queued_latch(&curator).await;
    let waiting = [awaited(&candidate), awaited(&candidate)];
    round_trip(&curator).await;
    is_candidate(&candidate);
    for latch in [&candidate, &latch] {
        let (one, another) = tokio::join!(latch.close(), latch.close());
        for closed in [one, another, latch.close().await] {
            assert_eq!(closed.unwrap(), Released::Confirmed);
        }
        assert_eq!(is_over(latch).await, ErrorKind::Closed);
    }
    assert_eq!(testbed.children().await.len(), 0, "confirmed");
    for waiting in waiting {
        let error = within("the end", waiting).await.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::Closed, Some(testbed.path.as_str())));
    }
    assert!(!leads.is_held() && leads.loss().is_none(), "it was not lost");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_closes() {
    let (testbed, curators) = Testbed::with_curators::<2>().await;
    let (latch, leads) = testbed.leading_latch(&curators[0]).await;
    let rival = testbed.queued_latch(&curators[1]).await;
    let clone = latch.clone();
    drop(latch);
    round_trip(&curators[0]).await;
    assert!(leads.is_held() && clone.is_leader(), "a clone is left");
    drop(clone);
    // A hold does not keep it open.
    let next = leadership(&rival).await;
    assert!(!leads.is_held() && leads.loss().is_none());
    assert!(next.fencing_token() > leads.fencing_token());
    drop(rival);
    testbed.children_are(0).await;
}

/// Each caller gets the error, and the latch sends few more requests.
async fn is_refused(link: &Link, curator: &Curator, path: &str) {
    let latch = curator.leader_latch(path).unwrap();
    let waiting = awaited(&latch);
    let error = within("the refusal", waiting).await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::PermissionDenied, Some(path)));
    // No storm: Curator's selector asked 738 times a second. What was sent along with the create has arrived.
    round_trip(curator).await;
    link.clear_log();
    tokio::time::sleep(Duration::from_secs(60)).await;
    round_trip(curator).await;
    assert_eq!(is_over(&latch).await, ErrorKind::PermissionDenied);
    let mut log = link.log();
    // Probes.
    log.retain(|one| *one != Operation::Sync);
    // Some twelve tries, with six requests each where the path is missing.
    assert!(log.len() < 100, "{log:?}");
    within("the close", latch.close()).await.unwrap();
}

/// Curator: `TestLeaderAcls#testAclErrorWithLeader` (CURATOR-365).
#[tokio::test(start_paused = true)]
async fn a_latch_without_permission_says_so_and_does_not_spin() {
    let testbed = Testbed::new().await;
    let builder = testbed.builder().auth("digest", b"ours:secret").acls(Acls::creator_all());
    let ours = testbed.connect(builder).await;
    let (latch, _) = testbed.leading_latch(&ours).await;
    latch.close().await.unwrap();
    let (link, stranger) = testbed.linked(testbed.builder()).await;
    let second = format!("{}/second", testbed.path);
    for path in [&testbed.path, &second] {
        is_refused(&link, &stranger, path).await;
    }
    assert!(testbed.stat(&second).await.is_none());
    // A permitted client is not disturbed.
    let (latch, _) = testbed.leading_latch(&ours).await;
    latch.close().await.unwrap();
    // Nor may a stranger make its namespace, once there is a session.
    let namespace = format!("{}/namespace", testbed.path);
    let (_link, refused, stranger) =
        testbed.unconnected(testbed.builder().namespace(&namespace)).await;
    let latch = stranger.leader_latch("/latch").unwrap();
    within("a refusal", refused.struck()).await;
    is_candidate(&latch);
    refused.heal();
    let error = within("the refusal", latch.leadership()).await.unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::PermissionDenied, Some(&*namespace)));
    within("the close", latch.close()).await.unwrap();
}

/// `zookeeper-async` keeps node and listener when the delete fails, and panics at the second stop.
#[tokio::test(start_paused = true)]
async fn a_close_that_may_not_delete_says_so_and_does_not_lead_any_more() {
    let testbed = Testbed::new().await;
    testbed.restrict(Permission::CREATE | Permission::READ).await;
    let curator = testbed.curator().await;
    let (latch, leads) = testbed.leading_latch(&curator).await;
    for _ in 0..2 {
        let error = within("the close", latch.close()).await.unwrap_err();
        let expected = (ErrorKind::PermissionDenied, Some(leads.node()));
        assert_eq!((error.kind(), error.path()), expected);
        assert!(!latch.is_leader() && !leads.is_held());
    }
    assert_eq!(is_over(&latch).await, ErrorKind::Closed);
    // It is still in the way of the next, and goes with the session at the latest.
    assert_eq!(testbed.children().await.len(), 1);
    within("the end", curator.close()).await;
    testbed.children_are(0).await;
}

/// The servers do not answer for longer than the lease, but keep the session.
#[tokio::test(start_paused = true)]
async fn after_a_lease_that_ended_it_leads_again_on_the_same_node() {
    let testbed = Testbed::new().await;
    let builder = testbed.builder().session_timeout(Duration::from_secs(12));
    let (link, curator) = testbed.linked(builder).await;
    let (latch, leads) = testbed.leading_latch(&curator).await;
    // One of the same session, and one of another.
    let behind = testbed.queued_latch(&curator).await;
    let rival = testbed.queued_latch(&testbed.curator().await).await;
    let session = curator.session_id().unwrap();
    let others = [awaited(&behind), awaited(&rival)];
    // The server hears us, so that it keeps the session; we do not hear it.
    let silence = link.stall(Direction::ToClient);
    assert_eq!(within("the loss", leads.lost()).await, Loss::LeaseEnded);
    is_candidate(&latch);
    silence.heal();
    let again = leadership(&latch).await;
    assert_eq!(curator.session_id().unwrap(), session, "the session lived");
    assert_eq!(again.node(), leads.node());
    assert_eq!(again.fencing_token(), leads.fencing_token());
    assert!(again.is_held() && latch.is_leader() && !leads.is_held());
    round_trip(&curator).await;
    assert!(others.iter().all(|other| !other.is_finished()), "{others:?}");
    latch.close().await.unwrap();
    let [of_behind, of_rival] = others;
    gained(of_behind).await;
    behind.close().await.unwrap();
    gained(of_rival).await;
}

/// A term on a node that was led by before is one like any other.
#[tokio::test(start_paused = true)]
async fn the_second_term_on_a_node_is_a_whole_one() {
    let testbed = Testbed::new().await;
    // Its own node is looked after each second or so.
    let strict = testbed.builder().session_timeout(Duration::from_secs(8));
    let (link, curator) = testbed.linked(strict.loss_policy(LossPolicy::Suspended)).await;
    let (latch, leads) = testbed.leading_latch(&curator).await;
    link.cut(Cut::Reset);
    assert_eq!(within("the loss", leads.lost()).await, Loss::Suspended);
    let again = leadership(&latch).await;
    assert_eq!((again.node(), again.fencing_token()), (leads.node(), leads.fencing_token()));
    // The first one's writes are refused, though its node is there.
    let path = format!("{}-written", testbed.path);
    let refused = leads.fenced().create(&path, b"late").await.unwrap_err();
    assert_eq!((refused.kind(), refused.loss()), (ErrorKind::Lost, Some(Loss::Suspended)));
    again.fenced().create(&path, b"fine").await.unwrap();
    testbed.remove(&path).await;
    // A request to step down is the second's.
    let asks = Revoker::new(&curator);
    let (revoked, ()) = within("the request", async {
        tokio::join!(asks.attempt_revoke(again.node()), again.revocation_requested())
    })
    .await;
    assert!(revoked.unwrap() && again.is_held(), "it is a request");
    assert!(leads.revocation_requested().now_or_never().is_none());
    // And it is told when its node is deleted.
    testbed.remove(again.node()).await;
    assert_eq!(within("the loss", again.lost()).await, Loss::NodeDeleted);
    let third = leadership(&latch).await;
    assert!(third.fencing_token() > again.fencing_token());
    latch.close().await.unwrap();
    testbed.children_are(0).await;
}

/// A stray child of another recipe is an error to a latch that enters, and none to a latch that has a node.
#[tokio::test(start_paused = true)]
async fn a_stray_child_does_not_keep_a_latch_from_leading_again() {
    let testbed = Testbed::new().await;
    let strict = testbed.builder().loss_policy(LossPolicy::Suspended);
    let (link, curator) = testbed.linked(strict).await;
    let (latch, leads) = testbed.leading_latch(&curator).await;
    let waits = testbed.queued_latch(&curator).await;
    // It is behind the leader by a listing of its own, which is answered.
    eventually("its listing", async || link.requests(Operation::List) >= 2).await;
    round_trip(&curator).await;
    testbed.create(&format!("{}/lock-0000000007", testbed.path), CreateMode::Ephemeral).await;
    link.cut(Cut::Reset);
    within("the loss", leads.lost()).await;
    assert_eq!(leadership(&latch).await.node(), leads.node());
    latch.close().await.unwrap();
    leadership(&waits).await;
}

/// Another client deleted the path, and another latch leads there. A latch that leaves a place that it has lost in that way admits
/// no other latch of its process, because the nodes of those are deleted as well.
#[tokio::test(start_paused = true)]
async fn a_lost_place_that_is_given_up_admits_no_other_latch() {
    let testbed = Testbed::new().await;
    // So long that the process looks after its nodes only later.
    let (link, curator) = testbed.linked(testbed.patient_builder()).await;
    let (first, leads) = testbed.leading_latch(&curator).await;
    let second = testbed.queued_latch(&curator).await;
    round_trip(&curator).await;
    let mut of_second = awaited(&second);
    testbed.wipe().await;
    let (third, now) = testbed.leading_latch(&testbed.curator().await).await;
    // So the first learns of it, and looks where it stands.
    let listing = link.hold(Message::request(Operation::List));
    leads.fenced().create(&format!("{}-written", testbed.path), b"late").await.unwrap_err();
    within("the loss", leads.lost()).await;
    within("a listing", listing.struck()).await;
    let closing = tokio::spawn(async move { first.close().await });
    let told = tokio::time::timeout(Duration::from_millis(500), &mut of_second).await;
    assert!(told.is_err(), "two lead: {told:?}");
    listing.heal();
    within("the close", closing).await.unwrap().unwrap();
    round_trip(&curator).await;
    assert!(now.is_held() && !of_second.is_finished());
    third.close().await.unwrap();
    assert!(gained(of_second).await.fencing_token() > now.fencing_token());
}

/// The first leads under a node that no task watches yet. The second hears of the deletions, and asks for a new place.
#[tokio::test(start_paused = true)]
async fn of_two_latches_of_a_process_whose_nodes_are_deleted_the_first_ends_before_the_second_leads()
 {
    let testbed = Testbed::new().await;
    let curator = testbed.patient_curator().await;
    for with_parent in [false, true] {
        let path = format!("{}/{with_parent}", testbed.path);
        let first = curator.leader_latch(&path).unwrap();
        let leads = first.leadership().await.unwrap();
        let second = curator.leader_latch(&path).unwrap();
        eventually("two candidates", async || children(&testbed.admin, &path).await.len() == 2)
            .await;
        let mut nodes: Vec<_> = children(&testbed.admin, &path).await;
        nodes.iter_mut().for_each(|node| *node = format!("{path}/{node}"));
        nodes.extend(with_parent.then(|| path.clone()));
        testbed.admin.delete_all(&nodes).await;
        let next = within("a leader", async {
            tokio::select! {
                next = second.leadership() => next.unwrap(),
                next = async {
                    leads.lost().await;
                    first.leadership().await
                } => next.unwrap(),
            }
        });
        let next = next.await;
        assert_eq!(leads.loss(), Some(Loss::NodeDeleted), "with the parent: {with_parent}");
        assert!(next.is_held());
        first.close().await.unwrap();
        second.close().await.unwrap();
    }
}
