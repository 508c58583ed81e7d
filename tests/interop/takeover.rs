//! A holder that dies, is stopped or is cut off: the other implementation takes over, never before the holder's node is
//! deleted. Ours knows by then that it has lost, if it runs.

use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal::{SIGCONT, SIGKILL, SIGSTOP};
use zookeeper_testkit::{Direction, FaultProxy};

use crate::harness::eventually;
use crate::lock::{Lock, Party, acquired};
use crate::pair::Stage;
use crate::peer::{Answer, Peer};
use crate::peers::{self, CURATOR, KAZOO, OURS};
use crate::rows::shown;
use crate::rules::Nanos;

use End::{CutOff, Killed, Stopped};

/// What the other waits for. A third of it is what a holder has to stop in, and what a busy machine may be late.
const SESSION: Duration = Duration::from_secs(9);

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Stopped,
    Killed,
    CutOff,
}

/// A test for each holder: whose it is, its recipe, and how it ends.
macro_rules! takeovers {
    ($level:meta => $($name:ident: $whose:expr, $kind:literal, [$($end:expr),+];)+) => {$(
        #[$level]
        #[tokio::test]
        async fn $name() {
            takes_over($whose, $kind, &[$($end),+]).await;
        }
    )+};
}

takeovers! { doc = "Of `make test`, too." =>
    from_ours_cut_off: OURS, "mutex", [CutOff];
    from_our_writer_cut_off: OURS, "write", [CutOff];
    from_our_lease_cut_off: OURS, "semaphore:1", [CutOff];
    from_our_selector_cut_off: OURS, "selector", [CutOff];
    from_curators_latch_cut_off: CURATOR, "latch", [CutOff];
}

takeovers! { ignore = "make test-all" =>
    from_our_latch_cut_off: OURS, "latch", [CutOff];
    from_ours_stopped_and_killed: OURS, "mutex", [Stopped, Killed];
    from_our_latch_stopped_and_killed: OURS, "latch", [Stopped, Killed];
    from_our_selector_stopped_and_killed: OURS, "selector", [Stopped, Killed];
    from_curator_cut_off: CURATOR, "mutex", [CutOff];
    from_curators_writer_cut_off: CURATOR, "write", [CutOff];
    from_curators_lease_cut_off: CURATOR, "semaphore:1", [CutOff];
    from_curators_selector_cut_off: CURATOR, "selector", [CutOff];
    from_curator_stopped_and_killed: CURATOR, "mutex", [Stopped, Killed];
    from_curators_latch_stopped_and_killed: CURATOR, "latch", [Stopped, Killed];
    from_curators_selector_stopped_and_killed: CURATOR, "selector", [Stopped, Killed];
    from_kazoo_cut_off: KAZOO, "mutex", [CutOff];
}

async fn takes_over(whose: &str, kind: &str, ends: &[End]) {
    let is_ours = whose == OURS;
    // A process that is stopped or killed is the test's own.
    let holders = match whose {
        OURS if ends != [CutOff] => Some(peers::own_ours()),
        CURATOR if ends != [CutOff] => peers::own_curator(),
        _ => peers::shared(whose),
    };
    let heirs = if is_ours { peers::curator() } else { Some(peers::ours()) };
    let (Some(holders), Some(heirs)) = (holders, heirs) else { return };
    let (recipe, holder) = match kind {
        "mutex" => ("mutex", "holder"),
        "write" => ("read-write lock", "writer"),
        "latch" => ("leader latch", "leader"),
        "selector" => ("leader selector", "leader"),
        _ => ("semaphore of one", "holder"),
    };
    let [of, waits] = match whose {
        OURS => ["our", "Curator's"],
        CURATOR => ["Curator's", "ours"],
        _ => ["kazoo's", "ours"],
    };
    for &end in ends {
        let Succession { stage, proxy, holder: held, heir, heir_waits, node } =
            Succession::begin(kind, &holders, &heirs).await;
        // Curator tells leaders alone.
        let lost = (end == CutOff && (is_ours || holder == "leader")).then(|| held.begin_lost());
        let _fault = (end == CutOff).then(|| proxy.stall(Direction::Both));
        match end {
            Stopped => holders.signal(SIGSTOP),
            Killed => holders.signal(SIGKILL),
            CutOff => {}
        }
        let at = taken_over(&stage, &node, &heir, heir_waits).await;
        let end_said = ["stopped", "killed", "cut off"][end as usize];
        let who = format!("{of} {holder} is {end_said}, {waits} waits");
        if let Some(lost) = lost {
            let lost = lost.await;
            let (how, knew) = lost.split_once(' ').unwrap();
            let knew: Nanos = knew.parse().unwrap();
            assert!(!is_ours || how == "LeaseEnded", "{how}");
            assert!(knew < at, "it knew {} ns after", knew - at);
            let early = format!("{} ms before", (at - knew) / 1_000_000);
            shown(recipe, &who, "takes over after the holder knew of its loss", &early);
        } else {
            shown(recipe, &who, "takes over once the node is gone, not before", "");
        }
        if end == Stopped {
            // Its question was there before it ran again: it is what it does first.
            let asked = held.begin_is_held();
            holders.signal(SIGCONT);
            let believes = acquired(asked).await.is_some();
            if is_ours {
                assert!(!believes, "it believes that it holds");
                let who = format!("our {holder}, resumed after that");
                shown(recipe, &who, "knows at its first look", "");
            }
        }
        heir.release().await;
    }
}

