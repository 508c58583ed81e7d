//! `LeaderObserver` reports the leader, also when its link, its session or its server fails it.

use futures_util::StreamExt;
use tokio::sync::watch;
use zookeeper_recipes_dev::TICK;

use crate::prelude::*;
use crate::support::contenders::{Make, latch, mutex, selector};
use crate::support::selectors::{Led, Term};

async fn told(observer: &mut LeaderObserver) -> Option<Participant> {
    within("the leader", observer.changed()).await.unwrap()
}

/// Waits until it has been told that this node leads.
async fn told_of(observer: &mut LeaderObserver, node: &str) -> Participant {
    loop {
        if let Some(leader) = told(observer).await
            && leader.node == node
        {
            return leader;
        }
    }
}

/// Nothing is told without a change. What comes later is behind what this asks.
async fn is_told_nothing(observer: &mut LeaderObserver, curator: &Curator) {
    round_trip(curator).await;
    is_quiet(observer).await;
}

async fn is_quiet(observer: &mut LeaderObserver) {
    let told = timeout(Duration::from_millis(50), observer.changed()).await;
    assert!(told.is_err(), "{told:?}");
}

/// The kind of the error that it has ended with.
async fn ended(observer: &mut LeaderObserver) -> ErrorKind {
    within("the error", observer.changed()).await.unwrap_err().kind()
}

