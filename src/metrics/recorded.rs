//! The implementation with the feature `metrics`: all values go to the `metrics` facade.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ::metrics::{
    Gauge, Label, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};

use super::{Operation, Recipe};
use crate::clock::BootInstant;
use crate::error::{Error, Loss};
use crate::sync::Mutex;

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

/// The operations that are retried.
const RETRIED: [Operation; 8] = [
    Operation::ENTER,
    Operation::CREATE,
    Operation::WATCH,
    Operation::REQUEST,
    Operation::FOLLOW,
    Operation::WRITE,
    Operation::CLEANUP,
    Operation::CONNECT,
];

/// The operations whose outcome may stay unknown.
const WRITES: [Operation; 4] =
    [Operation::CREATE, Operation::WRITE, Operation::FENCED_WRITE, Operation::CLEANUP];

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

/// Calls the recorder and catches its panic, which the panic hook reports; the value is then not counted. An uncaught
/// panic would end the supervisor, or the whole process if it came from a destructor.
fn record<T>(recorder: impl FnOnce() -> T) -> Option<T> {
    // Unwind safe, because the closures change none of our data.
    catch_unwind(AssertUnwindSafe(recorder)).ok()
}

/// Adds `by` to a gauge for as long as this value lives.
#[derive(Debug)]
pub(crate) struct Counted {
    /// `None` if the recorder panicked.
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
        Self { gauge: record(count), by }
    }

    pub(crate) fn set(&mut self, by: usize) {
        let by = by as f64;
        if let Some(gauge) = &self.gauge {
            record(|| gauge.increment(by - self.by));
        }
        self.by = by;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(gauge) = &self.gauge {
            record(|| gauge.decrement(self.by));
        }
    }
}

/// Computes the label `path` of a lock, if the lock has one.
pub(crate) type PathLabel = Option<Arc<dyn Fn(&str) -> Option<String> + Send + Sync>>;

/// The labels of a lock. The default is for a lock that another recipe uses internally; such a lock is not counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct LockLabels(Option<Labels>);

#[derive(Clone, Debug)]
struct Labels {
    recipe: Recipe,
    path: Option<Arc<str>>,
}

impl Labels {
    fn with(&self, more: Option<(&'static str, &'static str)>) -> Vec<Label> {
        let recipe = Label::from_static_parts("recipe", self.recipe.0);
        let path = self.path.iter().map(|path| Label::new("path", path.clone()));
        let more = more.map(|(key, value)| Label::from_static_parts(key, value));
        std::iter::once(recipe).chain(path).chain(more).collect()
    }

    /// Registers the gauges and counters of the lock with the value zero. A counter that first appears with its first
    /// loss shows no growth to a query, and a query for locks that no task holds finds no gauge that was never
    /// registered. The gauges are incremented by zero, not set to it, because other locks with these labels may be
    /// held.
    fn begin_at_zero(&self) {
        for name in [WAITING, HOLDING] {
            record(|| gauge!(name, self.with(None)).increment(0.0));
        }
        for cause in LOST.into_iter().map(cause) {
            record(|| counter!(LOSSES, self.with(Some(("cause", cause)))).increment(0));
        }
        if self.recipe == Recipe::WRITE_LOCK {
            Self { recipe: Recipe::READ_LOCK, path: self.path.clone() }.begin_at_zero();
        }
    }
}

impl LockLabels {
    pub(crate) fn new(recipe: Recipe, label: &PathLabel, path: &str) -> Self {
        let path = label.as_ref().and_then(|label| label(path)).map(Arc::from);
        let labels = Labels { recipe, path };
        labels.begin_at_zero();
        Self(Some(labels))
    }

    /// The labels of the same lock for another recipe.
    pub(crate) fn as_of(&self, recipe: Recipe) -> Self {
        Self(self.0.clone().map(|labels| Labels { recipe, ..labels }))
    }

    /// Counts and times a caller that wants the lock from now on.
    pub(crate) fn acquiring(&self) -> Acquiring {
        Acquiring(self.0.as_ref().map(|labels| Timed::begin(WAITING, labels)))
    }
}

/// A wait or a hold, counted and timed for as long as this value lives.
#[derive(Debug)]
struct Timed {
    labels: Labels,
    since: BootInstant,
    _counted: Counted,
}

impl Timed {
    fn begin(name: &'static str, labels: &Labels) -> Self {
        let _counted = Counted::new(|| gauge!(name, labels.with(None)), 1.0);
        Self { labels: labels.clone(), since: BootInstant::now(), _counted }
    }

    fn hold_ended(self, how: Option<Loss>) {
        let Self { labels, since, _counted } = self;
        record(|| histogram!(HOLD, labels.with(None)).record(since.elapsed()));
        if let Some(loss) = how {
            record(|| counter!(LOSSES, labels.with(Some(("cause", cause(loss))))).increment(1));
        }
    }
}

