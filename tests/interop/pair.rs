//! What every pair must show, in whatever recipe.

use std::time::Duration;

use futures_util::future::join_all;

use crate::harness::{Arena, LONG, children, eventually};
use crate::lock::{Lock, Party, acquired, stamp};
use crate::peer::Peer;
use crate::rules::{Finding, Hold, Mode, Rule, judge};
use std::sync::Arc;

/// How long a contender that is kept out waits. Ours fails if no server answered in that time; then it waits longer.
const LIMITS: [Duration; 3] =
    [Duration::from_millis(300), Duration::from_secs(3), Duration::from_secs(30)];
/// How long both hold at random.
pub(crate) const TIME: Duration = Duration::from_secs(2);
pub(crate) const LONGEST_HOLD: Duration = Duration::from_millis(4);

/// A place of its own on the shared server.
pub(crate) struct Stage {
    pub(crate) arena: Arena,
    /// Where nodes stand that hold or wait.
    queues: Vec<String>,
    /// Of a semaphore: where whoever is about to get a lease stands, and may stand a moment longer.
    turns: Option<String>,
}

/// One side of a row, in one of its roles.
pub(crate) struct Side {
    pub(crate) lock: Lock,
    pub(crate) mode: Mode,
}

impl Side {
    pub(crate) fn alone(lock: Lock) -> Self {
        Self { lock, mode: Mode::Write }
    }

    pub(crate) fn reader(lock: Lock) -> Self {
        Self { lock, mode: Mode::Read }
    }
}

impl Stage {
    /// Nodes stand under the lock path.
    pub(crate) async fn new() -> Self {
        Self::with_queues(|path| vec![path.to_owned()]).await
    }

    /// For locks of this kind.
    pub(crate) async fn of(kind: &str) -> Self {
        if kind.starts_with("semaphore") { Self::of_a_semaphore().await } else { Self::new().await }
    }

    pub(crate) async fn with_queues(queues: impl FnOnce(&str) -> Vec<String>) -> Self {
        let arena = Arena::real().await;
        let queues = queues(&arena.path);
        Self { arena, queues, turns: None }
    }

    /// Who waits has its node among the locks, and may have one among the leases.
    pub(crate) async fn of_a_semaphore() -> Self {
        let queues = |path: &str| vec![format!("{path}/locks"), format!("{path}/leases")];
        let stage = Self::with_queues(queues).await;
        Self { turns: stage.queues.first().cloned(), ..stage }
    }

    /// Nobody waits, and nothing but the nodes of the holders is left.
    pub(crate) async fn settles(&self) {
        let Some(turns) = &self.turns else { return };
        let is_empty = async || children(&self.arena.admin, turns).await.is_empty();
        eventually("nobody waits", is_empty).await;
    }

    pub(crate) fn path(&self) -> &str {
        &self.arena.path
    }

    pub(crate) fn servers(&self) -> &str {
        self.arena.server.connect_string()
    }

    /// A session of its own.
    pub(crate) async fn party(&self, peer: &Arc<Peer>) -> Party {
        Party::join(peer, self.servers()).await
    }

    /// A lock at the path of the stage, with a session of its own.
    pub(crate) async fn lock(&self, peer: &Arc<Peer>, kind: &str) -> Lock {
        self.party(peer).await.lock(kind, self.path()).await
    }

    /// Those that hold or wait, as the server has them: full paths.
    pub(crate) async fn nodes(&self) -> Vec<String> {
        let mut nodes = Vec::new();
        for queue in &self.queues {
            let children = children(&self.arena.admin, queue).await;
            nodes.extend(children.into_iter().map(|name| format!("{queue}/{name}")));
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
                Err(error) => assert!(error.contains("TimedOut"), "{}: {error}", contender.name),
            }
            self.nodes_are(held).await;
        }
        panic!("{}: no answer within {LIMITS:?}", contender.name);
    }

    /// The contender, while others hold: it gets in, and not before `leave`, whose stamp is when.
    pub(crate) async fn keeps_out_until(&self, contender: &Lock, leave: impl AsyncFnOnce() -> u64) {
        self.keeps_out_while(contender).await;
        let held = self.nodes().await.len();
        let waiting = contender.begin_acquire();
        self.queues_behind(held).await;
        assert!(!waiting.is_there(), "{} got in", contender.name);
        let left = leave().await;
        let came = acquired(waiting).await.expect("acquired");
        assert!(left <= came, "{} got in {} ns before", contender.name, left - came);
    }

    /// Both hold at one moment.
    pub(crate) async fn lets_in(&self, holder: &Lock, other: &Lock) {
        holder.acquire().await;
        self.lets_in_beside(holder, other).await;
        holder.release().await;
        self.nodes_are(0).await;
    }

    /// Somebody whom ours would not keep out holds: ours says so, and leaves nothing.
    pub(crate) async fn refuses(&self, ours: &Lock) {
        let nodes = self.nodes().await;
        // The refusal comes with the first answer of the server, however long it may wait.
        for attempt in [ours.begin_acquire(), ours.begin_acquire_for(LONG)] {
            let error = attempt.error().await;
            let child = nodes[0].rsplit('/').next().unwrap();
            assert!(error.contains("OtherRecipe") && error.contains(child), "{error}");
        }
        eventually("nothing more is left", async || self.nodes().await == nodes).await;
    }

    /// The holder stays.
    pub(crate) async fn lets_in_beside(&self, holder: &Lock, other: &Lock) {
        other.acquire().await;
        assert!(holder.is_held().await, "{} lost it", holder.name);
        other.release().await;
    }

    /// All hold at random, at the same time; what the checker says, and how often each held.
    pub(crate) async fn at_random(&self, rule: Rule, sides: &[Side]) -> (Vec<Finding>, String) {
        let holds = sides.iter().map(|side| side.lock.holds(side.mode, TIME, LONGEST_HOLD));
        let logs: Vec<Vec<Hold>> = join_all(holds).await;
        self.nodes_are(0).await;
        let counts: Vec<_> = sides
            .iter()
            .zip(&logs)
            .map(|(side, log)| format!("{} {}", side.lock.whose(), log.len()))
            .collect();
        (judge(rule, &logs), counts.join(" + "))
    }

    /// No hold breaks the rule; how often each held.
    pub(crate) async fn in_peace(&self, rule: Rule, sides: &[Side]) -> String {
        let (findings, counts) = self.at_random(rule, sides).await;
        assert_eq!(findings, [], "of {counts} holds");
        counts
    }
}
