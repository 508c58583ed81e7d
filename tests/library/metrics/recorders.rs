//! A recorder is somebody else's code. Whatever it does, holders are told of their loss, first of all.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, LocalRecorderGuard,
    Metadata, Recorder, SharedString, Unit,
};
use tokio_util::sync::CancellationToken;
use zookeeper_recipes::{Loss, MutexGuard};
use zookeeper_testkit::Direction;

use crate::harness::{Arena, eventually, within};

const TIMEOUT: Duration = Duration::from_secs(12);

/// What a recorder is called for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    Describe,
    Make,
    Count(f64),
}

type Does = dyn Fn(&str, Call) + Send + Sync;

/// Does the same at each call.
#[derive(Clone)]
struct Theirs(Arc<Does>);

struct Handle {
    name: String,
    does: Arc<Does>,
}

impl Theirs {
    /// Is the recorder of this thread for as long as the guard lives.
    fn install(does: impl Fn(&str, Call) + Send + Sync + 'static) -> LocalRecorderGuard<'static> {
        // The guard borrows it; there is one for each test.
        metrics::set_default_local_recorder(Box::leak(Box::new(Self(Arc::new(does)))))
    }

    fn describe(&self, key: &KeyName) {
        self.0(key.as_str(), Call::Describe);
    }

    fn make(&self, key: &Key) -> Arc<Handle> {
        self.0(key.name(), Call::Make);
        Arc::new(Handle { name: key.name().to_owned(), does: self.0.clone() })
    }
}

impl Recorder for Theirs {
    fn describe_counter(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&key);
    }

    fn describe_gauge(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&key);
    }

    fn describe_histogram(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&key);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.make(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.make(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.make(key))
    }
}

impl Handle {
    fn count(&self, value: f64) {
        let name = self.name.strip_prefix("zookeeper_recipes_").unwrap();
        (self.does)(name, Call::Count(value));
    }
}

impl CounterFn for Handle {
    fn increment(&self, value: u64) {
        self.count(value as f64);
    }

    fn absolute(&self, value: u64) {
        self.count(value as f64);
    }
}

impl GaugeFn for Handle {
    fn increment(&self, value: f64) {
        self.count(value);
    }

    fn decrement(&self, value: f64) {
        self.count(-value);
    }

    fn set(&self, value: f64) {
        self.count(value);
    }
}

impl HistogramFn for Handle {
    fn record(&self, value: f64) {
        self.count(value);
    }
}

/// It is let go then: its node may be there still.
async fn is_lost(guard: Arc<MutexGuard>, loss: Loss) {
    within("the token", guard.cancellation_token().cancelled()).await;
    assert_eq!(within("the loss", guard.lost()).await, loss);
    assert!(!guard.is_held());
}

/// Goes through everything that is counted. `held` is shown each hold, and `renewed` says when its lease was.
async fn goes_through(held: impl Fn(&Arc<MutexGuard>), mut renewed: impl AsyncFnMut()) {
    let arena = Arena::new().await;
    let (link, curator) = arena.linked(arena.builder().session_timeout(TIMEOUT)).await;
    let mutex = arena.mutex(&curator);
    let hold = async || {
        let guard = Arc::new(within("the lock", mutex.acquire()).await.unwrap());
        held(&guard);
        guard
    };
    let guard = hold().await;
    renewed().await;
    assert!(guard.is_held());
    arena.admin.delete(guard.node(), None).await.unwrap();
    is_lost(guard, Loss::NodeDeleted).await;

    let guard = hold().await;
    arena.kill_session(&curator).await;
    is_lost(guard, Loss::SessionExpired).await;

    let guard = hold().await;
    let stalled = link.stall(Direction::ToClient);
    is_lost(guard, Loss::LeaseEnded).await;
    stalled.heal();

    let guard = hold().await;
    Arc::into_inner(guard).unwrap().release().await.unwrap();
    drop(hold().await);
    arena.children_are(0).await;
    curator.close().await.unwrap();
}

/// So many probes have renewed the lease that without them it would have ended.
const RENEWALS: usize = 7;

