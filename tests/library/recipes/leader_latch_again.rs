//! A latch that lost its leadership leads again. If it has kept its node, it leads by that, and no other latch leads in between.
//! And bugs of Apache Curator's latch, by their ids, and of `zookeeper-async`'s: no other test shows that they are absent.

use std::time::Duration;

use futures_util::FutureExt;
use zookeeper_recipes::interop::{LossPolicy, Revoker};
use zookeeper_recipes::zookeeper_client::CreateMode;
use zookeeper_recipes::{ErrorKind, Loss};

use super::latches::{awaited, gained, is_candidate, leadership, the_leader};
use crate::harness::{
    Arena, Cut, Direction, Message, Operation, eventually, flap, round_trip, within,
};

/// The servers do not answer for longer than the lease, but keep the session.
#[tokio::test(start_paused = true)]
async fn after_a_lease_that_ended_it_leads_again_on_the_same_node() {
    let arena = Arena::new().await;
    let builder = arena.builder().session_timeout(Duration::from_secs(12));
    let (link, curator) = arena.linked(builder).await;
    let (latch, leads) = arena.leading(&curator).await;
    // One of the same session, and one of another.
    let behind = arena.queued(&curator).await;
    let rival = arena.queued(&arena.curator().await).await;
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
    let arena = Arena::new().await;
    // Its own node is looked after each second or so.
    let strict = arena.builder().session_timeout(Duration::from_secs(8));
    let (link, curator) = arena.linked(strict.loss_policy(LossPolicy::Suspended)).await;
    let (latch, leads) = arena.leading(&curator).await;
    link.cut(Cut::Reset);
    assert_eq!(within("the loss", leads.lost()).await, Loss::Suspended);
    let again = leadership(&latch).await;
    assert_eq!(again.node(), leads.node());
    // The first one's writes are refused, though its node is there.
    let path = format!("{}-written", arena.path);
    let refused = leads.fenced().create(&path, b"late").await.unwrap_err();
    assert_eq!((refused.kind(), refused.loss()), (ErrorKind::Lost, Some(Loss::Suspended)));
    again.fenced().create(&path, b"fine").await.unwrap();
    arena.remove(&path).await;
    // A request to step down is the second's.
    let asks = Revoker::new(&curator);
    let (revoked, ()) = within("the request", async {
        tokio::join!(asks.attempt_revoke(again.node()), again.revocation_requested())
    })
    .await;
    assert!(revoked.unwrap() && again.is_held(), "it is a request");
    assert!(leads.revocation_requested().now_or_never().is_none());
    // And it is told when its node is deleted.
    arena.remove(again.node()).await;
    assert_eq!(within("the loss", again.lost()).await, Loss::NodeDeleted);
    let third = leadership(&latch).await;
    assert!(third.fencing_token() > again.fencing_token());
    latch.close().await.unwrap();
    arena.children_are(0).await;
}

