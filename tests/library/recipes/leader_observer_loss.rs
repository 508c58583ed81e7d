//! What a `LeaderObserver` tells when its link, its session or its server fails it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use zookeeper_recipes::zookeeper_client::{Acl, AuthId, CreateMode, Permission};
use zookeeper_recipes::{Curator, FencingToken, LeaderObserver, Participant, RetryPolicy};

use super::leading::{Led, Term};
use crate::harness::{Arena, Cut, LONG, Link, TICK, eventually, round_trip, within};

/// Servers refuse a watch on such a node (3.9.5), or set one that never fires (3.8.0 of Debian).
#[tokio::test(start_paused = true)]
async fn a_leader_that_may_not_be_read_is_followed_by_its_node() {
    let arena = Arena::new().await;
    let curator = arena.connect(arena.builder().session_timeout(Duration::from_secs(6))).await;
    arena.create(&arena.path, CreateMode::Container).await;
    let name = format!("{}/_c_01234567-89ab-4def-8123-456789abcdef-latch-", arena.path);
    let acls = [Acl::new(Permission::CREATE, AuthId::anyone())];
    let node =
        arena.admin.create(&name, b"hidden", CreateMode::EphemeralSequential, &acls).await.unwrap();
    let mut observer = LeaderObserver::of_latch(&curator, &arena.path).unwrap();
    let leader = within("who leads", observer.changed()).await.unwrap().unwrap();
    assert_eq!((leader.path.as_str(), leader.id()), (node.as_str(), "".into()));
    arena.admin.delete(&leader.path, None).await.unwrap();
    assert_eq!(within("that nobody leads", observer.changed()).await.unwrap(), None);
}

/// An observer behind a link, and a leader that it has been told of.
struct Observed {
    arena: Arena,
    link: Link,
    curator: Curator,
    observer: LeaderObserver,
    led: Led,
    term: Option<Term>,
}

impl Observed {
    async fn new() -> Self {
        let arena = Arena::new().await;
        let theirs = arena.curator().await;
        let mut led = Led::obedient(&arena.selector(&theirs).auto_requeue());
        let term = led.leads().await;
        let (link, curator) = arena.linked(arena.builder()).await;
        let observer = LeaderObserver::of_selector(&curator, &arena.path).unwrap();
        let mut observed = Self { arena, link, curator, observer, led, term: Some(term) };
        observed.is_told().await;
        observed
    }

    /// The next one leads.
    async fn change(&mut self) {
        drop(self.term.take());
        self.term = Some(self.led.leads().await);
    }

    /// It is told of whoever leads now; that nobody did may come before.
    async fn is_told(&mut self) {
        let node = self.term.as_ref().unwrap().leadership.node().to_owned();
        loop {
            let told = within("who leads", self.observer.changed()).await.unwrap();
            match told {
                Some(leader) => {
                    assert_eq!(leader.path, node);
                    return;
                }
                None => assert_eq!(self.observer.leader(), None),
            }
        }
    }

    async fn is_told_nothing(&mut self) {
        round_trip(&self.curator).await;
        let told = tokio::time::timeout(Duration::from_millis(50), self.observer.changed()).await;
        assert!(told.is_err(), "{told:?}");
        let node = self.term.as_ref().unwrap().leadership.node();
        assert_eq!(self.observer.leader().unwrap().path, node);
    }
}

#[tokio::test(start_paused = true)]
async fn an_expiry_of_its_session_changes_nothing() {
    let mut observed = Observed::new().await;
    for change in [false, true, false, true] {
        let before = observed.curator.session_id().unwrap();
        let refused = observed.link.refuse();
        observed.arena.kill_session(&observed.curator).await;
        within("a refusal", refused.struck()).await;
        if change {
            observed.change().await;
        }
        refused.heal();
        let curator = observed.curator.clone();
        let next = async || curator.session_id().is_ok_and(|now| now != before);
        eventually("the next session", next).await;
        if change {
            observed.is_told().await;
        }
        observed.is_told_nothing().await;
    }
    // And the watch of the new session works.
    observed.change().await;
    observed.is_told().await;
}

/// It is older than who led before, by its token. So were one that servers know again which lost what came later.
#[tokio::test(start_paused = true)]
async fn a_leader_that_was_there_before_the_last_one_is_told_when_it_stays() {
    let arena = Arena::new().await;
    let theirs = arena.curator().await;
    let watches = arena.connect(arena.builder().session_timeout(Duration::from_secs(2))).await;
    arena.create(&arena.path, CreateMode::Persistent).await;
    let by_hand = format!("{}/_c_by-hand-lock-0000000100", arena.path);
    arena.create(&by_hand, CreateMode::Ephemeral).await;
    let mut led = Led::obedient(&arena.selector(&theirs));
    let term = led.leads().await;
    let mut observer = LeaderObserver::of_selector(&watches, &arena.path).unwrap();
    let told = within("who leads", observer.changed()).await.unwrap().unwrap();
    assert_eq!(told.path, term.leadership.node());
    term.end();
    let told = within("who leads", observer.changed()).await.unwrap().unwrap();
    assert_eq!(told.path, by_hand);
    arena.admin.delete(&by_hand, None).await.unwrap();
    assert_eq!(within("nobody", observer.changed()).await.unwrap(), None);
}

