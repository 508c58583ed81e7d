//! With the feature `metrics`: by its facade.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ::metrics::{
    Gauge, Label, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};

use super::{Operation, Outcome, Recipe};
use crate::clock::Moment;
use crate::error::Loss;
use crate::lock::Mutex;

const WAITING: &str = "zookeeper_recipes_waiting";
const HOLDING: &str = "zookeeper_recipes_holding";
const ACQUIRE: &str = "zookeeper_recipes_acquire_seconds";
const HOLD: &str = "zookeeper_recipes_hold_seconds";
const LOSSES: &str = "zookeeper_recipes_losses_total";
const RETRIES: &str = "zookeeper_recipes_retries_total";
const UNKNOWN_OUTCOMES: &str = "zookeeper_recipes_unknown_outcomes_total";
const CLEANUP_DUTIES: &str = "zookeeper_recipes_cleanup_duties";
const LEASE_LEFT: &str = "zookeeper_recipes_lease_left_ratio";
const WATCH_BUDGET_USED: &str = "zookeeper_recipes_watch_budget_used_bytes";
const WATCH_BUDGET_LIMIT: &str = "zookeeper_recipes_watch_budget_limit_bytes";
const CONNECTIONS: &str = "zookeeper_recipes_connections";
const SESSIONS_OPENED: &str = "zookeeper_recipes_sessions_opened_total";
const SESSIONS_LOST: &str = "zookeeper_recipes_sessions_lost_total";

impl Recipe {
    fn label(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::ReadLock => "read_lock",
            Self::WriteLock => "write_lock",
            Self::Semaphore => "semaphore",
            Self::Once => "once",
            Self::LeaderLatch => "leader_latch",
            Self::LeaderSelector => "leader_selector",
        }
    }
}

impl Outcome {
    fn label(self) -> &'static str {
        match self {
            Self::Acquired => "acquired",
            Self::Busy => "busy",
            Self::Failed => "failed",
            Self::GivenUp => "given_up",
        }
    }
}

impl Operation {
    const RETRIED: [Self; 8] = [
        Self::Enter,
        Self::Create,
        Self::Watch,
        Self::Request,
        Self::Follow,
        Self::Write,
        Self::CleanUp,
        Self::Connect,
    ];
    const WRITES: [Self; 4] = [Self::Create, Self::Write, Self::FencedWrite, Self::CleanUp];

    fn label(self) -> &'static str {
        match self {
            Self::Enter => "enter",
            Self::Create => "create",
            Self::Watch => "watch",
            Self::Request => "request",
            Self::Follow => "follow",
            Self::Write => "write",
            Self::FencedWrite => "fenced_write",
            Self::CleanUp => "cleanup",
            Self::Connect => "connect",
        }
    }
}

/// The label `cause`.
fn cause(loss: Loss) -> &'static str {
    match loss {
        Loss::LeaseEnded => "lease_ended",
        Loss::Suspended => "suspended",
        Loss::SessionExpired => "session_expired",
        Loss::Closed => "closed",
        Loss::NodeDeleted => "node_deleted",
    }
}

const LOST: [Loss; 5] =
    [Loss::LeaseEnded, Loss::Suspended, Loss::SessionExpired, Loss::Closed, Loss::NodeDeleted];

/// Calls the recorder. If that panics, its panic hook says so, and what was to be counted is not: the supervisor would
/// end by it, and the process, where it is called in a destructor.
fn tell<T>(recorder: impl FnOnce() -> T) -> Option<T> {
    // Nothing of ours is changed in there.
    catch_unwind(AssertUnwindSafe(recorder)).ok()
}

/// Counts one in a gauge, for as long as it lives.
#[derive(Debug)]
struct Counted {
    /// `None` if the recorder did not count it.
    gauge: Option<Gauge>,
    by: f64,
}

impl Counted {
    fn new(gauge: impl FnOnce() -> Gauge, by: f64) -> Self {
        let count = || {
            let gauge = gauge();
            gauge.increment(by);
            gauge
        };
        Self { gauge: tell(count), by }
    }

    fn comes_to(&mut self, by: f64) {
        if let Some(gauge) = &self.gauge {
            tell(|| gauge.increment(by - self.by));
        }
        self.by = by;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(gauge) = self.gauge.take() {
            let by = self.by;
            tell(move || gauge.decrement(by));
        }
    }
}

type ToLabel = dyn Fn(&str) -> Option<String> + Send + Sync;

/// What the label `path` of a lock is, if it has one.
#[derive(Clone, Default)]
pub(crate) struct PathLabel(Option<Arc<ToLabel>>);

impl PathLabel {
    pub(crate) fn new(label: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(label)))
    }
}

impl fmt::Debug for PathLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PathLabel").field(&self.0.is_some()).finish()
    }
}

/// The labels of what is counted of a lock. The default is a lock of our own making, within another: it is not counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lock(Option<Labels>);

#[derive(Clone, Debug)]
struct Labels {
    recipe: Recipe,
    path: Option<Arc<str>>,
}

