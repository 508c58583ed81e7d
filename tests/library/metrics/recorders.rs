//! A recorder is third-party code. It may panic, may take its time, and may call whatever it likes.

use std::collections::BTreeSet;
use std::sync::Mutex;

use futures_util::FutureExt;
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use tokio_util::sync::CancellationToken;

use crate::prelude::*;
use crate::support::stopped::stopped;

/// Panics when it is asked for a description, for the first handle of a name, and at each count.
#[derive(Default)]
struct Hostile {
    hold: Mutex<Option<(Hold, CancellationToken)>>,
    descriptions: Mutex<usize>,
    made: Mutex<BTreeSet<String>>,
    counted: Mutex<BTreeSet<String>>,
    /// Counts of an end, and whether the holder had been notified.
    ends: Mutex<Vec<(String, bool)>>,
    /// Renewals, and whether the lease was longer by then than the counted remainder.
    renewals: Mutex<Vec<bool>>,
}

impl Hostile {
    fn describe(&self) {
        *self.descriptions.lock().unwrap() += 1;
        panic!("a description");
    }

    fn make(&'static self, key: &Key) -> Arc<Handle> {
        let is_new = self.made.lock().unwrap().insert(key.name().to_owned());
        assert!(!is_new, "a handle for {}", key.name());
        Arc::new(Handle(key.name().to_owned(), self))
    }

    fn count(&self, name: &str, value: f64) {
        let name = name.strip_prefix("zookeeper_recipes_").unwrap().to_owned();
        self.counted.lock().unwrap().insert(name.clone());
        let held = self.hold.lock().unwrap();
        let left = held.as_ref().map(|(hold, _)| hold.session_lease_left());
        let notified = held.as_ref().is_some_and(|(_, token)| token.is_cancelled());
        drop(held);
        match name.as_str() {
            "lease_left_ratio" => {
                let counted = (SHORT * 2 / 3).mul_f64(value);
                self.renewals.lock().unwrap().extend(left.map(|left| left > counted));
            }
            "losses_total" | "sessions_lost_total" | "hold_seconds" if value > 0.0 => {
                self.ends.lock().unwrap().push((name, notified));
            }
            _ => {}
        }
        panic!("a count of {value}");
    }
}

