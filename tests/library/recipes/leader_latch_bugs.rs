//! Bugs of Apache Curator's leader latch, by its ids, and of `zookeeper-async`'s, whose absence no other test shows.

use zookeeper_recipes::zookeeper_client::CreateMode;
use zookeeper_recipes::{LeaderLatch, Loss};

use super::latches::{ceased, gained, is_quiet, leadership, the_leader, told};
use crate::harness::{Arena, Cut, Message, Operation, eventually, flap, round_trip, within};

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
        let leads = latches[the_leader(&latches).await].leadership().unwrap();
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
        let now: Vec<_> = latches.iter().filter_map(LeaderLatch::leadership).collect();
        assert_eq!((now.len(), now[0].node()), (1, queue[0].path.as_str()), "round {round}");
    }
}

/// CURATOR-505, 533 and 504: a link that flaps is no event to a latch, whether it leads or waits, and makes it ask for nothing.
#[tokio::test(start_paused = true)]
async fn curator_505_a_flapping_link_is_no_event() {
    let (arena, link, curator) = Arena::with_link(Arena::builder).await;
    let (latch, leads) = arena.leading(&curator).await;
    let waiter = arena.queued(&curator).await;
    let (mut watch, mut of_waiter) = (told(&latch), told(&waiter));
    let (queue, creates) = (latch.participants().await.unwrap(), link.requests(Operation::Create));
    for nth in 0..6 {
        flap(&link, nth).await;
        is_quiet(&mut watch).await;
        is_quiet(&mut of_waiter).await;
        assert!(leads.is_held() && latch.has_leadership());
    }
    assert_eq!(latch.participants().await.unwrap(), queue);
    assert_eq!(link.requests(Operation::Create), creates);
    latch.close().await.unwrap();
    assert_eq!(gained(&mut of_waiter).await.node(), queue[1].path);
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
                let latch = arena.latch(&curator);
                let held = link.hold(message(Operation::Create));
                latch.start().unwrap();
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
        arena.remove(&queue[1].path).await;
        // It makes another, is not told of it, and that is deleted as well.
        within("the reply", reply.struck()).await;
        let queue = rival.participants().await.unwrap();
        arena.remove(&queue[1].path).await;
        if cut {
            link.cut(Cut::Reset);
        }
        reply.heal();
        eventually("a third", async || {
            let now = rival.participants().await.unwrap();
            now.len() == 2 && now[1].path != queue[1].path
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

    /// CURATOR-724. Curator: `TestLeaderLatch#testGetChildrenHitsNoNode`: another server, an empty one, in the place of theirs. Who
    /// comes back first leads there; the old leader, who comes later, is told of its loss and waits.
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
        let (mut watch, mut of_rival) = (told(&latch), told(&rival));
        let empty = Arena::real_own().await;
        let refused = link.refuse();
        arena.server.kill().await.unwrap();
        road.turn_to(empty.server.connect_string());
        let next = gained(&mut of_rival).await;
        assert!(!leads.is_held() && !latch.has_leadership());
        assert!(empty.stat(next.node()).await.is_some());
        refused.heal();
        ceased(&mut watch).await;
        let path = &arena.path;
        eventually("it queues at the tail", async || {
            let queue = crate::harness::children(&empty.admin, path).await;
            queue.len() == 2
        })
        .await;
        assert!(!latch.has_leadership() && next.is_held());
        rival.close().await.unwrap();
        let again = gained(&mut watch).await;
        assert!(empty.stat(again.node()).await.is_some());
    }
}