impl Labels {
    fn with(&self, more: Option<(&'static str, &'static str)>) -> Vec<Label> {
        let recipe = Label::from_static_parts("recipe", self.recipe.label());
        let path = self.path.iter().map(|path| Label::new("path", path.clone()));
        let more = more.map(|(key, value)| Label::from_static_parts(key, value));
        std::iter::once(recipe).chain(path).chain(more).collect()
    }

    /// A counter that first appears with its first loss has not grown, to a query of its growth; and a query whether
    /// no task holds finds no gauge that never was. Nothing is set: the others of its kind may hold by now.
    fn begin_at_zero(&self) {
        for name in [WAITING, HOLDING] {
            tell(|| gauge!(name, self.with(None)).increment(0.0));
        }
        for cause in LOST.into_iter().map(cause) {
            tell(|| counter!(LOSSES, self.with(Some(("cause", cause)))).increment(0));
        }
        if self.recipe == Recipe::WriteLock {
            Self { recipe: Recipe::ReadLock, path: self.path.clone() }.begin_at_zero();
        }
    }
}

impl Lock {
    pub(crate) fn new(recipe: Recipe, label: &PathLabel, path: &str) -> Self {
        let path = label.0.as_ref().and_then(|label| label(path)).map(Arc::from);
        let labels = Labels { recipe, path };
        labels.begin_at_zero();
        Self(Some(labels))
    }

    /// The same lock, in another use.
    pub(crate) fn as_of(&self, recipe: Recipe) -> Self {
        Self(self.0.clone().map(|labels| Labels { recipe, ..labels }))
    }

    /// A caller wants it from now on.
    pub(crate) fn acquiring(&self) -> Acquiring {
        let pending = |labels: &Labels| Pending {
            _waiting: Counted::new(|| gauge!(WAITING, labels.with(None)), 1.0),
            labels: labels.clone(),
            since: Moment::now(),
        };
        Acquiring(self.0.as_ref().map(pending))
    }
}

/// A caller that wants a lock. Dropping it is to give up.
#[derive(Debug)]
pub(crate) struct Acquiring(Option<Pending>);

#[derive(Debug)]
struct Pending {
    labels: Labels,
    since: Moment,
    _waiting: Counted,
}

impl Acquiring {
    pub(crate) fn ended(&mut self, outcome: Outcome) {
        if let Some(Pending { labels, since, _waiting }) = self.0.take() {
            let labels = labels.with(Some(("outcome", outcome.label())));
            tell(|| histogram!(ACQUIRE, labels).record(since.elapsed()));
        }
    }
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        self.ended(Outcome::GivenUp);
    }
}

/// What is held in one term of a lease, and ends with it at the latest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holds(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    over: Option<Loss>,
    next: u64,
    holds: HashMap<u64, OneHeld>,
}

#[derive(Debug)]
struct OneHeld {
    labels: Labels,
    since: Moment,
    _holding: Counted,
}

impl OneHeld {
    fn ended(self, how: Option<Loss>) {
        let Self { labels, since, _holding } = self;
        tell(|| histogram!(HOLD, labels.with(None)).record(since.elapsed()));
        if let Some(loss) = how {
            tell(|| counter!(LOSSES, labels.with(Some(("cause", cause(loss))))).increment(1));
        }
    }
}

impl Holds {
    pub(crate) fn begin(&self, lock: &Lock) -> Holding {
        let holds = self.clone();
        let Some(labels) = &lock.0 else { return Holding { holds, number: None } };
        let held = OneHeld {
            _holding: Counted::new(|| gauge!(HOLDING, labels.with(None)), 1.0),
            labels: labels.clone(),
            since: Moment::now(),
        };
        let mut state = self.0.lock();
        if let Some(loss) = state.over {
            drop(state);
            held.ended(Some(loss));
            return Holding { holds, number: None };
        }
        let number = state.next;
        state.next += 1;
        state.holds.insert(number, held);
        drop(state);
        Holding { holds, number: Some(number) }
    }

    /// All of them, and whatever begins later.
    pub(crate) fn ended(&self, loss: Loss) {
        let holds = {
            let mut state = self.0.lock();
            state.over.get_or_insert(loss);
            std::mem::take(&mut state.holds)
        };
        // Outside the lock: the recorder is the user's.
        holds.into_values().for_each(|held| held.ended(Some(loss)));
    }
}

/// One hold, which ends once: by itself, or with its term.
#[derive(Debug)]
pub(crate) struct Holding {
    holds: Holds,
    number: Option<u64>,
}

impl Holding {
    pub(crate) fn ended(&self, how: Option<Loss>) {
        if let Some(held) = self.take() {
            held.ended(how);
        }
    }

    fn take(&self) -> Option<OneHeld> {
        self.number.and_then(|number| self.holds.0.lock().holds.remove(&number))
    }
}