struct Theirs(&'static Hostile);

struct Handle(String, &'static Hostile);

macro_rules! describes_and_makes {
    ($($describe:ident, $register:ident, $handle:ident;)+) => {
        impl Recorder for Theirs {$(
            fn $describe(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
                self.0.describe();
            }

            fn $register(&self, key: &Key, _: &Metadata<'_>) -> $handle {
                $handle::from_arc(self.0.make(key))
            }
        )+}
    };
}

describes_and_makes! {
    describe_counter, register_counter, Counter;
    describe_gauge, register_gauge, Gauge;
    describe_histogram, register_histogram, Histogram;
}

macro_rules! counts {
    ($($kind:ident: $($count:ident $value:ty),+;)+) => {
        $(impl $kind for Handle {
            $(fn $count(&self, value: $value) {
                self.1.count(&self.0, value as f64);
            })+
        })+
    };
}

counts! {
    CounterFn: increment u64, absolute u64;
    GaugeFn: increment f64, decrement f64, set f64;
    HistogramFn: record f64;
}

/// So many probes have renewed the lease that without them it would have ended.
const RENEWALS: usize = 5;

/// How many names there are.
const ALL: usize = 14;

/// A slow recorder delays no holder, and one that panics loses what it would have counted, but no hold.
#[tokio::test(start_paused = true)]
async fn holders_are_notified_before_a_recorder_is_called_and_its_panics_do_no_harm() {
    let theirs: &Hostile = Box::leak(Box::default());
    let _recorder = metrics::set_default_local_recorder(Box::leak(Box::new(Theirs(theirs))));
    let (testbed, link, curator) = Testbed::with_link(Testbed::short_lived_builder).await;
    let mutex = testbed.mutex(&curator);
    let losses = [Loss::NodeDeleted, Loss::SessionExpired, Loss::LeaseEnded].map(Some);
    for loss in losses.into_iter().chain([None]) {
        let guard = within("the lock", mutex.acquire()).await.unwrap();
        *theirs.hold.lock().unwrap() = Some((guard.view(), guard.cancellation_token()));
        let mut stalled = None;
        match loss {
            Some(Loss::NodeDeleted) => {
                eventually("renewals", async || {
                    let renewals = theirs.renewals.lock().unwrap();
                    renewals.len() >= RENEWALS && renewals.contains(&true)
                })
                .await;
                assert!(guard.is_held());
                testbed.admin.delete(guard.node(), None).await.unwrap();
            }
            Some(Loss::SessionExpired) => testbed.kill_session(&curator).await,
            Some(Loss::LeaseEnded) => stalled = Some(link.stall(Direction::ToClient)),
            _ => {
                // What was held for no time looks like the zero that each count begins with.
                tokio::time::sleep(Duration::from_millis(1)).await;
                guard.release().await.unwrap();
                continue;
            }
        }
        within("the token", guard.cancellation_token().cancelled()).await;
        assert_eq!(Some(within("the loss", guard.lost()).await), loss);
        assert!(!guard.is_held());
        drop(stalled);
    }
    let guard = within("the lock", mutex.acquire()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await;
    drop(guard);
    testbed.children_are(0).await;
    curator.close().await;
    let counted = theirs.counted.lock().unwrap();
    assert_eq!((counted.len(), *theirs.descriptions.lock().unwrap()), (ALL, 1), "{counted:?}");
    let ends = theirs.ends.lock().unwrap();
    let count = |name| ends.iter().filter(|(what, _)| what == name).count();
    // The handle for the first end of a hold was refused; the other two count zero first.
    assert_eq!(
        (count("hold_seconds"), count("losses_total"), count("sessions_lost_total")),
        (4, 3, 1),
        "{ends:?}"
    );
    assert!(ends.iter().all(|(_, notified)| *notified), "{ends:?}");
}

/// A function that is called before the first hold is counted.
type First = Mutex<Option<Box<dyn FnOnce() + Send>>>;

/// A recorder that counts nothing.
struct BeforeFirst(Arc<First>);

struct Holding(Arc<First>);

impl Recorder for BeforeFirst {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        match key.name() {
            "zookeeper_recipes_holding" => Gauge::from_arc(Arc::new(Holding(self.0.clone()))),
            _ => Gauge::noop(),
        }
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

impl GaugeFn for Holding {
    fn increment(&self, value: f64) {
        if value > 0.0
            && let Some(first) = self.0.lock().unwrap().take()
        {
            first();
        }
    }

    fn decrement(&self, _: f64) {}
    fn set(&self, _: f64) {}
}

/// Asks for two of three leases. `meanwhile` runs while the first hold of them is counted.
async fn two_leases(
    curator: &Curator,
    testbed: &Testbed,
    meanwhile: impl FnOnce() + Send + 'static,
) -> Result<Guards, Error> {
    let recorder = BeforeFirst(Arc::new(Mutex::new(Some(Box::new(meanwhile)))));
    let first = recorder.0.clone();
    let _recorder = metrics::set_default_local_recorder(Box::leak(Box::new(recorder)));
    let leases = within("an answer", testbed.semaphore(curator, 3).acquire_many(2)).await;
    assert!(first.lock().unwrap().is_none(), "a hold is counted");
    leases
}

/// The lease ends between two holds of one caller: both are given up.
#[tokio::test(start_paused = true)]
async fn a_hold_that_ends_while_it_is_counted_is_acquired_again() {
    let testbed = Testbed::new().await;
    let curator = testbed.short_lived_curator().await;
    let leases = two_leases(&curator, &testbed, || stopped(SHORT * 2 / 3)).await.unwrap();
    assert!(leases.is_held());
    leases.release().await.unwrap();
    testbed.nodes_are(0, 0).await;
}

#[tokio::test(start_paused = true)]
async fn no_leases_are_given_out_when_the_close_has_begun() {
    let (testbed, curator) = Testbed::with_curator().await;
    let closing = curator.clone();
    let leases = two_leases(&curator, &testbed, move || {
        let _ = closing.close().now_or_never();
    });
    fails(leases.await, ErrorKind::Closed);
    within("the end", curator.close()).await;
    testbed.nodes_are(0, 0).await;
}