/// A stray child of another recipe is an error to a latch that enters, and none to a latch that has a node.
#[tokio::test(start_paused = true)]
async fn a_stray_child_does_not_keep_a_latch_from_leading_again() {
    let arena = Arena::new().await;
    let strict = arena.builder().loss_policy(LossPolicy::Suspended);
    let (link, curator) = arena.linked(strict).await;
    let (latch, leads) = arena.leading(&curator).await;
    let waits = arena.queued(&curator).await;
    // The listing that was sent with its create is answered.
    round_trip(&curator).await;
    arena.create(&format!("{}/lock-0000000007", arena.path), CreateMode::Ephemeral).await;
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
    let arena = Arena::new().await;
    // So long that the process looks after its nodes only later.
    let (link, curator) = arena.linked(arena.patient_builder()).await;
    let (first, leads) = arena.leading(&curator).await;
    let second = arena.queued(&curator).await;
    round_trip(&curator).await;
    let mut of_second = awaited(&second);
    arena.wipe().await;
    let (third, now) = arena.leading(&arena.curator().await).await;
    // So the first learns of it, and looks where it stands.
    let listing = link.hold(Message::request(Operation::List));
    leads.fenced().create(&format!("{}-written", arena.path), b"late").await.unwrap_err();
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

/// CURATOR-653 and 652. Curator: `TestLeaderLatch#testResettingOfLeadershipAfterConcurrentLeadershipChange`: leader and
/// candidates lose their nodes at the same time, and whatever they do then in whatever order, one leads, and the others
/// know that they do not. CURATOR-724: also where the path is deleted with them.
#[tokio::test(start_paused = true)]
async fn curator_653_of_all_that_begin_anew_together_one_leads() {
    let arena = Arena::new().await;
    // A leader's own node is looked after more often in a short session.
    let mut latches = Vec::new();
    for _ in 0..3 {
        latches.push(arena.queued(&arena.short_lived_curator().await).await);
    }
    let mut last = None;
    for round in 0..5 {
        let leads = leadership(&latches[the_leader(&latches).await]).await;
        assert!(Some(leads.fencing_token()) > last, "invariant 4, though the numbers start again");
        last = Some(leads.fencing_token());
        let before = arena.children().await;
        if round == 0 {
            arena.wipe().await;
        } else {
            let all: Vec<_> = before.iter().map(|one| format!("{}/{one}", arena.path)).collect();
            arena.admin.delete_all(&all).await;
        }
        assert_eq!(within("the loss", leads.lost()).await, Loss::NodeDeleted);
        eventually("all are back", async || {
            let now = arena.children().await;
            now.len() == 3 && now.iter().all(|child| !before.contains(child))
        })
        .await;
        let leader = the_leader(&latches).await;
        let queue = latches[(leader + 1) % 3].participants().await.unwrap();
        assert_eq!(latches.iter().filter(|latch| latch.is_leader()).count(), 1, "round {round}");
        assert_eq!(leadership(&latches[leader]).await.node(), queue[0].node);
    }
}

/// CURATOR-505, 533 and 504: a link that flaps is no event to a latch, whether it leads or waits, and makes it ask for nothing.
#[tokio::test(start_paused = true)]
async fn curator_505_a_flapping_link_is_no_event() {
    let (arena, link, curator) = Arena::with_link(Arena::builder).await;
    let (latch, leads) = arena.leading(&curator).await;
    let waiter = arena.queued(&curator).await;
    let of_waiter = awaited(&waiter);
    let (queue, creates) = (latch.participants().await.unwrap(), link.requests(Operation::Create));
    for nth in 0..6 {
        flap(&link, nth).await;
        assert!(leads.is_held() && latch.is_leader() && !of_waiter.is_finished());
    }
    assert_eq!(latch.participants().await.unwrap(), queue);
    assert_eq!(link.requests(Operation::Create), creates);
    latch.close().await.unwrap();
    assert_eq!(gained(of_waiter).await.node(), queue[1].node);
}

/// CURATOR-18. Curator: `TestLeaderLatch#testCreateDeleteRace`: closed, or dropped, while its create is under way, to the
/// server or back.
#[tokio::test(start_paused = true)]
async fn curator_18_a_latch_that_goes_while_it_creates_leaves_no_node() {
    let arena = Arena::new().await;
    arena.create(&arena.path, CreateMode::Persistent).await;
    let (link, curator) = arena.linked(arena.builder()).await;
    for message in [Message::request, Message::reply] {
        for lost in [false, true] {
            for dropped in [false, true] {
                let held = link.hold(message(Operation::Create));
                let latch = arena.latch(&curator);
                within("the create", held.struck()).await;
                let closing = (!dropped).then(|| {
                    let latch = latch.clone();
                    tokio::spawn(async move { latch.close().await })
                });
                drop(latch);
                if lost {
                    link.cut(Cut::Reset);
                }
                held.heal();
                if let Some(closing) = closing {
                    within("the close", closing).await.unwrap().unwrap();
                    assert_eq!(arena.children().await.len(), 0, "confirmed");
                }
                // What was sent has arrived.
                round_trip(&curator).await;
                arena.children_are(0).await;
            }
        }
    }
}

/// Issue 257. Curator: `TestLeaderLatch#testResetRace`: it has to begin anew while it does so already.
#[tokio::test(start_paused = true)]
async fn curator_issue_257_a_latch_that_begins_anew_twice_has_one_node() {
    let (arena, link, curator) = Arena::with_link(Arena::builder).await;
    let rival = arena.queued(&arena.curator().await).await;
    let latch = arena.queued(&curator).await;
    // The reply to its first create is through.
    round_trip(&curator).await;
    for cut in [false, true] {
        let reply = link.hold(Message::reply(Operation::Create));
        let queue = rival.participants().await.unwrap();
        arena.remove(&queue[1].node).await;
        // It makes another, is not told of it, and that is deleted as well.
        within("the reply", reply.struck()).await;
        let queue = rival.participants().await.unwrap();
        arena.remove(&queue[1].node).await;
        if cut {
            link.cut(Cut::Reset);
        }
        reply.heal();
        eventually("a third", async || {
            let now = rival.participants().await.unwrap();
            now.len() == 2 && now[1].node != queue[1].node
        })
        .await;
        round_trip(&curator).await;
        assert_eq!(arena.children().await.len(), 2);
    }
    rival.close().await.unwrap();
    leadership(&latch).await;
    assert_eq!(arena.children().await.len(), 1);
}

mod real {
    use super::*;
    use zookeeper_testkit::FaultProxy;

    use crate::real::bad_servers::Road;

    /// CURATOR-724. Curator: `TestLeaderLatch#testGetChildrenHitsNoNode`: another server, an empty one, in the
    /// place of theirs. The first latch that comes back leads there. The old leader comes later, learns of its loss, and waits.
    #[tokio::test(flavor = "multi_thread")]
    async fn curator_724_latches_begin_anew_on_servers_that_lost_everything() {
        let arena = Arena::real_own().await;
        let road = Road::to(arena.server.connect_string()).await;
        let link = FaultProxy::start(&road.connect_string).await.unwrap();
        let short = || arena.short_lived_builder();
        let ours = short().connect(link.connect_string()).await.unwrap();
        let theirs = short().connect(&road.connect_string).await.unwrap();
        let (latch, leads) = arena.leading(&ours).await;
        let rival = arena.queued(&theirs).await;
        let of_rival = awaited(&rival);
        let empty = Arena::real_own().await;
        let refused = link.refuse();
        arena.server.kill().await.unwrap();
        road.turn_to(empty.server.connect_string());
        let next = gained(of_rival).await;
        assert!(!leads.is_held());
        is_candidate(&latch);
        assert!(empty.stat(next.node()).await.is_some());
        refused.heal();
        eventually("it queues at the tail", async || {
            crate::harness::children(&empty.admin, &arena.path).await.len() == 2
        })
        .await;
        assert!(!latch.is_leader() && next.is_held());
        rival.close().await.unwrap();
        let again = leadership(&latch).await;
        assert!(empty.stat(again.node()).await.is_some());
    }
}
