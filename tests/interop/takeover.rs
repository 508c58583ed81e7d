//! A holder that dies, is stopped or is cut off: the other implementation takes over, never before the holder's node is
//! gone. Ours knows by then that it has lost, if it runs; Curator's holder is not told.

use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use zookeeper_testkit::{Direction, FaultProxy};

use crate::harness::eventually;
use crate::lock::{Lock, Party, acquired};
use crate::matrix::{AFTER_IT_KNOWS, AFTER_ITS_NODE, AT_FIRST_LOOK, NOT_TOLD, Row, shown};
use crate::pair::Stage;
use crate::peer::{Answer, Peer};
use crate::peers;
use crate::rules::Nanos;

/// What the other waits for. A third of it is what a holder has to stop in, and what a busy machine may be late.
pub(crate) const SESSION: Duration = Duration::from_secs(9);

/// A holder, and somebody who waits.
pub(crate) struct Succession {
    pub(crate) stage: Stage,
    pub(crate) holder: Lock,
    pub(crate) heir: Lock,
    pub(crate) heir_waits: Answer,
    /// The holder's.
    pub(crate) node: String,
}

/// The heir has taken over, and holds. The server may stop with the stage: it is to be there as long as they are used.
pub(crate) struct TakenOver {
    pub(crate) at: Nanos,
    pub(crate) stage: Stage,
    /// That was.
    pub(crate) holder: Lock,
    pub(crate) heir: Lock,
}

impl Succession {
    pub(crate) async fn new(stage: Stage, holder: Lock, heir: Lock) -> Self {
        holder.acquire().await;
        stage.settles().await;
        let node = stage.nodes().await.remove(0);
        let heir_waits = heir.begin_acquire();
        stage.queues_behind(1).await;
        Self { stage, holder, heir, heir_waits, node }
    }

    /// Which the heir never does while the holder's node is there.
    pub(crate) async fn until_taken_over(self) -> TakenOver {
        let Self { stage, holder, heir, heir_waits, node } = self;
        eventually("the heir takes over", async || {
            // In this order: a node that is there was there when the answer came.
            let is_in = heir_waits.is_there();
            let stands = stage.arena.stat(&node).await.is_some();
            assert!(!(is_in && stands), "{} holds beside {node}", heir.name);
            is_in
        })
        .await;
        let at = acquired(heir_waits).await.expect("acquired");
        TakenOver { at, stage, holder, heir }
    }

    /// When the heir held, which it does not any more.
    async fn takes_over(self) -> (Nanos, Lock) {
        let taken = self.until_taken_over().await;
        taken.heir.release().await;
        (taken.at, taken.holder)
    }
}

#[tokio::test]
async fn from_curator_stopped_and_killed() {
    let Some(curator) = peers::own_curator() else { return };
    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        let stage = Stage::new().await;
        let party = Party::join_for(&curator, stage.servers(), SESSION).await;
        let holder = party.lock("mutex", stage.path()).await;
        let heir = stage.lock(&peers::ours(), "mutex").await;
        let succession = Succession::new(stage, holder, heir).await;
        curator.signal(signal);
        let (_, holder) = succession.takes_over().await;
        if signal == Signal::SIGSTOP {
            shown(("mutex", "Curator's holder is stopped, ours waits", AFTER_ITS_NODE), "");
            curator.signal(Signal::SIGCONT);
            assert!(holder.is_held().await, "Curator has learned to tell its holder");
            shown(("mutex", "Curator's holder, resumed after that", NOT_TOLD), "");
        } else {
            shown(("mutex", "Curator's holder is killed, ours waits", AFTER_ITS_NODE), "");
        }
    }
}

/// A holder that is about to be cut off, and an heir that is not.
async fn behind_a_proxy(
    kind: &str,
    holder: &Arc<Peer>,
    heir: &Arc<Peer>,
) -> (Succession, FaultProxy) {
    let join = async |servers: &str| Party::join_for(holder, servers, SESSION).await;
    joined_by_a_proxy(kind, join, (heir, kind)).await
}

/// The same, whatever the holder's session is.
pub(crate) async fn joined_by_a_proxy(
    kind: &str,
    join: impl AsyncFnOnce(&str) -> Party,
    (heir, heirs_kind): (&Arc<Peer>, &str),
) -> (Succession, FaultProxy) {
    let is_semaphore = kind.starts_with("semaphore");
    let stage = if is_semaphore { Stage::of_a_semaphore().await } else { Stage::new().await };
    let proxy = FaultProxy::start(stage.servers()).await.unwrap();
    let holder = join(proxy.connect_string()).await.lock(kind, stage.path()).await;
    let heir = stage.lock(heir, heirs_kind).await;
    (Succession::new(stage, holder, heir).await, proxy)
}

/// Ours takes over.
async fn from_a_peer_that_is_cut_off(kind: &str, peer: &Arc<Peer>) -> Lock {
    let (succession, proxy) = behind_a_proxy(kind, peer, &peers::ours()).await;
    let _fault = proxy.stall(Direction::Both);
    succession.takes_over().await.1
}

