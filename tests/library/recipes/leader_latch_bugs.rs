//! Bugs of Apache Curator's leader latch, by its ids, and of `zookeeper-async`'s, whose absence no other test shows.

use zookeeper_recipes::Loss;

use super::latches::{
    LONG_SESSION, ceased, gained, is_quiet, leaders, leadership, the_leader, told,
};
use crate::harness::{Arena, Operation, eventually, flap, within};

/// CURATOR-653 and 652. Curator: `TestLeaderLatch#testResettingOfLeadershipAfterConcurrentLeadershipChange`: leader and
/// candidate lose their nodes at the same time, and whatever they do then in whatever order, one leads, and the other
/// knows that it does not.
#[tokio::test(start_paused = true)]
async fn curator_653_of_two_that_begin_anew_together_one_leads() {
    let arena = Arena::new().await;
    // A leader's own node is looked after more often in a short session.
    let builder = arena.short_lived_builder();
    let curators = [arena.connect(builder.clone()).await, arena.connect(builder).await];
    let latches = [arena.queued(&curators[0]).await, arena.queued(&curators[1]).await];
    let mut last = None;
    for round in 0..5 {
        let leader = the_leader(&latches).await;
        let (of_leader, of_other) = (&latches[leader], &latches[1 - leader]);
        let leads = leadership(of_leader).await;
        assert!(Some(leads.fencing_token()) > last, "invariant 4");
        last = Some(leads.fencing_token());
        let mut watch = told(of_leader);
        arena.children_are(2).await;
        let before = arena.children().await;
        let both: Vec<_> = before.iter().map(|one| format!("{}/{one}", arena.path)).collect();
        arena.admin.delete_all(&both).await;
        ceased(&mut watch).await;
        eventually("both are back", async || {
            let now = arena.children().await;
            now.len() == 2 && now.iter().all(|child| !before.contains(child))
        })
        .await;
        let leader = the_leader(&latches).await;
        let queue = of_other.participants().await.unwrap();
        let now = latches[leader].leadership().unwrap();
        assert_eq!(queue[0].path, now.node(), "round {round}");
        assert!(latches[1 - leader].leadership().is_none());
    }
}

/// The same on servers that go on, where somebody deletes the latch path with all that is in it.
#[tokio::test(start_paused = true)]
async fn curator_724_latches_begin_anew_when_the_path_is_deleted() {
    let arena = Arena::new().await;
    let curators = arena.curators(3).await;
    let mut latches = Vec::new();
    for curator in &curators {
        latches.push(arena.queued(curator).await);
    }
    let leads = leadership(&latches[0]).await;
    let before = arena.children().await;
    arena.wipe().await;
    assert_eq!(within("the loss", leads.lost()).await, Loss::NodeDeleted);
    eventually("all are back", async || {
        let now = arena.children().await;
        now.len() == 3 && now.iter().all(|child| !before.contains(child))
    })
    .await;
    let leader = the_leader(&latches).await;
    let now = latches[leader].leadership().unwrap();
    assert!(now.fencing_token() > leads.fencing_token(), "though the numbers start again");
    assert_eq!(leaders(&latches), 1);
}

/// CURATOR-505, 533 and 504: a link that flaps is no event to a latch, whether it leads or waits, and makes it ask for nothing.
#[tokio::test(start_paused = true)]
async fn curator_505_a_flapping_link_is_no_event() {
    let arena = Arena::new().await;
    let (link, curator) = arena.linked(arena.builder().session_timeout(LONG_SESSION)).await;
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
