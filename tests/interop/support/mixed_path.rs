//! A lock path where contenders of several implementations meet, and the checks that apply to each pair.

use std::fmt::Debug;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use zookeeper_recipes_dev::{LONG, Testbed, children, eventually};

use crate::support::commands::{Lock, Nanos, Party, acquired, stamp};
use crate::support::peer_process::Peer;

/// How long a contender that is kept out waits. Ours fails if no server answered in that time; then it waits longer.
const LIMITS: [Duration; 3] =
    [Duration::from_millis(300), Duration::from_secs(3), Duration::from_secs(30)];

/// A lock path on the shared server, for contenders of several implementations.
pub(crate) struct MixedPath {
    pub(crate) testbed: Testbed,
    /// What locks are made with: of a multi-lock, several paths.
    lock_path: String,
    /// Where nodes stand that hold or wait.
    queues: Vec<String>,
    /// Of a semaphore: where whoever is about to get a lease stands, and may stand a moment longer.
    turns: Option<String>,
}

/// Several rows at a time. A failure names its row.
pub(crate) async fn each<R: Debug + Copy>(rows: &[R], check: impl AsyncFn(R)) {
    let checks = rows.iter().map(|&row| {
        let checked = AssertUnwindSafe(check(row)).catch_unwind();
        checked.map(move |outcome| outcome.err().map(|_| format!("{row:?}")))
    });
    let failed: Vec<String> =
        stream::iter(checks).buffer_unordered(8).filter_map(async |failed| failed).collect().await;
    assert!(failed.is_empty(), "failed: {failed:#?}");
}

impl MixedPath {
    /// For locks of this kind.
    pub(crate) async fn of(kind: &str) -> Self {
        let testbed = Testbed::real().await;
        let below = |name: &str| format!("{}/{name}", testbed.path);
        let (queues, turns) = if kind.starts_with("semaphore") {
            // A waiter has its node among the locks, and may have one among the leases.
            (vec![below("locks"), below("leases")], Some(below("locks")))
        } else if kind == "multi" {
            (vec![below("a"), below("b")], None)
        } else {
            (vec![testbed.path.clone()], None)
        };
        let lock_path = if kind == "multi" { queues.join(",") } else { testbed.path.clone() };
        Self { testbed, lock_path, queues, turns }
    }

    /// Nobody waits, and nothing but the nodes of the holders is left.
    pub(crate) async fn settles(&self) {
        let Some(turns) = &self.turns else { return };
        let is_empty = async || children(&self.testbed.admin, turns).await.is_empty();
        eventually("nobody waits", is_empty).await;
    }

    pub(crate) fn path(&self) -> &str {
        &self.lock_path
    }

    pub(crate) fn servers(&self) -> &str {
        self.testbed.server.connect_string()
    }

    /// A session of its own.
    pub(crate) async fn party(&self, peer: &Arc<Peer>) -> Party {
        Party::join(peer, self.servers()).await
    }

    /// A lock at this path, with a session of its own.
    pub(crate) async fn lock(&self, peer: &Arc<Peer>, kind: &str) -> Lock {
        self.party(peer).await.lock(kind, self.path()).await
    }

    /// Those that hold or wait, as the server has them: full paths, in the order of their numbers.
    pub(crate) async fn nodes(&self) -> Vec<String> {
        let mut nodes = Vec::new();
        for queue in &self.queues {
            let mut names = children(&self.testbed.admin, queue).await;
            names.sort_by_key(|name| name[name.len().saturating_sub(10)..].to_owned());
            nodes.extend(names.into_iter().map(|name| format!("{queue}/{name}")));
        }
        nodes
    }

    pub(crate) async fn nodes_are(&self, count: usize) {
        eventually(&format!("{count} nodes"), async || self.nodes().await.len() == count).await;
    }

    /// The contender's node stands in the queue, where there were so many nodes before.
    pub(crate) async fn queues_behind(&self, nodes: usize) {
        eventually("it queues", async || self.nodes().await.len() > nodes).await;
    }

    /// Whoever comes while the holder holds is kept out until it leaves, and then gets in.
    pub(crate) async fn keeps_out(&self, holder: &Lock, contender: &Lock) {
        holder.acquire().await;
        self.settles().await;
        self.keeps_out_until(contender, async || holder.release().await).await;
        contender.release().await;
        self.nodes_are(0).await;
    }

    /// The contender, while others hold.
    pub(crate) async fn keeps_out_while(&self, contender: &Lock) {
        let held = self.nodes().await.len();
        for limit in LIMITS {
            let limited = contender.begin_acquire_for(limit);
            eventually("it queues", async || limited.is_there() || self.nodes().await.len() > held)
                .await;
            match limited.outcome().await {
                Ok(answer) => {
                    assert_eq!(stamp(&answer), None, "{} got in", contender.name);
                    return self.nodes_are(held).await;
                }
                Err(error) => assert!(error.contains("Unavailable"), "{}: {error}", contender.name),
            }
            self.nodes_are(held).await;
        }
        panic!("{}: no answer within {LIMITS:?}", contender.name);
    }

    /// The contender, while others hold: it gets in, and not before `leave`, whose stamp is when.
    pub(crate) async fn keeps_out_until(
        &self,
        contender: &Lock,
        leave: impl AsyncFnOnce() -> Nanos,
    ) {
        self.keeps_out_while(contender).await;
        let held = self.nodes().await.len();
        let waiting = contender.begin_acquire();
        self.queues_behind(held).await;
        assert!(!waiting.is_there(), "{} got in", contender.name);
        let left = leave().await;
        let came = acquired(waiting).await.expect("acquired");
        assert!(left <= came, "{} got in {} ns before", contender.name, left - came);
    }

    /// Somebody whom ours would not keep out holds: ours says so, and leaves nothing.
    pub(crate) async fn refuses(&self, ours: &Lock) {
        let nodes = self.nodes().await;
        // The refusal comes with the first answer of the server, however long it may wait.
        for attempt in [ours.begin_acquire(), ours.begin_acquire_for(LONG)] {
            let error = attempt.error().await;
            let child = nodes[0].rsplit('/').next().unwrap();
            assert!(error.contains("UnusablePath") && error.contains(child), "{error}");
        }
        eventually("nothing more is left", async || self.nodes().await == nodes).await;
    }

    /// The holder stays.
    pub(crate) async fn lets_in_beside(&self, holder: &Lock, other: &Lock) {
        other.acquire().await;
        assert!(holder.is_held().await, "{} lost it", holder.name);
        other.release().await;
    }
}