#[tokio::test]
async fn from_curator_cut_off() {
    let Some(curator) = peers::curator() else { return };
    let holder = from_a_peer_that_is_cut_off("mutex", &curator).await;
    assert!(holder.is_held().await, "Curator has learned to tell its holder");
    shown(("mutex", "Curator's holder is cut off, ours waits", AFTER_ITS_NODE), "");
    shown(("mutex", "Curator's holder, cut off all the time", NOT_TOLD), "");
}

#[tokio::test]
async fn from_curators_writer_cut_off() {
    let Some(curator) = peers::curator() else { return };
    from_a_peer_that_is_cut_off("write", &curator).await;
    shown(("read-write lock", "Curator's writer is cut off, ours waits", AFTER_ITS_NODE), "");
}

#[tokio::test]
async fn from_curators_lease_cut_off() {
    let Some(curator) = peers::curator() else { return };
    from_a_peer_that_is_cut_off("semaphore:1", &curator).await;
    shown(("semaphore of one", "Curator's holder is cut off, ours waits", AFTER_ITS_NODE), "");
}

#[tokio::test]
async fn from_kazoo_cut_off() {
    let Some(kazoo) = peers::kazoo() else { return };
    let holder = from_a_peer_that_is_cut_off("mutex", &kazoo).await;
    assert!(holder.is_held().await, "kazoo has learned to tell its holder");
    shown(("mutex", "kazoo's holder is cut off, ours waits", AFTER_ITS_NODE), "");
    shown(("mutex", "kazoo's holder, cut off all the time", NOT_TOLD), "");
}

/// Ours is stopped, and later killed.
pub(crate) async fn from_ours_that_is_stopped_and_killed(
    kind: &str,
    curator: &Arc<Peer>,
    [stopped, resumed, killed]: [Row; 3],
) {
    let ours = peers::own_ours();
    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        let stage = Stage::new().await;
        let party = Party::join_for(&ours, stage.servers(), SESSION).await;
        let holder = party.lock(kind, stage.path()).await;
        let heir = stage.lock(curator, kind).await;
        let succession = Succession::new(stage, holder, heir).await;
        ours.signal(signal);
        let taken = succession.until_taken_over().await;
        if signal == Signal::SIGSTOP {
            shown(stopped, "");
            // Its question was there before it ran again: it is what it does first.
            let asked = taken.holder.begin_is_held();
            ours.signal(Signal::SIGCONT);
            assert_eq!(acquired(asked).await, None, "it believes that it holds");
            shown(resumed, "");
        } else {
            shown(killed, "");
        }
        taken.heir.release().await;
    }
}

#[tokio::test]
async fn from_ours_stopped_and_killed() {
    let Some(curator) = peers::curator() else { return };
    let rows = [
        ("mutex", "our holder is stopped, Curator's waits", AFTER_ITS_NODE),
        ("mutex", "our holder, resumed after that", AT_FIRST_LOOK),
        ("mutex", "our holder is killed, Curator's waits", AFTER_ITS_NODE),
    ];
    from_ours_that_is_stopped_and_killed("mutex", &curator, rows).await;
}

/// How it was lost, and how long before the heir held the holder knew.
pub(crate) async fn knows_before(succession: Succession, proxy: &FaultProxy) -> (String, String) {
    let lost = succession.holder.begin_lost();
    let _fault = proxy.stall(Direction::Both);
    let (taken_over, _) = succession.takes_over().await;
    let lost = lost.await;
    let (how, knew) = lost.split_once(' ').unwrap();
    let knew: Nanos = knew.parse().unwrap();
    assert!(knew < taken_over, "it knew {} ns after", knew - taken_over);
    (how.to_owned(), format!("{} ms before", (taken_over - knew) / 1_000_000))
}

pub(crate) async fn from_ours_that_is_cut_off(kind: &str, curator: &Arc<Peer>) -> String {
    let (succession, proxy) = behind_a_proxy(kind, &peers::ours(), curator).await;
    let (how, early) = knows_before(succession, &proxy).await;
    assert_eq!(how, "LeaseEnded");
    early
}

#[tokio::test]
async fn from_ours_cut_off() {
    let Some(curator) = peers::curator() else { return };
    let early = from_ours_that_is_cut_off("mutex", &curator).await;
    shown(("mutex", "our holder is cut off, Curator's waits", AFTER_IT_KNOWS), early);
}

#[tokio::test]
async fn from_our_writer_cut_off() {
    let Some(curator) = peers::curator() else { return };
    let early = from_ours_that_is_cut_off("write", &curator).await;
    shown(("read-write lock", "our writer is cut off, Curator's waits", AFTER_IT_KNOWS), early);
}

#[tokio::test]
async fn from_our_lease_cut_off() {
    let Some(curator) = peers::curator() else { return };
    let early = from_ours_that_is_cut_off("semaphore:1", &curator).await;
    shown(("semaphore of one", "our holder is cut off, Curator's waits", AFTER_IT_KNOWS), early);
}