/// Whatever leads there: the names of the nodes say so.
#[tokio::test(start_paused = true)]
async fn it_tells_each_leader_and_that_there_is_none() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let mut observer = testbed.observer(&other);
    // This one does not see latches.
    let mut of_selector = testbed.selector(&curator).observe();
    assert_eq!(told(&mut observer).await, None, "the path is not there");
    for recipe in [latch as Make, selector, mutex, selector] {
        let led = recipe(&curator.with_identity("me"), &testbed.path).acquire().await.unwrap();
        let leader = told(&mut observer).await.unwrap();
        assert_eq!((leader.identity.as_deref(), leader.holds), (Some("me"), true));
        assert_eq!(leader.node, led.node());
        assert_eq!(leader.fencing_token, Some(led.fencing_token()));
        assert_eq!(leader.session_id, Some(curator.session_id().unwrap()));
        if leader.node.contains("-lock-") {
            assert_eq!(told_of(&mut of_selector, &leader.node).await, leader);
        }
        assert_eq!(observer.leader(), Some(leader));
        is_told_nothing(&mut observer, &other).await;
        led.release().await.unwrap();
        assert_eq!(told(&mut observer).await, None);
        assert_eq!(observer.leader(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_a_stream() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let mut observer = testbed.observer(&other);
    assert_eq!(within("that there is none", observer.next()).await, Some(None));
    let mut led = Led::obedient(&testbed.selector(&curator));
    let term = led.leads().await;
    let leader = within("a leader", observer.next()).await.unwrap().unwrap();
    assert_eq!(leader.node, term.leadership.node());
    term.end();
    assert_eq!(within("that there is none", observer.next()).await, Some(None));
    within("the end", other.close()).await;
    assert_eq!(within("the end of the stream", observer.next()).await, None);
    assert_eq!(within("the same", observer.next()).await, None);
    assert_eq!(ended(&mut observer).await, ErrorKind::Closed);
}

/// Also where the path is below one that is not there.
#[tokio::test(start_paused = true)]
async fn a_path_comes_and_goes() {
    let (mut testbed, curator) = Testbed::with_curator().await;
    let top = testbed.path.clone();
    testbed.path = format!("{top}/a/b");
    let mut observer = testbed.observer(&curator);
    assert_eq!(told(&mut observer).await, None);
    for _ in 0..3 {
        let mut led = Led::obedient(&testbed.selector(&curator));
        let term = led.leads().await;
        told_of(&mut observer, term.leadership.node()).await;
        drop(term);
        assert_eq!(told(&mut observer).await, None);
        led.close().await;
        is_told_nothing(&mut observer, &curator).await;
        // From the bottom up.
        for path in [&testbed.path, &format!("{top}/a"), &top] {
            testbed.remove(path).await;
        }
    }
}

/// The identity of the leader is the data of its node.
#[tokio::test(start_paused = true)]
async fn data_that_change_are_told() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let mut led = Led::obedient(&testbed.selector(&curator.with_identity("before")));
    let term = led.leads().await;
    let mut observer = testbed.observer(&other);
    assert_eq!(told(&mut observer).await.unwrap().identity.as_deref(), Some("before"));
    for (data, identity) in [("after", Some("after")), ("", None)] {
        testbed.admin.set_data(term.leadership.node(), data.as_bytes(), None).await.unwrap();
        let leader = told(&mut observer).await.unwrap();
        assert_eq!((leader.identity.as_deref(), leader.data()), (identity, data.as_bytes()));
        assert_eq!(leader.node, term.leadership.node(), "it is the same");
    }
    // Still watched.
    term.end();
    assert_eq!(told(&mut observer).await, None);
}

/// It ends, and says so once and for good.
#[tokio::test(start_paused = true)]
async fn without_permission_to_read_it_ends() {
    let testbed = Testbed::new().await;
    let builder = testbed.builder().auth("digest", b"ours:secret").acls(Acls::creator_all());
    let authorised = testbed.connect(builder).await;
    let mut led = Led::obedient(&testbed.selector(&authorised));
    let term = led.leads().await;
    let stranger = testbed.curator().await;
    let mut observer = testbed.observer(&stranger);
    for _ in 0..2 {
        assert_eq!(ended(&mut observer).await, ErrorKind::PermissionDenied);
    }
    assert_eq!(within("its end", observer.next()).await, None);
    assert_eq!(observer.leader(), None);
    let mut allowed = testbed.observer(&authorised);
    told_of(&mut allowed, term.leadership.node()).await;
    // Or without permission to list.
    let path = format!("{}-closed", testbed.path);
    testbed.node(&path, &[], CreateMode::Persistent, &[anyone(Permission::CREATE)]).await;
    let mut observer = stranger.observe_leader(&path).unwrap();
    assert_eq!(ended(&mut observer).await, ErrorKind::PermissionDenied);
}

/// Creates the node of a latch's leader that no client may read.
async fn hidden_leader(testbed: &Testbed) -> String {
    let name = format!("{}/_c_01234567-89ab-4def-8123-456789abcdef-latch-", testbed.path);
    let mode = CreateMode::EphemeralSequential;
    testbed.node(&name, b"hidden", mode, &[anyone(Permission::CREATE)]).await
}

/// Servers refuse a watch on such a node (3.9), set one that never fires (3.8), or one that fires (before).
#[tokio::test(start_paused = true)]
async fn a_leader_that_may_not_be_read_is_followed_by_its_node() {
    for version in Version::ALL {
        let testbed = Testbed::with(TestServer::builder(), |one| one.version(version)).await;
        let builder = testbed.builder().session_timeout(Duration::from_secs(6));
        let curator = testbed.connect(builder).await;
        testbed.create(&testbed.path, CreateMode::Container).await;
        let node = hidden_leader(&testbed).await;
        let mut observer = testbed.observer(&curator);
        let leader = told(&mut observer).await.unwrap();
        assert_eq!((leader.node.as_str(), leader.identity), (node.as_str(), None), "{version}");
        testbed.remove(&node).await;
        assert_eq!(told(&mut observer).await, None, "{version}");
    }
}

/// Its path is longer than all that a session may watch.
#[tokio::test(start_paused = true)]
async fn a_leader_that_may_not_be_read_is_reported_without_room_for_a_watch() {
    let mut testbed = Testbed::new().await;
    let curator = testbed.short_lived_curator().await;
    testbed.create(&testbed.path, CreateMode::Container).await;
    testbed.path = format!("{}/{}", testbed.path, "x".repeat(97 * 1024));
    testbed.create(&testbed.path, CreateMode::Container).await;
    let node = hidden_leader(&testbed).await;
    let mut observer = testbed.observer(&curator);
    let leader = told(&mut observer).await.unwrap();
    assert_eq!((leader.node == node, leader.identity), (true, None));
    testbed.remove(&node).await;
    assert_eq!(told(&mut observer).await, None);
}

#[tokio::test(start_paused = true)]
async fn an_expiry_of_its_session_changes_nothing() {
    let (testbed, [theirs, curator]) = Testbed::with_curators().await;
    let mut led = Led::obedient(&testbed.selector(&theirs));
    let term = led.leads().await;
    let mut observer = testbed.observer(&curator);
    let leader = told(&mut observer).await;
    for _ in 0..2 {
        let before = curator.session_id().unwrap();
        testbed.kill_session(&curator).await;
        let next = async || curator.session_id().is_ok_and(|now| now != before);
        eventually("the next session", next).await;
        is_told_nothing(&mut observer, &curator).await;
        assert_eq!(observer.leader(), leader);
    }
    // And the watch of the new session works.
    term.end();
    assert_eq!(told(&mut observer).await, None);
}

/// It starts without a server, and tells when there is one.
#[tokio::test(start_paused = true)]
async fn before_the_first_connection_nothing_is_known() {
    let (testbed, theirs) = Testbed::with_curator().await;
    let mut led = Led::obedient(&testbed.selector(&theirs));
    let term = led.leads().await;
    let builder = testbed.builder().connection_timeout(LONG);
    let (_link, refused, curator) = testbed.unconnected(builder).await;
    let mut observer = testbed.observer(&curator);
    within("a refusal", refused.struck()).await;
    assert_eq!(observer.leader(), None);
    is_quiet(&mut observer).await;
    refused.heal();
    assert_eq!(told(&mut observer).await.unwrap().node, term.leadership.node());
}

/// A follower that lags has the leaders of before; a session moves to it, or a new one begins there.
#[tokio::test(start_paused = true)]
async fn no_older_leader_is_told_after_a_newer_one_whatever_its_server_knows() {
    // A follower that hears nothing serves on for six seconds.
    let testbed = Testbed::three(TICK, 30).await;
    let (leader, members) = (testbed.servers.leader().await, testbed.servers.members());
    let follower = (leader + 1) % 3;
    let retry = RetryPolicy::n_times(1000, Duration::from_millis(50));
    let builder = testbed.builder().session_timeout(Duration::from_secs(20)).retry(retry);
    // A selector without a fault leads over and over.
    let theirs = builder.clone().connect(members[leader].connect_string()).await.unwrap();
    let mut led = Led::obedient(&testbed.selector(&theirs).auto_requeue());
    // The observer reaches the leader and a follower, of which the test lets it have one. It is never told an older one.
    let (to_leader, to_follower) = (members[leader].link().await, members[follower].link().await);
    let both = format!("{},{}", to_leader.connect_string(), to_follower.connect_string());
    let curator = builder.connect(&both).await.unwrap();
    let mut observer = testbed.observer(&curator);
    let (newest, mut told) = watch::channel(None);
    let watching = tokio::spawn(async move {
        while let Ok(leader) = observer.changed().await {
            let Some(token) = leader.and_then(|leader| leader.fencing_token) else { continue };
            let before = newest.send_replace(Some(token));
            assert!(before <= Some(token), "{before:?}, and then {token:?}");
        }
    });
    let mut term = led.leads().await;
    let mut is_told = async |term: &Term| {
        let token = term.leadership.fencing_token();
        let told = told.wait_for(|told| *told == Some(token));
        drop(within("the leader", told).await.unwrap());
    };
    for expires in [false, true, false, true] {
        // It is at the leader, and told what the follower does not hear of.
        let refused = to_follower.refuse();
        to_follower.cut(Cut::Reset);
        is_told(&term).await;
        let lag = testbed.servers.part(follower, leader);
        drop(term);
        term = led.leads().await;
        is_told(&term).await;
        // It goes to the follower …
        let kept_out = to_leader.refuse();
        if expires {
            testbed.kill_session(&curator).await;
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
