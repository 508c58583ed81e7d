//! What a leader latch does while nothing fails.

use zookeeper_recipes::Participant;

use super::latches::{gained, leadership};
use crate::harness::{Arena, within};

/// Curator: `TestLeaderLatch#testUncreatedPathGetLeader` (CURATOR-436).
#[tokio::test(start_paused = true)]
async fn nobody_leads_where_there_is_no_path() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let latch = arena.latch(&curator);
    assert_eq!(latch.leader().await.unwrap(), None);
    assert_eq!(latch.participants().await.unwrap(), []);
    assert!(!latch.has_leadership());
    assert!(latch.leadership().is_none());
    // To look makes nothing.
    assert!(arena.stat(&arena.path).await.is_none());
}

/// Who they are, and whether they lead.
fn named(participants: &[Participant]) -> Vec<(String, bool)> {
    participants.iter().map(|one| (one.id().into_owned(), one.holds)).collect()
}

#[tokio::test(start_paused = true)]
async fn all_are_told_the_leader_first() {
    let arena = Arena::new().await;
    let curators = arena.curators(2).await;
    let mut latches = Vec::new();
    for (place, id) in ["one", "two", "three"].into_iter().enumerate() {
        let latch = arena.latch(&curators[place % 2]).with_id(id).unwrap();
        latch.start().unwrap();
        arena.children_are(place + 1).await;
        latches.push(latch);
    }
    // One that has not been started may ask, and does not take part.
    latches.push(arena.latch(&curators[1]).with_id("four").unwrap());
    let leads = leadership(&latches[0]).await;
    for latch in &latches {
        let all = latch.participants().await.unwrap();
        assert_eq!(
            named(&all),
            [("one".into(), true), ("two".into(), false), ("three".into(), false)]
        );
        assert_eq!(all[0].path, leads.node());
        assert_eq!(all[0].fencing_token(), leads.fencing_token());
        assert_eq!(latch.leader().await.unwrap().as_ref(), Some(&all[0]));
    }
    latches[0].close().await.unwrap();
    let second = leadership(&latches[1]).await;
    let leader = latches[3].leader().await.unwrap().unwrap();
    assert_eq!((leader.id().as_ref(), leader.path.as_str()), ("two", second.node()));
}

/// Every handle is the same latch, whichever it was started by.
#[tokio::test(start_paused = true)]
async fn clones_are_one_latch() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let latch = arena.latch(&curator);
    let clone = latch.clone();
    let mut watch = clone.watch();
    let waiting = tokio::spawn({
        let latch = latch.clone();
        async move { latch.await_leadership().await }
    });
    clone.start().unwrap();
    let leads = within("leadership", waiting).await.unwrap().unwrap();
    assert!(latch.has_leadership() && clone.has_leadership());
    assert_eq!(gained(&mut watch).await.node(), leads.node());
    assert_eq!(arena.children().await.len(), 1);
    drop(clone);
    assert!(latch.has_leadership(), "a handle is left");
    latch.close().await.unwrap();
}
