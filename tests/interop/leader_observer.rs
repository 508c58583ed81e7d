//! Our observer, of leaders of others'. It takes no part, and so is in the test's own process.

use std::sync::Arc;

use zookeeper_recipes::{ContenderFilter, Curator, LeaderObserver, LeaderSelector};

use crate::harness::within;
use crate::matrix::{OBSERVES, shown};
use crate::pair::Stage;
use crate::peer::Peer;
use crate::peers;

/// Who is told next; no text is nobody.
async fn next(observer: &mut LeaderObserver) -> String {
    let told = within("somebody or nobody leads", observer.changed()).await.unwrap();
    told.map(|leader| leader.id().into_owned()).unwrap_or_default()
}

/// One after the other, with another in between who waits.
async fn observes(
    theirs: (&Arc<Peer>, &str),
    ours: &str,
    observer: impl FnOnce(&Curator, &str) -> LeaderObserver,
) {
    let stage = Stage::new().await;
    let mut observer = observer(&stage.arena.curator().await, stage.path());
    assert_eq!(next(&mut observer).await, "");
    let mut candidates = Vec::new();
    for (peer, kind, id) in [
        (theirs.0, theirs.1, "first of theirs"),
        (&peers::ours(), ours, "one of ours"),
        (theirs.0, theirs.1, "last of theirs"),
    ] {
        let party = stage.party(peer).await;
        candidates.push((party.lock_with_id(kind, id, stage.path()).await, id));
    }
    let [(first, _), others @ ..] = &candidates[..] else { unreachable!() };
    first.acquire().await;
    assert_eq!(next(&mut observer).await, candidates[0].1);
    let mut waiting = Vec::new();
    for (place, (other, _)) in others.iter().enumerate() {
        waiting.push(other.begin_acquire());
        stage.queues_behind(place + 1).await;
    }
    first.release().await;
    for (waits, (other, id)) in waiting.into_iter().zip(others) {
        waits.await;
        assert_eq!(next(&mut observer).await, *id);
        assert_eq!(observer.leader().unwrap().id(), *id);
        other.release().await;
    }
    assert_eq!(next(&mut observer).await, "");
    stage.nodes_are(0).await;
}

#[tokio::test]
async fn of_curators_leaders() {
    let Some(theirs) = peers::curator() else { return };
    let of_latch = |curator: &Curator, path: &str| LeaderObserver::of_latch(curator, path).unwrap();
    observes((&theirs, "latch"), "latch", of_latch).await;
    let of_selector =
        |curator: &Curator, path: &str| LeaderObserver::of_selector(curator, path).unwrap();
    observes((&theirs, "selector"), "selector", of_selector).await;
    shown(("observer", "ours, of Curator's latches and selectors", OBSERVES), "");
}

#[tokio::test]
async fn of_kazoos_leaders() {
    let Some(theirs) = peers::kazoo() else { return };
    let observer = |curator: &Curator, path: &str| {
        let selector = LeaderSelector::new(curator, path).unwrap();
        selector.with_filter(ContenderFilter::Kazoo).unwrap().observe()
    };
    observes((&theirs, "stock-election"), "selector-kazoo", observer).await;
    shown(("observer", "ours by a selector's filter, of kazoo's `Election`", OBSERVES), "");
}
