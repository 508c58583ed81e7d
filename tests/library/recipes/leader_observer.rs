//! `LeaderObserver`: who leads, and that nobody does, as seen by who does not take part.

use futures_util::StreamExt;
use zookeeper_recipes::zookeeper_client::{Acls, CreateMode, Permission};
use zookeeper_recipes::{AcquireError, Curator, LeaderError, LeaderObserver, Participant};

use super::leading::Led;
use crate::harness::{Arena, anyone, round_trip, within};

async fn told(observer: &mut LeaderObserver) -> Option<Participant> {
    within("who leads", observer.changed()).await.unwrap()
}

/// Waits until it has been told that this node leads.
async fn told_of(observer: &mut LeaderObserver, node: &str) -> Participant {
    loop {
        if let Some(leader) = told(observer).await
            && leader.path == node
        {
            return leader;
        }
    }
}

/// Nothing is told without a change. What comes later is behind what this asks.
async fn is_told_nothing(observer: &mut LeaderObserver, curator: &Curator) {
    round_trip(curator).await;
    let told = tokio::time::timeout(std::time::Duration::from_millis(50), observer.changed());
    if let Ok(told) = told.await {
        panic!("{told:?}");
    }
}

impl Arena {
    fn observer(&self, curator: &Curator) -> LeaderObserver {
        LeaderObserver::of_selector(curator, &self.path).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn it_tells_each_leader_and_that_there_is_none() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let selector = arena.selector(&curator).with_id("me").unwrap();
    let mut observer = arena.observer(&other);
    assert_eq!(told(&mut observer).await, None, "the path is not there");
    let mut led = Led::obedient(&selector);
    for _ in 0..3 {
        let term = led.leads().await;
        let leader = told(&mut observer).await.unwrap();
        assert_eq!((leader.id().as_ref(), leader.holds), ("me", true));
        assert_eq!(leader.path, term.leadership.node());
        assert_eq!(leader.fencing_token(), term.leadership.fencing_token());
        assert_eq!(leader.session, curator.session_id().unwrap());
        assert_eq!(observer.leader(), Some(leader));
        is_told_nothing(&mut observer, &other).await;
        term.end();
        assert_eq!(told(&mut observer).await, None);
        assert_eq!(observer.leader(), None);
        led.report().await.unwrap();
        assert!(led.run.requeue().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_a_stream() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let mut observer = arena.observer(&other);
    assert_eq!(within("nobody", observer.next()).await, Some(None));
    let mut led = Led::obedient(&arena.selector(&curator));
    let term = led.leads().await;
    let leader = within("a leader", observer.next()).await.unwrap().unwrap();
    assert_eq!(leader.path, term.leadership.node());
    term.end();
    assert_eq!(within("nobody", observer.next()).await, Some(None));
    within("the end", other.close()).await.unwrap();
    assert_eq!(within("the end of the stream", observer.next()).await, None);
    assert_eq!(within("the same", observer.next()).await, None);
    let error = within("the reason", observer.changed()).await.unwrap_err();
    assert!(matches!(error, LeaderError::Ended(AcquireError::Session { .. })), "{error:?}");
}

/// Also where the path is below one that is not there.
#[tokio::test(start_paused = true)]
async fn a_path_comes_and_goes() {
    let (mut arena, curator) = Arena::with_curator().await;
    let top = arena.path.clone();
    arena.path = format!("{top}/a/b");
    let mut observer = arena.observer(&curator);
    assert_eq!(told(&mut observer).await, None);
    for _ in 0..3 {
        let mut led = Led::obedient(&arena.selector(&curator));
        let term = led.leads().await;
        told_of(&mut observer, term.leadership.node()).await;
        drop(term);
        assert_eq!(told(&mut observer).await, None);
        led.close().await;
        is_told_nothing(&mut observer, &curator).await;
        // From the bottom up.
        for path in [&arena.path, &format!("{top}/a"), &top] {
            arena.remove(path).await;
        }
    }
}

/// What the node says is who leads.
#[tokio::test(start_paused = true)]
async fn data_that_change_are_told() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let mut led = Led::obedient(&arena.selector(&curator).with_id("before").unwrap());
    let term = led.leads().await;
    let mut observer = arena.observer(&other);
    assert_eq!(told(&mut observer).await.unwrap().id(), "before");
    for data in ["after", ""] {
        arena.admin.set_data(term.leadership.node(), data.as_bytes(), None).await.unwrap();
        let leader = told(&mut observer).await.unwrap();
        assert_eq!(leader.id(), data);
        assert_eq!(leader.fencing_token(), term.leadership.fencing_token(), "it is the same");
    }
    // Still watched.
    term.end();
    assert_eq!(told(&mut observer).await, None);
}

/// It ends, and says so once and for good.
#[tokio::test(start_paused = true)]
async fn without_permission_to_read_it_ends() {
    let arena = Arena::new().await;
    let builder = arena.builder().auth("digest", b"ours:secret").acls(Acls::creator_all());
    let authorised = arena.connect(builder).await;
    let mut led = Led::obedient(&arena.selector(&authorised));
    let term = led.leads().await;
    let stranger = arena.curator().await;
    let mut observer = arena.observer(&stranger);
    for _ in 0..2 {
        is_refused(&mut observer).await;
    }
    assert_eq!(within("its end", observer.next()).await, None);
    assert_eq!(observer.leader(), None);
    let mut allowed = arena.observer(&authorised);
    told_of(&mut allowed, term.leadership.node()).await;
    // Or without permission to list.
    let path = format!("{}-closed", arena.path);
    arena.node(&path, &[], CreateMode::Persistent, &[anyone(Permission::CREATE)]).await;
    let mut observer = LeaderObserver::of_latch(&stranger, &path).unwrap();
    is_refused(&mut observer).await;
}

async fn is_refused(observer: &mut LeaderObserver) {
    let error = within("the error", observer.changed()).await.unwrap_err();
    let no_auth = matches!(error, LeaderError::Ended(AcquireError::NoAuth { .. }));
    assert!(no_auth, "{error:?}");
}
