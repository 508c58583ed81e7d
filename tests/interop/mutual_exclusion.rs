//! Sets of two or three implementations that exclude each other at one path, in each order, and report the same queue; and
//! recipes next to which ours is refused.

use std::net::IpAddr;
use std::path::Path;

use zookeeper_recipes::interop::ContenderFilter;
use zookeeper_recipes::leader::LeaderObserver;
use zookeeper_recipes_dev::within;

use crate::support::commands::{Lock, acquired};
use crate::support::mixed_path::{MixedPath, each};
use crate::support::peers::{CURATOR, KAZOO, OURS, shared};
use crate::support::role::Role;

/// Whose lock, and of which kind.
type One = (&'static str, &'static str);

/// Two safe pairs do not make a safe three.
const SETS: [&[One]; 17] = [
    &[(OURS, "mutex"), (CURATOR, "mutex"), (KAZOO, "mutex")],
    &[(OURS, "mutex"), (CURATOR, "selector")],
    &[(OURS, "kazoo"), (KAZOO, "stock")],
    // kazoo's read lock waits for its write locks, and ours is as one.
    &[(OURS, "kazoo"), (KAZOO, "stock-write")],
    &[(OURS, "kazoo"), (KAZOO, "stock-read")],
    &[(OURS, "inclusive"), (CURATOR, "driver"), (KAZOO, "plus")],
    &[(OURS, "write"), (CURATOR, "write"), (KAZOO, "write")],
    &[(OURS, "semaphore:1"), (CURATOR, "semaphore:1")],
    &[(OURS, "semaphore:1"), (CURATOR, "semaphore-mutex")],
    &[(OURS, "multi"), (CURATOR, "multi")],
    &[(OURS, "latch"), (CURATOR, "latch"), (OURS, "latch")],
    &[(CURATOR, "latch"), (OURS, "latch"), (CURATOR, "latch")],
    &[(OURS, "selector"), (CURATOR, "selector"), (KAZOO, "election")],
    &[(CURATOR, "selector"), (OURS, "selector"), (CURATOR, "selector")],
    &[(OURS, "selector"), (CURATOR, "mutex")],
    &[(OURS, "selector-kazoo"), (KAZOO, "stock-election"), (OURS, "selector-kazoo")],
    &[(OURS, "selector-inclusive"), (KAZOO, "plus-election"), (OURS, "selector-inclusive")],
];

/// Of leaders. With a space, as in Curator's own test; beyond ASCII, and beyond what one unit of UTF-16 holds.
const IDS: [&str; 3] = ["A is A", "größer ☃", "𝄞 clef"];

/// One contender of a set.
struct Side {
    whose: &'static str,
    kind: &'static str,
    lock: Lock,
    /// What its node says. None is the address of the machine, as Curator has it.
    identity: Option<String>,
}

fn leads(kind: &str) -> bool {
    ["latch", "selector", "election"].iter().any(|leader| kind.contains(leader))
}

impl Side {
    /// None if its implementation is missing.
    async fn join(mixed_path: &MixedPath, (whose, kind): One, id: &str) -> Option<Self> {
        let party = mixed_path.party(&shared(whose)?).await;
        let lock = if leads(kind) {
            party.lock_with_id(kind, id, mixed_path.path()).await
        } else {
            party.lock(kind, mixed_path.path()).await
        };
        let identity = match whose {
            _ if leads(kind) => Some(id.to_owned()),
            OURS => Some(party.session),
            KAZOO => Some(lock.name.clone()),
            _ => None,
        };
        Some(Self { whose, kind, lock, identity })
    }

    fn is_named(&self, told: &str) -> bool {
        self.identity.as_ref().map_or_else(|| told.parse::<IpAddr>().is_ok(), |name| name == told)
    }

    /// What it tells of the queue: nodes, identities, or who leads.
    async fn lists(&self, order: &[&Self], nodes: &[String]) {
        let all_lead = order.iter().all(|side| leads(side.kind));
        if leads(self.kind) && all_lead {
            let told = self.lock.ids().await;
            for (place, ((role, id), side)) in told.iter().zip(order).enumerate() {
                let expected = match self.whose {
                    KAZOO => Role::Contends,
                    _ if place == 0 => Role::Leads,
                    _ => Role::Waits,
                };
                assert!(*role == expected && side.is_named(id), "{}: {told:?}", self.lock.name);
            }
            assert_eq!(told.len(), order.len(), "{}: {told:?}", self.lock.name);
            if self.whose != KAZOO {
                assert_eq!(self.lock.leader().await.as_ref(), told.first());
            }
        } else if ["mutex", "write"].contains(&self.kind) && self.whose != KAZOO {
            assert_eq!(self.lock.participants().await, nodes, "by {}", self.lock.name);
        } else if self.kind == "mutex" {
            let told = self.lock.participants().await;
            let as_it_is = told.iter().zip(order).all(|(told, side)| side.is_named(told));
            assert!(as_it_is && told.len() == order.len(), "{told:?}");
        }
    }
}