/// It starts without a server, and tells when there is one.
#[tokio::test(start_paused = true)]
async fn before_the_first_connection_nothing_is_known() {
    let arena = Arena::new().await;
    let theirs = arena.curator().await;
    let mut led = Led::obedient(&arena.selector(&theirs));
    let term = led.leads().await;
    let builder = arena.builder().connection_timeout(LONG);
    let (_link, refused, curator) = arena.unconnected(builder).await;
    let mut observer = LeaderObserver::of_selector(&curator, &arena.path).unwrap();
    within("a refusal", refused.struck()).await;
    assert_eq!(observer.leader(), None);
    {
        let told = tokio::time::timeout(Duration::from_millis(50), observer.changed()).await;
        assert!(told.is_err(), "nobody knows that nobody leads: {told:?}");
    }
    refused.heal();
    let leader = within("who leads", observer.changed()).await.unwrap().unwrap();
    assert_eq!(leader.path, term.leadership.node());
}

/// An ensemble, and an observer that reaches its leader and one of its followers, of which the test lets it have one.
struct Ensemble {
    arena: Arena,
    leader: usize,
    follower: usize,
    links: [Link; 2],
    watches: Curator,
}

impl Ensemble {
    async fn start() -> Self {
        // A follower that hears nothing serves on for six seconds.
        let arena = Arena::three(TICK, 30).await;
        let (leader, members) = (arena.servers.leader().await, arena.servers.members());
        let follower = (leader + 1) % 3;
        let links = [members[leader].link().await, members[follower].link().await];
        let both = format!("{},{}", links[0].connect_string(), links[1].connect_string());
        let watches = Self::builder(&arena).connect(&both).await.unwrap();
        Self { arena, leader, follower, links, watches }
    }

    fn builder(arena: &Arena) -> zookeeper_recipes::CuratorBuilder {
        let retry = RetryPolicy::n_times(1000, Duration::from_millis(50));
        arena.builder().session_timeout(Duration::from_secs(20)).retry(retry)
    }

    /// Somebody leads, over and over, whom no fault concerns.
    async fn leads(&self) -> Led {
        let at = &self.arena.servers.members()[self.leader];
        let curator = Self::builder(&self.arena).connect(at.connect_string()).await.unwrap();
        Led::obedient(&self.arena.selector(&curator).auto_requeue())
    }

    /// Whom an observer was told of last. It fails if that is ever an older one.
    fn observed(&self) -> (watch::Receiver<Option<FencingToken>>, JoinHandle<()>) {
        let mut observer = LeaderObserver::of_selector(&self.watches, &self.arena.path).unwrap();
        let (newest, told) = watch::channel(None);
        let watching = tokio::spawn(async move {
            while let Ok(leader) = observer.changed().await {
                let Some(token) = leader.as_ref().map(Participant::fencing_token) else { continue };
                let before = newest.send_replace(Some(token));
                assert!(before <= Some(token), "{before:?}, and then {token:?}");
            }
        });
        (told, watching)
    }
}

/// A follower that lags has the leaders of before; a session moves to it, or a new one begins there.
#[tokio::test(start_paused = true)]
async fn no_older_leader_is_told_after_a_newer_one_whatever_its_server_knows() {
    let setting = Arc::new(Ensemble::start().await);
    let mut led = setting.leads().await;
    let (mut told, watching) = setting.observed();
    let mut term = led.leads().await;
    let mut is_told = async |term: &Term| {
        let token = term.leadership.fencing_token();
        let told = told.wait_for(|told| *told == Some(token));
        drop(within("who leads", told).await.unwrap());
    };
    let [to_leader, to_follower] = &setting.links;
    for expires in [false, true, false, true] {
        // It is at the leader, and told what the follower does not hear of.
        let refused = to_follower.refuse();
        to_follower.cut(Cut::Reset);
        is_told(&term).await;
        let lag = setting.arena.servers.part(setting.follower, setting.leader);
        drop(term);
        term = led.leads().await;
        is_told(&term).await;
        // It goes to the follower …
        let kept_out = to_leader.refuse();
        if expires {
            setting.arena.kill_session(&setting.watches).await;
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