/// A holder, and an heir that waits.
struct Succession {
    stage: Stage,
    /// Between the holder and the servers.
    proxy: FaultProxy,
    holder: Lock,
    heir: Lock,
    heir_waits: Answer,
    /// The holder's.
    node: String,
}

impl Succession {
    async fn begin(kind: &str, holders: &Arc<Peer>, heirs: &Arc<Peer>) -> Self {
        let stage = Stage::of(kind).await;
        let proxy = FaultProxy::start(stage.servers()).await.unwrap();
        let party = Party::join_for(holders, proxy.connect_string(), SESSION).await;
        let holder = party.lock(kind, stage.path()).await;
        let heir = stage.lock(heirs, kind).await;
        holder.acquire().await;
        stage.settles().await;
        let node = stage.nodes().await.remove(0);
        let heir_waits = heir.begin_acquire();
        stage.queues_behind(1).await;
        Self { stage, proxy, holder, heir, heir_waits, node }
    }
}

/// When the heir took over, which it never does while the holder's node is there.
async fn taken_over(stage: &Stage, node: &str, heir: &Lock, heir_waits: Answer) -> Nanos {
    eventually("the heir takes over", async || {
        // In this order: a node that is there was there when the answer came.
        let is_in = heir_waits.is_there();
        let stands = stage.arena.stat(node).await.is_some();
        assert!(!(is_in && stands), "{} holds beside {node}", heir.name);
        is_in
    })
    .await;
    acquired(heir_waits).await.expect("acquired")
}

/// Its lease ends and its session does not: the place is its own still. False where the machine was too busy, and its session
/// was over.
async fn leads_again(curator: &Arc<Peer>) -> bool {
    let succession = Succession::begin("latch", &peers::ours(), curator).await;
    let Succession { stage, proxy, holder, heir, heir_waits, node } = succession;
    let lost = holder.begin_lost();
    let fault = proxy.stall(Direction::Both);
    lost.await;
    assert!(!holder.is_held().await);
    fault.heal();
    let decided = async || heir_waits.is_there() || holder.is_held().await;
    eventually("somebody leads", decided).await;
    let again = !heir_waits.is_there();
    if again {
        assert!(stage.arena.stat(&node).await.is_some());
        assert!(holder.is_held().await && !heir_waits.is_there());
    }
    holder.release().await;
    heir_waits.await;
    heir.release().await;
    stage.nodes_are(0).await;
    again
}

#[tokio::test]
#[ignore = "make test-all"]
async fn our_latch_leads_again_by_its_node() {
    let Some(curator) = peers::curator() else { return };
    for _ in 0..3 {
        if leads_again(&curator).await {
            let who = "our leader is cut off for less than its session, Curator's waits";
            let result = "leads again by its node; Curator's never did";
            return shown("leader latch", who, result, "");
        }
    }
    panic!("it never led again");
}
