//! A holder that dies, is stopped or is cut off: the other implementation takes over, never before the holder's node is
//! deleted. Ours knows by then that it has lost, if it runs.

use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal::{SIGCONT, SIGKILL, SIGSTOP};
use zookeeper_recipes_dev::eventually;
use zookeeper_testkit::{Direction, FaultProxy};

use crate::support::commands::{Lock, Nanos, Party, acquired};
use crate::support::mixed_path::{MixedPath, each};
use crate::support::peer_process::{Answer, Peer};
use crate::support::peers::{CURATOR, KAZOO, OURS, own, shared};

/// What the other waits for. A third of it is what a holder has to stop in, and what a busy machine may be late.
const SESSION: Duration = Duration::from_secs(9);

/// Whose holder, of which recipe. The heir is Curator's if the holder is ours, else ours.
#[tokio::test]
async fn from_a_holder_that_is_cut_off() {
    let rows = [
        (OURS, "mutex"),
        (OURS, "write"),
        (OURS, "semaphore:1"),
        (OURS, "latch"),
        (OURS, "selector"),
        (CURATOR, "mutex"),
        (CURATOR, "write"),
        (CURATOR, "semaphore:1"),
        (CURATOR, "latch"),
        (CURATOR, "selector"),
        (KAZOO, "mutex"),
    ];
    each(&rows, async |(whose, kind)| {
        let Some(Succession { mixed_path, proxy, holder, heir, heir_waits, node }) =
            Succession::begin(whose, shared(whose), kind).await
        else {
            return;
        };
        // Curator tells leaders alone.
        let is_told = whose == OURS || ["latch", "selector"].contains(&kind) && whose == CURATOR;
        let lost = is_told.then(|| holder.begin_lost());
        let _fault = proxy.stall(Direction::Both);
        let at = taken_over(&mixed_path, &node, &heir, heir_waits).await;
        if let Some(lost) = lost {
            let lost = lost.await;
            let (how, knew) = lost.split_once(' ').unwrap();
            let knew: Nanos = knew.parse().unwrap();
            assert!(whose != OURS || how == "LeaseEnded", "{how}");
            assert!(knew < at, "it knew {} ns after", knew - at);
        }
        if whose == CURATOR && kind == "mutex" {
            assert!(holder.is_held().await, "Curator reports the loss");
            // The thread enters again without a request.
            holder.acquire().await;
        }
        heir.release().await;
    })
    .await;
}

/// In a process of its own, which is stopped and then killed.
#[tokio::test]
#[ignore = "make test-all"]
async fn from_a_holder_that_is_stopped_or_killed() {
    let rows = [
        (OURS, "mutex"),
        (OURS, "latch"),
        (OURS, "selector"),
        (CURATOR, "mutex"),
        (CURATOR, "latch"),
        (CURATOR, "selector"),
    ];
    each(&rows, async |(whose, kind)| {
        let holders = own(whose);
        for signal in [SIGSTOP, SIGKILL] {
            let Some(Succession { mixed_path, holder, heir, heir_waits, node, .. }) =
                Succession::begin(whose, holders.clone(), kind).await
            else {
                return;
            };
            holder.peer.signal(signal);
            taken_over(&mixed_path, &node, &heir, heir_waits).await;
            if signal == SIGSTOP {
                // Its question was there before it ran again: it is what it does first.
                let asked = holder.begin_is_held();
                holder.peer.signal(SIGCONT);
                let believes = acquired(asked).await.is_some();
                assert!(whose != OURS || !believes, "it believes that it holds");
            }
            heir.release().await;
        }
    })
    .await;
}

/// A holder, and an heir that waits.
struct Succession {
    mixed_path: MixedPath,
    /// Between the holder and the servers.
    proxy: FaultProxy,
    holder: Lock,
    heir: Lock,
    heir_waits: Answer,
    /// The holder's.
    node: String,
}

impl Succession {
    /// None if an implementation is missing.
    async fn begin(whose: &str, holders: Option<Arc<Peer>>, kind: &str) -> Option<Self> {
        let heirs = shared(if whose == OURS { CURATOR } else { OURS })?;
        let mixed_path = MixedPath::of(kind).await;
        let proxy = FaultProxy::start(mixed_path.servers()).await.unwrap();
        let party = Party::join_for(&holders?, proxy.connect_string(), SESSION).await;
        let holder = party.lock(kind, mixed_path.path()).await;
        let heir = mixed_path.lock(&heirs, kind).await;
        holder.acquire().await;
        mixed_path.settles().await;
        let node = mixed_path.nodes().await.remove(0);
        let heir_waits = heir.begin_acquire();
        mixed_path.queues_behind(1).await;
        Some(Self { mixed_path, proxy, holder, heir, heir_waits, node })
    }
}

/// When the heir took over, which it never does while the holder's node is there.
async fn taken_over(mixed_path: &MixedPath, node: &str, heir: &Lock, heir_waits: Answer) -> Nanos {
    eventually("the heir takes over", async || {
        // In this order: a node that is there was there when the answer came.
        let is_in = heir_waits.is_there();
        let stands = mixed_path.testbed.stat(node).await.is_some();
        assert!(!(is_in && stands), "{} holds beside {node}", heir.name);
        is_in
    })
    .await;
    acquired(heir_waits).await.expect("acquired")
}