const ALL: [&str; 14] = [
    "acquire_seconds",
    "cleanup_duties",
    "connections",
    "hold_seconds",
    "holding",
    "lease_left_ratio",
    "losses_total",
    "retries_total",
    "sessions_lost_total",
    "sessions_opened_total",
    "unknown_outcomes_total",
    "waiting",
    "watch_budget_limit_bytes",
    "watch_budget_used_bytes",
];

/// It costs what would have been counted, and nothing else: no hold, no loss that is not told, no supervisor.
async fn panics_at(is_meant: fn(Call) -> bool) {
    let panicked: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = panicked.clone();
    let _recorder = Theirs::install(move |name, call| {
        if is_meant(call) {
            let name = name.strip_prefix("zookeeper_recipes_").unwrap_or(name);
            seen.lock().unwrap().push(name.to_owned());
            panic!("{name}: {call:?}");
        }
    });
    let probes = || {
        let panicked = panicked.lock().unwrap();
        panicked.iter().filter(|name| *name == "lease_left_ratio").count()
    };
    let is_told_of_probes = !is_meant(Call::Describe);
    goes_through(
        |_| {},
        async || {
            eventually("renewals", async || !is_told_of_probes || probes() >= RENEWALS).await;
        },
    )
    .await;
    let panicked: BTreeSet<_> = panicked.lock().unwrap().drain(..).collect();
    if is_told_of_probes {
        assert_eq!(panicked, ALL.map(str::to_owned).into());
    } else {
        assert_eq!(panicked.len(), 1, "{panicked:?}");
    }
}

#[tokio::test]
async fn one_that_panics_when_it_counts() {
    panics_at(|call| matches!(call, Call::Count(_))).await;
}

#[tokio::test]
async fn one_that_panics_when_it_is_asked_for_a_handle() {
    panics_at(|call| call == Call::Make).await;
}

#[tokio::test]
async fn one_that_panics_when_it_is_told_what_there_is() {
    panics_at(|call| call == Call::Describe).await;
}

/// The hold that is watched, and what the recorder found of it.
#[derive(Default)]
struct Watched {
    hold: Mutex<(Weak<MutexGuard>, CancellationToken)>,
    /// Counts of an end, and whether the holder knew.
    ends: Mutex<Vec<(String, bool)>>,
    /// Renewals, and whether the lease was longer by then than what is told that was left.
    renewals: Mutex<Vec<bool>>,
}

impl Watched {
    /// The recorder may ask a hold whatever it likes, wherever it is called.
    fn look(&self, name: &str, value: f64) {
        let (hold, token) = self.hold.lock().unwrap().clone();
        let hold = hold.upgrade();
        let left = hold.map(|hold| if hold.is_held() { hold.lease_left() } else { Duration::ZERO });
        match name {
            "losses_total" | "sessions_lost_total" if value > 0.0 => self.ended(name, &token),
            "hold_seconds" => self.ended(name, &token),
            "lease_left_ratio" => {
                let told = (TIMEOUT * 2 / 3).mul_f64(value);
                self.renewals.lock().unwrap().extend(left.map(|left| left > told));
            }
            _ => {}
        }
    }

    fn ended(&self, name: &str, token: &CancellationToken) {
        self.ends.lock().unwrap().push((name.to_owned(), token.is_cancelled()));
    }
}

/// So one that takes its time delays no holder.
#[tokio::test]
async fn holders_know_before_it_is_counted_and_leases_are_renewed() {
    let watched: Arc<Watched> = Arc::default();
    let looks = watched.clone();
    let _recorder = Theirs::install(move |name, call| {
        if let Call::Count(value) = call {
            looks.look(name, value);
        }
    });
    goes_through(
        |guard| {
            *watched.hold.lock().unwrap() = (Arc::downgrade(guard), guard.cancellation_token());
        },
        // Without a renewal nothing is longer than it was: one is enough, and a slow machine may lose the others.
        async || {
            eventually("a renewal", async || watched.renewals.lock().unwrap().contains(&true))
                .await;
        },
    )
    .await;
    let ends = watched.ends.lock().unwrap();
    let count = |name| ends.iter().filter(|(what, _)| what == name).count();
    assert_eq!(
        (count("hold_seconds"), count("losses_total"), count("sessions_lost_total")),
        (5, 3, 1),
        "{ends:?}"
    );
    assert!(ends.iter().all(|(_, knew)| *knew), "{ends:?}");
}