/// A caller that wants a lock. If it is dropped before the answer, the caller has given up.
#[derive(Debug)]
pub(crate) struct Acquiring(Option<Timed>);

impl Acquiring {
    pub(crate) fn answered<T>(&mut self, answer: &Result<T, Error>) {
        self.ended(match answer {
            Ok(_) => "acquired",
            Err(error) if error.is_busy() => "busy",
            Err(_) => "failed",
        });
    }

    fn ended(&mut self, outcome: &'static str) {
        if let Some(Timed { labels, since, _counted }) = self.0.take() {
            let labels = labels.with(Some(("outcome", outcome)));
            record(|| histogram!(ACQUIRE, labels).record(since.elapsed()));
        }
    }
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        self.ended("given_up");
    }
}

/// The holds in one term of a session lease. They end with the term at the latest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holds(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    over: Option<Loss>,
    next: u64,
    holds: HashMap<u64, Timed>,
}

impl Holds {
    pub(crate) fn begin(&self, lock: &LockLabels) -> Holding {
        let begun = lock.0.as_ref().map(|labels| Timed::begin(HOLDING, labels));
        let (number, over) = {
            let mut state = self.0.lock();
            state.next += 1;
            let number = state.next;
            state.holds.extend(begun.map(|hold| (number, hold)));
            (number, state.over)
        };
        let holding = Holding { holds: self.clone(), number };
        if over.is_some() {
            holding.ended(over);
        }
        holding
    }

    /// Ends all holds, and each hold that begins later.
    pub(crate) fn ended(&self, loss: Loss) {
        let holds = {
            let mut state = self.0.lock();
            state.over.get_or_insert(loss);
            std::mem::take(&mut state.holds)
        };
        // Outside the lock, because the recorder is the user's code.
        holds.into_values().for_each(|hold| hold.hold_ended(Some(loss)));
    }
}

/// One hold, which ends once, either by itself or with its term.
#[derive(Debug)]
pub(crate) struct Holding {
    holds: Holds,
    number: u64,
}

impl Holding {
    pub(crate) fn ended(&self, how: Option<Loss>) {
        if let Some(hold) = self.take() {
            hold.hold_ended(how);
        }
    }

    fn take(&self) -> Option<Timed> {
        self.holds.0.lock().holds.remove(&self.number)
    }
}

/// A hold that is dropped without an end is not recorded.
impl Drop for Holding {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// Counts a clean-up duty until it is done.
pub(crate) fn cleaning_up() -> Counted {
    Counted::new(|| gauge!(CLEANUP_DUTIES), 1.0)
}

/// Counts the bytes of watched paths, and the limit for them, for as long as the session lasts.
pub(crate) fn watch_budget(limit: usize) -> (Counted, Counted) {
    let used = Counted::new(|| gauge!(WATCH_BUDGET_USED), 0.0);
    (used, Counted::new(|| gauge!(WATCH_BUDGET_LIMIT), limit as f64))
}

/// Counts one `Curator` under the state of its connection; `None` once it no longer wants a connection.
#[derive(Debug, Default)]
pub(crate) struct Connection(Mutex<Option<(&'static str, Counted)>>);

impl Connection {
    /// If several tasks call this at the same time, the last call wins.
    pub(crate) fn set_state(&self, state: Option<&'static str>) {
        if self.0.lock().as_ref().map(|(now, _)| *now) != state {
            let counted =
                |state| (state, Counted::new(|| gauge!(CONNECTIONS, "state" => state), 1.0));
            let next = state.map(counted);
            let last = std::mem::replace(&mut *self.0.lock(), next);
            // Outside the lock, because the recorder is the user's code.
            drop(last);
        }
    }
}

pub(crate) fn session_opened() {
    record(|| counter!(SESSIONS_OPENED).increment(1));
}

pub(crate) fn session_lost() {
    record(|| counter!(SESSIONS_LOST).increment(1));
}

/// Counts a retry.
pub(crate) fn retried(operation: Operation) {
    record(|| counter!(RETRIES, "operation" => operation.0).increment(1));
}

/// Counts a write whose outcome is unknown.
pub(crate) fn unknown(operation: Operation) {
    record(|| counter!(UNKNOWN_OUTCOMES, "operation" => operation.0).increment(1));
}

/// Records the part of the lease that was left when it was renewed.
pub(crate) fn lease_left(left: f64) {
    record(|| histogram!(LEASE_LEFT).record(left));
}

/// Describes the metrics to the recorder, and starts those at zero whose labels are known in advance.
pub(crate) fn describe() {
    record(describe_all);
    for name in [SESSIONS_OPENED, SESSIONS_LOST] {
        record(|| counter!(name).increment(0));
    }
    for operation in RETRIED {
        record(|| counter!(RETRIES, "operation" => operation.0).increment(0));
    }
    for operation in WRITES {
        record(|| counter!(UNKNOWN_OUTCOMES, "operation" => operation.0).increment(0));
    }
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