/// One that never ended came to nothing.
impl Drop for Holding {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// A clean-up duty, until it is done.
#[derive(Debug)]
pub(crate) struct CleanUp {
    _counted: Counted,
}

impl CleanUp {
    pub(crate) fn outstanding() -> Self {
        Self { _counted: Counted::new(|| gauge!(CLEANUP_DUTIES), 1.0) }
    }
}

/// What an epoch has of its budget of watches, while it lasts.
#[derive(Debug)]
pub(crate) struct WatchBudget {
    limit: usize,
    used: Counted,
    _limit: Counted,
}

impl WatchBudget {
    pub(crate) fn of(limit: usize) -> Self {
        Self {
            limit,
            used: Counted::new(|| gauge!(WATCH_BUDGET_USED), 0.0),
            _limit: Counted::new(|| gauge!(WATCH_BUDGET_LIMIT), as_f64(limit)),
        }
    }

    pub(crate) fn left(&mut self, left: impl FnOnce() -> usize) {
        self.used.comes_to(as_f64(self.limit.saturating_sub(left())));
    }
}

fn as_f64(bytes: usize) -> f64 {
    bytes as f64
}

/// One `Curator`, in the state that its connection is in; `None` if it wants none any more.
#[derive(Debug)]
pub(crate) struct Connection(Mutex<Option<InState>>);

#[derive(Debug)]
struct InState {
    state: &'static str,
    _counted: Counted,
}

impl Connection {
    pub(crate) fn new(state: Option<&'static str>) -> Self {
        Self(Mutex::new(state.map(InState::new)))
    }

    /// Of several at the same time the last one counts.
    pub(crate) fn is(&self, state: Option<&'static str>) {
        if self.0.lock().as_ref().map(|now| now.state) != state {
            let next = state.map(InState::new);
            let last = std::mem::replace(&mut *self.0.lock(), next);
            // Outside the lock: the recorder is the user's.
            drop(last);
        }
    }
}

impl InState {
    fn new(state: &'static str) -> Self {
        Self { state, _counted: Counted::new(|| gauge!(CONNECTIONS, "state" => state), 1.0) }
    }
}

pub(crate) fn session_opened() {
    tell(|| counter!(SESSIONS_OPENED).increment(1));
}

pub(crate) fn session_lost() {
    tell(|| counter!(SESSIONS_LOST).increment(1));
}

/// It is tried again.
pub(crate) fn retried(operation: Operation) {
    tell(|| counter!(RETRIES, "operation" => operation.label()).increment(1));
}

/// It was written, or not.
pub(crate) fn unknown(operation: Operation) {
    tell(|| counter!(UNKNOWN_OUTCOMES, "operation" => operation.label()).increment(1));
}

/// Which part of the lease was left when it was renewed.
#[derive(Debug)]
pub(crate) struct LeaseLeft(Option<f64>);

impl LeaseLeft {
    /// Before the renewal.
    pub(crate) fn look(left: impl FnOnce() -> Option<f64>) -> Self {
        Self(left())
    }

    /// After it: a recorder that takes its time does not shorten the lease.
    pub(crate) fn tell(self) {
        if let Some(left) = self.0 {
            tell(|| histogram!(LEASE_LEFT).record(left));
        }
    }
}

/// Tells the recorder there is what the metrics are, and begins those at zero that have a known set of labels.
pub(crate) fn describe() {
    tell(describe_all);
    begin_at_zero();
}

fn describe_all() {
    use Unit::{Bytes, Count, Seconds};
    describe_gauge!(WAITING, Count, "acquisitions under way");
    describe_gauge!(HOLDING, Count, "holds: nodes that hold, and are not lost");
    describe_histogram!(ACQUIRE, Seconds, "from asking for a lock to the answer");
    describe_histogram!(HOLD, Seconds, "from having a lock to its release or loss");
    describe_counter!(LOSSES, Count, "holds that ended before they were released");
    describe_counter!(RETRIES, Count, "operations that were tried again");
    describe_counter!(UNKNOWN_OUTCOMES, Count, "writes that may or may not have taken effect");
    describe_gauge!(CLEANUP_DUTIES, Count, "nodes that are to be removed, and may be there still");
    describe_histogram!(LEASE_LEFT, "the part of the lease that was left when a probe renewed it");
    describe_gauge!(WATCH_BUDGET_USED, Bytes, "what watched paths take of the sessions' budgets");
    describe_gauge!(WATCH_BUDGET_LIMIT, Bytes, "the sessions' budgets for watched paths");
    describe_gauge!(CONNECTIONS, Count, "open Curators, by the state of their connection");
    describe_counter!(SESSIONS_OPENED, Count, "ZooKeeper sessions that were opened");
    describe_counter!(
        SESSIONS_LOST,
        Count,
        "ZooKeeper sessions that ended before they were closed"
    );
}

fn begin_at_zero() {
    for name in [SESSIONS_OPENED, SESSIONS_LOST] {
        tell(|| counter!(name).increment(0));
    }
    for operation in Operation::RETRIED {
        tell(|| counter!(RETRIES, "operation" => operation.label()).increment(0));
    }
    for operation in Operation::WRITES {
        tell(|| counter!(UNKNOWN_OUTCOMES, "operation" => operation.label()).increment(0));
    }
}