/// Of leaders with one of ours among them: what our observer sees. It takes no part, and so is in the test's own process.
async fn observer(mixed_path: &MixedPath, order: &[&Side]) -> Option<LeaderObserver> {
    let ours = order.iter().find(|side| side.whose == OURS)?;
    if !order.iter().all(|side| leads(side.kind)) {
        return None;
    }
    let (curator, path) = (mixed_path.testbed.curator().await, mixed_path.path());
    let filter = match ours.kind {
        "selector-kazoo" => ContenderFilter::Kazoo,
        "selector-inclusive" => ContenderFilter::Inclusive,
        _ => return Some(curator.observe_leader(path).unwrap()),
    };
    Some(curator.leader_selector(path).unwrap().with_filter(filter).unwrap().observe())
}

/// None is nobody.
async fn observes(observer: &mut Option<LeaderObserver>, expected: Option<&Side>) {
    let Some(observer) = observer else { return };
    let seen = within("somebody or nobody leads", observer.changed()).await.unwrap();
    let seen = seen.and_then(|leader| leader.identity);
    assert_eq!(seen.as_ref(), expected.and_then(|side| side.identity.as_ref()));
}

/// First come, first served: each waits for the one before it, and all tell the same of the queue.
async fn queue(mixed_path: &MixedPath, order: &[&Side]) {
    let mut observer = observer(mixed_path, order).await;
    observes(&mut observer, None).await;
    for side in order {
        side.lists(&[], &[]).await;
    }
    order[0].lock.acquire().await;
    mixed_path.settles().await;
    let mut waiting = Vec::new();
    for side in &order[1..] {
        let before = mixed_path.nodes().await.len();
        waiting.push(side.lock.begin_acquire());
        mixed_path.queues_behind(before).await;
    }
    let nodes = mixed_path.nodes().await;
    for side in order {
        side.lists(order, &nodes).await;
    }
    let mut waiting = waiting.into_iter();
    for side in order {
        observes(&mut observer, Some(*side)).await;
        assert!(
            waiting.as_slice().iter().all(|waits| !waits.is_there()),
            "beside {}",
            side.lock.name
        );
        let left = side.lock.release().await;
        if let Some(next) = waiting.next() {
            assert!(left <= acquired(next).await.expect("acquired"), "beside {}", side.lock.name);
        }
    }
    observes(&mut observer, None).await;
    mixed_path.nodes_are(0).await;
}

/// As Curator's TestLeaderSelectorParticipants#testId and #testBasic, on both sides.
#[tokio::test]
async fn each_waits_for_the_other_and_tells_the_same_of_the_queue() {
    each(&SETS, async |set| {
        let mixed_path = MixedPath::of(set[0].1).await;
        let mut sides = Vec::new();
        for (&one, id) in set.iter().zip(IDS) {
            sides.extend(Side::join(&mixed_path, one, id).await);
        }
        for (place, holder) in sides.iter().enumerate() {
            for (_, contender) in sides.iter().enumerate().filter(|(other, _)| *other != place) {
                mixed_path.keeps_out(&holder.lock, &contender.lock).await;
            }
        }
        let mut order: Vec<&Side> = sides.iter().collect();
        for _ in 0..2 {
            if order.len() > 1 {
                queue(&mixed_path, &order).await;
            }
            order.reverse();
        }
    })
    .await;
}

/// Whose lock of which kind holds, and which of ours is refused: their names do not keep each other out.
const REFUSED: [(One, &str); 13] = [
    ((CURATOR, "write"), "mutex"),
    ((CURATOR, "read"), "mutex"),
    ((CURATOR, "mutex"), "write"),
    ((CURATOR, "mutex"), "read"),
    ((CURATOR, "mutex"), "latch"),
    ((CURATOR, "selector"), "latch"),
    ((CURATOR, "write"), "latch"),
    ((CURATOR, "latch"), "mutex"),
    ((CURATOR, "latch"), "selector"),
    ((CURATOR, "latch"), "write"),
    ((KAZOO, "stock"), "mutex"),
    ((KAZOO, "stock-election"), "selector"),
    // kazoo sees our names, and we do not count its.
    ((KAZOO, "plus"), "mutex"),
];

#[tokio::test]
async fn ours_is_refused_beside_names_that_it_does_not_count() {
    each(&REFUSED, async |((whose, theirs), kind)| {
        let (Some(ours), Some(peer)) = (shared(OURS), shared(whose)) else { return };
        let mixed_path = MixedPath::of(kind).await;
        let theirs = mixed_path.lock(&peer, theirs).await;
        theirs.acquire().await;
        mixed_path.refuses(&mixed_path.lock(&ours, kind).await).await;
        theirs.release().await;
        mixed_path.nodes_are(0).await;
    })
    .await;
}

/// What readers of the page are to copy is what was tried: kazoo's subclasses, and Curator's driver.
#[test]
fn the_page_has_the_code_that_was_tried() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guide/mixed-fleets.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(include_str!("kazoo_locks.py")));
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let ours = words(include_str!("CuratorLock.java"));
    let (_, driver) = ours.split_once("extends StandardLockInternalsDriver { ").unwrap();
    let (driver, _) = driver.split_once(" } }").unwrap();
    assert!(words(&page).contains(driver), "{driver}");
}
