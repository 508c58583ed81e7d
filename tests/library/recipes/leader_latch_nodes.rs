//! Bugs of Apache Curator's leader latch, by its ids, around the node of one candidate: it is made, looked for, or the next
//! is about to watch it, and something happens. The others: [`leader_latch_bugs`](super::leader_latch_bugs).

use std::time::Duration;

use zookeeper_recipes::zookeeper_client::CreateMode;

use super::latches::{LONG_SESSION, leadership};
use crate::harness::{Arena, Cut, Message, Operation, eventually, round_trip, within};

/// CURATOR-18. Curator: `TestLeaderLatch#testCreateDeleteRace`: closed, or dropped, while its create is under way, to the
/// server or back.
#[tokio::test(start_paused = true)]
async fn curator_18_a_latch_that_goes_while_it_creates_leaves_no_node() {
    let arena = Arena::new().await;
    arena.create(&arena.path, CreateMode::Persistent).await;
    let (link, curator) = arena.linked(arena.builder().session_timeout(LONG_SESSION)).await;
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
    let arena = Arena::new().await;
    let (link, curator) = arena.linked(arena.builder().session_timeout(LONG_SESSION)).await;
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

/// The latch of `zookeeper-async` answers nothing any more when it has to begin anew.
#[tokio::test(start_paused = true)]
async fn a_latch_that_begins_anew_answers_as_before() {
    let arena = Arena::new().await;
    let (link, curator) = arena.linked(arena.builder()).await;
    let (latch, leads) = arena.leading(&curator).await;
    let reply = link.hold(Message::reply(Operation::Create));
    arena.remove(leads.node()).await;
    within("another create", reply.struck()).await;
    assert!(!latch.has_leadership() && latch.leadership().is_none());
    assert_eq!(latch.path(), arena.path);
    let waits = latch.await_leadership_timeout(Duration::from_millis(50)).await;
    assert!(waits.unwrap().is_none());
    let looks = arena.latch(&arena.curator().await);
    assert_eq!(looks.participants().await.unwrap().len(), 1);
    reply.heal();
    leadership(&latch).await;
}
