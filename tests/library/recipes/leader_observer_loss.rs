//! What a `LeaderObserver` tells when its link, its session or its server fails it.

use std::time::Duration;

use tokio::sync::watch;
use zookeeper_recipes::zookeeper_client::{CreateMode, Permission};
use zookeeper_recipes::{LeaderObserver, Participant, RetryPolicy};

use super::leading::{Led, Term};
use crate::harness::{Arena, Cut, LONG, TICK, anyone, eventually, round_trip, within};

/// Servers refuse a watch on such a node (3.9.5), or set one that never fires (3.8.0 of Debian).
#[tokio::test(start_paused = true)]
async fn a_leader_that_may_not_be_read_is_followed_by_its_node() {
    let arena = Arena::new().await;
    let curator = arena.connect(arena.builder().session_timeout(Duration::from_secs(6))).await;
    arena.create(&arena.path, CreateMode::Container).await;
    let name = format!("{}/_c_01234567-89ab-4def-8123-456789abcdef-latch-", arena.path);
    let (mode, acls) = (CreateMode::EphemeralSequential, [anyone(Permission::CREATE)]);
    let node = arena.node(&name, b"hidden", mode, &acls).await;
    let mut observer = LeaderObserver::of_latch(&curator, &arena.path).unwrap();
    let leader = within("who leads", observer.changed()).await.unwrap().unwrap();
    assert_eq!((leader.path.as_str(), leader.id()), (node.as_str(), "".into()));
    arena.admin.delete(&leader.path, None).await.unwrap();
    assert_eq!(within("that nobody leads", observer.changed()).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn an_expiry_of_its_session_changes_nothing() {
    let (arena, [theirs, curator]) = Arena::with_curators().await;
    let mut led = Led::obedient(&arena.selector(&theirs));
    let term = led.leads().await;
    let mut observer = LeaderObserver::of_selector(&curator, &arena.path).unwrap();
    let leader = within("who leads", observer.changed()).await.unwrap();
    for _ in 0..2 {
        let before = curator.session_id().unwrap();
        arena.kill_session(&curator).await;
        let next = async || curator.session_id().is_ok_and(|now| now != before);
        eventually("the next session", next).await;
        round_trip(&curator).await;
        let told = tokio::time::timeout(Duration::from_millis(50), observer.changed()).await;
        assert!(told.is_err(), "{told:?}");
        assert_eq!(observer.leader(), leader);
    }
    // And the watch of the new session works.
    term.end();
    assert_eq!(within("nobody", observer.changed()).await.unwrap(), None);
}

/// It starts without a server, and tells when there is one.
#[tokio::test(start_paused = true)]
async fn before_the_first_connection_nothing_is_known() {
    let (arena, theirs) = Arena::with_curator().await;
    let mut led = Led::obedient(&arena.selector(&theirs));
    let term = led.leads().await;
    let builder = arena.builder().connection_timeout(LONG);
    let (_link, refused, curator) = arena.unconnected(builder).await;
    let mut observer = LeaderObserver::of_selector(&curator, &arena.path).unwrap();
    within("a refusal", refused.struck()).await;
    assert_eq!(observer.leader(), None);
    let told = tokio::time::timeout(Duration::from_millis(50), observer.changed()).await;
    assert!(told.is_err(), "nobody knows that nobody leads: {told:?}");
    refused.heal();
    let leader = within("who leads", observer.changed()).await.unwrap().unwrap();
    assert_eq!(leader.path, term.leadership.node());
}

/// A follower that lags has the leaders of before; a session moves to it, or a new one begins there.
#[tokio::test(start_paused = true)]
async fn no_older_leader_is_told_after_a_newer_one_whatever_its_server_knows() {
    // A follower that hears nothing serves on for six seconds.
    let arena = Arena::three(TICK, 30).await;
    let (leader, members) = (arena.servers.leader().await, arena.servers.members());
    let follower = (leader + 1) % 3;
    let retry = RetryPolicy::n_times(1000, Duration::from_millis(50));
    let builder = arena.builder().session_timeout(Duration::from_secs(20)).retry(retry);
    // Somebody leads, over and over, whom no fault concerns.
    let theirs = builder.clone().connect(members[leader].connect_string()).await.unwrap();
    let mut led = Led::obedient(&arena.selector(&theirs).auto_requeue());
    // The observer reaches the leader and a follower, of which the test lets it have one. It is never told an older one.
    let (to_leader, to_follower) = (members[leader].link().await, members[follower].link().await);
    let both = format!("{},{}", to_leader.connect_string(), to_follower.connect_string());
    let curator = builder.connect(&both).await.unwrap();
    let mut observer = LeaderObserver::of_selector(&curator, &arena.path).unwrap();
    let (newest, mut told) = watch::channel(None);
    let watching = tokio::spawn(async move {
        while let Ok(leader) = observer.changed().await {
            let Some(token) = leader.as_ref().map(Participant::fencing_token) else { continue };
            let before = newest.send_replace(Some(token));
            assert!(before <= Some(token), "{before:?}, and then {token:?}");
        }
    });
    let mut term = led.leads().await;
    let mut is_told = async |term: &Term| {
        let token = term.leadership.fencing_token();
        let told = told.wait_for(|told| *told == Some(token));
        drop(within("who leads", told).await.unwrap());
    };
    for expires in [false, true, false, true] {
        // It is at the leader, and told what the follower does not hear of.
        let refused = to_follower.refuse();
        to_follower.cut(Cut::Reset);
        is_told(&term).await;
        let lag = arena.servers.part(follower, leader);
        drop(term);
        term = led.leads().await;
        is_told(&term).await;
        // It goes to the follower …
        let kept_out = to_leader.refuse();
        if expires {
            arena.kill_session(&curator).await;
        }
        refused.heal();
        let before = to_follower.accepted();
        to_leader.cut(Cut::Reset);
        eventually("it asks the follower", async || to_follower.accepted() > before).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        drop(lag);
        // … where it is told of what comes.
        drop(term);
        term = led.leads().await;
        is_told(&term).await;
        assert!(to_follower.connections() > 0);
        drop(kept_out);
    }
    assert!(!watching.is_finished(), "{:?}", watching.await);
    watching.abort();
}
